"""Force elements: wrenches on named bodies as functions of poses, twists and time, written once for
every formulation.

This layer knows poses and twists; it knows no coordinates and no constraints. A new force is a new
file with a module that has `wrench` (and `potential` where it has one), and a description in
`descriptions.py`.
"""

from .actuators import AxisActuator as AxisActuator
from .base import AbstractActuator as AbstractActuator
from .base import AbstractForce as AbstractForce
from .base import ForceStack as ForceStack
from .beams import AbstractBeamElement as AbstractBeamElement
from .beams import BeamElement as BeamElement
from .beams import DirectorBeamElement as DirectorBeamElement
from .descriptions import AbstractForceDescription as AbstractForceDescription
from .descriptions import AbstractJointForce as AbstractJointForce
from .descriptions import Actuator as Actuator
from .descriptions import PointForce as PointForce
from .descriptions import SpringDamper as SpringDamper
from .descriptions import Torque as Torque
from .descriptions import TorsionalSpringDamper as TorsionalSpringDamper
from .descriptions import UserForce as UserForce
from .descriptions import ViscousFriction as ViscousFriction
from .friction import RelativeDamping as RelativeDamping
from .loads import AppliedForce as AppliedForce
from .loads import AppliedTorque as AppliedTorque
from .springs import AngleTorque as AngleTorque
from .springs import LineForce as LineForce
from .user import FunctionForce as FunctionForce
