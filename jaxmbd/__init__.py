"""jaxmbd: a differentiable solver for constrained rigid multibody systems, on JAX."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from . import quiet as _quiet  # noqa: F401, I001  (before JAX)
from .analyses import Accelerations as Accelerations
from .analyses import Adaptive as Adaptive
from .analyses import AssemblyError as AssemblyError
from .analyses import AssemblyWarning as AssemblyWarning
from .analyses import BentBeamWarning as BentBeamWarning
from .analyses import Buckling as Buckling
from .analyses import Campbell as Campbell
from .analyses import Carry as Carry
from .analyses import Controller as Controller
from .analyses import DroppedBounceWarning as DroppedBounceWarning
from .analyses import Equilibrium as Equilibrium
from .analyses import EquilibriumError as EquilibriumError
from .analyses import FrequencyResponse as FrequencyResponse
from .analyses import InverseDynamics as InverseDynamics
from .analyses import LargeRotationWarning as LargeRotationWarning
from .analyses import Linearization as Linearization
from .analyses import LostContactWarning as LostContactWarning
from .analyses import Mobility as Mobility
from .analyses import Modes as Modes
from .analyses import Path as Path
from .analyses import Periodic as Periodic
from .analyses import RedundantJointWarning as RedundantJointWarning
from .analyses import SimulationError as SimulationError
from .analyses import SingularPoseWarning as SingularPoseWarning
from .analyses import SpecialPoint as SpecialPoint
from .analyses import Spin as Spin
from .analyses import Stability as Stability
from .analyses import YieldingAxesWarning as YieldingAxesWarning
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
from .analyses import move_apart as move_apart
from .analyses import observe as observe
from .analyses import periodic as periodic
from .analyses import quantities as quantities
from .analyses import run_batch as run_batch
from .analyses import set_joints as set_joints
from .analyses import simulate as simulate
from .analyses import start as start
from .analyses import state_rate as state_rate
from .analyses import step as step
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
from .learning import Environment as Environment
from .learning import Episode as Episode
from .learning import Training as Training
from .learning import TrainingWarning as TrainingWarning
from .learning import environments as environments
from .learning import train as train
from .model import CD as CD
from .model import DP1 as DP1
from .model import DP2 as DP2
from .model import IMU as IMU
from .model import PID as PID
from .model import AbstractAlongCoordinate as AbstractAlongCoordinate
from .model import AbstractAlongLine as AbstractAlongLine
from .model import AbstractConstraint as AbstractConstraint
from .model import AbstractContact as AbstractContact
from .model import AbstractCoordinateForce as AbstractCoordinateForce
from .model import AbstractCoupling as AbstractCoupling
from .model import AbstractForce as AbstractForce
from .model import AbstractForceDescription as AbstractForceDescription
from .model import AbstractLineForce as AbstractLineForce
from .model import AbstractMeasured as AbstractMeasured
from .model import AbstractNormalForce as AbstractNormalForce
from .model import AbstractPair as AbstractPair
from .model import AbstractPrimitive as AbstractPrimitive
from .model import AbstractRelation as AbstractRelation
from .model import AbstractSensor as AbstractSensor
from .model import AbstractShape as AbstractShape
from .model import AbstractSlidingFriction as AbstractSlidingFriction
from .model import AbstractStatefulForce as AbstractStatefulForce
from .model import AbstractVelocityPrimitive as AbstractVelocityPrimitive
from .model import Actuator as Actuator
from .model import Angle as Angle
from .model import Armature as Armature
from .model import Balls as Balls
from .model import Beam as Beam
from .model import Belt as Belt
from .model import Box as Box
from .model import Bushing as Bushing
from .model import Cam as Cam
from .model import Capsule as Capsule
from .model import Channel as Channel
from .model import Clearance as Clearance
from .model import Composite as Composite
from .model import Cone as Cone
from .model import Constraint as Constraint
from .model import Contact as Contact
from .model import CoulombFriction as CoulombFriction
from .model import Coupled as Coupled
from .model import Coupler as Coupler
from .model import CurveContact as CurveContact
from .model import CurveOnCurve as CurveOnCurve
from .model import Cylinder as Cylinder
from .model import Cylindrical as Cylindrical
from .model import D as D
from .model import DescriptionWarning as DescriptionWarning
from .model import Distance as Distance
from .model import DistanceDriver as DistanceDriver
from .model import DistanceSensor as DistanceSensor
from .model import Encoder as Encoder
from .model import Expression as Expression
from .model import Fixed as Fixed
from .model import FixedTendon as FixedTendon
from .model import ForceTorque as ForceTorque
from .model import Frame as Frame
from .model import FrameMotion as FrameMotion
from .model import Gear as Gear
from .model import HollowCylinder as HollowCylinder
from .model import HuntCrossley as HuntCrossley
from .model import HydraulicCylinder as HydraulicCylinder
from .model import Input as Input
from .model import JointLimit as JointLimit
from .model import JointSpring as JointSpring
from .model import KnifeEdge as KnifeEdge
from .model import LinearCoupling as LinearCoupling
from .model import Looks as Looks
from .model import LuGre as LuGre
from .model import Maxwell as Maxwell
from .model import Mechanism as Mechanism
from .model import Mesh as Mesh
from .model import Motor as Motor
from .model import Muscle as Muscle
from .model import NoSlip as NoSlip
from .model import Output as Output
from .model import Planar as Planar
from .model import Plane as Plane
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
from .model import Servo as Servo
from .model import SmoothedCoulomb as SmoothedCoulomb
from .model import Sphere as Sphere
from .model import Spherical as Spherical
from .model import SpringDamper as SpringDamper
from .model import State as State
from .model import StateLabel as StateLabel
from .model import StateRule as StateRule
from .model import StateSpace as StateSpace
from .model import Surface as Surface
from .model import System as System
from .model import Tetrahedron as Tetrahedron
from .model import Torque as Torque
from .model import TorsionalSpringDamper as TorsionalSpringDamper
from .model import TransferFunction as TransferFunction
from .model import Translational as Translational
from .model import TranslationDriver as TranslationDriver
from .model import Twist as Twist
from .model import Universal as Universal
from .model import UserForce as UserForce
from .model import ViscousFriction as ViscousFriction
from .model import Visual as Visual
from .model import enable_x64 as enable_x64
from .model import given as given
from .model import register_pair as register_pair
from .outcomes import RESULTS as RESULTS
from .results import BeamMotion as BeamMotion
from .results import ElementMotion as ElementMotion
from .results import SensorReadings as SensorReadings
from .results import Solution as Solution
from .solvers import Newton as Newton
from .xla.disk_cache import enable_compilation_cache as enable_compilation_cache
from .xla.jit import CompilationWarning as CompilationWarning
from .xla.jit import jit as jit
from .xla.options import options as options


def __getattr__(name):
    # Files need pydantic; computing does not.
    if name in ("ImportReport", "LeftOut"):
        from . import io

        return getattr(io, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(model):
    """Return system and state, as described, of a packaged mechanism or a model file.

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


