"""The model: what a mechanism is.

This layer knows bodies, primitives, joints, drivers and forces on poses and twists; it knows no
coordinates and no time steps. Describe with `Mechanism`; compute with `System`. A new joint is a
table of primitives in `joints.py`.
"""

from . import given as given
from .body import Body as Body
from .drivers import DistanceDriver as DistanceDriver
from .drivers import PoseDriver as PoseDriver
from .drivers import RotationDriver as RotationDriver
from .drivers import TranslationDriver as TranslationDriver
from .expressions import Expression as Expression
from .forces import AbstractForce as AbstractForce
from .forces import AbstractForceDescription as AbstractForceDescription
from .forces import Actuator as Actuator
from .forces import PointForce as PointForce
from .forces import SpringDamper as SpringDamper
from .forces import Torque as Torque
from .forces import TorsionalSpringDamper as TorsionalSpringDamper
from .forces import UserForce as UserForce
from .forces import ViscousFriction as ViscousFriction
from .joints import AbstractConstraint as AbstractConstraint
from .joints import Constraint as Constraint
from .joints import Cylindrical as Cylindrical
from .joints import Distance as Distance
from .joints import Fixed as Fixed
from .joints import Planar as Planar
from .joints import PointOnLine as PointOnLine
from .joints import Revolute as Revolute
from .joints import Spherical as Spherical
from .joints import Translational as Translational
from .joints import Universal as Universal
from .mechanism import Mechanism as Mechanism
from .motions import Sampled as Sampled
from .primitives import CD as CD
from .primitives import DP1 as DP1
from .primitives import DP2 as DP2
from .primitives import AbstractPrimitive as AbstractPrimitive
from .primitives import AbstractVelocityPrimitive as AbstractVelocityPrimitive
from .primitives import D as D
from .shapes import Box as Box
from .shapes import Composite as Composite
from .shapes import Cone as Cone
from .shapes import Cylinder as Cylinder
from .shapes import HollowCylinder as HollowCylinder
from .shapes import Rod as Rod
from .shapes import Sphere as Sphere
from .shapes import Tetrahedron as Tetrahedron
from .state import Pose as Pose
from .state import State as State
from .state import Twist as Twist
from .system import System as System
from .validation import enable_x64 as enable_x64
