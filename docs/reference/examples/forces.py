"""Examples of the page "Forces"."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd import given

mbd.enable_x64()

# %% SpringDamper
m = mbd.Mechanism("quarter car")
car = m.add_body("car", shape=mbd.Box((1.0, 1.0, 0.3), mass=300.0), r=(0.0, 0.0, 0.5))
m.add(mbd.Translational("guide", m.ground, car, point=(0.0, 0.0, 0.5), axis=(0, 0, 1)))
ends = {"point_i": (0.0, 0.0, 0.0), "point_j": (0.0, 0.0, 0.35)}
# Free of force as described; under the weight of the car it is 15 cm shorter.
m.add(mbd.SpringDamper("strut", m.ground, car, **ends, stiffness=2e4, damping=1.5e3))

# %% TorsionalSpringDamper
m = mbd.Mechanism("door closer")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0))
z = (0.0, 0.0, 1.0)
m.add(mbd.Revolute("hinge", m.ground, door, point=(0.0, 0.0, 1.0), axis=z))
# Still wound by half a radian where the door is shut.
coil = {"stiffness": 20.0, "damping": 8.0, "free_angle": -0.5}
m.add(mbd.TorsionalSpringDamper("closer", m.ground, door, axis=z, **coil))

# %% Bushing
m = mbd.Mechanism("engine mount")
engine = m.add_body("engine", shape=mbd.Box((0.6, 0.5, 0.5), mass=150.0))
rubber = mbd.Bushing(
    "mount",
    m.ground,
    engine,
    point=(0.0, 0.0, -0.25),
    stiffness=(2e5, 2e5, 6e5),  # soft across, stiff in compression
    damping=(400.0, 400.0, 1200.0),
    rotational_stiffness=(3e3, 3e3, 1e3),
    rotational_damping=(30.0, 30.0, 10.0),
)
m.add(rubber)

# %% ViscousFriction
m = mbd.Mechanism("swing gate")
gate = m.add_body("gate", shape=mbd.Box((3.0, 0.05, 1.2), mass=60.0), r=(1.5, 0.0, 0.8))
m.add(mbd.Revolute("hinge", m.ground, gate, point=(0, 0, 0.8), axis=(0, 0, 1)))
m.add(mbd.ViscousFriction("grease", "hinge", rotational=2.0))

# %% PointForce
m = mbd.Mechanism("rocket")
rod = mbd.Cylinder(0.1, 2.0, mass=40.0)
rocket = m.add_body("rocket", shape=rod, r=(0.0, 0.0, 1.0))
# The thrust acts at the nozzle, and turns with the rocket.
nozzle = (0.0, 0.0, 0.0)
m.add(mbd.PointForce("thrust", rocket, force=(0, 0, 800.0), point=nozzle, frame="body"))

# %% Torque
m = mbd.Mechanism("wind turbine")
x = (1.0, 0.0, 0.0)
rotor = m.add_body("rotor", mass=2e4, inertia=(6e6, 3e6, 3e6), r=(0.0, 0.0, 80.0))
m.add(mbd.Revolute("main bearing", m.ground, rotor, point=(0.0, 0.0, 80.0), axis=x))


def gust(t):
    """The torque of the wind about the x axis [N·m]."""
    return jnp.stack([5e5 + 1e5 * jnp.sin(0.5 * t), 0.0 * t, 0.0 * t])


m.add(mbd.Torque("wind", rotor, torque=gust))

# %% Actuator
m = mbd.Mechanism("lift")
z = (0.0, 0.0, 1.0)
cabin = m.add_body("cabin", shape=mbd.Box((1.6, 1.4, 2.3), mass=900.0))
m.add(mbd.Translational("rails", m.ground, cabin, point=(0.0, 0.0, 0.0), axis=z))
# In a joint that slides it is a force [N], in one that turns a torque [N·m].
m.add(mbd.Actuator("hoist", "rails", control="900*9.81 + 200*sin(0.5*t)"))

# %% JointSpring
m = mbd.Mechanism("knee of a walking robot")
shank = m.add_body("shank", shape=mbd.Capsule(0.04, 0.3, mass=2.5), r=(0.0, 0.0, -0.2))
m.add(mbd.Revolute("knee", m.ground, shank, point=(0.0, 0.0, 0.0), axis=(0, 1, 0)))
# It is at rest where the knee is bent by 0.2 rad.
m.add(mbd.JointSpring("spring", "knee", stiffness=40.0, damping=0.8, reference=0.2))

# %% Servo
m = mbd.Mechanism("robot arm")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.05, 0.05), mass=2.0), r=(0.3, 0.0, 0.0))
m.add(mbd.Revolute("shoulder", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
# It steers the joint to 0.8 rad with 30 N·m at most; the weight leaves 0.02 rad.
gains = {"stiffness": 200.0, "damping": 25.0, "effort_range": (-30.0, 30.0)}
m.add(mbd.Servo("servo", "shoulder", control=0.8, **gains))

# %% FixedTendon
m = mbd.Mechanism("finger")
y = (0.0, -1.0, 0.0)
bone = mbd.Capsule(0.008, 0.03, mass=0.02, axis="x")
first = m.add_body("first phalanx", shape=bone, r=(0.02, 0.0, 0.0))
second = m.add_body("second phalanx", shape=bone, r=(0.06, 0.0, 0.0))
m.add(mbd.Revolute("knuckle", m.ground, first, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("middle joint", first, second, point=(0.04, 0.0, 0.0), axis=y))
# One tendon bends both joints, with a pull of 15 N at lever arms of 9 mm and 6 mm.
arms = (0.009, 0.006)
joints = ["knuckle", "middle joint"]
m.add(mbd.FixedTendon("flexor", joints, coefficients=arms, control=15.0))

# %% UserForce
m = mbd.Mechanism("falling ball")
ball = m.add_body("ball", shape=mbd.Sphere(0.11, mass=0.43))


def drag(pose, twist, t):
    """Air drag, 1/2 rho c A |v| v, on the first body."""
    force = -0.5 * 1.2 * 0.47 * 0.038 * jnp.linalg.norm(twist.v[0]) * twist.v
    return force, jnp.zeros((1, 3))


m.add(mbd.UserForce("drag", [ball], drag))

# %% Angle
m = mbd.Mechanism("clock")
drum = m.add_body("drum", mass=0.05, inertia=(1e-5, 1e-5, 2e-5))
m.add(mbd.Revolute("arbor", m.ground, drum, point=(0.0, 0.0, 0.0), axis=(0, 0, 1)))


class Mainspring(eqx.Module):
    """A spring about the z axis, wound by 60 rad: nearly ten turns."""

    angle: mbd.Angle

    def __call__(self, pose, twist, t):
        ground, drum = (mbd.Pose(pose.r[k], pose.A[k]) for k in (0, 1))
        wound = 60.0 - self.angle.value(ground, drum)
        torque = 0.002 * wound * jnp.array([0.0, 0.0, 1.0])
        return jnp.zeros((2, 3)), jnp.stack([-torque, torque])


angle = mbd.Angle.between(m.ground, drum, np.array([0.0, 0.0, 1.0]))
m.add(mbd.UserForce("mainspring", [m.ground, drum], Mainspring(angle)))

# %% Input
m = mbd.Mechanism("crane slewing")
beam = mbd.Box((20.0, 0.5, 0.5), mass=4000.0)
jib = m.add_body("jib", shape=beam, r=(10.0, 0.0, 0.0))
m.add(mbd.Revolute("slew ring", m.ground, jib, point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.Actuator("drive", "slew ring", control=mbd.Input("torque", unit="N·m")))
system, state = m.build()
# The caller says what it is: a number, a function of time, or a number for every step.
sol = mbd.simulate(system, state, h=0.01, steps=100, inputs={"torque": 2e4})
print(sol["slew ring.rate"][-1])  # 0.0375 rad/s

# %% Motor
m = mbd.Mechanism("robot joint")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.05, 0.05), mass=2.0), r=(0.3, 0.0, 0.0))
m.add(mbd.Revolute("elbow", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
winding = {"resistance": 1.2, "inductance": 6e-3, "constant": 0.05}
gearbox = {"gear_ratio": 50.0, "rotor_inertia": 2e-5, "effort_limit": 15.0}
m.add(mbd.Motor("motor", "elbow", command="18*sin(6*t)", **winding, **gearbox))
print(m.build()[0].element_state_names)  # ('motor.current',)

# %% PID
m = mbd.Mechanism("camera gimbal")
camera = m.add_body("camera", shape=mbd.Box((0.1, 0.08, 0.08), mass=0.8))
m.add(mbd.Revolute("tilt", m.ground, camera, point=(-0.01, 0, 0), axis=(0, -1, 0)))
gains = {"proportional": 4.0, "integral": 8.0, "derivative": 0.15, "filter_time": 5e-3}
m.add(mbd.PID("control", "tilt", set_point=0.5, effort_limit=1.5, **gains))

# %% TransferFunction
m = mbd.Mechanism("arm with a lead compensator")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.05, 0.05), mass=2.0), r=(0.3, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
# 400 (0.1 s + 1)/(0.01 s + 1) from the error, 1 rad less the angle, to the torque.
lead = {"numerator": [40.0, 400.0], "denominator": [0.01, 1.0]}
m.add(mbd.TransferFunction("lead", "pin", command=1.0, source="coordinate", **lead))

# %% StateSpace
m = mbd.Mechanism("arm with a slow drive")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.05, 0.05), mass=2.0), r=(0.3, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
# The torque follows its command within 50 ms: dz/dt = 20 (u - z).
lag = {"A": [[-20.0]], "B": [20.0], "C": [1.0]}
m.add(mbd.StateSpace("drive", "pin", command="6 + 2*sin(3*t)", **lag))

# %% LuGre
m = mbd.Mechanism("machine slide")
x = (1.0, 0.0, 0.0)
slide = m.add_body("slide", shape=mbd.Box((0.4, 0.3, 0.1), mass=60.0))
m.add(mbd.Translational("guideway", m.ground, slide, point=(0.0, 0.0, 0.0), axis=x))
levels = {"coulomb": 40.0, "static": 60.0, "stribeck_rate": 0.01}
bristles = {"stiffness": 1e6, "micro_damping": 3e3, "viscous": 50.0}
m.add(mbd.LuGre("friction", "guideway", **levels, **bristles))

# %% Maxwell
m = mbd.Mechanism("pump on a rubber mount")
pump = m.add_body("pump", shape=mbd.Box((0.2, 0.2, 0.2), mass=10.0), r=(0, 0, -0.5))
m.add(mbd.Translational("guide", m.ground, pump, point=(0, 0, -0.5), axis=(0, 0, 1)))
ends = {"point_i": (0.0, 0.0, 0.0), "point_j": (0.0, 0.0, -0.4)}
# Stiff in fast motion; at rest the damper has relaxed, and the soft spring carries.
solid = {"stiffness": 5e3, "damping": 500.0, "parallel_stiffness": 1e3}
m.add(mbd.Maxwell("mount", m.ground, pump, **ends, **solid))

# %% Muscle
m = mbd.Mechanism("elbow")
bone = mbd.Rod(0.3, mass=1.5)
forearm = m.add_body("forearm", shape=bone, r=(0.15, 0.0, 0.0))
m.add(mbd.Revolute("elbow", m.ground, forearm, point=(0, 0, 0), axis=(0, -1, 0)))
ends = {"point_i": (0.02, 0.0, 0.3), "point_j": (0.04, 0.0, 0.0)}
fibers = {"max_force": 800.0, "optimal_length": 0.12, "slack_length": 0.17}
excitation = mbd.Input("excitation", default=0.05)
m.add(mbd.Muscle("biceps", m.ground, forearm, **ends, **fibers, excitation=excitation))

# %% HydraulicCylinder
m = mbd.Mechanism("loader boom")
beam = mbd.Box((3.0, 0.2, 0.3), mass=600.0)
boom = m.add_body("boom", shape=beam, r=(1.5, 0.0, 1.5))
m.add(mbd.Revolute("foot", m.ground, boom, point=(0, 0, 1.5), axis=(0, -1, 0)))
ends = {"point_i": (0.4, 0.0, 0.5), "point_j": (1.4, 0.0, 1.4)}
oil = {"area": 5e-3, "rod_side_area": 3e-3, "volume": 3e-3, "pressure": 60e5}
valve = {"nominal_flow": 5e-7, "supply": 200e5, "opening": mbd.Input("lever")}
m.add(mbd.HydraulicCylinder("cylinder", m.ground, boom, **ends, **oil, **valve))
names = m.build()[0].element_state_names
print(names)  # ('cylinder.pressure_a', 'cylinder.pressure_b')

# %% AbstractStatefulForce, StateRule, StateLabel


class Thrust(mbd.AbstractStatefulForce):
    """A propeller that pushes along the z axis of its body. Its speed is a state."""

    rule: mbd.StateRule
    torque: Any  # of its motor [N·m]

    def labels(self):
        return (mbd.StateLabel("speed", "rad/s"),)

    def state_rates(self, pose, twist, z, t):
        return (self.torque - 2e-7 * z * jnp.abs(z)) / 1e-4  # drag and inertia

    def loads(self, pose, twist, z, t):
        force = 1.5e-5 * z[0] ** 2 * pose.A[0, :, 2]
        return force[None], jnp.zeros((1, 3))


@dataclass(frozen=True, eq=False)
class Propeller(mbd.AbstractForceDescription):
    """A propeller on a body."""

    body: Any = given.body()
    torque: Any = given.number("N·m")
    speed: Any = given.number("rad/s", 0.0)  # at the initial time

    def targets(self):
        return (self.body,)

    def element(self, body):
        rule = mbd.StateRule.held(self._number("speed")[None])
        return Thrust(rule, self._number("torque"))


m = mbd.Mechanism("drone")
drone = m.add_body("drone", shape=mbd.Box((0.3, 0.3, 0.1), mass=1.0))
m.add(Propeller("rotors", drone, torque=0.15, speed=600.0))
print(m.build()[0].element_state_names)  # ('rotors.speed',)

# %% AbstractAlongCoordinate, AbstractCoordinateForce


class Following(mbd.AbstractAlongCoordinate):
    """A torque z along a joint's angle x that follows -stiffness x within a time."""

    coordinate: Any
    rule: mbd.StateRule
    stiffness: Any
    time: Any

    linear = True  # the rates are linear in z

    def labels(self):
        return (mbd.StateLabel("delayed", "N·m"),)

    def rates_at(self, x, rate, z, t):
        return (-self.stiffness * x - z) / self.time

    def effort(self, x, rate, z, t):
        return z[0]


