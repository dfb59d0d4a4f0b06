"""Newton's method in stages: a frozen quasi-Newton matrix first, new or kept from earlier solves,
and the exact matrix where that is not enough.

Where the exact matrix contracts poorly as well, it is nearly singular; a careful solver then takes
over, if the equations have one.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from ..rotations.types import Scalar
from .exact import ExactStage
from .frozen import AbstractUndetermined, FrozenStage, ReusedStage
from .iteration import AbstractEquations, NewtonOptions, Start, Vector
from .kept_factors import KeptFactors

# Units in the last place of a correction, relative to the system's length, that rounding makes: in
# single precision more than contraction leaves of a small first correction.
_ROUNDING = 2.0


class NewtonInfo(eqx.Module):
    """Outcome of one solve.

    Attributes:
        iterations: Used in both stages.
        converged: Whether the last iterate is a root.
        correction: The last correction's norm.
        careful: Whether the exact matrix contracted poorly, so that the careful solver took over.
        undetermined: Whether the root leaves undetermined a part of what it holds; False unless the
            caller of `newton` finds that out.
        singular: Whether that ends a run; found out by the caller too.
        contraction: Of the last two corrections by the frozen matrix, NaN where there was one, and
            1 where the exact matrix was needed.
        factors: Of the frozen stage, where some were kept for it.
        renewed: Whether those are new.
        found: What `AbstractEquations.doubt` found out about the last iterate of the frozen stage.
        left: Whether the root is another one than that iterate, where that is asked.
    """

    iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    correction: Scalar
    careful: Bool[Array, ""]
    undetermined: Bool[Array, ""]
    singular: Bool[Array, ""]
    contraction: Scalar = eqx.field(default_factory=lambda: jnp.ones(()))
    factors: PyTree = None
    renewed: Bool[Array, ""] | None = None
    found: PyTree = None
    left: Bool[Array, ""] | None = None

    @staticmethod
    def without_unknowns(dtype: np.dtype) -> "NewtonInfo":
        """The outcome for equations without unknowns."""
        zero, no = jnp.zeros((), dtype), jnp.zeros((), bool)
        return NewtonInfo(jnp.zeros((), int), ~no, zero, no, no, no, zero)


def newton(
    equations: AbstractEquations,
    start: Start,
    options: NewtonOptions,
    active: Bool[Array, ""] | bool = True,
    kept: KeptFactors | None = None,
    undetermined: AbstractUndetermined | None = None,
) -> tuple[Vector, NewtonInfo]:
    """Root of the equations by Newton's method, and information about the solve.

    Args:
        equations: With matrices and the measure of corrections.
        start: Where to begin.
        options: Tolerance and limits.
        active: False makes no iteration at all (a run that has failed already).
        kept: Factors of an earlier solve for the frozen stage; `factors` of the information are
            those to go on with.
        undetermined: What those need to know of unknowns that the equations leave undetermined.

    Returns:
        The last iterate and what happened. Nothing raises; `converged` tells.
    """
    active, no = jnp.asarray(active), jnp.zeros((), bool)
    settings = equations, options, start, active
    first = FrozenStage(*settings) if kept is None else ReusedStage(*settings, kept, undetermined)
    state, factors, renewed = first.init(), None, None
    if options.max_steps:
        state, factors, renewed = first.run(state)
    seen = jnp.isfinite(state.previous)
    above = jnp.maximum(state.norm - _ROUNDING * jnp.finfo(state.norm.dtype).eps, 0.0)
    contraction = jnp.where(seen, above / state.previous, jnp.nan)
    contraction = jnp.where(state.done, contraction, 1.0)
    doubt, found, left = no, None, None
    if equations.stalls:
        doubt, found = equations.doubt(state.x, factors, renewed)
    if options.max_exact_steps:
        state, left = ExactStage(*settings).run(state, doubt)
    else:
        state = eqx.tree_at(lambda s: s.done, state, state.done & ~doubt)
    ended = state.done & jnp.all(jnp.isfinite(state.x))
    info = NewtonInfo(state.k, ended, state.norm, state.careful, no, no, contraction)
    if renewed is not None:
        info = dataclasses.replace(info, factors=factors, renewed=renewed)
    if found is not None:
        info = dataclasses.replace(info, found=found, left=left)
    return state.x, info
