"""Rotations: numbers in, numbers out.

This layer knows the group SO(3) and its parametrizations and nothing of bodies, time or forces. A
new parametrization is a new file here with `to_matrix`, `from_matrix` and the map from its rates to
the body-frame angular velocity.
"""

from . import euler_angles as euler_angles
from . import euler_parameters as euler_parameters
from . import so3 as so3
from .vectors import skew as skew
