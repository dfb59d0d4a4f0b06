"""Examples of the page "Mechanisms"."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd import given

mbd.enable_x64()

# %% Mechanism
m = mbd.Mechanism("crane", gravity=(0.0, 0.0, -9.81))
jib = m.add_body("jib", shape=mbd.Box((8.0, 0.3, 0.4), mass=900.0), r=(4.0, 0.0, 3.0))
m.add(mbd.Revolute("foot", m.ground, jib, point=(0, 0, 3.0), axis=(0, -1, 0)))
m.add(mbd.Actuator("winch", "foot", control=4e4))
print(m)  # Mechanism 'crane': 1 body, 1 joint, 1 force, ...
# The same crane with a heavier jib; `m.values()` lists all numbers by their paths.
heavier = m.with_values({"bodies.jib.mass": 1200.0})
system, state = heavier.build()

# %% Body
m = mbd.Mechanism("drawer")
front = mbd.Box((0.02, 0.5, 0.2), density=700.0)
drawer = m.add_body("drawer", shape=front, r=(0.5, 0.0, 0.4))
print(type(drawer).__name__, drawer.mass.round(3))  # Body 1.4: the mass of the shape
m.add(mbd.Translational("runners", m.ground, drawer, point=drawer.r, axis=(1, 0, 0)))

# %% Beam
m = mbd.Mechanism("diving board")
wood = mbd.Section.rectangle(0.5, 0.04, E=1.1e10, nu=0.3, rho=600.0)
line = [(0.0, 0.0, 1.0), (4.8, 0.0, 1.0)]
board = m.add_beam("board", line, section=wood, elements=6)  # returns a Beam
m.add(mbd.Fixed("anchor", m.ground, board.first, point=line[0]))
m.add(mbd.PointForce("diver", board.last, force=(0.0, 0.0, -700.0)))
print(len(board.nodes))  # 7: the nodes are bodies of the mechanism

# %% Section
steel = {"E": 2.1e11, "nu": 0.3, "rho": 7850.0}
tube = mbd.Section.tube(0.03, 0.027, **steel)
print(float(tube.E * tube.I))  # the bending stiffness, 45944 N·m²
# An IPE 100 by the numbers of a catalog, its web along y.
catalog = {"A": 1.03e-3, "I": (1.59e-7, 1.71e-6), "J": 1.2e-8, "shear": 0.4}
profile = mbd.Section(E=2.1e11, G=8.1e10, rho=7850.0, **catalog)
m = mbd.Mechanism("mast")
m.add_beam("mast", [(0.0, 0.0, 0.0), (0.0, 0.0, 6.0)], section=tube, elements=4)

# %% System
m = mbd.Mechanism("pendulum")
bob = m.add_body("bob", shape=mbd.Sphere(0.05, mass=1.0), r=(1.0, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()  # a System and a State
print(system.bodies, system.nb, system.nc)  # ('bob',) 1 5: one body, five rows

# %% State
m = mbd.Mechanism("spinning top")
m.add_body("top", mass=0.1, inertia=(1e-4, 1e-4, 5e-5), omega=(0.0, 0.0, 200.0))
system, state = m.build()
print(state.r.shape, state.omega[0])  # (1, 3) [  0.   0. 200.]
# One made by hand: upright, and spinning half as fast.
state = mbd.State(r=state.r, A=state.A, v=state.v, omega=0.5 * state.omega)

# %% Pose
tilt = np.deg2rad(30.0)
c, s = np.cos(tilt), np.sin(tilt)
A = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])  # by 30 degrees about y
boom = mbd.Pose(r=np.array([2.0, 0.0, 1.0]), A=A)
tip_bar = np.array([3.0, 0.0, 0.0])  # in the body
print(boom.r + boom.A @ tip_bar)  # [ 4.598  0.    -0.5  ] m, global

# %% Twist
boom = mbd.Pose(r=np.array([2.0, 0.0, 1.0]), A=np.eye(3))
swing = mbd.Twist(v=np.zeros(3), omega=np.array([0.0, 0.0, 0.2]))
tip_bar = np.array([3.0, 0.0, 0.0])
print(swing.v + boom.A @ np.cross(swing.omega, tip_bar))  # [0.  0.6 0. ] m/s

# %% Box
m = mbd.Mechanism("door")
m.add_body("door", shape=mbd.Box((0.9, 0.04, 2.0), density=650.0), r=(0.45, 0, 1.0))
print(m.bodies["door"].mass)  # 46.8 kg

# %% Composite
head = mbd.Box((0.03, 0.03, 0.1), density=7850.0)
handle = mbd.Cylinder(0.015, 0.3, density=700.0, axis="x")
hammer = mbd.Composite([head, handle], positions=[(0.0, 0.0, 0.0), (-0.165, 0.0, 0.0)])
print(hammer.mass, hammer.center)  # 0.855 kg, 29 mm from the middle of the head
m = mbd.Mechanism("hammer")
m.add_body("hammer", shape=hammer, r=hammer.center)

# %% Capsule
thigh = mbd.Capsule(0.08, 0.35, mass=9.0)  # 0.35 m between the centers of its ends
m = mbd.Mechanism("leg")
m.add_body("thigh", shape=thigh, r=(0.0, 0.0, 0.8))

# %% Cone
nose = mbd.Cone(0.1, 0.4, density=1200.0)
m = mbd.Mechanism("nose cone")
# The body frame is at the mass center: the base is at z = 0, 0.1 m below.
m.add_body("nose", shape=nose, r=(0.0, 0.0, 0.1))

# %% Cylinder
flywheel = mbd.Cylinder(0.2, 0.05, density=7850.0, axis="x")
print(flywheel.mass, flywheel.inertia[0, 0])  # 49.3 kg, 0.986 kg·m² about its axis
m = mbd.Mechanism("flywheel")
m.add_body("flywheel", shape=flywheel, omega=(100.0, 0.0, 0.0))

# %% HollowCylinder
pipe = mbd.HollowCylinder(0.05, 0.055, 6.0, density=7850.0, axis="x")
print(pipe.mass)  # 77.7 kg
m = mbd.Mechanism("pipe")
m.add_body("pipe", shape=pipe, r=(3.0, 0.0, 1.0))

# %% Rod
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Rod(1.0, mass=0.5, axis="z"), r=(0.0, 0.0, -0.5))
# A rod has no inertia about its axis, and needs joints that do not let it spin.
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))

# %% Sphere
ball = mbd.Sphere(0.0305, mass=0.16)  # a billiard ball
m = mbd.Mechanism("billiards")
m.add_body("ball", shape=ball, r=(0.0, 0.0, 0.0305), v=(3.0, 0.0, 0.0))

# %% Tetrahedron
corners = np.array([(0, 0, 0), (1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0)])
center = corners.mean(axis=0)
rock = mbd.Tetrahedron(corners - center, density=2700.0)  # corners from the mass center
m = mbd.Mechanism("rockfall")
m.add_body("rock", shape=rock, r=center)

# %% Mesh
vertices = [(0, 0, 0), (1, 0, 0), (0, 0, 0.5), (0, 1, 0), (1, 1, 0), (0, 1, 0.5)]
ends = [(0, 1, 2), (3, 5, 4)]
sides = [(0, 3, 4), (0, 4, 1), (1, 4, 5), (1, 5, 2), (0, 2, 5), (0, 5, 3)]
# `mbd.Mesh.from_file("wedge.stl", density=2400.0)` reads one from a file.
wedge = mbd.Mesh(vertices, ends + sides, density=2400.0)
print(wedge.mass, wedge.center)  # 600 kg, [0.333 0.5   0.167] m
m = mbd.Mechanism("ramp")
m.add_body("wedge", shape=wedge, r=wedge.center)

# %% Visual, Looks
low, high = mbd.Box((4.0, 1.7, 0.5), mass=0.0), mbd.Box((1.5, 1.6, 0.6), mass=0.0)
chassis = mbd.Visual(low, color=(0.3, 0.3, 0.3))
cabin = mbd.Visual(high, position=(-0.2, 0.0, 0.55), color=(0.8, 0.1, 0.1))
m = mbd.Mechanism("car")
inertia = (400.0, 1800.0, 2000.0)
m.add_body("car", mass=1200.0, inertia=inertia, visuals=[chassis, cabin])
system, state = m.build()
print(type(system.shapes[0]).__name__)  # Looks: all that the body shows

# %% Frame, FrameMotion
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Frame("tip", rod, point=(1.0, 0.0, 0.0)))
system, state = m.build()
sol = mbd.simulate(system, state, h=0.01, steps=10)
tip = sol.frame("tip")  # a FrameMotion
print(tip.r[-1], tip.v[-1])  # [ 0.997  0.    -0.073] m, [-0.108  0.    -1.466] m/s

# %% AbstractSensor, AbstractMeasured, Channel


class Tilt(mbd.AbstractMeasured):
    """The inclination of a frame about the global y axis."""

    frame: Any

    def channels(self):
        return (mbd.Channel("tilt", "rad"),)

    def of(self, motion):
        A = jnp.asarray(motion.of_frame(self.frame).A)
        return jnp.arctan2(A[:, 0, 2], A[:, 2, 2])[:, None]


@dataclass(frozen=True, eq=False)
class Inclinometer(mbd.AbstractSensor):
    """An inclinometer on a body."""

    body: Any = given.body()

    def targets(self):
        return (self.body,)

    def measured(self, bodies, indices):
        return Tilt(mbd.Frame(self.name, bodies[0]).on(bodies[0], indices[0]))


m = mbd.Mechanism("mast of a boat")
mast = m.add_body("mast", shape=mbd.Cylinder(0.06, 9.0, mass=40.0), r=(0.0, 0.0, 4.5))
m.add(mbd.Revolute("foot", m.ground, mast, point=(0, 0, 0), axis=(0, 1, 0)))
m.add(Inclinometer("level", mast, bias=0.01))
print("level.tilt" in mbd.quantities(m.build()[0]))  # True

# %% IMU
m = mbd.Mechanism("drone")
drone = m.add_body("drone", shape=mbd.Box((0.3, 0.3, 0.1), mass=1.2))
# 200 samples a second, 5 cm in front of the mass center.
noise = {"noise_density": 2e-3, "period": 5e-3}
m.add(mbd.IMU("imu", drone, point=(0.05, 0.0, 0.0), **noise))

# %% Encoder
m = mbd.Mechanism("robot arm")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.05, 0.05), mass=2.0), r=(0.3, 0.0, 0.0))
m.add(mbd.Revolute("shoulder", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
# 4096 steps a turn, read every millisecond.
m.add(mbd.Encoder("encoder", "shoulder", resolution=2 * np.pi / 4096, period=1e-3))

# %% ForceTorque
m = mbd.Mechanism("polishing robot")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.1, 0.1), mass=6.0), r=(0.3, 0.0, 0.0))
tool = m.add_body("tool", shape=mbd.Cylinder(0.04, 0.1, mass=1.0), r=(0.6, 0.0, -0.1))
m.add(mbd.Revolute("shoulder", m.ground, arm, point=(0, 0, 0), axis=(0, -1, 0)))
m.add(mbd.Fixed("flange", arm, tool, point=(0.6, 0.0, -0.05)))
m.add(mbd.ForceTorque("load cell", "flange"))

# %% DistanceSensor
m = mbd.Mechanism("damper test")
disc = mbd.Cylinder(0.3, 0.2, mass=20.0, axis="y")
wheel = m.add_body("wheel", shape=disc, r=(0.0, 0.0, 0.3))
m.add(mbd.Translational("guide", m.ground, wheel, point=(0, 0, 0.3), axis=(0, 0, 1)))
# A string pot between the wheel and a hook above it; it reads 2 mm too much.
ends = {"point_i": (0.0, 0.0, 1.0), "point_j": (0.0, 0.0, 0.3)}
m.add(mbd.DistanceSensor("string", m.ground, wheel, **ends, bias=0.002))

# %% assemble
m = mbd.Mechanism("pendulum")
rod = mbd.Box((1.0, 0.05, 0.05), mass=2.0)
m.add_body("rod", shape=rod, r=(0.5, 0.0, 0.0), omega=(0.0, 3.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, described = m.build()
state, report = mbd.assemble(system, described)
print(bool(report.closed), state.v[0])  # True [ 0.   0.  -1.5]: found from omega

# %% mobility, Mobility
m = mbd.Mechanism("door with two hinges")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0))
m.add(mbd.Revolute("upper", m.ground, door, point=(0, 0, 1.8), axis=(0, 0, 1)))
m.add(mbd.Revolute("lower", m.ground, door, point=(0, 0, 0.2), axis=(0, 0, 1)))
found = mbd.mobility(*m.build())
print(found.freedoms, found.redundant_rows)  # 1 5: one hinge is enough

# %% set_joints
m = mbd.Mechanism("double pendulum")
rod = mbd.Box((1.0, 0.05, 0.05), mass=2.0)
upper = m.add_body("upper", shape=rod, r=(0.5, 0.0, 0.0))
lower = m.add_body("lower", shape=rod, r=(1.5, 0.0, 0.0))
m.add(mbd.Revolute("shoulder", m.ground, upper, point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Revolute("elbow", upper, lower, point=(1.0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
state = mbd.set_joints(system, state, {"shoulder": np.pi / 2, "elbow": {"rate": 1.0}})
print(state.r[1].round(3))  # [ 0.   0.  -1.5]: both hang down

# %% place, Placement
m = mbd.Mechanism("arm of two links")
y = (0.0, 1.0, 0.0)
upper = m.add_body("upper", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
lower = m.add_body("lower", shape=mbd.Box((0.05, 0.05, 1.0), mass=2.0), r=(1, 0, -0.5))
m.add(mbd.Revolute("shoulder", m.ground, upper, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("elbow", upper, lower, point=(1.0, 0.0, 0.0), axis=y))
m.add(mbd.Frame("hand", lower, point=(1.0, 0.0, -1.0)))
system, state = m.build()
limits = {"elbow.angle": (-1.0, 1.0)}
found = mbd.place(system, {"hand.r": (1.2, 0.0, -0.5)}, start=state, limits=limits)
# A Placement; its pose is found.state.
print(found.value("elbow.angle", system))  # 0.1556

# %% follow
m = mbd.Mechanism("crane")
jib = m.add_body("jib", shape=mbd.Box((8.0, 0.3, 0.4), mass=900.0), r=(4.0, 0.0, 0.0))
m.add(mbd.Revolute("foot", m.ground, jib, point=(0, 0, 0), axis=(0, -1, 0)))
m.add(mbd.Frame("tip", jib, point=(8.0, 0.0, 0.0)))
system, state = m.build()
# The angles that lift the tip by 0, 1, 2, 3 and 4 m.
path = mbd.follow(system, {"tip.r.z": np.linspace(0.0, 4.0, 5)}, start=state)
print(path.value("foot.angle", system))  # [0.    0.125 0.253 0.384 0.524]

# %% move_apart
m = mbd.Mechanism("ball on the floor")
ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0.0, 0.0, 0.08))
m.add(mbd.Contact("floor", ball, m.ground))
system, state = m.build()
state = mbd.move_apart(system, state)  # as drawn, it is 2 cm deep in the floor
print(state.r[0, 2])  # 0.1

# %% breaks_redundancy
m = mbd.Mechanism("door with two hinges")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0))
m.add(mbd.Revolute("upper", m.ground, door, point=(0, 0, 1.8), axis=(0, 0, 1)))
m.add(mbd.Revolute("lower", m.ground, door, point=(0, 0, 0.2), axis=(0, 0, 1)))
# Numbers that may not be varied alone: the hinges would not be in line any more.
paths = ["joints.lower.axis", "bodies.door.mass"]  # by default, all of joints and poses
print(list(mbd.breaks_redundancy(m, paths)))  # ['joints.lower.axis']

# %% enable_x64
mbd.enable_x64()  # first of all, before any array is made
print(jnp.zeros(3).dtype)  # float64

# %% jit
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()


@mbd.jit
def height(angle):
    """The height of the mass center at an angle of the pin [m]."""
    return mbd.set_joints(system, state, {"pin": angle}).r[0, 2]


print(height(0.5))  # -0.2397

# %% enable_compilation_cache
folder = mbd.enable_compilation_cache()  # before anything is computed
print(folder)  # where programs are kept for the next process

# %% options
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Does an unexpected number come from what the package does beyond JAX?
with mbd.options(plain=True):
    state, report = mbd.assemble(system, state)
print(bool(report.closed))  # True
