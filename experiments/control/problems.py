"""The mechanisms that are controlled here."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

HALF = 0.5  # [m] of the pole


class Samples(eqx.Module):
    """A control given at equal times and interpolated between them.

    Attributes:
        values: (n,), at t = 0 ... duration.
    """

    values: jax.Array
    duration: float = eqx.field(static=True)

    def __call__(self, t):
        return jnp.interp(t, jnp.linspace(0.0, self.duration, self.values.size), self.values)


def cart_pole(control=None, angle=0.0, policy=None):
    """A cart on a rail with a pole on a hinge; the pole hangs at angle 0 and stands at π. A force
    pushes the cart.
    """
    m = mbd.Mechanism("cart-pole")
    along = np.array([np.sin(angle), 0.0, -np.cos(angle)])
    A = np.array(
        [[np.cos(angle), 0.0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]]
    )
    cart = m.add_body("cart", shape=mbd.Box((0.3, 0.15, 0.1), mass=1.0))
    pole = m.add_body("pole", shape=mbd.Box((0.02, 0.02, 2 * HALF), mass=0.2), r=HALF * along, A=A)
    m.add(mbd.Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Revolute("hinge", cart, pole, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.ViscousFriction("bearing", "hinge", rotational=0.005))
    if control is not None:
        m.add(mbd.Actuator("push", "rail", control=control))
    if policy is not None:
        m.add(mbd.UserForce("policy", [cart, pole], policy))
    return m


def start(m, position, angle):
    """System and state of the cart-pole of `m`, displaced; both numbers may be traced."""
    system, state = m.build()
    c, s, zero, one = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    A = jnp.stack([jnp.stack([c, zero, -s]), jnp.stack([zero, one, zero]), jnp.stack([s, zero, c])])
    r = jnp.stack(
        [jnp.stack([position, zero, zero]), jnp.stack([position + HALF * s, zero, -HALF * c])]
    )
    return system, mbd.State(r, state.A.at[1].set(A), state.v, state.omega)


class Policy(eqx.Module):
    """A neural feedback: the force on the cart from position, pole angle and rates.

    Attributes:
        net: From (x, sin, cos of the angle from upright, rates) to a number.
        limit: Largest force [N].
    """

    net: eqx.nn.MLP
    limit: float = eqx.field(static=True, default=20.0)

    def __init__(self, key, limit=20.0):
        self.net = eqx.nn.MLP(5, "scalar", 16, 2, activation=jnp.tanh, key=key, dtype=jnp.float64)
        self.limit = limit

    def force(self, pose, twist):
        axis = pose.A[1, :, 2]  # of the pole, from its tip to the hinge when it stands
        seen = jnp.stack(
            [pose.r[0, 0], axis[0], 1.0 + axis[2], twist.v[0, 0], 0.3 * twist.omega[1, 1]]
        )
        return self.limit * jnp.tanh(self.net(seen))

    def __call__(self, pose, twist, t):
        zero = jnp.zeros((2, 3), pose.r.dtype)
        return zero.at[0, 0].set(self.force(pose, twist)), zero


def four_bar(angle):
    """The packaged four-bar with its crank driven by a motion [rad]."""
    m = mbd.load_mechanism("four_bar")
    m.add(mbd.RotationDriver("motor", "ground", "crank", axis=(0, 1, 0), angle=angle))
    return m


def four_bar_motor(torque):
    """The same with a torque on the crank; gravity off, as if balanced, and some friction in the
    crank's bearing.
    """
    m = mbd.load_mechanism("four_bar").with_values({"gravity": (0.0, 0.0, 0.0)})
    m.add(mbd.Actuator("motor", "pin_crank", control=torque))
    m.add(mbd.ViscousFriction("bearing", "pin_crank", rotational=20.0))
    return m


def parallelogram(feedback=None, tilt=0.0):
    """A cart that carries a parallelogram of two poles and a bar: a closed loop of four hinges,
    unstable upright.
    """
    m = mbd.Mechanism("cart-parallelogram")
    c, s = np.cos(tilt), np.sin(tilt)
    along, A = np.array([s, 0.0, c]), np.array([[c, 0.0, s], [0, 1, 0], [-s, 0, c]])
    cart = m.add_body("cart", shape=mbd.Box((0.6, 0.2, 0.1), mass=2.0))
    m.add(mbd.Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))
    poles = []
    for name, x in (("left", -0.2), ("right", 0.2)):
        foot = np.array([x, 0.0, 0.0])
        pole = m.add_body(
            name, shape=mbd.Box((0.03, 0.03, 0.8), density=500.0), r=foot + 0.4 * along, A=A
        )
        m.add(mbd.Revolute(f"foot {name}", cart, pole, point=foot, axis=(0, 1, 0)))
        poles.append((pole, foot + 0.8 * along))
    bar = m.add_body("bar", shape=mbd.Box((0.5, 0.05, 0.05), density=1000.0), r=0.8 * along)
    for pole, tip in poles:
        m.add(mbd.Revolute(f"tip {pole.name}", pole, bar, point=tip, axis=(0, 1, 0)))
    m.add(mbd.Actuator("push", "rail"))
    if feedback is not None:
        m.add(mbd.UserForce("feedback", list(m.bodies), feedback))
    return m