@dataclass(frozen=True, eq=False)
class DelayedCoil(mbd.AbstractCoordinateForce):
    """A torsional spring in a joint whose torque lags behind."""

    stiffness: Any = given.number("N·m/rad")
    time: Any = given.number("s", 0.1)

    def element(self, *bodies):
        numbers = (self._number(name) for name in ("stiffness", "time"))
        rule = mbd.StateRule.held(jnp.zeros(1))
        return Following(self._coordinate(bodies), rule, *numbers)


m = mbd.Mechanism("wheel")
wheel = m.add_body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.1), omega=(0, 0, 2.0))
m.add(mbd.Revolute("pin", m.ground, wheel, point=(0, 0, 0), axis=(0, 0, 1)))
m.add(DelayedCoil("coil", "pin", stiffness=3.0, time=0.05))

# %% AbstractAlongLine, AbstractLineForce


class Gas(mbd.AbstractAlongLine):
    """A gas spring: a pressure pushes its ends apart, and leaks away."""

    s_i_bar: Any
    s_j_bar: Any
    rule: mbd.StateRule
    area: Any

    linear = True

    def labels(self):
        return (mbd.StateLabel("pressure", "Pa"),)

    def rates_at(self, x, rate, z, t):
        return -z / 3600.0  # within an hour

    def effort(self, x, rate, z, t):
        return -self.area * z[0]  # a pull is positive


