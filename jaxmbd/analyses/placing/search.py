"""The search for a pose that meets goals within limits: sequential quadratic programming, in which
a merit function judges every step; see `problem.py` for what is minimized.

Reference:
    Nocedal, Wright, Numerical Optimization, 2nd ed. (2006), chapter 18.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...formulations import RA
from ...model.state import Pose
from ...rotations.types import Scalar
from .precision import in_digits_of
from .problem import MAX_TURN, SOFTNESS, Placing, Rows, largest
from .quadratic_program import Quadratic, solved

_MAX_STEPS = 60  # before goals are traded, and before the end
_MAX_SHIFT = 1.0  # of a step, in lengths of the mechanism
_HIGHEST_DAMPING = 1e9  # where no step helps
_GIVING = 1e-3  # of goals within a step, so that there always is one within the limits
_WITHIN_REACH = 1e-3  # of goals after a compromise: it only was hard to find
_CLOSED, _WITHIN, _FLAT = 1e-10, 1e-8, 1e-6  # joints and goals, limits, the gradient
_FAR = 1e-3  # from being met
_LONGEST = 64.0  # by which steps are stretched


class Point(eqx.Module):
    """A pose with multipliers.

    Attributes:
        pose: The pose.
        near: Its angles.
        y: Multipliers of equations.
        z: Of limits, none of them negative.
    """

    pose: Pose
    near: Float[Array, " w"]
    y: Float[Array, " c"]
    z: Float[Array, " g"]


class SearchState(eqx.Module):
    """The state of a search.

    Attributes:
        trial: What comes next.
        at: What was taken last, with its rows and their derivatives.
        rows, slopes: Of it.
        hessian: Second derivatives of the Lagrangian there, (n, n).
        exact: Whether they are trusted, and goals are met anew after a step; else the second
            derivatives of Gauss and Newton are, which are never negative.
        stretch: Of steps with these, which are short where the true ones are negative.
        penalty: Weight of rows in the merit function.
        damping: In parts of the mean second derivative.
        compromise: Whether goals that cannot be met are traded.
        traded: Whether they have been.
        steps: Trials so far.
        last: Steps at which it ends.
        done: Whether it has ended.
    """

    trial: Point
    at: Point
    rows: Rows
    slopes: Rows
    hessian: Float[Array, "n n"]
    exact: Bool[Array, ""]
    stretch: Scalar
    penalty: Scalar
    damping: Scalar
    compromise: Bool[Array, ""]
    traded: Bool[Array, ""]
    steps: Int[Array, ""]
    last: Int[Array, ""]
    done: Bool[Array, ""]


def search(placing: Placing, near: Float[Array, " w"]) -> SearchState:
    """The pose that a search from the start ends at."""
    turns = _Turns(placing)
    return jax.lax.while_loop(lambda s: ~s.done, turns.turn, turns.begin(near))


class _Turns:
    """The turns of a search."""

    def __init__(self, placing: Placing):
        self.placing = placing
        dtype = placing.system.dtype
        self.tiny = jnp.finfo(dtype).tiny ** 0.5
        self.closed, self.within, self.flat, self.softness = (
            in_digits_of(dtype, x) for x in (_CLOSED, _WITHIN, _FLAT, SOFTNESS)
        )

    def _evaluated(self, point: Point) -> tuple[Rows, Rows]:
        """Rows at a point and their derivatives by displacements."""

        def of(delta: Float[Array, " n"]) -> tuple[Rows, Rows]:
            rows = self.placing.rows(self.placing.moved(point.pose, delta), point.near)
            return rows, rows

        n = 6 * self.placing.system.nb
        slopes, rows = jax.jacfwd(of, has_aux=True)(jnp.zeros(n, self.placing.system.dtype))
        return rows, slopes

    def _hessian(self, point: Point, compromise: Bool[Array, ""]) -> Float[Array, "n n"]:
        """Second derivatives of the Lagrangian by displacements."""

        def lagrangian(delta: Float[Array, " n"]) -> Scalar:
            rows = self.placing.rows(self.placing.moved(point.pose, delta), point.near)
            return rows.lagrangian(point.y, point.z, compromise)

        n = 6 * self.placing.system.nb
        return jax.jacfwd(jax.grad(lagrangian))(jnp.zeros(n, self.placing.system.dtype))

    def begin(self, near: Float[Array, " w"]) -> SearchState:
        """The state before the first turn."""
        placing, dtype = self.placing, self.placing.system.dtype
        shapes = jax.eval_shape(lambda: placing.rows(placing.start, near))
        count, n = shapes.closing.size + shapes.hard.size, 6 * placing.system.nb
        y, z = jnp.zeros(count, dtype), jnp.zeros(shapes.gaps.size, dtype)
        point = Point(placing.start, near, y, z)
        zero, one, no = jnp.zeros((), dtype), jnp.ones((), dtype), jnp.asarray(False)
        return SearchState(
            point,
            point,
            jax.tree.map(lambda x: jnp.full(x.shape, jnp.inf, dtype), shapes),
            jax.tree.map(lambda x: jnp.zeros((*x.shape, n), dtype), shapes),
            jnp.zeros((n, n), dtype),
            no,
            one,
            one,
            zero,
            no,
            no,
            jnp.zeros((), int),
            jnp.asarray(_MAX_STEPS, int),
            no,
        )

    def turn(self, s: SearchState) -> SearchState:
        """Take the trial or leave it, and find the next one."""
        s = self._judged(s)
        delta, y, z = solved(self._program(s))
        delta = jnp.where(s.exact, 1.0, s.stretch) * delta
        at = s.at
        biggest = jnp.max(jnp.abs(delta.reshape(-1, 6)), axis=0)
        share = jnp.minimum(1.0, MAX_TURN / (jnp.max(biggest[3:]) + self.tiny))
        share = jnp.minimum(share, _MAX_SHIFT / (jnp.max(biggest[:3]) + self.tiny))
        pose = self.placing.moved(at.pose, share * delta)
        # After a step that was refused the joints alone, as goals may lead beyond limits.
        alone = ~s.exact if s.rows.gaps.size else jnp.asarray(False)
        pose = self.placing.closed(pose, at.near, s.compromise | alone)
        near = self.placing.system.wound(at.near).angle_values(RA().with_ground(pose))
        trial = Point(pose, near, at.y + share * (y - at.y), at.z + share * (z - at.z))
        most = jnp.maximum(largest(y), largest(z))
        penalty = jnp.maximum(0.5 * s.penalty, 2.0 * jnp.where(jnp.isfinite(most), most, 0.0))
        return dataclasses.replace(s, trial=trial, penalty=penalty)

    def _program(self, s: SearchState) -> Quadratic:
        """The quadratic program of a step."""
        rows, slopes = s.rows, s.slopes
        E, F = slopes.equations(s.compromise), slopes.costs(s.compromise)
        c, n = rows.equations(s.compromise), F.shape[1]
        scale = jnp.sum(F**2) / n
        H = jnp.where(s.exact & (s.steps > 1), s.hessian, F.T @ F)
        # Joints close after every step; only goals that are not met, or not within the limits, may
        # have to give way.
        gives = jnp.arange(c.size) >= rows.closing.size
        missing = largest(_missing(rows, s.compromise))
        gives = gives & (missing > self.closed)
        least = jnp.minimum(_GIVING, 0.1 * missing**2) if rows.gaps.size else 0.0
        soft = (self.softness + jnp.where(gives, least + s.damping, 0.0)) / scale
        return Quadratic(
            H + s.damping * scale * jnp.eye(n, dtype=H.dtype),
            rows.costs(s.compromise) @ F,
            E,
            c - soft * s.at.y,
            soft,
            slopes.gaps,
            rows.gaps,
        )

    def _judged(self, s: SearchState) -> SearchState:
        """The state with the trial taken, or with more damping."""
        rows, slopes = self._evaluated(s.trial)
        old, new = self._merit(s, s.rows), self._merit(s, rows)
        open_old, open_new = (_openness(x, s.compromise) for x in (s.rows, rows))
        better = (new <= old) | ~jnp.isfinite(old)
        # Far from being met, equations may come first.
        better = better | ((open_old > _FAR) & (open_new <= 0.5 * open_old))
        # Nearly there, rounding decides about the merit.
        better = better | (
            (open_new <= self.closed) & (new <= old + self.within * (1.0 + jnp.abs(old)))
        )
        taken = jnp.isfinite(new) & better
        hessian = self._hessian(s.trial, s.compromise)
        at, rows, slopes, hessian = jax.tree.map(
            lambda a, b: jnp.where(taken, a, b),
            (s.trial, rows, slopes, hessian),
            (s.at, s.rows, s.slopes, s.hessian),
        )
        calmer = jnp.where(s.damping < 1e-8, 0.0, 0.1 * s.damping)
        damping = jnp.where(taken, calmer, jnp.maximum(10.0 * s.damping, 1e-6))
        longer = jnp.minimum(2.0 * s.stretch, _LONGEST)
        stretch = jnp.where(taken & ~s.exact, longer, jnp.where(taken == s.exact, 1.0, s.stretch))
        s = dataclasses.replace(
            s,
            stretch=stretch,
            at=at,
            rows=rows,
            slopes=slopes,
            hessian=hessian,
            exact=taken,
            damping=damping,
            steps=s.steps + 1,
        )
        return self._ended(s)

    def _ended(self, s: SearchState) -> SearchState:
        """The state with a compromise where no step helps, or the end."""
        flat, rows = self._flatness(s), s.rows
        met = largest(rows.equations(s.compromise)) <= self.closed
        met = met & (largest(jnp.minimum(rows.gaps, 0.0)) <= self.within)
        ends = met & (flat <= self.flat)
        ends = ends | (s.damping > _HIGHEST_DAMPING) | (s.steps >= s.last)
        goals = s.rows.hard.size > 0
        trade = ends & ~s.traded & ~met & goals
        back = ends & s.compromise & (largest(s.rows.hard) <= _WITHIN_REACH) & goals
        anew = trade | back
        return dataclasses.replace(
            s,
            at=dataclasses.replace(s.at, y=jnp.where(anew, 0.0, s.at.y)),
            penalty=jnp.where(anew, 1.0, s.penalty),
            damping=jnp.where(anew, 0.0, s.damping),
            exact=s.exact & ~anew,
            compromise=(s.compromise | trade) & ~back,
            traded=s.traded | trade,
            last=jnp.where(anew, s.steps + _MAX_STEPS, s.last),
            done=ends & ~anew,
        )

    def _merit(self, s: SearchState, rows: Rows) -> Scalar:
        costs = rows.costs(s.compromise)
        return 0.5 * costs @ costs + s.penalty * _openness(rows, s.compromise)

    def _flatness(self, s: SearchState) -> Scalar:
        """How far the gradient is from vanishing, without units."""
        rows, slopes, at = s.rows, s.slopes, s.at
        E, F = slopes.equations(s.compromise), slopes.costs(s.compromise)
        gradient = rows.costs(s.compromise) @ F + at.y @ E - at.z @ slopes.gaps
        scale = jnp.maximum(1.0, jnp.maximum(largest(at.y), largest(at.z)))
        loose = jnp.minimum(at.z, jnp.maximum(rows.gaps, 0.0))
        return jnp.maximum(largest(gradient), largest(loose)) / scale


def _missing(rows: Rows, compromise: Bool[Array, ""]) -> Array:
    return jnp.concatenate([rows.equations(compromise), jnp.minimum(rows.gaps, 0.0)])


def _openness(rows: Rows, compromise: Bool[Array, ""]) -> Scalar:
    """The Euclidean norm of what is missing in equations and limits: damped steps make it smaller,
    where they may make another norm larger.
    """
    missing = _missing(rows, compromise)
    return jnp.sqrt(missing @ missing)
