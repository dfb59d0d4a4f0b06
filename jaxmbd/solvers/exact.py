"""Newton's method proper: the exact matrix at every step, and a careful solver where that is nearly
singular.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..xla.lazy_cond import where_needed
from .iteration import AbstractEquations, Iterate, NewtonOptions, Start, Vector


@dataclasses.dataclass(frozen=True)
class ExactStage:
    """Newton's method with a new exact matrix for every correction."""

    equations: AbstractEquations
    options: NewtonOptions
    start: Start
    active: Bool[Array, ""]

    @property
    def _anew(self) -> Vector:
        return self.start.x if self.start.anew is None else self.start.anew

    def init(self, state: Iterate, doubt: Bool[Array, ""]) -> Iterate:
        """From where the frozen matrix contracted, however slowly; anew where it diverged, and
        where its iterate is doubted.
        """
        infinity = jnp.asarray(jnp.inf, state.x.dtype)
        restart = jnp.where(state.norm < state.previous, state.x, self._anew)
        begin = jnp.where(doubt, self._anew, jnp.where(state.done, state.x, restart))
        return Iterate(begin, state.k, infinity, infinity, state.done & ~doubt, doubt)

    def step(self, state: Iterate) -> Iterate:
        """One correction."""
        equations, options = self.equations, self.options
        infinity, no = jnp.asarray(jnp.inf, state.x.dtype), jnp.zeros((), bool)
        value, factors = equations.residual(state.x), equations.exact_factors(state.x)
        delta = factors.solve(-value)
        size, root, takes_over, anew = equations.norm(delta, factors), no, state.careful, no
        if equations.stalls:
            enough = size < options.contraction * state.norm
            poor = ~enough & ~options.converged(size, state.norm)
            anew, takes_over = poor & ~takes_over, takes_over | poor
            delta, size, root = where_needed(
                state.careful & self.active,
                lambda: equations.careful(factors, value),
                (delta, size, root),
            )
        done = options.converged(size, state.norm) | root
        if options.halvings:
            most = jnp.where(done, 0, options.halvings)
            delta = _shortened(equations.residual, state.x, value, delta, most)
        new = Iterate(state.x + delta, state.k + 1, size, state.norm, done, takes_over)
        if equations.stalls:
            # Poor corrections may have led far along the direction that the matrix hardly sees.
            start = Iterate(self._anew, state.k + 1, infinity, infinity, no, takes_over)
            new = jax.tree.map(lambda a, b: jnp.where(anew, a, b), start, new)
        return new

    def goes_on(
        self, state: Iterate, first: Int[Array, ""], limit: Int[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether another correction is worth it."""
        started = (state.k == first) | state.careful
        within = self.active & ~state.done & (state.k < limit)
        return within & (started | jnp.isfinite(state.norm))

    def run(self, state: Iterate, doubt: Bool[Array, ""]) -> tuple[Iterate, Bool[Array, ""]]:
        """The last state, and whether this stage was needed."""
        first, limit = state.k, state.k + self.options.max_exact_steps
        begin = self.init(state, doubt)
        end = jax.lax.while_loop(lambda s: self.goes_on(s, first, limit), self.step, begin)
        return end, ~begin.done


def _shortened(
    residual: Callable[[Vector], Vector],
    x: Vector,
    value: Vector,
    delta: Vector,
    halvings: Int[Array, ""],
) -> Vector:
    """The correction, halved until the residual falls; as it is where that does not help."""
    size = jnp.linalg.norm(value)

    def too_long(trial: tuple[Array, Array]):
        scale, k = trial
        return (k < halvings) & ~(jnp.linalg.norm(residual(x + scale * delta)) < size)

    scale, k = jax.lax.while_loop(
        too_long,
        lambda trial: (0.5 * trial[0], trial[1] + 1),
        (jnp.ones((), x.dtype), jnp.zeros((), int)),
    )
    return jnp.where(k < halvings, scale, 1.0) * delta
