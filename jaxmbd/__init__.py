"""jaxmbd: a differentiable solver for constrained rigid multibody systems, on JAX."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from . import quiet as _quiet  # noqa: F401, I001  (before JAX)
from .analyses import Accelerations as Accelerations
from .analyses import Adaptive as Adaptive
from .analyses import AssemblyError as AssemblyError
from .analyses import AssemblyWarning as AssemblyWarning
from .analyses import BeamMotion as BeamMotion
from .analyses import BentBeamWarning as BentBeamWarning
from .analyses import Buckling as Buckling
from .analyses import Campbell as Campbell
from .analyses import DroppedBounceWarning as DroppedBounceWarning
from .analyses import Equilibrium as Equilibrium
from .analyses import EquilibriumError as EquilibriumError
from .analyses import FrequencyResponse as FrequencyResponse
from .analyses import InverseDynamics as InverseDynamics
from .analyses import Linearization as Linearization
from .analyses import LostContactWarning as LostContactWarning
from .analyses import Mobility as Mobility
from .analyses import Modes as Modes
from .analyses import Path as Path
from .analyses import Periodic as Periodic
from .analyses import RedundantJointWarning as RedundantJointWarning
from .analyses import SimulationError as SimulationError
from .analyses import SingularPoseWarning as SingularPoseWarning
from .analyses import Solution as Solution
from .analyses import SpecialPoint as SpecialPoint
from .analyses import Spin as Spin
from .analyses import Stability as Stability
from .analyses import accelerations as accelerations
from .analyses import actuator_wrenches as actuator_wrenches
from .analyses import assemble as assemble
from .analyses import breaks_redundancy as breaks_redundancy
from .analyses import buckling as buckling
from .analyses import campbell as campbell
from .analyses import continuation as continuation
from .analyses import count_steps as count_steps
from .analyses import equilibrium as equilibrium
from .analyses import frequency_response as frequency_response
from .analyses import inverse_dynamics as inverse_dynamics
from .analyses import kinematics as kinematics
from .analyses import linearize as linearize
from .analyses import mobility as mobility
from .analyses import modes as modes
from .analyses import periodic as periodic
from .analyses import run_batch as run_batch
from .analyses import set_joints as set_joints
from .analyses import simulate as simulate
from .analyses import state_rate as state_rate
from .cache import enable_compilation_cache as enable_compilation_cache
from .formulations import FORMULATIONS as FORMULATIONS
from .formulations import RA as RA
from .formulations import RP as RP
from .formulations import AbstractFormulation as AbstractFormulation
from .formulations import Directors as Directors
from .formulations import REps as REps
from .formulations import RotationElements as RotationElements
from .identification import Bounded as Bounded
from .identification import FitError as FitError
from .identification import FitReport as FitReport
from .identification import Free as Free
from .identification import Measurements as Measurements
from .identification import PhysicalInertia as PhysicalInertia
from .identification import Positive as Positive
from .identification import fit as fit
from .integrators import BDF2 as BDF2
from .integrators import INTEGRATORS as INTEGRATORS
from .integrators import AbstractIntegrator as AbstractIntegrator
from .integrators import EnergyMomentum as EnergyMomentum
from .integrators import GeneralizedAlpha as GeneralizedAlpha
from .integrators import ImplicitEuler as ImplicitEuler
from .integrators import Moreau as Moreau
from .integrators import MuntheKaas as MuntheKaas
from .integrators import RungeKutta as RungeKutta
from .learning import Training as Training
from .learning import TrainingWarning as TrainingWarning
from .learning import train as train
from .model import CD as CD
from .model import DP1 as DP1
from .model import DP2 as DP2
from .model import AbstractConstraint as AbstractConstraint
from .model import AbstractCoupling as AbstractCoupling
from .model import AbstractForce as AbstractForce
from .model import AbstractForceDescription as AbstractForceDescription
from .model import AbstractPrimitive as AbstractPrimitive
from .model import AbstractRelation as AbstractRelation
from .model import AbstractVelocityPrimitive as AbstractVelocityPrimitive
from .model import Actuator as Actuator
from .model import Beam as Beam
from .model import Belt as Belt
from .model import Box as Box
from .model import Cam as Cam
from .model import Capsule as Capsule
from .model import Clearance as Clearance
from .model import Composite as Composite
from .model import Cone as Cone
from .model import Constraint as Constraint
from .model import Contact as Contact
from .model import CoulombFriction as CoulombFriction
from .model import Coupler as Coupler
from .model import CurveOnCurve as CurveOnCurve
from .model import Cylinder as Cylinder
from .model import Cylindrical as Cylindrical
from .model import D as D
from .model import Distance as Distance
from .model import DistanceDriver as DistanceDriver
from .model import Expression as Expression
from .model import Fixed as Fixed
from .model import Gear as Gear
from .model import HollowCylinder as HollowCylinder
from .model import JointLimit as JointLimit
from .model import KnifeEdge as KnifeEdge
from .model import Mechanism as Mechanism
from .model import NoSlip as NoSlip
from .model import Planar as Planar
from .model import PointForce as PointForce
from .model import PointOnCurve as PointOnCurve
from .model import PointOnLine as PointOnLine
from .model import PointOnSurface as PointOnSurface
from .model import Pose as Pose
from .model import PoseDriver as PoseDriver
from .model import RackAndPinion as RackAndPinion
from .model import Revolute as Revolute
from .model import Rod as Rod
from .model import RollingDisc as RollingDisc
from .model import RollingSphere as RollingSphere
from .model import RotationDriver as RotationDriver
from .model import Sampled as Sampled
from .model import Screw as Screw
from .model import Section as Section
from .model import Sphere as Sphere
from .model import Spherical as Spherical
from .model import SpringDamper as SpringDamper
from .model import State as State
from .model import System as System
from .model import Tetrahedron as Tetrahedron
from .model import Torque as Torque
from .model import TorsionalSpringDamper as TorsionalSpringDamper
from .model import Translational as Translational
from .model import TranslationDriver as TranslationDriver
from .model import Twist as Twist
from .model import Universal as Universal
from .model import UserForce as UserForce
from .model import ViscousFriction as ViscousFriction
from .model import enable_x64 as enable_x64
from .model import given as given
from .results import RESULTS as RESULTS
from .roots import Newton as Newton


def load(model):
    """System and state, as described, of a packaged mechanism or a JSON file.

    Args:
        model: A packaged name ("slider_crank", "n_pendulum:16"; see `jaxmbd list`) or a path.

    Returns:
        The same as `Mechanism.build`.

    Raises:
        ValueError: No such name or file, or a file that makes no sense; the message names the part
            and the cure.
    """
    from .library import load  # files need pydantic; computing does not

    return load(model)


def load_mechanism(model) -> Mechanism:
    """The mechanism of a packaged name or a JSON file, to be changed before it is built; see
    `load`.
    """
    from .library import load_mechanism

    return load_mechanism(model)


def save(mechanism, path) -> None:
    """Write a mechanism to a model file, which `load` reads back: the same numbers to the last bit.

    Functions of time are written where they are expressions (`angle="0.5*sin(t)"`); a Python
    function is refused. A fitted mechanism, a packaged one and a generated one are saved alike.

    Args:
        mechanism: As described; the `Mechanism`, not the `System` that it was built to.
        path: With a suffix that names the format: ".json", or one of `register_format`.

    Raises:
        ValueError: The file cannot hold something of the mechanism, or no format has the suffix;
            the message names it.
        OSError: The file cannot be written.
    """
    from .io import write_file

    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"save: needs a Mechanism (see load_mechanism), not a {type(mechanism).__name__}"
        )
    write_file(mechanism, path)


def register_format(suffix: str, *, read=None, write=None) -> None:
    """Make `load`, `save` and the command line know a file format.

    Args:
        suffix: With its dot, such as ".xml".
        read: A function from a path to a `Mechanism`; what it raises as ValueError is shown with
            the file's name.
        write: A function of a mechanism and a path.
    """
    from .io import register_format

    register_format(suffix, read=read, write=write)


try:
    __version__ = _version("jaxmbd")
except _PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
