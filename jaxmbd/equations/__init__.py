"""Equations: rows of constraints and equations of motion in the coordinates of any formulation, and
their forms.

`rows` and `motion` are what all forms are made of; index 1 and index 3, the energy-momentum
midpoint, null spaces and elimination are a file each. Closed forms register themselves beside the
automatic ones.
"""

from . import closed_forms as closed_forms
from . import elimination as elimination
