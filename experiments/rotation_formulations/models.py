"""The mechanisms of this experiment: the paper's own rows, data of a spatial chain, and a body that
passes a singularity.

The packaged mechanisms drive with a direction that turns (`RotationDriver`), which has no singular
point. The paper's codes drive with a plain DP1, f = cos, and swap it near its singular points. The
motion is the same, but the rows are not, and neither is the number of iterations: the paper's
counts belong to its own rows.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.formulations.reps import REps

# The codes swap the two drivers when the active one has |f| within 0.1 of 1, that is arccos(0.9)
# before its singular point; the other one then serves for the quarter turn that follows.
_EARLY = float(np.arccos(0.9))


def _main_is_active(rate, t):
    return jnp.mod(jnp.abs(rate) * t + _EARLY, jnp.pi) < 0.5 * jnp.pi


class SwappedDirection(eqx.Module):
    """The ground direction of the active driver of a crank that turns at a constant rate: `main` or
    `alternate`.
    """

    main: Any
    alternate: Any
    rate: float

    def __call__(self, t):
        return jnp.where(_main_is_active(self.rate, t), self.main, self.alternate)


class SwappedCosine(eqx.Module):
    """f of the active driver: cos(rate t + π/2), or cos(rate t) for the alternate."""

    rate: float

    def __call__(self, t):
        angle = self.rate * t
        return jnp.where(
            _main_is_active(self.rate, t), jnp.cos(angle + 0.5 * jnp.pi), jnp.cos(angle)
        )


def _plain_driver(mechanism, model):
    if model == "single_pendulum":
        dp1 = mbd.DP1(
            (0, 0, -1.0), (0, 1.0, 0), lambda t: jnp.cos(jnp.pi / 2 + jnp.pi / 4 * jnp.cos(2 * t))
        )
        return mbd.Constraint("motor", mechanism.ground, "bar", primitives=[dp1])
    y, z = jnp.array([0, 1.0, 0]), jnp.array([0, 0, 1.0])
    if model == "four_link":
        rate, direction, body = np.pi, (-1.0, 0, 0), "rotor"
    else:
        rate, direction, body = -2 * np.pi, (0, 1.0, 0), "crank"
    dp1 = mbd.DP1(SwappedDirection(y, z, rate), direction, SwappedCosine(rate))
    return mbd.Constraint("motor", mechanism.ground, body, primitives=[dp1])


def paper_model(model):
    """System and state of a packaged mechanism, driven as in the paper's codes."""
    mechanism = mbd.load_mechanism(model)
    if mechanism.constraints.pop("motor", None):
        mechanism.add(_plain_driver(mechanism, model))
    return mechanism.build()


class OneChart(REps):
    """Euler angles in the one chart of the paper, whatever happens; for comparison only: it meets
    its singularity.
    """

    def coordinates(self, pose):
        return self._in_chart(pose, jnp.eye(3, dtype=pose.A.dtype))

    def with_ground(self, x):
        # The ground is upright, where no angles are defined: it alone keeps a regular chart (it
        # never moves).
        return REps().with_ground(x)

    def rechart(self, q, u, a):
        return q, u, a


BOX_INERTIA = np.diag([0.0028125, 0.0095625, 0.01125])
# The packaged `spherical_double_pendulum`, for reference solutions.
CHAIN = {
    "masses": np.array([2.7, 2.7]),
    "inertias": np.stack([BOX_INERTIA, BOX_INERTIA]),
    "to_center": np.array([[0.1, 0, 0], [0.1, 0, 0]]),
    "to_next": np.array([[0.2, 0, 0], [0.2, 0, 0]]),
    "A0": np.stack([np.eye(3), np.eye(3)]),
    "omega0": np.array([[10.0, 0, 0], [10 * np.pi, 10 * np.pi, 20 * np.pi]]),
}


def passing_body(miss):
    """A body on a ball joint, equal moments about the pivot, no gravity: it turns about global x at
    2 rad/s for ever.

    Its third axis starts 45 degrees before the vertical and passes it at the angle `miss` [rad].
    """
    m = mbd.Mechanism("passing_body", gravity=(0, 0, 0))
    omega = jnp.array([2.0, 0, 0])
    c, s = jnp.cos(miss), jnp.sin(miss)
    tilt = jnp.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    q = np.sqrt(0.5)
    A = jnp.array([[1, 0, 0], [0, q, q], [0, -q, q]]) @ tilt
    arm = A @ jnp.array([0, 0, 0.3])
    body = m.add_body(
        "body",
        mass=1.0,
        inertia=(0.21, 0.21, 0.3),
        r=arm,
        A=A,
        v=jnp.cross(omega, arm),
        omega=A.T @ omega,
    )
    m.add(mbd.Spherical("pivot", m.ground, body, point=(0, 0, 0)))
    return m.build()
