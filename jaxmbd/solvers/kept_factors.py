"""Factorizations that are reused in later steps; most steps of a smooth motion need no new one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from ..xla.batch_last import anyone
from ..xla.lazy_cond import where_needed


class KeptFactors(eqx.Module):
    """Arrays of a reusable factorization; the caller that builds it knows the pytree structure.

    Attributes:
        leaves: The arrays.
        renewed: Before an iteration: whether to make them anew. After it: whether that was done.
    """

    leaves: tuple[Array, ...]
    renewed: Bool[Array, ""]

    @staticmethod
    def none(make: Callable[[], PyTree]) -> "KeptFactors":
        """Room for what `make` returns."""
        shapes = jax.tree.leaves(jax.eval_shape(make))
        return KeptFactors(tuple(jnp.zeros(x.shape, x.dtype) for x in shapes), jnp.ones((), bool))


def iterate_with(
    kept: KeptFactors,
    make: Callable[[], PyTree],
    iterate: Callable[[PyTree, Bool[Array, ""], PyTree], PyTree],
    start: PyTree,
    failed: Callable[[PyTree], Bool[Array, ""]],
) -> tuple[PyTree, PyTree, Bool[Array, ""]]:
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

    def turn(state: PyTree):
        _, renew, leaves, at = state
        leaves = where_needed(renew, new, leaves)
        at = iterate(jax.tree.unflatten(structure, leaves), ~renew, at)
        again = anyone(failed(at)) & ~renew
        return again, renew | again, leaves, at

    first = jnp.ones((), bool), anyone(kept.renewed), kept.leaves, start
    _, renewed, leaves, at = jax.lax.while_loop(lambda state: state[0], turn, first)
    return at, jax.tree.unflatten(structure, leaves), renewed
