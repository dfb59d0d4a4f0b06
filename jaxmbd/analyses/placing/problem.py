"""A placement as a problem: its rows at a pose, and the way back to a closed pose.

In displacements δ of all bodies, lengths in parts of the mechanism's, a placement is

    min ½ |f|²   subject to   c = 0,   g ≥ 0

with the rows c of joints and of goals that have to be met, f of other goals and of the distance
from the start, and g of limits.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...equations.rows import phi
from ...formulations import RA
from ...linalg import DenseFactors
from ...model.state import Pose
from ...model.system import System
from ...rotations.types import Scalar
from .goals import Aims, Goal, instant, miss_of, without_unit
from .precision import in_digits_of

MAX_TURN = 0.7  # [rad] a step: linearized joints say little beyond
SOFTNESS = 1e-10  # of rows that repeat others
_COMPROMISE = 1e-3  # of all other costs, beside goals that cannot be met
_CORRECTIONS = 12  # that close the joints after a step
_TIGHT = 1e-12


class Placing(eqx.Module):
    """A placement that is looked for.

    Attributes:
        system: The mechanism.
        sizes: Of the rows of its joints, (m,).
        aims: Goals and limits.
        start: The pose from which distances count.
        states: States of force elements, or None.
        t: The instant [s].
        regularize: How much the distance counts beside goals.
    """

    system: System
    sizes: Float[Array, " m"]
    aims: Aims
    start: Pose
    states: Float[Array, " s"] | None
    t: Scalar
    regularize: Scalar

    def rows(self, pose: Pose, near: Float[Array, " w"]) -> "Rows":
        """All rows at a pose, whose angles are looked for near some values."""
        system = self.system.wound(near)
        now = instant(system, pose, near, self.states, self.t)
        numbers = self.aims.numbers(system, now)
        closing = self.closing(pose, near)

        weights = [self.regularize, *(goal.weight for goal in self.aims.soft)]
        scale = sum(weights, jnp.zeros_like(self.regularize))

        def beside(goals: tuple[Goal, ...], weighted: bool) -> Float[Array, " n"]:
            found = [jnp.zeros(0, system.dtype)]
            for goal in goals:
                own = without_unit(miss_of(goal, system, now, numbers), goal, system)
                found.append(own * jnp.sqrt(goal.weight / scale) if weighted else own)
            return jnp.concatenate(found)

        shift = (pose.r - self.start.r) / system.length
        turn = (pose.A - self.start.A) * 0.5**0.5  # its square is that of the angle, where small
        away = jnp.concatenate([shift.reshape(-1), turn.reshape(-1)])
        away = away * jnp.sqrt(self.regularize / scale)
        return Rows(
            closing,
            beside(self.aims.hard, False),
            beside(self.aims.soft, True),
            away,
            self.aims.gaps(system, numbers),
        )

    def closing(self, pose: Pose, near: Float[Array, " w"]) -> Float[Array, " m"]:
        """The values of joints and drivers."""
        system = self.system.wound(near).at_position_level().at(self.t)
        return phi(RA(), system, pose) / self.sizes

    def closed(self, pose: Pose, near: Float[Array, " w"], compromise: Bool[Array, ""]) -> Pose:
        """A pose close by at which joints close and goals that have to be met are, by Newton's
        method with least displacements; where it does not converge, joints alone.
        """
        n, dtype = 6 * self.system.nb, self.system.dtype
        far, most = jnp.asarray(jnp.inf, dtype), jnp.asarray(jnp.finfo(dtype).max, dtype)
        first = _Closing(pose, most, far, jnp.zeros((), int), compromise)

        def turn(c: _Closing) -> _Closing:
            def of(delta: Array) -> tuple[Array, Array]:
                values = self.rows(self.moved(c.pose, delta), near).equations(c.joints_alone)
                return values, values

            slopes, values = jax.jacfwd(of, has_aux=True)(jnp.zeros(n, dtype))
            gap = largest(values)
            softness = in_digits_of(dtype, SOFTNESS) * jnp.eye(values.size, dtype=dtype)
            lam = DenseFactors.of(slopes @ slopes.T + softness).solve(values)
            delta = -slopes.T @ lam
            share = jnp.minimum(1.0, MAX_TURN / (largest(delta) + 1e-30))
            goes_on = (gap < 0.7 * c.gap) & jnp.isfinite(gap) & (c.turns < _CORRECTIONS)
            moved = self.moved(c.pose, share * delta)
            there = (gap <= in_digits_of(dtype, _TIGHT)) | (c.joints_alone & ~goes_on)
            pose = jax.tree.map(
                lambda a, b, new: jnp.where(there, a, jnp.where(goes_on, new, b)),
                *(c.pose, first.pose, moved),
            )
            again = ~there & ~goes_on  # from the beginning, with the joints alone
            return _Closing(
                pose,
                jnp.where(there, 0.0, jnp.where(again, most, gap)),
                jnp.where(again, far, c.gap),
                jnp.where(again, 0, c.turns + 1),
                c.joints_alone | again,
            )

        return jax.lax.while_loop(lambda c: c.gap > 0.0, turn, first).pose

    def moved(self, pose: Pose, delta: Float[Array, " n"]) -> Pose:
        """A pose after displacements without units."""
        xi = delta.reshape(-1, 6) * self.system.units()[None, :]
        return jax.vmap(RA().retract)(pose, xi)


class _Closing(eqx.Module):
    """The state of a search for a closed pose.

    Attributes:
        pose: What comes next.
        gap, before: The largest gaps of the last two poses; zero where there is no more to do.
        turns: So far.
        joints_alone: Whether goals are left aside.
    """

    pose: Pose
    gap: Scalar
    before: Scalar
    turns: Int[Array, ""]
    joints_alone: Bool[Array, ""]


class Rows(eqx.Module):
    """Values without units, or their derivatives.

    Attributes:
        closing: Of joints.
        hard: Of goals that have to be met.
        soft: Of other goals, times the roots of their shares of all weights.
        away: The distance from the start, likewise.
        gaps: Of limits.
    """

    closing: Array
    hard: Array
    soft: Array
    away: Array
    gaps: Array

    def equations(self, compromise: Bool[Array, ""]) -> Array:
        """What has to be zero: after a compromise the joints alone."""
        return jnp.concatenate([self.closing, jnp.where(compromise, 0.0, self.hard)])

    def costs(self, compromise: Bool[Array, ""]) -> Array:
        """What half the sum of squares is taken of."""
        traded = jnp.where(compromise, self.hard, 0.0)
        others = jnp.concatenate([self.soft, self.away])
        return jnp.concatenate([jnp.where(compromise, _COMPROMISE, 1.0) * others, traded])

    def lagrangian(self, y: Array, z: Array, compromise: Bool[Array, ""]) -> Scalar:
        """Costs, and equations and limits times their multipliers."""
        costs = self.costs(compromise)
        return 0.5 * costs @ costs + y @ self.equations(compromise) - z @ self.gaps


def largest(values: Array) -> Scalar:
    """The largest magnitude, zero of none."""
    return jnp.max(jnp.abs(values), initial=0.0)
