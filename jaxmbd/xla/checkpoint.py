"""Steps whose backward pass keeps their roots and computes everything else again.

`jax.checkpoint` does that, but takes a step apart into single operations. Here a step stays one
part, which a CPU can run as few compiled functions, in the forward pass as in the backward pass.
What the latter needs comes as one array of each type. The derivatives are those of the step whose
roots are known. `mbd.options(checkpoints=False)` leaves steps to `jax.checkpoint`.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import PyTree

from .batch_last import in_lanes
from .cpu_fusion import one_kernel
from .custom_rule_call import known, opaque
from .dependence import needed, reached
from .fused_ad import as_part
from .jaxprs import OPAQUE, Array, Atom, PyTreeDef, Tangents, Values, bind, shaped
from .linear_call import linear
from .options import switches

ROOT_NAME = "jaxmbd_root"

# Saves the roots of a step and recomputes everything else in the backward pass.
save_roots = jax.checkpoint_policies.save_only_these_names(ROOT_NAME)


def saved(tree: PyTree) -> PyTree:
    """Mark arrays that the backward pass of a step keeps.

    For what a step concludes from the information about a root, such as whether it counts: to
    compute that again would solve for the root again.
    """
    return jax.tree.map(lambda x: checkpoint_name(x, ROOT_NAME), tree)


# Operations in which roots are found and given.
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}

At = Callable[[JaxprEqn, Values], Values]
Places = tuple[int, ...]  # among the arguments and the roots


def checkpointed(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Wrap a function of pytrees of arrays so that its backward pass keeps roots and `saved`
    arrays, and recomputes everything else.
    """

    def whole(*args: PyTree) -> PyTree:
        if not switches().checkpoints:
            return function(*args)
        leaves, structure = jax.tree.flatten(args)
        shape: PyTreeDef | None = None

        def flat(*leaves: Array) -> Values:
            nonlocal shape
            out, shape = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
            return out

        closed = jax.make_jaxpr(flat)(*leaves)
        if not _all_at_top(closed.jaxpr):
            return function(*args)
        return jax.tree.unflatten(shape, _Parts(closed)(leaves))

    return jax.checkpoint(whole, policy=save_roots, prevent_cse=False)


