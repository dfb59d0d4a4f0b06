"""A cart that balances a parallelogram: the task, its policy and its cost, for every simulator.

Coordinates are q = (x, φ): position of the cart [m] and tilt of the poles from upright [rad].
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

from ..control import minimal, problems

LIMIT = 40.0  # largest force [N]
HALF, LENGTH = 0.4, 0.8  # of a pole [m]


class Start(NamedTuple):
    """Where a run begins, and how much of it counts.

    Attributes:
        q: (x, φ).
        v: Their rates.
        until: Share of the run whose cost counts.
    """

    q: jax.Array
    v: jax.Array
    until: jax.Array | float = 1.0


class Policy(eqx.Module):
    """A network from (x, ẋ, sin φ, 1 - cos φ, φ̇) to the force on the cart [N]."""

    net: eqx.nn.MLP

    def __init__(self, key):
        self.net = eqx.nn.MLP(5, "scalar", 16, 2, activation=jnp.tanh, key=key, dtype=jnp.float64)

    def __call__(self, q, v):
        seen = jnp.stack([q[0], v[0], jnp.sin(q[1]), 1.0 - jnp.cos(q[1]), 0.3 * v[1]])
        return LIMIT * jnp.tanh(self.net(seen))


class Either(eqx.Module):
    """A network, or linear feedback with the same limit: one type, so that programs compile once.

    Attributes:
        net: The network.
        gain: Of (x, φ, ẋ, φ̇), (4,).
        share: Of the linear feedback, 0 or 1.
    """

    net: Policy
    gain: jax.Array
    share: jax.Array

    def __call__(self, q, v):
        straight = jnp.clip(-self.gain @ jnp.concatenate([q, v]), -LIMIT, LIMIT)
        return self.share * straight + (1.0 - self.share) * self.net(q, v)


def from_net(policy: Policy) -> Either:
    """A network as `Either`."""
    return Either(policy, jnp.zeros(4), jnp.asarray(0.0))


def from_gain(gain) -> Either:
    """Linear feedback as `Either`."""
    return Either(Policy(jax.random.key(0)), jnp.asarray(gain), jnp.asarray(1.0))


def draw(key, share) -> Start:
    """A start at random, up to 0.5 m, 0.6 rad, 0.5 m/s and 0.5 rad/s once two thirds of a training
    are done: small displacements and a short future come first.
    """
    size = jnp.minimum(1.0, 0.2 + 1.2 * share)
    x = size * jax.random.uniform(key, (4,), minval=-1.0, maxval=1.0, dtype=jnp.float64)
    q, v = x[:2] * jnp.array([0.5, 0.6]), x[2:] * jnp.array([0.5, 0.5])
    return Start(q, v, jnp.minimum(1.0, 0.3 + 1.05 * share))


def cost(q, v, force, until):
    """Mean over the first rows of a run of what it should keep small, (T, 2), (T, 2) and (T,).

    Args:
        q: Coordinates.
        v: Their rates.
        force: On the cart [N].
        until: Share of the rows that count.
    """
    now = 1.0 - jnp.cos(q[:, 1]) + 0.1 * q[:, 0] ** 2
    now = now + 0.01 * v[:, 0] ** 2 + 0.005 * v[:, 1] ** 2 + 1e-5 * force**2
    counts = (jnp.arange(now.size, dtype=now.dtype) <= until * (now.size - 1)).astype(now.dtype)
    return counts @ now / jnp.sum(counts)


def unwrapped(axis):
    """Tilt over the rows of a run from the poles' axes, (T, 3), over any number of turns."""
    angle = jnp.arctan2(axis[:, 0], axis[:, 2])
    step = jnp.diff(angle)
    step = step - 2.0 * jnp.pi * jax.lax.stop_gradient(jnp.round(step / (2.0 * jnp.pi)))
    return jnp.concatenate([angle[:1], angle[0] + jnp.cumsum(step)])


