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


def five_bar():
    """Two cranks and two rods in a plane, which meet at the tip, with a motor on each crank."""
    m = mbd.Mechanism("five-bar", gravity=(0.0, 0.0, 0.0))
    tip = np.array([0.0, 1.0144])
    for side, sign in (("left", -1.0), ("right", 1.0)):
        base, knee = np.array([0.3 * sign, 0.0]), np.array([0.55 * sign, 0.433])
        for name, p, q, mass in (("crank", base, knee, 0.5), ("rod", knee, tip, 0.4)):
            length = float(np.linalg.norm(q - p))
            c, s = (q - p) / length
            m.add_body(
                f"{side} {name}",
                shape=mbd.Box((length, 0.03, 0.03), mass=mass),
                r=(0.5 * (p + q)[0], 0.0, 0.5 * (p + q)[1]),
                A=np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]),
            )
        p, q = ((x[0], 0.0, x[1]) for x in (base, knee))
        crank, rod = f"{side} crank", f"{side} rod"
        m.add(mbd.Revolute(side, m.ground, crank, point=p, axis=(0, -1, 0)))
        m.add(mbd.Revolute(f"{side} knee", crank, rod, point=q, axis=(0, -1, 0)))
        m.add(mbd.Actuator(f"{side} motor", side, control=mbd.Input(f"{side} torque", unit="N·m")))
    point = (tip[0], 0.0, tip[1])
    m.add(mbd.Revolute("wrist", "left rod", "right rod", point=point, axis=(0, -1, 0)))
    m.add(mbd.Frame("tip", "left rod", point=point))
    return m


def delta():
    """A Delta robot: three arms on hinges and six thin rods, which hold a platform so that it only
    translates. The rods count as links; half of their mass is with the arms and half with the
    platform.
    """
    m = mbd.Mechanism("delta")
    base, arm, rod, reach = 0.2, 0.3, 0.8, 0.06  # radii and lengths [m]
    lean = np.radians(30.0)  # of the arms below the horizontal
    knee = base + arm * np.cos(lean)
    height = -arm * np.sin(lean) - np.sqrt(rod**2 - (knee - reach) ** 2)
    m.add_body("platform", mass=0.5, inertia=(1e-3, 1e-3, 2e-3), r=(0.0, 0.0, height))
    for k, turn in enumerate(np.radians([0.0, 120.0, 240.0])):
        out = np.array([np.cos(turn), np.sin(turn), 0.0])
        side = np.array([-np.sin(turn), np.cos(turn), 0.0])
        down = np.array([0.0, 0.0, -1.0])
        along = np.cos(lean) * out + np.sin(lean) * down
        body = m.add_body(
            f"arm {k}",
            shape=mbd.Box((arm, 0.03, 0.03), mass=0.5),
            r=base * out + 0.5 * arm * along,
            A=np.stack([along, side, np.cross(along, side)], axis=1),
        )
        m.add(mbd.Revolute(f"hip {k}", m.ground, body, point=base * out, axis=side))
        m.add(mbd.Actuator(f"motor {k}", f"hip {k}", control=mbd.Input(f"torque {k}", unit="N·m")))
        for n, sign in enumerate((-0.05, 0.05)):
            top = base * out + arm * along + sign * side
            end = reach * out + sign * side + np.array([0.0, 0.0, height])
            m.add(mbd.Distance(f"rod {k}{n}", body, "platform", point_i=top, point_j=end))
    return m
