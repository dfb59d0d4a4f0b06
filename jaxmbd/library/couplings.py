"""Packaged mechanisms with gears, a cam and a rolling disc."""

import numpy as np

from ..model.drivers import RotationDriver
from ..model.forces import SpringDamper, Torque
from ..model.gears import Gear
from ..model.higher_pairs import Cam
from ..model.joints import Revolute, Translational
from ..model.mechanism import Mechanism
from ..model.rolling import RollingDisc
from ..model.shapes import Box, Cylinder

_X, _Y, _Z = np.eye(3)


def planetary_gear() -> Mechanism:
    """A planetary set: a sun of 20 teeth, three planets of 20 on an arm, a ring of 60 that is held.
    A motor torque turns the sun, and the arm turns a quarter as fast.

    Three planets carry the load that one would: two of the meshes with the ring are redundant.
    """
    m = Mechanism("planetary_gear", gravity=(0.0, 0.0, 0.0))
    sun = m.add_body("sun", shape=Cylinder(0.1, 0.03, density=7800.0))
    arm = m.add_body("arm", shape=Cylinder(0.2, 0.01, density=2700.0), r=(0.0, 0.0, -0.03))
    m.add(Revolute("sun_bearing", m.ground, sun, point=sun.r, axis=_Z))
    m.add(Revolute("arm_bearing", m.ground, arm, point=arm.r, axis=_Z))
    for k in range(3):
        angle = 2.0 * np.pi * k / 3
        place = 0.2 * np.array([np.cos(angle), np.sin(angle), 0.0])
        planet = m.add_body(f"planet{k + 1}", shape=Cylinder(0.1, 0.03, density=7800.0), r=place)
        m.add(Revolute(f"planet{k + 1}_bearing", arm, planet, point=place, axis=_Z))
        m.add(Gear(f"sun_mesh{k + 1}", sun, planet, axis_i=_Z, ratio=-1.0))
        # The ring is the ground: 60 teeth around the origin.
        ring = {"axis_i": _Z, "ratio": 3.0, "point_i": (0.0, 0.0, 0.0)}
        m.add(Gear(f"ring_mesh{k + 1}", m.ground, planet, **ring))
    m.add(Torque("motor", sun, torque=(0.0, 0.0, 5.0)))
    return m


def gear_train(n: int = 8) -> Mechanism:
    """N gears in a row, alternately of 20 and 40 teeth, 15 mm of pitch circumference a tooth; a
    motor torque of 5 N·m turns the first.

    Args:
        n: Number of gears.
    """
    if n < 1:
        raise ValueError(f"gear_train needs at least one gear, not {n}")
    m = Mechanism(f"gear_train:{n}", gravity=(0.0, 0.0, 0.0))
    last, x = None, 0.0
    for k in range(n):
        teeth = 20 if k % 2 == 0 else 40
        radius = teeth * 15e-3 / (2.0 * np.pi)
        x += radius if last else 0.0
        gear = m.add_body(
            f"gear{k + 1}", shape=Cylinder(radius, 0.01, density=7800.0), r=(x, 0.0, 0.0)
        )
        m.add(Revolute(f"shaft{k + 1}", m.ground, gear, point=gear.r, axis=_Z))
        if last:
            m.add(Gear(f"mesh{k}", last, gear, axis_i=_Z, ratio=-(60 - teeth) / teeth))
        last, x = gear, x + radius
    m.add(Torque("motor", "gear1", torque=(0.0, 0.0, 5.0)))
    return m


def differential() -> Mechanism:
    """The differential of a car: the engine turns the case, bevel pinions share its torque evenly
    between two shafts, and one of them drags.
    """
    m = Mechanism("differential", gravity=(0.0, 0.0, 0.0))
    case = m.add_body("case", shape=Box((0.3, 0.05, 0.3), mass=8.0))
    sides = []
    for name, y in (("left", 0.1), ("right", -0.1)):
        side = m.add_body(name, shape=Cylinder(0.1, 0.02, mass=3.0, axis="y"), r=(0.0, y, 0.0))
        m.add(Revolute(f"{name}_bearing", m.ground, side, point=side.r, axis=_Y))
        sides.append(side)
    m.add(Revolute("case_bearing", m.ground, case, point=case.r, axis=_Y))
    pinion = m.add_body("pinion", shape=Cylinder(0.1, 0.02, mass=0.5, axis="x"), r=(0.1, 0.0, 0.0))
    m.add(Revolute("pinion_bearing", case, pinion, point=pinion.r, axis=_X))
    for side, ratio in zip(sides, (-1.0, 1.0), strict=True):
        m.add(Gear(f"{side.name}_mesh", side, pinion, axis_i=_Y, axis_j=_X, ratio=ratio))
    m.add(Torque("engine", case, torque=(0.0, 1.0, 0.0)))
    m.add(Torque("drag", sides[0], torque=(0.0, -0.2, 0.0)))
    return m


def cam_follower() -> Mechanism:
    """A disc cam whose center is off its shaft, driven at 20 rad/s, and a follower with a roller
    that a spring presses on it.
    """
    eccentricity, radius, roller = 0.02, 0.05, 0.01
    angles = 2.0 * np.pi * np.arange(48) / 48
    profile = np.stack(
        [
            eccentricity + radius * np.cos(angles),
            np.zeros(48),
            radius * np.sin(angles),
        ],
        axis=1,
    )
    height = np.sqrt((radius + roller) ** 2 - eccentricity**2)
    m = Mechanism("cam_follower")
    cam = m.add_body("cam", mass=1.2, inertia=(1e-3, 2e-3, 1e-3))
    follower = m.add_body(
        "follower", shape=Box((0.02, 0.02, 0.2), mass=0.5), r=(0.0, 0.0, height + 0.1)
    )
    m.add(Revolute("shaft", m.ground, cam, point=(0.0, 0.0, 0.0), axis=_Y))
    m.add(Translational("guide", m.ground, follower, point=follower.r, axis=_Z))
    m.add(RotationDriver("motor", m.ground, cam, axis=-_Y, angle="20*t"))
    tip = (0.0, 0.0, height)
    m.add(Cam("profile", cam, follower, curve=profile, axis=_Y, point=tip, radius=roller))
    m.add(
        SpringDamper(
            "spring",
            m.ground,
            follower,
            point_i=(0.0, 0.0, height + 0.4),
            point_j=(0.0, 0.0, height + 0.2),
            stiffness=2000.0,
            free_length=0.3,
        )
    )
    return m


def rolling_disc() -> Mechanism:
    """A thin disc that rolls on the ground, leaning, round and round: it never falls without
    friction, as a coin would.
    """
    radius, mass, lean = 0.3, 2.0, 0.3
    axis = np.array([0.0, np.cos(lean), -np.sin(lean)])
    up = np.array([0.0, np.sin(lean), np.cos(lean)])
    frame = np.stack([_X, axis, np.cross(_X, axis)], axis=1)
    omega = 8.0 * axis + 0.5 * _Z
    m = Mechanism("rolling_disc")
    disc = m.add_body(
        "disc",
        mass=mass,
        inertia=np.array([0.25, 0.5, 0.25]) * mass * radius**2,
        r=radius * up,
        A=frame,
        v=np.cross(omega, radius * up),
        omega=frame.T @ omega,
    )
    m.add(RollingDisc("contact", m.ground, disc, axis=axis, radius=radius))
    return m
