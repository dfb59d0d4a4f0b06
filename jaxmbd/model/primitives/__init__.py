"""Constraint primitives: DP1, DP2, D and CD, each written once on poses.

This layer knows two poses, their twists and one scalar equation; it knows no coordinates, no masses
and no joints. A new primitive is a new file with its geometry, hand-coded rows and reaction
variation, and its entry in the tests' list.
"""

from .base import AbstractNormalForm as AbstractNormalForm
from .base import AbstractPrimitive as AbstractPrimitive
from .base import AbstractVelocityPrimitive as AbstractVelocityPrimitive
from .base import RowFactors as RowFactors
from .base import primitives as primitives
from .base import variation_of_sums as variation_of_sums
from .cd import CD as CD
from .d import D as D
from .dp1 import DP1 as DP1
from .dp2 import DP2 as DP2
from .products import FreeMotion as FreeMotion
from .products import PoseVector as PoseVector
from .products import free_motion as free_motion
from .stack import PrimitiveStack as PrimitiveStack
