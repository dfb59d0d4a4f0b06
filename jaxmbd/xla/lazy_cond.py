"""Work that is done only where it is needed, also in a batch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import Tracer, eval_jaxpr
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, PyTree

from .options import switches


def where_needed(flag: Bool[Array, ""], compute: Callable[[], PyTree], otherwise: PyTree) -> PyTree:
    """`compute()` where the flag is set, in a batch where it is in any element; a loop of at most
    one turn, because `vmap` takes both sides of a branch. `mbd.options(loops=False)` makes it a
    branch.
    """
    if not switches().loops:
        return jax.lax.cond(flag, compute, lambda: otherwise)
    closed, shape = jax.make_jaxpr(compute, return_shape=True)()
    tree = jax.tree.structure(shape)

    def turn(state: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        # XLA takes out of a loop what is the same in every turn, which here is everything: the work
        # would be done whether it is needed or not. So it is made to depend on the flag. Versions
        # that leave it inside fail `tests/xla/test_upstream_defects.py`.
        flag, _ = state
        consts = [
            jnp.where(flag, x, jnp.zeros((), x.dtype)) if isinstance(x, Tracer) else x
            for x in closed.consts
        ]
        out = jax.tree.unflatten(tree, eval_jaxpr(closed.jaxpr, consts))
        return jnp.zeros((), bool), out

    return jax.lax.while_loop(lambda state: state[0], turn, (flag, otherwise))[1]


@custom_vmap
def anywhere(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """The flag; in a batch, whether it is set in any element."""
    return flag


@anywhere.def_vmap
def _(size: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return anywhere(jnp.any(flag, axis=0)), False


@custom_vmap
def largest(x: Int[Array, ""]) -> Int[Array, ""]:
    """The number; in a batch, the largest of all elements."""
    return x


@largest.def_vmap
def _(size: int, batched: list[bool], x: Array) -> tuple[Array, bool]:
    return largest(jnp.max(x, axis=0)), False
