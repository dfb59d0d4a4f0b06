"""Analyses: what one asks of a mechanism - assembly, kinematics, dynamics, mobility - and what
comes back.

This layer knows systems, formulations and integrators and puts them to work. A new analysis is a
new file with one public function that returns a module of arrays. Equilibria are in `statics`,
small motions and periodic ones in `vibration`; what is checked, said and divided into chunks while
an analysis runs is in `running`.
"""

from .accelerations import Accelerations as Accelerations
from .accelerations import accelerations as accelerations
from .accelerations import state_rate as state_rate
from .assembly import AssemblyReport as AssemblyReport
from .assembly import assemble as assemble
from .batches import run_batch as run_batch
from .carry import Carry as Carry
from .carry import observe as observe
from .carry import quantities as quantities
from .chosen_steps.adaptive import Adaptive as Adaptive
from .controllers import Controller as Controller
from .dynamics import simulate as simulate
from .inputs import actuator_wrenches as actuator_wrenches
from .inverse_dynamics import InverseDynamics as InverseDynamics
from .inverse_dynamics import inverse_dynamics as inverse_dynamics
from .kinematics import kinematics as kinematics
from .mobility import Mobility as Mobility
from .mobility import mobility as mobility
from .move_apart import move_apart as move_apart
from .placing.follow import follow as follow
from .placing.place import place as place
from .placing.placement import Placement as Placement
from .placing.placement import PlacementError as PlacementError
from .planning.mpc import MPC as MPC
from .planning.mpc import mpc as mpc
from .planning.optimal_control import optimal_control as optimal_control
from .planning.plan import Plan as Plan
from .planning.plan import PlanError as PlanError
from .planning.track import Tracker as Tracker
from .planning.track import track as track
from .plastic_impact import Impact as Impact
from .plastic_impact import plastic_impact as plastic_impact
from .redundancy import breaks_redundancy as breaks_redundancy
from .running.checks import count_steps as count_steps
from .running.failure import SimulationError as SimulationError
from .running.start_checks import AssemblyError as AssemblyError
from .running.start_checks import AssemblyWarning as AssemblyWarning
from .running.start_checks import RedundantJointWarning as RedundantJointWarning
from .running.start_checks import YieldingAxesWarning as YieldingAxesWarning
from .running.warnings import BentBeamWarning as BentBeamWarning
from .running.warnings import DroppedBounceWarning as DroppedBounceWarning
from .running.warnings import GrazedEventWarning as GrazedEventWarning
from .running.warnings import LargeRotationWarning as LargeRotationWarning
from .running.warnings import LostContactWarning as LostContactWarning
from .running.warnings import SingularPoseWarning as SingularPoseWarning
from .set_joints import set_joints as set_joints
from .statics.buckling import Buckling as Buckling
from .statics.buckling import buckling as buckling
from .statics.continuation import Path as Path
from .statics.continuation import continuation as continuation
from .statics.equilibrium import Spin as Spin
from .statics.equilibrium import equilibrium as equilibrium
from .statics.equilibrium_failure import EquilibriumError as EquilibriumError
from .statics.equilibrium_result import Equilibrium as Equilibrium
from .statics.special_points import SpecialPoint as SpecialPoint
from .statics.stability import Stability as Stability
from .stepping import start as start
from .stepping import step as step
from .vibration.eigenmodes import Modes as Modes
from .vibration.linearization import Linearization as Linearization
from .vibration.linearization import linearize as linearize
from .vibration.modes import Campbell as Campbell
from .vibration.modes import FrequencyResponse as FrequencyResponse
from .vibration.modes import campbell as campbell
from .vibration.modes import frequency_response as frequency_response
from .vibration.modes import modes as modes
from .vibration.periodic import Periodic as Periodic
from .vibration.periodic import periodic as periodic