class _Parts:
    """A step as a part for the forward pass and one for the backward pass.

    Of its arguments those come first over which it closes: they are the same in every step.
    """

    def __init__(self, closed: ClosedJaxpr):
        self.closed = closed
        self.traced = [x for x in closed.consts if isinstance(x, Tracer)]
        self.count = len(closed.jaxpr.outvars)
        shapes = [jax.typeof(x) for x in self.traced] + [v.aval for v in closed.jaxpr.invars]
        self.own = len(shapes)
        self.shapes = [*shapes, *_shapes_of_roots(closed.jaxpr)]

    def __call__(self, leaves: Values) -> Values:
        return self._operation([*self.traced, *leaves], ())[: self.count]

    def _operation(self, args: Values, kept: Places) -> Values:
        """Outputs of the step, and what is kept of its arguments and roots."""

        def rule(args: Values, dots: Tangents, _: Values | None) -> tuple[Values, Tangents]:
            return self._rule(args, dots, kept)

        @in_lanes
        def forward(args: Values) -> Values:
            return one_kernel(lambda args: self._forward(args, kept), args)

        return opaque(lambda *args: forward(list(args)), rule, *args)

    def _forward(self, args: Values, kept: Places) -> Values:
        roots: Values = []

        def keep(eqn: JaxprEqn, xs: Values) -> Values:
            out = bind(eqn, *xs)
            roots.extend(out)
            return out

        out = self._evaluated(args, keep)
        return [*out, *self._packed([*args, *roots], kept)]

    def _with_roots(self, args: Values, roots: Values, kept: Places) -> Values:
        """Outputs of the step from known roots, with the derivatives of these."""
        each, found = iter(roots), []

        def give(eqn: JaxprEqn, xs: Values) -> Values:
            values = [next(each) for _ in eqn.outvars]
            if eqn.primitive.name == OPAQUE:
                values = known(eqn, xs, values)
            else:
                values = [_with_value(xs[0], values[0])]
            found.extend(values)
            return values

        out = self._evaluated(args, give)
        return [*out, *self._packed([*args, *found], kept)]

    def _evaluated(self, args: Values, at: At) -> Values:
        each = iter(args)
        consts = [next(each) if isinstance(x, Tracer) else x for x in self.closed.consts]
        return _evaluated(self.closed.jaxpr, consts, list(each), at)

    def _rule(self, args: Values, dots: Tangents, kept: Places) -> tuple[Values, Tangents]:
        varying = [k for k, dot in enumerate(dots) if dot is not None]
        if not varying:
            out = self._operation(args, kept)
            return out, [None] * len(out)

        def floating(every: Values, some: Values) -> Values:
            changed = dict(zip(varying, some, strict=True))
            args = [changed.get(k, x) for k, x in enumerate(every[: self.own])]
            out = self._with_roots(args, every[self.own :], kept)
            return [x for x in out if jnp.issubdtype(x.dtype, jnp.inexact)]

        def tangents(every: Values, dots: Values) -> Values:
            primals = [every[k] for k in varying]
            return jax.jvp(lambda some: floating(every, some), (primals,), (dots,))[1]

        some = [dot for dot in dots if dot is not None]
        program = jax.make_jaxpr(tangents)(self.shapes, some).jaxpr
        # What does not depend on the tangents has none: a number that is zero would be taken for
        # one that varies.
        flags = reached(program, [False] * len(self.shapes) + [True] * len(some))
        wanted = [k for k, flag in enumerate(flags) if flag]
        used = [k for k, flag in enumerate(needed(program, flags)[: len(self.shapes)]) if flag]
        first = len(self.traced)
        fixed = tuple(k for k in used if k < first)
        every = tuple(sorted({*kept, *(k for k in used if k >= first)}))

        out = self._operation(args, every)
        packed = saved(out[self.count :])
        out = out[: self.count]
        if kept:
            out = [*out, *self._packed(self._unpacked(packed, every), kept)]

        def unpacked(others: Values) -> Values:
            values = self._unpacked(others[len(fixed) :], every)
            for k, x in zip(fixed, others, strict=False):
                values[k] = x
            return values

        def apply(others: Values, some: Values) -> Values:
            return as_part(applied, others, some)

        def applied(others: Values, some: Values) -> Values:
            dots = tangents(unpacked(others), some)
            return [dots[k] for k in wanted]

        def pull(others: Values, cts: Tangents) -> Values:
            return as_part(pulled, others, cts)

        def pulled(others: Values, cts: Tangents) -> Values:
            values = unpacked(others)
            pairs = [(k, ct) for k, ct in zip(wanted, cts, strict=True) if ct is not None]

            def asked_for(some: Values) -> Values:
                out = floating(values, some)
                return [out[k] for k, _ in pairs]

            _, back = jax.vjp(asked_for, [values[k] for k in varying])
            return back([ct for _, ct in pairs])[0]

        each = linear(apply, pull, [*(args[k] for k in fixed), *packed], some)
        places = [k for k, x in enumerate(out) if jnp.issubdtype(x.dtype, jnp.inexact)]
        out_dots: Tangents = [None] * len(out)
        for k, dot in zip(wanted, each, strict=True):
            out_dots[places[k]] = dot
        return out, out_dots

    def _packed(self, values: Values, places: Places) -> Values:
        """Some of the values, as one array of each type."""
        return [
            jnp.concatenate([jnp.ravel(values[k]) for k in group])
            for group in self._groups(places).values()
        ]

    def _unpacked(self, packed: Values, places: Places) -> Values:
        """All values, of which zeros stand for those that were not packed."""
        values: Tangents = [None] * len(self.shapes)
        for group, array in zip(self._groups(places).values(), packed, strict=True):
            start = 0
            for k in group:
                shape = self.shapes[k].shape
                end = start + math.prod(shape)
                values[k] = jax.lax.slice(array, [start], [end]).reshape(shape)
                start = end
        return [
            jnp.zeros(a.shape, a.dtype) if x is None else x
            for x, a in zip(values, self.shapes, strict=True)
        ]

    def _groups(self, places: Places) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for k in places:
            groups.setdefault(str(self.shapes[k].dtype), []).append(k)
        return groups


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Array], args: Values, at: At) -> Values:
    """Outputs of the function, with outputs of roots and of what is saved by `at`."""
    of = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(
        zip(jaxpr.invars, args, strict=True)
    )

    def read(v: Atom) -> Array:
        return v.val if isinstance(v, Literal) else of[v]

    for eqn in jaxpr.eqns:
        xs = [read(v) for v in eqn.invars]
        if _is_kept(eqn):
            out = at(eqn, xs)
        elif _holds_roots(eqn):
            inner = eqn.params[_CALLS[eqn.primitive.name]]
            out = _evaluated(inner.jaxpr, inner.consts, xs, at)
        else:
            out = bind(eqn, *xs)
        of |= dict(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _shapes_of_roots(jaxpr: Jaxpr) -> Iterable[ShapedArray]:
    """Shapes of the values that `at` supplies to `_evaluated`, in order of use."""
    for eqn in jaxpr.eqns:
        if _is_kept(eqn):
            yield from (shaped(v) for v in eqn.outvars)
        elif _holds_roots(eqn):
            yield from _shapes_of_roots(eqn.params[_CALLS[eqn.primitive.name]].jaxpr)


def _with_value(x: Array, value: Array) -> Array:
    """A value that is known, with the derivatives of the same value computed again."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    (out,) = opaque(
        lambda x, value: [value],
        lambda args, dots, _: ([args[1]], [dots[0]]),
        x,
        value,
    )
    return out


def _is_kept(eqn: JaxprEqn) -> bool:
    name = eqn.primitive.name
    return name == OPAQUE or (name == "name" and eqn.params["name"] == ROOT_NAME)


def _holds_roots(eqn: JaxprEqn) -> bool:
    return any(_is_kept(e) or _holds_roots(e) for f in _functions(eqn) for e in f.eqns)


def _functions(eqn: JaxprEqn) -> Iterable[Jaxpr]:
    """The functions that the operation holds."""
    for x in jax.tree.leaves(list(eqn.params.values())):
        x = x.jaxpr if isinstance(x, ClosedJaxpr) else x
        if isinstance(x, Jaxpr):
            yield x


def _all_at_top(jaxpr: Jaxpr) -> bool:
    """Whether no loop and no branch holds roots."""
    for eqn in jaxpr.eqns:
        if _is_kept(eqn) or not _holds_roots(eqn):
            continue
        call = _CALLS.get(eqn.primitive.name)
        if call is None or not _all_at_top(eqn.params[call].jaxpr):
            return False
    return True
