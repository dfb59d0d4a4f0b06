"""Loops of few turns, as many as are needed, that can be differentiated in both modes.

`jax.lax.while_loop` has no reverse mode, and a scan over branches keeps and copies what every
branch computes of every turn, taken or not: a gradient took ten times as long. Here the derivative
runs through the turns that were taken, and computes each of them again from where it began. Under
a checkpoint all turns but the last one are found again, so that the loop keeps what one turn does.
`mbd.options(loops=False)` makes it a scan over branches.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array as JaxArray
from jax.core import Tracer, eval_jaxpr
from jaxtyping import Bool, PyTree

from .checkpoint import save_roots
from .custom_rule_call import opaque
from .jaxprs import Array, Tangents, Values
from .lazy_cond import anywhere, largest
from .linear_call import linear
from .options import switches

Body = Callable[[Any, Any, Bool[JaxArray, ""]], tuple[Any, Any]]


def repeated(
    body: Body,
    carry: PyTree,
    found: PyTree,
    pending: Callable[[PyTree], Bool[JaxArray, ""]],
    most: int,
) -> PyTree:
    """The carry after `body` was applied to it while `pending`, at most `most` times.

    In a batch, turns are taken while any element is pending, and the others keep their carry.

    Args:
        body: `body(carry, found, known)` gives the next carry, and what it found on the way, such
            as roots. When a derivative computes a turn again, `known` is set and `found` is that.
        carry: A pytree of arrays.
        found: Arrays of the shapes that `body` finds.
        pending: Whether another turn follows.
        most: Turns at most.
    """
    if not switches().loops:
        return _scanned(body, carry, found, pending, most)
    loop = _Loop(body, carry, found, pending, most)
    out = opaque(loop.forward, loop.rule, *loop.traced, *loop.leaves)
    return jax.tree.unflatten(loop.tree, out[: loop.count])


def _scanned(
    body: Body,
    carry: PyTree,
    found: PyTree,
    pending: Callable[[PyTree], Bool[JaxArray, ""]],
    most: int,
) -> PyTree:
    """The same by JAX's own operations; every turn keeps its roots for a derivative."""
    nothing = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), x.dtype), found)

    @functools.partial(jax.checkpoint, policy=save_roots, prevent_cse=False)
    def turn(carry: PyTree, _: None) -> tuple[PyTree, None]:
        def taken(carry: PyTree) -> PyTree:
            return body(carry, nothing, jnp.zeros((), bool))[0]

        return jax.lax.cond(pending(carry), taken, lambda carry: carry, carry), None

    return jax.lax.scan(turn, carry, length=most)[0]


