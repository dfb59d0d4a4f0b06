"""Examples of the page "Joints and drivers"."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

# %% Spherical
m = mbd.Mechanism("chandelier")
lamp = m.add_body("lamp", shape=mbd.Sphere(0.3, mass=8.0), r=(0.0, 0.0, 1.8))
m.add(mbd.Spherical("hook", m.ground, lamp, point=(0.0, 0.0, 2.5)))
print(mbd.mobility(*m.build()).freedoms)  # 3: it swings two ways, and spins

# %% Revolute
m = mbd.Mechanism("door")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0))
m.add(mbd.Revolute("hinge", m.ground, door, point=(0, 0, 1.0), axis=(0, 0, 1)))

# %% Cylindrical
m = mbd.Mechanism("gate bolt")
rod = mbd.Cylinder(0.008, 0.2, density=7850.0, axis="x")
bolt = m.add_body("bolt", shape=rod, r=(0.1, 0.0, 1.0))
# The bolt slides in its guide and turns in it, to put its handle behind a stop.
m.add(mbd.Cylindrical("guide", m.ground, bolt, point=(0.1, 0, 1.0), axis=(1, 0, 0)))

# %% Translational
m = mbd.Mechanism("lift")
cabin = m.add_body("cabin", shape=mbd.Box((1.6, 1.4, 2.3), mass=900.0), r=(0, 0, 1.15))
m.add(mbd.Translational("rails", m.ground, cabin, point=(0, 0, 0), axis=(0, 0, 1)))

# %% Universal
m = mbd.Mechanism("propeller shaft")
gearbox = m.add_body("gearbox", shape=mbd.Cylinder(0.03, 0.2, mass=3.0, axis="x"))
rod = mbd.Cylinder(0.03, 1.2, mass=8.0, axis="x")
shaft = m.add_body("shaft", shape=rod, r=(0.7, 0.0, 0.0))
m.add(mbd.Revolute("bearing", m.ground, gearbox, point=(0.0, 0.0, 0.0), axis=(1, 0, 0)))
# One arm of the cross turns with the gearbox, the other one with the shaft.
arms = {"axis_i": (0.0, 1.0, 0.0), "axis_j": (0.0, 0.0, 1.0)}
m.add(mbd.Universal("cross", gearbox, shaft, point=(0.1, 0.0, 0.0), **arms))
print(mbd.mobility(*m.build()).freedoms)  # 3: the shaft turns, and bends two ways

# %% Planar
m = mbd.Mechanism("air hockey")
disc = mbd.Cylinder(0.0315, 0.006, mass=0.015)
puck = m.add_body("puck", shape=disc, v=(2.0, 0.5, 0.0), omega=(0.0, 0.0, 6.0))
# It slides along x and y, and spins about the normal of the table.
m.add(mbd.Planar("table", m.ground, puck, point=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0)))

# %% PointOnLine
m = mbd.Mechanism("overhead crane")
load = m.add_body("load", shape=mbd.Box((1.0, 1.0, 1.0), mass=2000.0), r=(0, 0, 2.0))
# The trolley is light: the upper end of the rope runs along the girder, 6 m higher.
m.add(mbd.PointOnLine("girder", m.ground, load, point=(0, 0, 8.0), axis=(1, 0, 0)))

# %% Fixed
m = mbd.Mechanism("robot flange")
arm = m.add_body("arm", shape=mbd.Box((0.6, 0.1, 0.1), mass=6.0), r=(0.3, 0, 0))
cube = mbd.Box((0.1, 0.1, 0.1), mass=1.2)
gripper = m.add_body("gripper", shape=cube, r=(0.65, 0, 0))
m.add(mbd.Revolute("shoulder", m.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
# Its reactions are the loads of the bolts.
m.add(mbd.Fixed("flange", arm, gripper, point=(0.6, 0, 0)))

# %% Distance
m = mbd.Mechanism("four-bar linkage")
short = mbd.Box((0.04, 0.01, 0.1), mass=0.3)
crank = m.add_body("crank", shape=short, r=(0, 0, 0.05))
long = mbd.Box((0.04, 0.01, 0.3), mass=0.9)
lever = m.add_body("lever", shape=long, r=(0.4, 0, 0.15))
m.add(mbd.Revolute("motor", m.ground, crank, point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Revolute("pivot", m.ground, lever, point=(0.4, 0, 0), axis=(0, 1, 0)))
# The coupler is so light that it needs no body: a rod with a ball joint at each end.
m.add(mbd.Distance("rod", crank, lever, point_i=(0, 0, 0.1), point_j=(0.4, 0, 0.3)))
print(mbd.mobility(*m.build()).freedoms)  # 1

# %% Gear
m = mbd.Mechanism("reduction gear")
y = (0.0, 1.0, 0.0)
small = mbd.Cylinder(0.02, 0.03, density=7850.0, axis="y")
large = mbd.Cylinder(0.06, 0.03, density=7850.0, axis="y")
pinion = m.add_body("pinion", shape=small)
wheel = m.add_body("wheel", shape=large, r=(0.08, 0.0, 0.0))
m.add(mbd.Revolute("input", m.ground, pinion, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("output", m.ground, wheel, point=(0.08, 0.0, 0.0), axis=y))
m.add(mbd.Gear("mesh", pinion, wheel, axis_i=y, ratio=-20 / 60))  # 20 teeth drive 60

# %% Belt
m = mbd.Mechanism("alternator drive")
x = (1.0, 0.0, 0.0)
pulley = mbd.Cylinder(0.08, 0.03, mass=3.0, axis="x")
rotor = mbd.Cylinder(0.03, 0.10, mass=2.0, axis="x")
engine = m.add_body("engine", shape=pulley)
alternator = m.add_body("alternator", shape=rotor, r=(0.0, 0.25, 0.2))
m.add(mbd.Revolute("main bearing", m.ground, engine, point=(0.0, 0.0, 0.0), axis=x))
m.add(mbd.Revolute("bearing", m.ground, alternator, point=(0.0, 0.25, 0.2), axis=x))
m.add(mbd.Belt("belt", engine, alternator, axis_i=x, radius_i=0.08, radius_j=0.03))

# %% RackAndPinion
m = mbd.Mechanism("steering")
y, z, center = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.019, 0.0, 0.0)
rack = m.add_body("rack", shape=mbd.Cylinder(0.012, 0.7, mass=2.5, axis="y"))
pinion = m.add_body("pinion", shape=mbd.Cylinder(0.007, 0.04, mass=0.1), r=center)
m.add(mbd.Translational("guide", m.ground, rack, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("column", m.ground, pinion, point=center, axis=z))
# A turn of the steering column moves the rack by 2π 7 mm = 44 mm.
m.add(mbd.RackAndPinion("teeth", rack, pinion, axis=z, along=y, radius=0.007))
print(mbd.mobility(*m.build()).freedoms)  # 1

# %% Screw
m = mbd.Mechanism("vise")
rod = mbd.Cylinder(0.012, 0.25, density=7850.0, axis="x")
spindle = m.add_body("spindle", shape=rod)
# The nut is part of the bench; every turn advances the spindle by 5 mm.
line = {"point": (0.0, 0.0, 0.0), "axis": (1.0, 0.0, 0.0)}
m.add(mbd.Screw("thread", m.ground, spindle, **line, lead=0.005))

# %% Coupler
m = mbd.Mechanism("parallel gripper")
pad = mbd.Box((0.02, 0.01, 0.06), mass=0.05)
left = m.add_body("left finger", shape=pad, r=(0.0, 0.04, 0.0))
right = m.add_body("right finger", shape=pad, r=(0.0, -0.04, 0.0))
y = (0.0, 1.0, 0.0)
m.add(mbd.Translational("left", m.ground, left, point=(0.0, 0.04, 0.0), axis=y))
m.add(mbd.Translational("right", m.ground, right, point=(0.0, -0.04, 0.0), axis=y))
m.add(mbd.Coupler("mimic", "left", "right", coefficients=(0.0, -1.0)))  # right = -left

# %% LinearCoupling
m = mbd.Mechanism("differential")
disc = mbd.Cylinder(0.3, 0.2, mass=20.0, axis="y")
y = (0.0, 1.0, 0.0)
for name, place in {"left": 0.7, "cage": 0.0, "right": -0.7}.items():
    point = (0.0, place, 0.0)
    m.add_body(f"{name} part", shape=disc, r=point)
    m.add(mbd.Revolute(name, m.ground, f"{name} part", point=point, axis=y))
# The cage turns by the mean of both wheels.
shafts = ["left", "right", "cage"]
m.add(mbd.LinearCoupling("bevel gears", shafts, coefficients=(0.5, 0.5, -1.0)))
print(mbd.mobility(*m.build()).freedoms)  # 2

# %% Lock
m = mbd.Mechanism("door with a latch")
leaf = mbd.Box((0.9, 0.04, 2.0), mass=25.0)
door = m.add_body("door", shape=leaf, r=(0.45, 0.0, 1.0))
m.add(mbd.Revolute("hinge", m.ground, door, point=(0, 0, 1.0), axis=(0, 0, 1)))
m.add(mbd.Lock("latch", "hinge", active=False))  # open, until the door has fallen shut
m.add(mbd.Event("shut", "hinge.angle < 0", action=mbd.Activate("latch")))

# %% Cam
m = mbd.Mechanism("valve train")
y, z = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
shaft = m.add_body("camshaft", shape=mbd.Cylinder(0.02, 0.02, mass=0.2, axis="y"))
valve = m.add_body("valve", shape=mbd.Cylinder(0.004, 0.1, mass=0.08), r=(0, 0, 0.082))
m.add(mbd.Revolute("bearing", m.ground, shaft, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Translational("guide", m.ground, valve, point=(0.0, 0.0, 0.082), axis=z))
# A circle of 20 mm, 4 mm off the shaft, lifts a roller of 8 mm by 8 mm.
circle = ("0.02*cos(t)", "0", "0.004 + 0.02*sin(t)")
roller = {"point": (0.0, 0.0, 0.032), "radius": 0.008}
m.add(mbd.Cam("cam", shaft, valve, curve=circle, axis=y, **roller))

# %% PointOnCurve
m = mbd.Mechanism("bead on a wire")
start = (0.5, 0.0, 0.25)
bead = m.add_body("bead", shape=mbd.Sphere(0.01, density=7850.0), r=start)
# The wire is a parabola in the plane y = 0, open at both ends.
wire = {"curve": ("t", "0", "t**2"), "closed": False, "span": (-1.0, 1.0)}
hold = {"point": start, "axis": (0.0, 1.0, 0.0), "hold_axially": True}
m.add(mbd.PointOnCurve("wire", m.ground, bead, **wire, **hold))
print(mbd.mobility(*m.build()).freedoms)  # 4: along the wire, and three rotations

# %% CurveOnCurve
m = mbd.Mechanism("cam under a lever")
y = (0.0, 1.0, 0.0)
cam = m.add_body("cam", shape=mbd.Box((0.08, 0.02, 0.04), mass=0.4))
lever = m.add_body("lever", shape=mbd.Box((0.2, 0.02, 0.01), mass=0.2), r=(0, 0, 0.025))
m.add(mbd.Revolute("shaft", m.ground, cam, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("pivot", m.ground, lever, point=(-0.1, 0.0, 0.025), axis=y))
ellipse = {"curve": ("0.04*sin(t)", "0", "0.02*cos(t)"), "axis": y}
flat = {"curve_j": ("t", "0", "0.02"), "span_j": (-0.1, 0.1)}  # lower side of the lever
m.add(mbd.CurveOnCurve("touch", cam, lever, **ellipse, **flat))
print(mbd.mobility(*m.build()).freedoms)  # 1

# %% PointOnSurface
m = mbd.Mechanism("skateboard in a bowl")
rider = m.add_body("rider", mass=70.0, inertia=(12.0, 12.0, 2.0), r=(3.0, 0.0, 1.9))


def bowl(x):
    """Zero on a paraboloid, positive above it."""
    return x[2] - 0.1 * (x[0] ** 2 + x[1] ** 2)


wheels = (3.0, 0.0, 0.9)
m.add(mbd.PointOnSurface("bowl", m.ground, rider, point=wheels, surface=bowl))

# %% RollingDisc
m = mbd.Mechanism("rolling coin")
coin = mbd.Cylinder(0.0116, 0.0023, mass=0.0075, axis="y")
m.add_body("coin", shape=coin, r=(0.0, 0.0, 0.0116), v=(0.5, 0.0, 0.0))
m.add(mbd.RollingDisc("table", m.ground, "coin", axis=(0, 1, 0), radius=0.0116))
state, report = mbd.assemble(*m.build())
print(state.omega[0].round(1))  # [ 0.  43.1  0. ], found from the speed

# %% RollingSphere
m = mbd.Mechanism("bowling")
sphere = mbd.Sphere(0.108, mass=7.0)
ball = m.add_body("ball", shape=sphere, r=(0.0, 0.0, 0.108), v=(7.0, 0.0, 0.0))
m.add(mbd.RollingSphere("lane", m.ground, ball, radius=0.108))
print(mbd.mobility(*m.build()).freedoms)  # 3: it rolls two ways, and spins

# %% KnifeEdge
m = mbd.Mechanism("ice skate")
skater = m.add_body("skater", mass=70.0, inertia=(10.0, 10.0, 2.0), v=(3.0, 0.0, 0.0))
m.add(mbd.Planar("ice", m.ground, skater, point=(0, 0, 0), axis=(0, 0, 1)))
# The blade glides along x of the skater, and does not slip sideways.
m.add(mbd.KnifeEdge("blade", m.ground, skater, point=(0, 0, 0), axis=(0, 1, 0)))

# %% NoSlip
m = mbd.Mechanism("bicycle dynamo")
y = (0.0, 1.0, 0.0)
wheel = m.add_body("wheel", shape=mbd.Cylinder(0.3, 0.04, mass=2.0, axis="y"))
roller = mbd.Cylinder(0.02, 0.04, mass=0.2, axis="y")
dynamo = m.add_body("dynamo", shape=roller, r=(0.32, 0.0, 0.0))
m.add(mbd.Revolute("hub", m.ground, wheel, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Revolute("shaft", m.ground, dynamo, point=(0.32, 0.0, 0.0), axis=y))
m.add(mbd.NoSlip("tyre", wheel, dynamo, axis=y, radius_i=0.3, radius_j=0.02))

# %% RotationDriver
m = mbd.Mechanism("fan")
z = (0.0, 0.0, 1.0)
rotor = m.add_body("rotor", mass=0.5, inertia=(4e-3, 4e-3, 8e-3))
m.add(mbd.Revolute("shaft", m.ground, rotor, point=(0.0, 0.0, 0.0), axis=z))
speed = 1200 * 2 * np.pi / 60  # 1200 revolutions per minute in rad/s
m.add(mbd.RotationDriver("drive", m.ground, rotor, axis=z, angle=lambda t: speed * t))

# %% PoseDriver
m = mbd.Mechanism("ship in waves")
hull = m.add_body("hull", shape=mbd.Box((60.0, 12.0, 8.0), mass=2e6))


def travel(t):
    """Forward at 8 m/s, and up and down with the waves [m]."""
    return jnp.stack([8.0 * t, 0.0 * t, 1.5 * jnp.sin(0.7 * t)])


def turn(t):
    """Roll and pitch [rad]."""
    return jnp.stack([0.1 * jnp.sin(0.5 * t), 0.03 * jnp.sin(0.7 * t), 0.0 * t])


m.add(mbd.PoseDriver("waves", m.ground, hull, displacement=travel, rotation=turn))

# %% TranslationDriver
m = mbd.Mechanism("shaking table")
x = (1.0, 0.0, 0.0)
table = m.add_body("table", shape=mbd.Box((2.0, 2.0, 0.2), mass=500.0))
m.add(mbd.Translational("rails", m.ground, table, point=(0.0, 0.0, 0.0), axis=x))
quake = "0.005*sin(2*pi*3*t)"  # 5 mm at 3 Hz; a function of time may be given as text
m.add(mbd.TranslationDriver("quake", m.ground, table, axis=x, displacement=quake))

# %% DistanceDriver
m = mbd.Mechanism("dump truck")
bed = m.add_body("bed", shape=mbd.Box((5.0, 2.4, 1.2), mass=9000.0), r=(2.5, 0.0, 1.6))
m.add(mbd.Revolute("hinge", m.ground, bed, point=(0, 0, 1.0), axis=(0, -1, 0)))
# The cylinder has no body: it is 1.5 m long at first, and extends by 8 cm/s.
ends = {"point_i": (1.6, 0.0, -0.2), "point_j": (2.5, 0.0, 1.0)}
m.add(mbd.DistanceDriver("cylinder", m.ground, bed, **ends, length="1.5 + 0.08*t"))

# %% Constraint
m = mbd.Mechanism("serving tray")
tray = m.add_body("tray", shape=mbd.Box((0.5, 0.3, 0.02), mass=1.5))
# It stays level: its z axis is normal to x and to y of the ground.
x, y, z = np.eye(3)
level = [mbd.DP1(x, z), mbd.DP1(y, z)]
m.add(mbd.Constraint("level", m.ground, tray, primitives=level))
print(mbd.mobility(*m.build()).freedoms)  # 4

# %% DP1
m = mbd.Mechanism("telescope")
tube = m.add_body("tube", shape=mbd.Cylinder(0.1, 0.8, mass=6.0, axis="x"))
m.add(mbd.Spherical("mount", m.ground, tube, point=(0.0, 0.0, 0.0)))
# The tube may point anywhere, but its y axis stays horizontal: no roll.
no_roll = mbd.DP1((0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
m.add(mbd.Constraint("fork", m.ground, tube, primitives=[no_roll]))
print(mbd.mobility(*m.build()).freedoms)  # 2: azimuth and altitude

# %% DP2
m = mbd.Mechanism("floating platform")
deck = m.add_body("deck", shape=mbd.Box((4.0, 4.0, 0.5), mass=3000.0))
# The edge of the deck follows the tide, along the z axis of the ground.
up, quay, edge = (0.0, 0.0, 1.0), (2.0, 0.0, 0.0), (2.0, 0.0, 0.0)
tide = mbd.DP2(up, quay, edge, f=lambda t: 0.8 * jnp.sin(1.4e-4 * t))
m.add(mbd.Constraint("tide", m.ground, deck, primitives=[tide]))

# %% D
m = mbd.Mechanism("kite")
sail = mbd.Box((0.6, 1.2, 0.02), mass=0.3)
kite = m.add_body("kite", shape=sail, r=(30.0, 0.0, 40.0))
# A line of 50 m from the hand at the origin to the kite's center; f is its square.
line = mbd.D((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), f=50.0**2)
m.add(mbd.Constraint("line", m.ground, kite, primitives=[line]))

# %% CD
m = mbd.Mechanism("gantry crane")
leg = mbd.Box((0.5, 0.5, 5.0), mass=3000.0)
left = m.add_body("left leg", shape=leg, r=(0.0, 6.0, 2.5))
right = m.add_body("right leg", shape=leg, r=(0.0, -6.0, 2.5))
x = (1.0, 0.0, 0.0)
m.add(mbd.Translational("left rail", m.ground, left, point=(0, 6.0, 0), axis=x))
m.add(mbd.Translational("right rail", m.ground, right, point=(0, -6.0, 0), axis=x))
# Both legs run side by side: no offset of their centers along the global x axis.
side_by_side = mbd.CD(x, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
m.add(mbd.Constraint("bridge", left, right, primitives=[side_by_side]))

# %% Expression
sweep = mbd.Expression("pi/4*(1 - cos(2*pi*t))")
print(sweep(jnp.array(0.5)))  # 1.5708: a quarter turn, and back at t = 1 s
m = mbd.Mechanism("wiper")
z = (0.0, 0.0, 1.0)
arm = m.add_body("arm", shape=mbd.Rod(0.5, mass=0.3), r=(0.25, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, arm, point=(0.0, 0.0, 0.0), axis=z))
m.add(mbd.RotationDriver("motor", m.ground, arm, axis=z, angle=sweep))

# %% Sampled
t = np.linspace(0.0, 1.0, 101)
angle = 0.5 * (1 - np.cos(2 * np.pi * t))  # a knee recorded with 100 Hz [rad]
m = mbd.Mechanism("leg")
y = (0.0, 1.0, 0.0)
shank = m.add_body("shank", shape=mbd.Capsule(0.05, 0.3, mass=3.5), r=(0.0, 0.0, -0.2))
m.add(mbd.Revolute("knee", m.ground, shank, point=(0.0, 0.0, 0.0), axis=y))
bend = mbd.Sampled(t, angle)
m.add(mbd.RotationDriver("recorded", m.ground, shank, axis=y, angle=bend))
