"""Analyses: what one asks of a mechanism - assembly, kinematics, dynamics, mobility - and what
comes back.

This layer knows systems, formulations and integrators and puts them to work; only here are
functions compiled. A new analysis is a new file with one public function that returns a module of
arrays.
"""

from .accelerations import Accelerations as Accelerations
from .accelerations import accelerations as accelerations
from .accelerations import state_rate as state_rate
from .adaptive import Adaptive as Adaptive
from .arguments import count_steps as count_steps
from .assembly import AssemblyReport as AssemblyReport
from .assembly import assemble as assemble
from .batches import run_batch as run_batch
from .beams import BeamMotion as BeamMotion
from .buckling import Buckling as Buckling
from .buckling import buckling as buckling
from .continuation import Path as Path
from .continuation import SpecialPoint as SpecialPoint
from .continuation import continuation as continuation
from .dynamics import simulate as simulate
from .elements import ElementMotion as ElementMotion
from .equilibrium import Equilibrium as Equilibrium
from .equilibrium import EquilibriumError as EquilibriumError
from .equilibrium import Spin as Spin
from .equilibrium import equilibrium as equilibrium
from .failure import SimulationError as SimulationError
from .inputs import actuator_wrenches as actuator_wrenches
from .inverse_dynamics import InverseDynamics as InverseDynamics
from .inverse_dynamics import inverse_dynamics as inverse_dynamics
from .kinematics import kinematics as kinematics
from .linearization import Linearization as Linearization
from .linearization import Modes as Modes
from .linearization import linearize as linearize
from .mobility import Mobility as Mobility
from .mobility import mobility as mobility
from .move_apart import move_apart as move_apart
from .periodic import Periodic as Periodic
from .periodic import periodic as periodic
from .placing import set_joints as set_joints
from .redundancy import breaks_redundancy as breaks_redundancy
from .run_warnings import BentBeamWarning as BentBeamWarning
from .run_warnings import DroppedBounceWarning as DroppedBounceWarning
from .run_warnings import LargeRotationWarning as LargeRotationWarning
from .run_warnings import LostContactWarning as LostContactWarning
from .run_warnings import SingularPoseWarning as SingularPoseWarning
from .solution import Energy as Energy
from .solution import Momentum as Momentum
from .solution import Reaction as Reaction
from .solution import Solution as Solution
from .solution import Violation as Violation
from .stability import Stability as Stability
from .start_checks import AssemblyError as AssemblyError
from .start_checks import AssemblyWarning as AssemblyWarning
from .start_checks import RedundantJointWarning as RedundantJointWarning
from .start_checks import YieldingAxesWarning as YieldingAxesWarning
from .vibration import Campbell as Campbell
from .vibration import FrequencyResponse as FrequencyResponse
from .vibration import campbell as campbell
from .vibration import frequency_response as frequency_response
from .vibration import modes as modes
