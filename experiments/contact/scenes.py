"""The scenes, and their closed forms."""

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import jaxmbd as mbd

G = 9.81

TOSS = {
    "mass": 1.0,
    "height": 0.5,
    "v_x": 1.5,
    "v_z": 1.0,
    "friction": 0.05,
    "restitution": 0.7,
}


def ball(*, height=1.0, restitution=0.8, friction=0.0, v=(0.0, 0.0, 0.0), omega=(0.0, 0.0, 0.0)):
    """A ball of 1 kg and 0.1 m above a floor."""
    m = mbd.Mechanism("ball")
    b = m.add_body(
        "ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, height + 0.1), v=v, omega=omega
    )
    m.add(mbd.Contact("floor", b, m.ground, friction=friction, restitution=restitution))
    return m.build()


def bouncing_height(t, restitution, height=1.0):
    """Height of a point that is dropped [m]."""
    fall, speed = np.sqrt(2.0 * height / G), np.sqrt(2.0 * G * height)
    if t < fall:
        return height - 0.5 * G * t**2
    t -= fall
    while True:
        speed *= restitution
        flight = 2.0 * speed / G
        if t < flight:
            return speed * t - 0.5 * G * t**2
        t -= flight


def incline(friction, slope=0.3093):
    """A box on a slope; gravity is turned instead of the floor."""
    angle = np.arctan(slope)
    m = mbd.Mechanism("incline", gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    b = m.add_body("box", shape=mbd.Box((0.2, 0.2, 0.1), mass=1.0), r=(0, 0, 0.05))
    m.add(mbd.Contact("floor", b, m.ground, friction=friction))
    return m.build()


def cube():
    """A cube that slides at 6 m/s."""
    m = mbd.Mechanism("cube")
    b = m.add_body("cube", shape=mbd.Box((0.2, 0.2, 0.2), mass=1.0), r=(0, 0, 0.1), v=(6.0, 0, 0))
    m.add(mbd.Contact("floor", b, m.ground, friction=0.5))
    return m.build()


def stack(boxes=5):
    """Boxes on each other, four corners each: hyperstatic."""
    m = mbd.Mechanism("stack")
    below = m.ground
    for k in range(boxes):
        shape = mbd.Box((0.2, 0.2, 0.1), mass=2.0 + k)
        b = m.add_body(f"box{k}", shape=shape, r=(0, 0, 0.05 + 0.1 * k))
        on = {"point": (0, 0, 0.1 * k), "normal": (0, 0, 1)}
        m.add(mbd.Contact(f"on{k}", b, below, friction=0.5, **on))
        below = b
    return m.build()


def thrown_box(restitution):
    """A box with eight corners above a floor; states come from the caller."""
    m = mbd.Mechanism("thrown_box")
    b = m.add_body("box", shape=mbd.Box((0.2, 0.3, 0.4), mass=2.0), r=(0, 0, 1.0))
    m.add(mbd.Contact("floor", b, m.ground, friction=0.5, restitution=restitution))
    return m.build()


def pendulum(law):
    """A rod of 1 kg, 0.5 m from its pin to its mass center; `law` names the pin."""
    m = mbd.Mechanism("pendulum")
    b = m.add_body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, b, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(law)
    return m.build()


def pendulum_rest(bound):
    """Where that pendulum sticks with a constant bound [rad]: from turn to turn, energy and work of
    friction add up.
    """
    angle, sign = 0.0, 1
    while 0.5 * G * abs(np.cos(angle)) > bound:

        def left(x, at=angle, sign=sign):  # kinetic energy
            return 0.5 * G * (np.sin(x) - np.sin(at)) - sign * bound * (x - at)

        ahead = angle + sign * np.linspace(1e-3, 3.0, 3000)
        first = np.flatnonzero([left(x) < 0.0 for x in ahead])[0]
        angle, sign = brentq(left, ahead[first - 1], ahead[first], xtol=1e-14), -sign
    return angle


def dry_oscillator():
    """Mass, stiffness and friction of one, from 12 m with 6 m/s."""
    m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(12.0, 0, 0), v=(6.0, 0, 0))
    m.add(mbd.Translational("slide", m.ground, b, point=(0, 0, 0), axis=(1, 0, 0)))
    spring = {"point_i": (-100.0, 0, 0), "point_j": (12.0, 0, 0), "free_length": 100.0}
    m.add(mbd.SpringDamper("spring", m.ground, b, stiffness=1.0, **spring))
    m.add(mbd.CoulombFriction("dry", "slide", bound=1.0))
    return m.build()


def oscillator_rest():
    """Where it sticks: every turning point is nearer by two [m]."""
    return 14.0 - (np.hypot(13.0, 6.0) - 1.0)


def toss(numbers):
    """A ball with spin that is thrown; numbers may be traced."""
    zero = jnp.zeros(())
    m = mbd.Mechanism("toss")
    b = m.add_body(
        "ball",
        shape=mbd.Sphere(0.1, mass=numbers["mass"]),
        r=jnp.stack([zero, zero, numbers["height"] + 0.1]),
        v=jnp.stack([numbers["v_x"], zero, numbers["v_z"]]),
        omega=(0.0, 3.0, 0.0),
    )
    floor = {"friction": numbers["friction"], "restitution": numbers["restitution"]}
    m.add(mbd.Contact("floor", b, m.ground, **floor))
    return m.build()


def tossed_in_closed_form(x, seconds=1.5):
    """Where the tossed ball is, (x, z) [m]: flights, and impacts that slip or roll."""
    r, v, w = np.array([0.0, x["height"]]), np.array([x["v_x"], x["v_z"]]), 3.0
    left = seconds
    while True:
        flight = (v[1] + np.sqrt(v[1] ** 2 + 2.0 * G * r[1])) / G
        if flight > left:
            return np.array([r[0] + v[0] * left, r[1] + v[1] * left - 0.5 * G * left**2])
        left -= flight
        r = np.array([r[0] + v[0] * flight, 0.0])
        down = v[1] - G * flight
        push = -(1.0 + x["restitution"]) * down  # per mass
        slip = v[0] - 0.1 * w
        tangential = -np.sign(slip) * min(x["friction"] * push, abs(slip) / 3.5)
        v = np.array([v[0] + tangential, -x["restitution"] * down])
        w = w - tangential * 0.1 / (0.4 * 0.01)


def two_balls(r, v):
    """Two equal balls on a line without gravity, perfectly elastic."""
    zero = jnp.zeros(())
    m = mbd.Mechanism("two_balls", gravity=(0, 0, 0))
    balls = [
        m.add_body(
            f"ball{k}",
            shape=mbd.Sphere(0.1, mass=1.0),
            r=jnp.stack([r[k], zero, zero]),
            v=jnp.stack([v[k], zero, zero]),
        )
        for k in range(2)
    ]
    m.add(mbd.Contact("hit", *balls, restitution=1.0))
    return m.build()