@dataclass(frozen=True, eq=False)
class LeakyGasSpring(mbd.AbstractLineForce):
    """A gas spring between two points."""

    area: Any = given.number("m²")
    pressure: Any = given.number("Pa")  # at the initial time

    def element(self, *bodies):
        s_i, s_j, _ = self._points(bodies)
        rule = mbd.StateRule.held(self._number("pressure")[None])
        return Gas(s_i, s_j, rule, self._number("area"))


m = mbd.Mechanism("tailgate")
gate = m.add_body("gate", shape=mbd.Box((1.0, 1.2, 0.05), mass=20.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("hinge", m.ground, gate, point=(0, 0, 0), axis=(0, -1, 0)))
ends = {"point_i": (0.1, 0.0, -0.5), "point_j": (0.5, 0.0, 0.0)}
m.add(LeakyGasSpring("strut", m.ground, gate, **ends, area=2e-4, pressure=20e5))

# %% Armature
m = mbd.Mechanism("geared wrist")
hand = m.add_body("hand", shape=mbd.Box((0.1, 0.08, 0.03), mass=0.5), r=(0.05, 0, 0))
m.add(mbd.Revolute("wrist", m.ground, hand, point=(0, 0, 0), axis=(0, 0, 1)))
# A rotor of 5e-6 kg·m² behind a gear of 100: 0.05 kg·m², more than the hand has.
m.add(mbd.Armature("rotor", "wrist", inertia=5e-6 * 100**2))

# %% Contact
m = mbd.Mechanism("basketball")
ball = m.add_body("ball", shape=mbd.Sphere(0.12, mass=0.6), r=(0, 0, 1.8), v=(3, 0, 0))
# The ground has no shape: it is a plane, by default z = 0.
m.add(mbd.Contact("floor", ball, m.ground, friction=0.6, restitution=0.8))

# %% Clearance
m = mbd.Mechanism("worn hinge")
y = (0.0, 1.0, 0.0)
arm = m.add_body("arm", shape=mbd.Box((0.3, 0.02, 0.04), mass=0.5), r=(0.15, 0.0, 0.0))
# The bore does not hold the arm along its pin.
m.add(mbd.Planar("washers", m.ground, arm, point=(0.0, 0.0, 0.0), axis=y))
# A pin of 10 mm in diameter, 0.1 mm loose in its bore.
bore = {"point": (0.0, 0.0, 0.0), "axis": y, "radius": 0.005, "play": 5e-5}
m.add(mbd.Clearance("pin", m.ground, arm, **bore, friction=0.1))

# %% CurveContact
m = mbd.Mechanism("cam follower")
y, z = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
cam = m.add_body("cam", shape=mbd.Cylinder(0.02, 0.02, mass=0.2, axis="y"))
valve = m.add_body("valve", shape=mbd.Cylinder(0.004, 0.1, mass=0.08), r=(0, 0, 0.082))
m.add(mbd.Revolute("bearing", m.ground, cam, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Translational("guide", m.ground, valve, point=(0.0, 0.0, 0.082), axis=z))
# At high speed the roller jumps off; `mbd.Cam` would hold it.
circle = ("0.02*cos(t)", "0", "0.004 + 0.02*sin(t)")
roller = {"point": (0.0, 0.0, 0.032), "radius": 0.008}
m.add(mbd.CurveContact("roller", valve, cam, curve=circle, axis=y, **roller))

# %% JointLimit
m = mbd.Mechanism("door with a stop")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0), omega=(0.0, 0.0, 1.5))
m.add(mbd.Revolute("hinge", m.ground, door, point=(0, 0, 1.0), axis=(0, 0, 1)))
# Rubber at a right angle; without `stiffness` the stop is rigid.
m.add(mbd.JointLimit("stop", "hinge", upper=np.pi / 2, stiffness=5e3, damping=0.3))

# %% CoulombFriction
m = mbd.Mechanism("garden gate")
gate = m.add_body("gate", shape=mbd.Box((1.0, 0.05, 1.2), mass=15.0), r=(0.5, 0.0, 0.8))
m.add(mbd.Revolute("hinge", m.ground, gate, point=(0, 0, 0.8), axis=(0, 0, 1)))
# 0.2 N·m, and 0.15 of the load of the hinge at a pin of 8 mm in radius.
m.add(mbd.CoulombFriction("dry", "hinge", bound=0.2, friction=0.15, radius=0.008))