def built(force, start: Start):
    """System and state of the mechanism under `force(q, v)`, from a start that may be traced."""

    def feedback(pose, twist, t):
        q = jnp.stack([pose.r[0, 0], jnp.arctan2(pose.A[1, 0, 2], pose.A[1, 2, 2])])
        v = jnp.stack([twist.v[0, 0], twist.omega[1, 1]])
        zero = jnp.zeros((2, 3), pose.r.dtype)
        return zero.at[0, 0].set(force(q, v)), zero

    m = problems.parallelogram()
    m.add(mbd.UserForce("feedback", ["cart", "left"], feedback))  # what it sees, and no more
    system, _ = m.build()
    (x, phi), (v, rate) = start.q, start.v
    s, c, zero, one = jnp.sin(phi), jnp.cos(phi), jnp.zeros_like(phi), jnp.ones_like(phi)
    along, across = jnp.stack([s, zero, c]), rate * jnp.stack([c, zero, -s])
    A = jnp.stack([jnp.stack([c, zero, s]), jnp.stack([zero, one, zero]), jnp.stack([-s, zero, c])])
    reach, feet = np.array([0.0, HALF, HALF, LENGTH]), np.array([0.0, -0.2, 0.2, 0.0])
    moving = jnp.stack([one, zero, zero])
    turns = np.array([0.0, 1.0, 1.0, 0.0])
    r = jnp.outer(x + feet, moving) + jnp.outer(reach, along)
    v = jnp.outer(jnp.ones(4), v * moving) + jnp.outer(reach, across)
    spin = jnp.outer(turns, jnp.stack([zero, rate, zero]))
    A = jnp.where(turns[:, None, None] > 0.0, A[None], jnp.eye(3)[None])
    return system, mbd.State(r, A, v, spin)


def coordinates(sol):
    """Coordinates and rates over the rows of a run, (T, 2) each."""
    q = jnp.stack([sol.r[:, 0, 0], unwrapped(sol.A[:, 1, :, 2])], axis=1)
    return q, jnp.stack([sol.v[:, 0, 0], sol.omega[:, 1, 1]], axis=1)


def exact_loss(policy, start: Start, *, h: float, steps: int, formulation=None):
    """Cost of one run by this package, and how the run ended."""
    method = mbd.GeneralizedAlpha(rho_inf=0.8)
    how = {"integrator": method, "formulation": formulation, "throw": False}
    sol = mbd.simulate(*built(policy, start), h=h, steps=steps, **how)
    q, v = coordinates(sol)
    return cost(q, v, jax.vmap(policy)(q, v), start.until), sol.result


def runge_kutta(accelerations, q, v, *, h: float, steps: int):
    """Coordinates and rates, (steps + 1, n) each, by the classical method, from q̈(t, q, v)."""

    def step(now, t):
        def rate(t, y):
            return jnp.stack([y[1], accelerations(t, y[0], y[1])])

        k1 = rate(t, now)
        k2 = rate(t + 0.5 * h, now + 0.5 * h * k1)
        k3 = rate(t + 0.5 * h, now + 0.5 * h * k2)
        k4 = rate(t + h, now + h * k3)
        after = now + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return after, after

    first = jnp.stack([q, v])
    _, rows = jax.lax.scan(step, first, h * jnp.arange(steps, dtype=q.dtype))
    rows = jnp.concatenate([first[None], rows])
    return rows[:, 0], rows[:, 1]


def followed(policy, start: Start, *, h: float, steps: int):
    """Coordinates and rates, (steps + 1, 2) each, in minimal coordinates.

    The reference: it shares nothing with the simulators in which policies are trained.
    """
    equations = minimal.Parallelogram(lambda t, q, v: policy(q, v))
    return runge_kutta(equations.accelerations, start.q, start.v, h=h, steps=steps)


def reference_cost(policy, start: Start, *, h: float, steps: int):
    """Cost of one run by `followed`."""
    q, v = followed(policy, start, h=h, steps=steps)
    return cost(q, v, jax.vmap(policy)(q, v), start.until)