class _Loop:
    """The loop as a function of flat arrays: those over which its body closes, and its carry."""

    def __init__(
        self,
        body: Body,
        carry: PyTree,
        found: PyTree,
        pending: Callable[[PyTree], Bool[JaxArray, ""]],
        most: int,
    ):
        self.leaves, self.tree = jax.tree.flatten(carry)
        found, tree_of_found = jax.tree.flatten(found)
        self.pending, self.most = pending, most

        def flat(leaves: Values, found: Values, known: Array) -> Values:
            after, new = body(
                jax.tree.unflatten(self.tree, leaves),
                jax.tree.unflatten(tree_of_found, found),
                known,
            )
            return [*jax.tree.leaves(after), *jax.tree.leaves(new)]

        no = jnp.zeros((), bool)
        self.closed = jax.make_jaxpr(flat)(self.leaves, found, no)
        self.traced = [x for x in self.closed.consts if isinstance(x, Tracer)]
        self.count = len(self.leaves)
        self.shapes = [jax.ShapeDtypeStruct(jnp.shape(x), x.dtype) for x in [*self.leaves, *found]]
        self.floats = [k for k, x in enumerate(self.leaves) if _varies(x)]

    def once(self, traced: Values, leaves: Values, found: Values, known: Array) -> Values:
        """One turn: the next carry, then what was found."""
        each = iter(traced)
        consts = [next(each) if isinstance(x, Tracer) else x for x in self.closed.consts]
        return eval_jaxpr(self.closed.jaxpr, consts, *leaves, *found, known)

    def goes(self, leaves: Values) -> Bool[JaxArray, ""]:
        """Whether another turn follows, of each element of a batch."""
        return jnp.asarray(self.pending(jax.tree.unflatten(self.tree, leaves)))

    def turn(self, traced: Values, leaves: Values) -> tuple[Values, Values, Array]:
        """The next carry where another turn follows, what was found, and whether one did."""
        goes = self.goes(leaves)
        out = self.once(traced, leaves, self.nothing(), jnp.zeros((), bool))
        after = [jnp.where(goes, a, b) for a, b in zip(out, leaves, strict=False)]
        return after, out[len(leaves) :], goes

    def nothing(self) -> Values:
        """Placeholders for results that are not found yet."""
        return [jnp.zeros(x.shape, x.dtype) for x in self.shapes[self.count :]]

    def split(self, args: Sequence[Array]) -> tuple[Values, Values]:
        """Arrays over which the body closes, and its carry."""
        count = len(self.traced)
        return list(args[:count]), list(args[count:])

    def forward(self, *args: Array) -> Values:
        """The carry at the end, the number of turns, and what the last one found."""
        traced, leaves = self.split(args)

        def more(state: PyTree) -> Array:
            return (state[1] < self.most) & anywhere(self.goes(state[0]))

        def turn(state: PyTree) -> PyTree:
            after, found, _ = self.turn(traced, state[0])
            return after, state[1] + 1, found

        state = leaves, jnp.zeros((), int), self.nothing()
        leaves, count, found = jax.lax.while_loop(more, turn, state)
        return [*leaves, count, *found]

    def recorded(self, args: Values, out: Values) -> Values:
        """The number of turns, and what each began with and found; the last one is not repeated."""
        traced, leaves = self.split(args)
        count, last = largest(out[self.count]), out[self.count + 1 :]
        packed, flags = self.packed([*leaves, *last], self.goes(leaves))
        numbers = jnp.zeros((self.most, packed.size), packed.dtype)
        counts = jnp.zeros((self.most, flags.size), flags.dtype)

        def turn(state: PyTree) -> PyTree:
            k, leaves, numbers, counts = state
            after, found, goes = self.turn(traced, leaves)
            packed, flags = self.packed([*leaves, *found], goes)
            return k + 1, after, numbers.at[k].set(packed), counts.at[k].set(flags)

        state = jnp.zeros((), int), leaves, numbers, counts
        k, leaves, numbers, counts = jax.lax.while_loop(lambda s: s[0] < count - 1, turn, state)
        packed, flags = self.packed([*leaves, *last], self.goes(leaves))
        return [count, numbers.at[k].set(packed), counts.at[k].set(flags)]

    def packed(self, values: Values, goes: Array) -> tuple[Array, Array]:
        """All values in one array of floats and one of integers."""
        floats = [jnp.ravel(x) for x in values if _varies(x)]
        others = [jnp.ravel(x).astype(int) for x in values if not _varies(x)]
        return jnp.concatenate(floats), jnp.concatenate([*others, goes.astype(int)[None]])

    def unpacked(self, numbers: Array, counts: Array) -> tuple[Values, Values, Array]:
        """A carry, what was found from it, and whether the turn was taken."""
        values, at = [], {True: 0, False: 0}
        for x in self.shapes:
            varies = _varies(x)
            source, begin = numbers if varies else counts, at[varies]
            at[varies] += math.prod(x.shape)
            part = jax.lax.slice(source, [begin], [at[varies]])
            values.append(part.reshape(x.shape).astype(x.dtype))
        return values[: self.count], values[self.count :], counts[-1] > 0

    def rule(self, args: Values, dots: Tangents, known: Values | None) -> tuple[Values, Tangents]:
        """The derivative: turns in their order, or back."""
        varying = [k for k, dot in enumerate(dots) if dot is not None]
        out = opaque(self.forward, self.rule, *args) if known is None else known
        if not varying:
            return out, [None] * len(out)
        turns, first = self.recorded(args, out), len(self.traced)
        # Arrays over which the body closes, and numbers of the carry at the start, that vary.
        closed = [k for k in varying if k < first]
        begins = [k - first for k in varying if k >= first]
        others = [*args[:first], *turns]

        def at(
            others: Values, k: Array
        ) -> tuple[Callable[[Values, Values], Values], Values, Values, Array]:
            traced, (_, numbers, counts) = others[:first], others[first:]
            leaves, found, goes = self.unpacked(
                *(jax.lax.dynamic_index_in_dim(x, k, keepdims=False) for x in (numbers, counts))
            )

            def function(some: Values, floats: Values) -> Values:
                changed, started = list(traced), list(leaves)
                for k, x in zip(closed, some, strict=True):
                    changed[k] = x
                for k, x in zip(self.floats, floats, strict=True):
                    started[k] = x
                after = self.once(changed, started, found, jnp.ones((), bool))
                return [after[k] for k in self.floats]

            return function, [traced[k] for k in closed], [leaves[k] for k in self.floats], goes

        def apply(others: Values, dots: Values) -> Values:
            of_closed, given = (
                dots[: len(closed)],
                dict(zip(begins, dots[len(closed) :], strict=True)),
            )
            floats = [
                given.get(k, jnp.zeros(self.shapes[k].shape, self.shapes[k].dtype))
                for k in self.floats
            ]

            def turn(state: PyTree) -> PyTree:
                k, dots = state
                function, some, leaves, goes = at(others, k)
                new = jax.jvp(function, (some, leaves), (of_closed, dots))[1]
                return k + 1, [jnp.where(goes, a, b) for a, b in zip(new, dots, strict=True)]

            state = jnp.zeros((), int), floats
            return jax.lax.while_loop(lambda s: s[0] < others[first], turn, state)[1]

        def pull(others: Values, cts: Tangents) -> Values:
            shapes = [self.shapes[k] for k in self.floats]
            starts = [
                jnp.zeros(x.shape, x.dtype) if ct is None else ct
                for x, ct in zip(shapes, cts, strict=True)
            ]
            total = [jnp.zeros_like(others[k]) for k in closed]

            def turn(state: PyTree) -> PyTree:
                k, total, cts = state
                function, some, leaves, goes = at(others, k - 1)
                passed = [jnp.where(goes, ct, 0.0) for ct in cts]
                of_closed, back = jax.vjp(function, some, leaves)[1](passed)
                total = [a + b for a, b in zip(total, of_closed, strict=True)]
                return k - 1, total, [jnp.where(goes, a, b) for a, b in zip(back, cts, strict=True)]

            state = others[first], total, starts
            _, total, ends = jax.lax.while_loop(lambda s: s[0] > 0, turn, state)
            given = dict(zip(self.floats, ends, strict=True))
            return [*total, *(given[k] for k in begins)]

        found = linear(apply, pull, others, [dot for dot in dots if dot is not None])
        out_dots: Tangents = [None] * len(out)
        for k, dot in zip(self.floats, found, strict=True):
            out_dots[k] = dot
        return out, out_dots


def _varies(x: Array | jax.ShapeDtypeStruct) -> bool:
    # A literal of a program is a number of Python.
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))
