"""Work that is done only where it is needed, also in a batch."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer, eval_jaxpr
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int


def where_needed(flag: Bool[Array, ""], compute: Callable[[], Any], otherwise: Any) -> Any:
    """`compute()` where the flag is set, in a batch where it is in any element; a loop of at most
    one turn, because `vmap` takes both sides of a branch.
    """
    closed, shape = jax.make_jaxpr(compute, return_shape=True)()
    tree = jax.tree.structure(shape)

    def turn(state: Any) -> Any:
        # XLA takes out of a loop what is the same in every turn, which here is everything: the work
        # would be done whether it is needed or not. So it is made to depend on the flag.
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
def _(size: int, batched: Any, flag: Array) -> tuple[Array, bool]:
    return anywhere(jnp.any(flag, axis=0)), False


@custom_vmap
def largest(x: Int[Array, ""]) -> Int[Array, ""]:
    """The number; in a batch, the largest of all elements."""
    return x


@largest.def_vmap
def _(size: int, batched: Any, x: Array) -> tuple[Array, bool]:
    return largest(jnp.max(x, axis=0)), False


def repeated(
    body: Callable[[Any], Any],
    carry: Any,
    pending: Callable[[Any], Bool[Array, ""]],
    most: int,
) -> Any:
    """The carry after `body` was applied to it while `pending`, at most about `most` times.

    Unlike `jax.lax.while_loop` it can be differentiated in both modes. In a batch, turns are taken
    while any element is pending, and the others keep their carry. Loops of two levels, so that what
    needs one turn skips only about 2 √most others, and one copy of the body is compiled.
    """
    inner = math.isqrt(most - 1) + 1

    def turn(carry: Any) -> Any:
        goes = pending(carry)
        return jax.tree.map(lambda a, b: jnp.where(goes, a, b), body(carry), carry)

    def loop(step: Callable[[Any], Any], length: int) -> Callable[[Any], Any]:
        def once(carry: Any, _: None) -> tuple[Any, None]:
            return jax.lax.cond(anywhere(pending(carry)), step, lambda c: c, carry), None

        return lambda carry: jax.lax.scan(once, carry, None, length=length)[0]

    return loop(loop(turn, inner), -(-most // inner))(carry)
