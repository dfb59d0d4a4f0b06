"""Solid shapes: mass, center and inertia of homogeneous bodies, their surfaces and outlines for
pictures, and what touches on their behalf.

Every shape is given in a body frame at its own mass center, axes as said. Give either a mass [kg]
or a density [kg/m³]. A new shape is one file with a class derived from `AbstractShape`.
"""

from .angular import Box as Box
from .angular import Tetrahedron as Tetrahedron
from .base import AbstractShape as AbstractShape
from .base import shape_kinds as shape_kinds
from .composite import Composite as Composite
from .round import Capsule as Capsule
from .round import Cone as Cone
from .round import Cylinder as Cylinder
from .round import HollowCylinder as HollowCylinder
from .round import Rod as Rod
from .round import Sphere as Sphere
