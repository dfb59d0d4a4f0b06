"""Mechanisms with inputs, of which plans are made."""

import numpy as np

import jaxmbd as mbd


def sliding_block(**input_options):
    """A block of 1 kg on a rail, which a force pushes."""
    m = mbd.Mechanism("slide", gravity=(0.0, 0.0, 0.0))
    block = m.add_body("block", shape=mbd.Box((0.2, 0.05, 0.05), mass=1.0))
    m.add(mbd.Translational("rail", m.ground, block, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("drive", "rail", control=mbd.Input("f", **input_options)))
    return m.build()


def cross_table():
    """A table that two sliders carry, one along x and one along y: a closed loop of sliding joints,
    whose motion is linear.
    """
    m = mbd.Mechanism("table", gravity=(0.0, 0.0, 0.0))
    one = m.add_body("along x", shape=mbd.Box((0.2, 0.05, 0.05), mass=2.0))
    other = m.add_body("along y", shape=mbd.Box((0.05, 0.2, 0.05), mass=1.0))
    table = m.add_body("table", shape=mbd.Box((0.1, 0.1, 0.02), mass=1.5))
    m.add(mbd.Translational("x", m.ground, one, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Translational("y", m.ground, other, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Translational("y of table", one, table, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Translational("x of table", other, table, point=(0, 0, 0), axis=(1, 0, 0)))
    for axis in "xy":
        m.add(mbd.Actuator(f"drive {axis}", axis, control=mbd.Input(f"f{axis}")))
    return m.build()


LENGTH, MASS, GRAVITY = 0.6, 1.5, 9.81


def pendulum():
    """A rod of a length and a mass on a hinge, hanging, with a motor."""
    m = mbd.Mechanism("pendulum", gravity=(0.0, 0.0, -GRAVITY))
    inertia = MASS * LENGTH**2 / 12.0
    rod = m.add_body("rod", mass=MASS, inertia=(inertia,) * 3, r=(0.0, 0.0, -0.5 * LENGTH))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, -1, 0)))
    m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque", unit="N·m")))
    return m.build()


def five_bar():
    """Two cranks and two rods in a plane, a motor on each crank."""
    m = mbd.Mechanism("five-bar", gravity=(0.0, 0.0, 0.0))
    tip = np.array([0.0, 1.0144])
    for side, sign in (("left", -1.0), ("right", 1.0)):
        base, knee = np.array([0.3 * sign, 0.0]), np.array([0.55 * sign, 0.433])
        for name, p, q, mass in (("crank", base, knee, 0.5), ("rod", knee, tip, 0.4)):
            along = (q - p) / np.linalg.norm(q - p)
            m.add_body(
                f"{side} {name}",
                shape=mbd.Box((float(np.linalg.norm(q - p)), 0.03, 0.03), mass=mass),
                r=np.array([0.5 * (p + q)[0], 0.0, 0.5 * (p + q)[1]]),
                A=np.array([[along[0], 0, -along[1]], [0, 1, 0], [along[1], 0, along[0]]]),
            )
        p, q = ((x[0], 0.0, x[1]) for x in (base, knee))
        m.add(mbd.Revolute(side, m.ground, f"{side} crank", point=p, axis=(0, -1, 0)))
        m.add(
            mbd.Revolute(f"{side} knee", f"{side} crank", f"{side} rod", point=q, axis=(0, -1, 0))
        )
        m.add(mbd.Actuator(f"{side} motor", side, control=mbd.Input(f"{side} torque", unit="N·m")))
    point = (tip[0], 0.0, tip[1])
    m.add(mbd.Revolute("wrist", "left rod", "right rod", point=point, axis=(0, -1, 0)))
    return m.build()


def parallelogram():
    """A coupler on two equal cranks, which are balanced: the motion of a point of 1 kg on a rod of
    1 m, in gravity along -y, from where the rod lies along x; the cranks carry a fifth of its
    inertia.
    """
    ends = np.array([[0.0, 0.0, 0.0], 0.5 * np.array([np.cos(0.3), np.sin(0.3), 0.0])])
    inertia, z = (0.1, 0.1, 0.1), (0.0, 0.0, 1.0)
    m = mbd.Mechanism("parallelogram", gravity=(0.0, -GRAVITY / 0.8, 0.0))
    tip = np.array([1.0, 0.0, 0.0])
    coupler = m.add_body("coupler", mass=0.8, inertia=inertia, r=tip + 0.5 * ends[1])
    for name, end in zip(("left", "right"), ends, strict=True):
        crank = m.add_body(f"{name} crank", mass=0.3, inertia=inertia, r=end)
        m.add(mbd.Revolute(name, m.ground, crank, point=end, axis=z))
        m.add(mbd.Revolute(f"{name} knee", crank, coupler, point=end + tip, axis=z))
    m.add(mbd.Actuator("motor", "left", control=mbd.Input("torque", unit="N·m")))
    return m.build()
