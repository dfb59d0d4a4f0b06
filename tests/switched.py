"""Mechanisms with joints that switch and forces that bend, and their closed forms."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

G = 9.81

# --- two discs on one axis, and a clutch ---


def discs(p):
    """Two discs of inertias and rates on one axis."""
    m = mbd.Mechanism("discs", gravity=(0, 0, 0))
    for k, name in enumerate("ab"):
        rate, inertia = jnp.zeros(3).at[2].set(p[2 + k]), jnp.full(3, 0.3).at[2].set(p[k])
        m.add_body(name, mass=1.0, inertia=inertia, r=(0, 0, k), omega=rate)
        m.add(mbd.Revolute(f"pin {name}", m.ground, name, point=(0, 0, k), axis=(0, 0, 1)))
    m.add(mbd.Coupler("clutch", "pin a", "pin b", active=False))
    return m.build()


DISCS = np.array([0.3, 0.5, 1.0, 4.0])
ANGLE = 1.01
MEET = mbd.Event("meet", f"pin b.angle > {ANGLE}", action=mbd.Activate("clutch", here=True))


def locked_exactly(p):
    rate = (p[0] * p[2] + p[1] * p[3]) / (p[0] + p[1])
    return jnp.stack([rate, p[2] * ANGLE / p[3] + rate * (1.0 - ANGLE / p[3])])


# --- a door with a closer and a latch ---

STIFFNESS, DAMPING, FREE, WIDTH, LEAF = 20.0, 3.0, -0.5, 0.9, 25.0


def door():
    m = mbd.Mechanism("door", gravity=(0, 0, 0))
    leaf = mbd.Box((WIDTH, 0.04, 2.0), mass=LEAF)
    m.add_body("leaf", shape=leaf, r=(0.5 * WIDTH, 0, 0))
    m.add(mbd.Revolute("hinge", m.ground, "leaf", point=(0, 0, 0), axis=(0, 0, 1)))
    closer = {"stiffness": STIFFNESS, "damping": DAMPING, "free_angle": FREE}
    m.add(mbd.TorsionalSpringDamper("closer", m.ground, "leaf", axis=(0, 0, 1), **closer))
    m.add(mbd.Lock("latch", "hinge", active=False))
    return m


# --- a ball on a vertical guide ---

BALL = np.array([0.8, 1.0, G])  # restitution, height, gravity


def drop(p, *, stop):
    """A ball on a vertical guide, with a floor that events make, or with a stop."""
    m = mbd.Mechanism("drop", gravity=jnp.zeros(3).at[2].set(-p[2]))
    m.add_body("ball", mass=2.0, inertia=(0.1, 0.1, 0.1), r=(0, 0, 0))
    m.add(mbd.Translational("guide", m.ground, "ball", point=(0, 0, 0), axis=(0, 0, 1)))
    if stop:
        m.add(mbd.JointLimit("floor", "guide", lower=0.0, restitution=p[0]))
    else:
        m.add(mbd.Lock("floor", "guide", active=False))
    system, state = m.build()
    return system, dataclasses.replace(state, r=state.r.at[0, 2].set(p[1]))


def hit(p, **options):
    bounce = mbd.Bounce("floor", restitution=p[0])
    return mbd.Event("hit", "guide.displacement < 0", action=bounce, **options)


def bounced_exactly(p):
    t = jnp.sqrt(2.0 * p[1] / p[2])
    v, times = p[0] * p[2] * t, []
    for _ in range(3):
        times.append(t)
        t, v = t + 2.0 * v / p[2], p[0] * v
    dt, v = 2.0 - times[-1], v / p[0]
    return jnp.stack([*times, v * dt - 0.5 * p[2] * dt**2, v - p[2] * dt])


# --- a ball that falls onto a spring ---

LOAD, BUMPER, FALL = 2.0, 800.0, 0.5


def on_bumper(stiffness=BUMPER):
    """A ball that falls FALL onto a spring which only pushes."""
    m = mbd.Mechanism("bumper", gravity=(0.0, 0.0, -G))
    m.add_body("ball", mass=LOAD, inertia=(0.1,) * 3, r=(0.0, 0.0, FALL))
    ends = {"point_i": (0.0, 0.0, -1.0), "point_j": (0.0, 0.0, FALL)}
    spring = {"stiffness": stiffness, "free_length": 1.0, "only": "compression"}
    m.add(mbd.SpringDamper("bumper", m.ground, "ball", **ends, **spring))
    return m.build()


def pieces(stiffness):
    """When the ball touches the spring, how long it stays, and its depth after a time there."""
    omega = (stiffness / LOAD) ** 0.5
    fall = (2.0 * FALL / G) ** 0.5
    sag, swing = G / omega**2, G * fall / omega
    # depth = sag (1 - cos) + swing sin, zero again where tan(x / 2) = -swing / sag
    stay = 2.0 * (np.pi - jnp.arctan2(swing, sag)) / omega

    def depth(x):
        return sag * (1.0 - jnp.cos(omega * x)) + swing * jnp.sin(omega * x)

    return fall, stay, depth


def height(t, stiffness=BUMPER):
    """Of the ball over its spring; it bounces without loss."""
    fall, stay, depth = pieces(stiffness)
    x = t % (2.0 * fall + stay)
    up = x - fall - stay
    flies = G * fall * up - 0.5 * G * up**2
    on_spring = jnp.where(x < fall + stay, -depth(x - fall), flies)
    return jnp.where(x < fall, FALL - 0.5 * G * x**2, on_spring)
