"""Laws that are no smooth forces: stops, dry friction and contact."""

from .base import KINDS as KINDS
from .base import AbstractLaw as AbstractLaw
from .base import AbstractLawDescription as AbstractLawDescription
from .base import LawStack as LawStack
from .clearance import Clearance as Clearance
from .contact import AbstractContact as AbstractContact
from .contact import Contact as Contact
from .coulomb_friction import CoulombFriction as CoulombFriction
from .curve_contact import CurveContact as CurveContact
from .hunt_crossley import HuntCrossley as HuntCrossley
from .joint_limit import JointLimit as JointLimit
from .normal_force import AbstractNormalForce as AbstractNormalForce
from .sliding_friction import AbstractSlidingFriction as AbstractSlidingFriction
from .sliding_friction import SmoothedCoulomb as SmoothedCoulomb
