"""The mechanisms, data and first guesses of this experiment."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

# (a) slider crank

SLIDER_TRUTH = {
    "bodies.rod.mass": 0.5,
    "bodies.slider.mass": 2.0,
    "bodies.rod.inertia": np.diag([4e-3, 4e-4, 4e-3]),
    "forces.spring.stiffness": 60.0,
    "forces.spring.damping": 4.0,
}
SLIDER_FREE = {
    "bodies.rod.mass": mbd.Positive(),
    "bodies.slider.mass": mbd.Positive(),
    "bodies.rod.inertia": mbd.PhysicalInertia(),
    "forces.spring.stiffness": mbd.Positive(),
    "forces.spring.damping": mbd.Positive(),
}
# Numbers that the slider's motion determines once the rod's inertia is known.
SLIDER_DETERMINED = (
    "bodies.rod.mass",
    "bodies.slider.mass",
    "forces.spring.stiffness",
    "forces.spring.damping",
)


def _motor(t):
    return 0.15 * jnp.stack([jnp.sin(5.0 * t) + 0.5 * jnp.sin(13.0 * t), 0.0 * t, 0.0 * t])


def slider_crank(scale=None):
    """The slider crank without its driver, with a spring-damper on the slider and a known torque on
    the crank.
    """
    m = mbd.load_mechanism("slider_crank_free")
    # From rest and balanced, so that the crank swings: a turning crank makes the motion sensitive
    # beyond use.
    at_rest = {f"bodies.{b}.{what}": np.zeros(3) for b in m.bodies for what in ("v", "omega")}
    m = m.with_values(at_rest | {"gravity": (0.0, 0.0, 0.0)})
    ends = {"point_i": (0.6, 0, 0), "point_j": (0.2, 0, 0), "free_length": 0.38}
    spring = {
        "stiffness": SLIDER_TRUTH["forces.spring.stiffness"],
        "damping": SLIDER_TRUTH["forces.spring.damping"],
    }
    m.add(mbd.SpringDamper("spring", "ground", "slider", **ends, **spring))
    m.add(mbd.Torque("motor", "crank", torque=_motor, frame="body"))
    if scale is None:
        return m
    return m.with_values({path: value * scale[path] for path, value in SLIDER_TRUTH.items()})


# (b) four-bar

FOUR_BAR_FREE = {
    f"joints.{name}.point": mbd.Free()
    for name in ("pin_crank_coupler", "pin_coupler_rocker", "pin_rocker")
}


def four_bar(changes=None):
    """The four-bar with a driven crank."""
    m = mbd.load_mechanism("four_bar")
    m.add(mbd.RotationDriver("motor", "ground", "crank", axis=(0, 1, 0), angle=lambda t: t))
    return m if changes is None else m.with_values(changes)


# (c) chain with friction


class Friction(eqx.Module):
    """Torques in the joints of a chain as one function of the relative rate about y.

    Attributes:
        law: From a rate [rad/s] to a torque [N·m].
    """

    law: eqx.Module

    def __call__(self, pose, twist, t):
        rate = twist.omega[:, 1]
        before = jnp.concatenate([jnp.zeros(1, rate.dtype), rate[:-1]])
        torque = -jax.vmap(self.law)(rate - before)
        after = jnp.concatenate([torque[1:], jnp.zeros(1, rate.dtype)])
        about_y = torque - after  # on a body: its own joint's torque, less the next joint's
        zero = jnp.zeros_like(twist.omega)
        return zero, zero.at[:, 1].set(about_y)


class TrueLaw(eqx.Module):
    """Viscous friction and a smooth Coulomb part with a Stribeck peak."""

    viscous: float = 0.05
    coulomb: float = 0.25

    def __call__(self, rate):
        return self.viscous * rate + self.coulomb * jnp.tanh(4.0 * rate) * (
            1.0 + 0.5 * jnp.exp(-(rate**2))
        )


class NeuralLaw(eqx.Module):
    """An odd function of the rate: a small network."""

    net: eqx.nn.MLP

    def __init__(self, key):
        self.net = eqx.nn.MLP(
            "scalar", "scalar", 8, 2, activation=jnp.tanh, key=key, dtype=jnp.float64
        )

    def __call__(self, rate):
        return 0.5 * (self.net(rate) - self.net(-rate))


CHAIN_START = (1.4, 0.6, 1.0)  # angles of the bars to the vertical [rad]


def chain(law):
    """Hinged bars released from the side; all joints have the same friction."""
    m = mbd.Mechanism("chain")
    last, r = m.ground, np.zeros(3)
    for k, angle in enumerate(CHAIN_START):
        along = np.array([np.sin(angle), 0.0, -np.cos(angle)])
        A = np.array(
            [[np.cos(angle), 0.0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]]
        )
        shape = mbd.Box((0.04, 0.04, 0.5), density=1250.0)
        bar = m.add_body(f"bar{k + 1}", shape=shape, r=r + 0.25 * along, A=A)
        m.add(mbd.Revolute(f"hinge{k + 1}", last, bar, point=r, axis=(0, 1, 0)))
        last, r = bar, r + 0.5 * along
    m.add(mbd.UserForce("friction", list(m.bodies), Friction(law)))
    return m