def from_mjcf(
    source,
    *,
    keyframe=None,
    limits=False,
    friction=False,
    merge_fixed=False,
    strict=True,
    anywhere=False,
):
    """The mechanism of an MJCF file of MuJoCo, and a report of the parts that were left out.

        mechanism, report = mbd.from_mjcf("robot.xml", keyframe="home")

    Trees move as in MuJoCo. Equality constraints (`connect`, `weld`, `joint`, `tendon`) become
    exact joints and couplings, which MuJoCo holds by stiff forces. Joint coordinates are zero at
    the pose as described: the file's reference, or the keyframe.

    Args:
        source: A path, or the XML text itself.
        keyframe: Name of a keyframe whose positions, speeds and controls are the description; by
            default the one called "initial", which `save` writes, if there is one.
        limits: Make stops of the joints' ranges; the mechanism then takes `mbd.Moreau`.
        friction: Make dry friction of `frictionloss`; likewise.
        merge_fixed: Merge links without joints into their parents; those without mass are always.
        strict: Refuse a file with anything that changes the motion and is not supported. With
            False such things are left out, and the report names them.
        anywhere: Allow files outside of the model's folder.

    Returns:
        The mechanism and its `mbd.ImportReport`.

    Raises:
        ValueError: The file cannot be read; the message names file, line and element.
    """
    from .io import read_mjcf

    return read_mjcf(
        source,
        keyframe=keyframe,
        limits=limits,
        friction=friction,
        merge_fixed=merge_fixed,
        strict=strict,
        anywhere=anywhere,
    )


def from_urdf(
    source,
    *,
    base="fixed",
    loops=(),
    packages=None,
    limits=False,
    friction=False,
    merge_fixed=False,
    strict=True,
    anywhere=False,
):
    """The mechanism of a URDF file, and a report of the parts that were left out.

        mechanism, report = mbd.from_urdf("arm.urdf", loops=[("tip", "rod_end")])

    Joint coordinates are zero at the pose of the file. Every link has a frame of its name, see
    `Solution.frame`.

    Args:
        source: A path, or the XML text itself.
        base: "fixed": the root link is part of the ground; "free": it is a free body.
        loops: Loops to close: pairs of links (or of the joints above them), each held together at
            the origins of their frames, or with a third entry "6d" as whole frames; or the path of
            an extended URDF's YAML file with `closed_loop` and `type`.
        packages: Folders of ROS packages by name, for meshes of `package://`; the model's own
            folder by default.
        limits: Make stops of the joints' ranges; the mechanism then takes `mbd.Moreau`.
        friction: Make dry friction of `friction`; likewise.
        merge_fixed: Merge links on fixed joints into their parents; those without mass are always.
        strict: Refuse what changes the motion and is not supported, as in `from_mjcf`. A mesh that
            cannot be read is left out and listed either way: meshes are drawn alone.
        anywhere: Allow files outside of the model's folder.

    Returns:
        The mechanism and its `mbd.ImportReport`.

    Raises:
        ValueError: The file cannot be read; the message names file, line and element.
    """
    from .io import UrdfOptions, read_urdf

    options = UrdfOptions(
        base=base,
        loops=loops,
        packages=packages,
        limits=limits,
        friction=friction,
        merge_fixed=merge_fixed,
        strict=strict,
        anywhere=anywhere,
    )
    return read_urdf(source, options)


def view(source, system=None, **options):
    """Show a motion, or a mechanism before it is simulated, in three dimensions: see
    `jaxmbd.viz.view`.

        mbd.view(sol)                                  # in a notebook: shows it
        mbd.view(sol, out="view.html")                 # one file, with everything inside
        mbd.view("four_bar", out="four_bar.glb")       # a packaged mechanism, as binary glTF

    Args:
        source: A solution, the path of a result file, a mechanism, a packaged name, or the path of
            a model file.
        system: The system of a solution that carries none.
        options: out, plots, show, paths and others of `jaxmbd.viz.view`.

    Returns:
        A `jaxmbd.viz.View`.
    """
    from .viz import view  # needs scipy and model files; computing does not

    return view(source, system, **options)


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
