"""All laws of one step together: impulses P with v = G P + b that satisfy every law."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..linalg.dense import DenseFactors
from ..linalg.small_matrices import times
from ..rotations.types import Scalar
from ..solvers.implicit_diff import AbstractRootProblem, implicit_root
from ..xla.lazy_cond import where_needed
from .coulomb import coulomb
from .dry import dry
from .groups import MANY, Groups, block_factors
from .stop import stop

# What keeps the matrix of a hyperstatic set regular in derivatives; it is never in the residual.
_PROXIMAL = 1e-10


class _Plan(NamedTuple):
    """One attempt of the iteration.

    Attributes:
        kappa: First κ.
        factor: Its factor.
        halvings: Of a step that does not shorten the residual.
        limit: Of iterations.
        proximal: ρ, which pulls impulses to a center: v + ρ (P - center) in place of v.
        holds: Whether the center stays until the iteration at one κ is done. Otherwise it is the
            iterate, and ρ does no more than keep the matrix regular.
    """

    kappa: float
    factor: float
    halvings: int
    limit: int
    proximal: float
    holds: bool = False


# Full steps fail less often than monotone ones; sets on which schedules fail hardly overlap.
# In hyperstatic sets, as in piles of boxes, many impulses satisfy the same velocities, and an
# iteration jumps among them from one branch of the laws to another. A center that stays
# (proximal point method) chooses the nearest. Faces that slide and turn on each other take a slow κ
# and up to 150 iterations.
_COLD = (
    _Plan(1.0, 0.1, 0, 25, _PROXIMAL),
    _Plan(1.0, 0.3, 0, 120, 1e-4, holds=True),
    _Plan(1.0, 0.3, 0, 120, _PROXIMAL),
    _Plan(0.1, 0.7, 0, 150, 1e-8),
    _Plan(10.0, 0.7, 0, 200, _PROXIMAL),
    _Plan(1.0, 0.3, 2, 40, _PROXIMAL),
    _Plan(10.0, 0.5, 3, 60, _PROXIMAL),
    _Plan(0.01, 0.5, 3, 60, _PROXIMAL),
    _Plan(100.0, 0.5, 1, 100, _PROXIMAL),
)
_WARM = _Plan(1e-6, 0.1, 0, 25, 1e-9)
# A warm start whose residual is beyond the largest velocity after so many iterations was none.
_TRIAL = 4
# Of `MANY` rows the second plan is done in some 20 iterations, where the first mostly fails.
# With a center that stays, ρ shrinks with κ down to the first of these numbers, and below the
# second κ is zero.
_LEAST_PULL, _LEAST_KAPPA = 1e-7, 1e-8
# The iteration for one center is done here.
_SETTLED = 1e-12
# Where a place of a hyperstatic set is between two branches of its law, iterations go round at this
# residual. An attempt that ends there has found the root.
_ENOUGH = 1e-8
# A step of block elimination may leave this share of the residual; another one refines it.
_LOST = 1e-3


class Pressing(eqx.Module):
    """Forces in joints that follow the magnitudes of other impulses: teeth press gears apart.

    Attributes:
        impulse: Of every such tooth without those of the laws, (k,).
        each: What unit impulses of the laws add to it, (k, w).
        borne: What the joint bears per unit of its magnitude, (dry, 3, k).
    """

    impulse: Float[Array, " k"]
    each: Float[Array, "k w"]
    borne: Float[Array, "dry 3 k"]

    def __call__(self, x: Float[Array, " w"]) -> Float[Array, "dry 3"]:
        return self.borne @ jnp.abs(self.impulse + self.each @ x)

    def scaled(self, sigma: Float[Array, " w"], unit: Scalar) -> "Pressing":
        """The same for x / (sigma unit), in units of `unit`."""
        return Pressing(self.impulse / unit, self.each * sigma[None, :], self.borne)


class Laws(eqx.Module):
    """The laws of one step: contacts (three rows each) first, then stops, then dry friction.

    Attributes:
        matrix: G, what unit impulses add to the velocities, (w, w).
        free: b, the velocities without impulses, less those that are wanted, (w,).
        active: Which laws may act, (c,); the others have no impulse.
        friction: μ of every contact, (contacts,).
        bound: Constant part of the bound on friction impulses, (dry,) [N·s] or [N·m·s].
        share: Impulse of friction per unit of impulse in the joint, (dry,) [-] or [m].
        carried: The joint's impulse without those of the laws, (dry, 3) [N·s].
        carries: What unit impulses add to it, (dry, 3, w).
        spent: Parts of the bounds that friction took before it stopped within the step, with
            their signs, (w,); zero on rows that are not of friction.
        stops: Number of stops.
        groups: Of contacts whose matrix has many zeros, if there are no other laws; or None.
        pull: ρ, which is added to the diagonal of G; or None. Kept apart, so that an iteration of
            many contacts copies no matrix.
        pressing: What the joints of dry friction bear of teeth that press gears apart; or None.
    """

    matrix: Float[Array, "w w"]
    free: Float[Array, " w"]
    active: Bool[Array, " c"]
    friction: Float[Array, " contacts"]
    bound: Float[Array, " dry"]
    share: Float[Array, " dry"]
    carried: Float[Array, "dry 3"]
    carries: Float[Array, "dry 3 w"]
    spent: Float[Array, " w"]
    stops: int = eqx.field(static=True)
    groups: Groups | None = eqx.field(static=True, default=None)
    pull: Scalar | None = None
    pressing: Pressing | None = None

    @property
    def contacts(self) -> int:
        return self.friction.shape[0]

    @property
    def width(self) -> int:
        """Number of impulses."""
        return self.free.shape[0]

    def of_rows(self, each: Array) -> Array:
        """Numbers of laws, (c,), repeated for their rows, (w,)."""
        n = self.contacts
        return jnp.concatenate([jnp.repeat(each[:n], 3), each[n:]])

    def scaled(self) -> tuple["Laws", Float[Array, " w"]]:
        """The same in units in which G has ones on its diagonal and the largest velocity is one,
        and the impulses of those units.

        One number per contact, so that friction cones keep their shape.
        """
        diagonal = jax.lax.stop_gradient(jnp.diagonal(self.matrix))
        n = self.contacts
        each = jnp.concatenate(
            [jnp.mean(diagonal[: 3 * n].reshape(n, 3), axis=1), diagonal[3 * n :]]
        )
        each = jnp.where(each > 0.0, each, 1.0) ** -0.5
        sigma = self.of_rows(each)
        rows = self.of_rows(self.active)
        largest = jnp.max(jnp.where(rows, jnp.abs(sigma * self.free), 0.0), initial=0.0)
        unit = jax.lax.stop_gradient(jnp.where(largest > 0.0, largest, 1.0))
        impulse = sigma * unit
        of_dry = sigma[3 * n + self.stops :]
        return (
            Laws(
                sigma[:, None] * self.matrix * sigma[None, :],
                sigma * self.free / unit,
                self.active,
                self.friction,
                self.bound / (of_dry * unit),
                self.share / of_dry,
                self.carried / unit,
                self.carries * sigma[None, None, :],
                self.spent,
                self.stops,
                self.groups,
                pressing=None if self.pressing is None else self.pressing.scaled(sigma, unit),
            ),
            impulse,
        )

    def pulled(self, rho: Scalar, center: Float[Array, " w"]) -> "Laws":
        """The same with v + ρ (P - center) in place of the velocities v."""
        return dataclasses.replace(self, pull=rho, free=self.free - rho * center)

    def answer(self, x: Float[Array, " w"]) -> Float[Array, " w"]:
        """What impulses add to the velocities, with ρ."""
        plain = self.matrix @ x
        return plain if self.pull is None else plain + self.pull * x

    def bounds(self, x: Float[Array, " w"]) -> Float[Array, " dry"]:
        """Bound of every friction at these impulses."""
        if not self.bound.size:
            return self.bound
        force = self.carried + self.carries @ x
        if self.pressing is not None:
            force = force + self.pressing(x)
        return self.bound + self.share * jnp.sqrt(jnp.sum(force**2, axis=1) + 1e-60)

    def _contacts(
        self, x: Float[Array, " w"], v: Float[Array, " w"]
    ) -> tuple[Array, Array, Array, Array]:
        """Impulses, velocities and the rest of what `coulomb` takes, by contact."""
        n = 3 * self.contacts
        by_three = [a[:n].reshape(-1, 3) for a in (x, v, self.spent)]
        return by_three[0], by_three[1], self.friction, by_three[2][:, 1:]

    def residual(self, x: Float[Array, " w"], kappa: Scalar) -> Float[Array, " w"]:
        """What is missing to all laws, (w,)."""
        v = self.answer(x) + self.free
        n, m = 3 * self.contacts, 3 * self.contacts + self.stops
        pushed = jax.vmap(coulomb, (0, 0, 0, 0, None))(*self._contacts(x, v), kappa)
        parts = [
            pushed.reshape(-1),
            jax.vmap(stop, (0, 0, None))(x[n:m], v[n:m], kappa),
            jax.vmap(dry, (0, 0, 0, 0, None))(x[m:], v[m:], self.bounds(x), self.spent[m:], kappa),
        ]
        return jnp.where(self.of_rows(self.active), jnp.concatenate(parts), x)

    def _of_contacts(
        self, x: Float[Array, " w"], v: Float[Array, " w"], kappa: Scalar
    ) -> tuple[Float[Array, "contacts 3 3"], Float[Array, "contacts 3 3"]]:
        """Derivatives of the laws of contact by their impulses and velocities."""
        one = jax.jacfwd(coulomb, (0, 1))
        return jax.vmap(one, (0, 0, 0, 0, None))(*self._contacts(x, v), kappa)

    def newton_step(
        self, x: Float[Array, " w"], kappa: Scalar, value: Float[Array, " w"]
    ) -> Float[Array, " w"]:
        """The change of the impulses that takes away the residual `value`, (w,)."""
        if self.groups is None:
            return -DenseFactors.of(self.jacobian(x, kappa)).solve(value)
        by_x, by_v = self._of_contacts(x, self.answer(x) + self.free, kappa)
        on = self.active[:, None, None]
        by_x = jnp.where(on, by_x, np.eye(3, dtype=x.dtype))
        by_v = jnp.where(on, by_v, 0.0)
        with_pull = by_x if self.pull is None else by_x + self.pull * by_v
        factors = block_factors(self.matrix, with_pull, by_v, self.groups)

        def missing(delta: Array) -> Array:
            """What a change leaves of the residual."""
            change, answer = (a.reshape(-1, 3) for a in (delta, self.answer(delta)))
            return value + (times(by_x, change) + times(by_v, answer)).reshape(-1)

        delta = -factors(value)
        rest = missing(delta)
        # Where blocks lose too many digits, as no pivot is chosen among them, a dense factorization
        # serves.
        far = ~(jnp.max(jnp.abs(rest)) <= _LOST * jnp.max(jnp.abs(value)))

        return where_needed(
            far,
            lambda: -DenseFactors.of(self.jacobian(x, kappa)).solve(value),
            delta - factors(rest),
        )

    def jacobian(self, x: Float[Array, " w"], kappa: Scalar) -> Float[Array, "w w"]:
        """Derivative of `residual`, from those of single laws."""
        v = self.answer(x) + self.free
        n, m = 3 * self.contacts, 3 * self.contacts + self.stops
        width, matrix = self.width, self.matrix
        if self.pull is not None:
            matrix = matrix + self.pull * np.eye(width, dtype=x.dtype)
        # Laws without an impulse are held at a safe place: their rows are those of the identity.
        by_x, by_v = self._of_contacts(x, v, kappa)
        eye = np.eye(width, dtype=x.dtype)
        own = jnp.concatenate(
            [
                jnp.einsum("cij,cjw->ciw", by_x, eye[:n].reshape(-1, 3, width)).reshape(n, width),
                eye[n:],
            ]
        )
        through = jnp.einsum("cij,cjw->ciw", by_v, matrix[:n].reshape(-1, 3, width)).reshape(
            n, width
        )
        a, b = jax.vmap(jax.grad(stop, (0, 1)), (0, 0, None))(x[n:m], v[n:m], kappa)
        bounds, of_bounds = self.bounds(x), jnp.zeros((0, width), x.dtype)
        c, d, e = jax.vmap(jax.grad(dry, (0, 1, 2)), (0, 0, 0, 0, None))(
            x[m:], v[m:], bounds, self.spent[m:], kappa
        )
        if self.bound.size:
            of_bounds = jax.jacfwd(self.bounds)(x)
        scale = jnp.concatenate([jnp.ones(n, x.dtype), a, c])
        rows = [through, b[:, None] * matrix[n:m], d[:, None] * matrix[m:]]
        rows[2] = rows[2] + e[:, None] * of_bounds
        whole = scale[:, None] * own + jnp.concatenate(rows)
        return jnp.where(self.of_rows(self.active)[:, None], whole, eye)


class Outcome(eqx.Module):
    """How a solution was found.

    Attributes:
        iterations: Newton iterations of all attempts.
        converged: Whether the exact laws are satisfied to the tolerance, or to 1e-8 where rounding
            allows no more.
        residual: The largest of the exact laws, in units of the largest velocity.
        attempts: How many attempts it took.
    """

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    residual: Scalar
    attempts: Int[Array, ""]


class _Iteration(eqx.Module):
    x: Float[Array, " w"]
    center: Float[Array, " w"]
    kappa: Scalar
    rho: Scalar
    exact: Scalar
    best: Float[Array, " w"]
    least: Scalar
    attempt: Int[Array, ""]
    within: Int[Array, ""]
    total: Int[Array, ""]


class LawProblem(AbstractRootProblem):
    """Semismooth Newton iteration on all laws at once, κ going to zero, with restarts.

    Attributes:
        tolerance: On the exact laws, relative to the largest velocity.
        gradient_smoothing: κ of the derivative.
    """

    tolerance: float = eqx.field(static=True, default=1e-11)
    gradient_smoothing: float = eqx.field(static=True, default=0.0)

    def residual(self, x: Float[Array, " w"], args: Laws) -> Float[Array, " w"]:
        return args.residual(x, jnp.asarray(self.gradient_smoothing, x.dtype))

    def factors(self, x: Float[Array, " w"], args: Laws) -> DenseFactors:
        return DenseFactors.of(
            args.jacobian(x, jnp.asarray(self.gradient_smoothing, x.dtype))
            + _PROXIMAL * np.eye(x.size, dtype=x.dtype)
        )

    def solve(self, guess: Float[Array, " w"], args: Laws) -> tuple[Array, Outcome]:
        dtype = guess.dtype
        plans = (_WARM, *_COLD)
        if args.width >= MANY:
            plans = (_WARM, _COLD[1], _COLD[0], *_COLD[2:])
        numbers = jnp.asarray([(p.kappa, p.factor, p.proximal) for p in plans], dtype)
        counts = jnp.asarray([(p.halvings, p.limit, p.holds) for p in plans], int)
        most = len(plans)
        zero = jnp.zeros((), dtype)

        def size(laws: Laws, x: Float[Array, " w"], kappa: Scalar) -> Scalar:
            return jnp.max(jnp.abs(laws.residual(x, kappa)), initial=0.0)

        def started(
            x: Float[Array, " w"],
            exact: Scalar,
            best: tuple[Float[Array, " w"], Scalar],
            attempt: Int[Array, ""],
            total: Int[Array, ""],
        ) -> _Iteration:
            kappa, _, rho = numbers[jnp.minimum(attempt, most - 1)]
            found, least = best
            none = jnp.zeros((), int)
            return _Iteration(x, x, kappa, rho, exact, found, least, attempt, none, total)

        def goes_on(state: _Iteration) -> Bool[Array, ""]:
            return (state.exact > self.tolerance) & (state.attempt < most)

        def once(state: _Iteration) -> _Iteration:
            factor = numbers[state.attempt, 1]
            halvings, limit, holds = counts[state.attempt]
            holds = holds > 0
            near = args.pulled(state.rho, jnp.where(holds, state.center, state.x))
            value = near.residual(state.x, state.kappa)
            before = jnp.max(jnp.abs(value), initial=0.0)
            delta = near.newton_step(state.x, state.kappa, value)
            # What steps without a center reach is judged without ρ.
            judged = args.pulled(jnp.where(holds, state.rho, 0.0), state.center)

            # Full steps where the plan allows no halvings, as the first ones do.
            def worse(trial: tuple[Int[Array, ""], Scalar, Scalar, Scalar]) -> Bool[Array, ""]:
                k, _, found, _ = trial
                return (k == 0) | ((k <= halvings) & (found >= before))

            def shorter(
                trial: tuple[Int[Array, ""], Scalar, Scalar, Scalar],
            ) -> tuple[Int[Array, ""], Scalar, Scalar, Scalar]:
                k, scale, *_ = trial
                scale = jnp.where(k == 0, scale, 0.5 * scale)
                x = state.x + scale * delta
                return k + 1, scale, size(judged, x, state.kappa), size(args, x, zero)

            whole = jnp.zeros((), int), jnp.ones((), dtype), zero, zero
            _, scale, found, exact = jax.lax.while_loop(worse, shorter, whole)
            x = state.x + scale * delta
            least = jnp.where(holds, _SETTLED, self.tolerance)
            ready = found < 0.5 * jnp.maximum(state.kappa, least)
            kappa = jnp.where(ready, factor * state.kappa, state.kappa)
            pull = jnp.maximum(factor * state.rho, _LEAST_PULL)
            better = exact < state.least
            after = _Iteration(
                x,
                jnp.where(ready, x, state.center),
                jnp.where(holds & (kappa < _LEAST_KAPPA), 0.0, kappa),
                jnp.where(holds & ready, pull, state.rho),
                exact,
                jnp.where(better, x, state.best),
                jnp.where(better, exact, state.least),
                state.attempt,
                state.within + 1,
                state.total + 1,
            )
            # Nearer to the center there is nothing.
            settled = holds & ready & (state.kappa <= 0.0) & (exact <= _ENOUGH)
            astray = (state.attempt == 0) & (after.within >= _TRIAL) & (found > 1.0)
            over = (after.within >= limit) | ~jnp.isfinite(found) | settled | astray
            spent = ~(exact <= self.tolerance) & over
            following = jnp.where(after.least <= _ENOUGH, most, state.attempt + 1)
            far = jnp.asarray(jnp.inf, dtype)
            best = after.best, after.least
            anew = started(jnp.zeros_like(x), far, best, following, after.total)
            return jax.tree.map(lambda a, b: jnp.where(spent, a, b), anew, after)

        # Without a guess there is nothing to be warm from.
        first = jnp.where(jnp.any(guess != 0.0), 0, 1)
        guess = jnp.where(jnp.isfinite(guess), guess, 0.0)
        none = jnp.asarray(jnp.inf, dtype)
        exact = size(args, guess, zero)
        state = started(guess, exact, (guess, none), first, jnp.zeros((), int))
        # A guess that is nearer than the first κ would be worse after an iteration at that one, and
        # what it leaves is the next step's work.
        near = jnp.where(first == 0, jnp.minimum(state.kappa, exact), state.kappa)
        state = eqx.tree_at(lambda s: s.kappa, state, near)
        state = jax.lax.while_loop(goes_on, once, state)
        done = state.exact <= self.tolerance
        residual = jnp.where(done, state.exact, state.least)
        converged = done | (state.least <= _ENOUGH)
        # What failed must stay finite: it is masked afterwards, and its derivative too.
        x = jnp.where(done, state.x, jnp.where(converged, state.best, 0.0))
        return x, Outcome(state.total, converged, residual, state.attempt + 1)


def solve_laws(
    laws: Laws, guess: Float[Array, " w"], problem: LawProblem
) -> tuple[Float[Array, " w"], Any]:
    """Impulses that satisfy all laws, (w,), and how they were found; derivatives by the implicit
    function theorem.
    """
    scaled, unit = laws.scaled()
    x, outcome = implicit_root(problem, guess / unit, scaled)
    return unit * x, outcome
