"""Force elements: wrenches on named bodies as functions of poses, twists and time, written once for
every formulation.

This layer knows poses and twists; it knows no coordinates and no constraints. A new force is a new
file with a module that has `wrench` (and `potential` where it has one), and a description in
`descriptions.py`.
"""

from .actuators import AxisActuator as AxisActuator
from .along import AlongCoordinates as AlongCoordinates
from .along_states import AbstractAlongCoordinate as AbstractAlongCoordinate
from .along_states import AbstractAlongLine as AbstractAlongLine
from .along_states import AbstractCoordinateForce as AbstractCoordinateForce
from .along_states import AbstractLineForce as AbstractLineForce
from .base import AbstractActuator as AbstractActuator
from .base import AbstractForce as AbstractForce
from .base import ForceStack as ForceStack
from .base import Output as Output
from .beams import AbstractBeamElement as AbstractBeamElement
from .beams import BeamElement as BeamElement
from .beams import DirectorBeamElement as DirectorBeamElement
from .bushing import Bushing as Bushing
from .descriptions import AbstractForceDescription as AbstractForceDescription
from .descriptions import AbstractJointForce as AbstractJointForce
from .descriptions import Actuator as Actuator
from .descriptions import PointForce as PointForce
from .descriptions import SpringDamper as SpringDamper
from .descriptions import Torque as Torque
from .descriptions import TorsionalSpringDamper as TorsionalSpringDamper
from .descriptions import ViscousFriction as ViscousFriction
from .filters import StateSpace as StateSpace
from .filters import TransferFunction as TransferFunction
from .friction import RelativeDamping as RelativeDamping
from .inertias import AbstractInertia as AbstractInertia
from .joint_forces import Armature as Armature
from .joint_forces import FixedTendon as FixedTendon
from .joint_forces import JointSpring as JointSpring
from .joint_forces import Servo as Servo
from .joint_states import PID as PID
from .joint_states import LuGre as LuGre
from .joint_states import Motor as Motor
from .line_states import HydraulicCylinder as HydraulicCylinder
from .line_states import Maxwell as Maxwell
from .loads import AppliedForce as AppliedForce
from .loads import AppliedTorque as AppliedTorque
from .muscle import Muscle as Muscle
from .springs import AngleTorque as AngleTorque
from .springs import LineForce as LineForce
from .stateful import AbstractStatefulForce as AbstractStatefulForce
from .stateful import StateLabel as StateLabel
from .stateful import StateRule as StateRule
from .user import FunctionForce as FunctionForce
from .user import UserForce as UserForce
