"""Factors that outlive the iteration they were made for: most steps of a smooth motion need none of
their own.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..xla.batch_last import anyone
from ..xla.lazy_cond import where_needed


class KeptFactors(eqx.Module):
    """The numbers of some factors; what structure they have, those that make them know.

    Attributes:
        leaves: The arrays.
        renewed: Before an iteration: whether to make them anew. After it: whether that was done.
    """

    leaves: tuple[Any, ...]
    renewed: Bool[Array, ""]

    @staticmethod
    def none(make: Callable[[], Any]) -> "KeptFactors":
        """Room for what `make` returns."""
        shapes = jax.tree.leaves(jax.eval_shape(make))
        return KeptFactors(tuple(jnp.zeros(x.shape, x.dtype) for x in shapes), jnp.ones((), bool))


def iterate_with(
    kept: KeptFactors,
    make: Callable[[], Any],
    iterate: Callable[[Any, Bool[Array, ""], Any], Any],
    start: Any,
    failed: Callable[[Any], Bool[Array, ""]],
) -> tuple[Any, Any, Bool[Array, ""]]:
    """The end of an iteration by kept factors; once more by new ones where those were too old.

    Args:
        kept: The factors there are.
        make: New ones.
        iterate: From factors, whether they are old, and a start to the end. Where the start is an
            end already, it is to return that.
        start: The first start.
        failed: Whether an end is none.

    Returns:
        The end, the factors that led there, and whether they are new. All elements of a batch renew
        their factors together: it takes the time of the whole batch anyway, and nothing needs to be
        selected.
    """
    structure: Any = None

    def new():
        nonlocal structure
        leaves, structure = jax.tree.flatten(make())
        return tuple(leaves)

    def turn(state):
        _, renew, leaves, at = state
        leaves = where_needed(renew, new, leaves)
        at = iterate(jax.tree.unflatten(structure, leaves), ~renew, at)
        again = anyone(failed(at)) & ~renew
        return again, renew | again, leaves, at

    first = jnp.ones((), bool), anyone(kept.renewed), kept.leaves, start
    _, renewed, leaves, at = jax.lax.while_loop(lambda state: state[0], turn, first)
    return at, jax.tree.unflatten(structure, leaves), renewed
