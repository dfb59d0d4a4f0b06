"""A primitive for linear functions with a custom transpose rule.

JAX transposes a program operation by operation, and what is found in one operation is of no use to
the next. A transpose of its own may compute things together, and as one part.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from .jaxprs import LINEAR, Array, Tangents, Values, lowered, operation

# From the arrays on which the function depends otherwise: from its arguments its outputs, which may
# be differentiated any number of times, or from cotangents of its outputs, None where they are
# zero, those of its arguments.
Apply = Callable[[Values, Values], Values]
Pull = Callable[[Values, Tangents], Values]

_linear = operation(LINEAR)


def linear(apply: Apply, pull: Pull, others: Values, args: Values) -> Values:
    """`apply(others, args)`, linear in `args`, whose transpose is `pull`.

    Neither may use arrays that depend on what is differentiated or batched except what it is given.
    """
    count = len(others)
    jaxpr = jax.make_jaxpr(lambda *xs: apply(list(xs[:count]), list(xs[count:])))(*others, *args)
    return _linear.bind(*others, *args, jaxpr=jaxpr, apply=apply, pull=pull, count=count)


def _run(*xs: Array, jaxpr: ClosedJaxpr, **_: object) -> Values:
    return jaxpr_as_fun(jaxpr)(*xs)


def _differentiate(
    primals: Sequence[Array],
    tangents: Sequence[Array | ad.Zero],
    *,
    apply: Apply,
    count: int,
    **params: object,
):
    out = _linear.bind(*primals, apply=apply, count=count, **params)
    if all(isinstance(dot, ad.Zero) for dot in tangents[:count]):
        dots = [ad.instantiate_zeros(dot) for dot in tangents[count:]]
        return out, _linear.bind(*primals[:count], *dots, apply=apply, count=count, **params)
    varying = [k for k, dot in enumerate(tangents) if not isinstance(dot, ad.Zero)]

    def of_varying(some: Values) -> Values:
        changed = dict(zip(varying, some, strict=True))
        xs = [changed.get(k, x) for k, x in enumerate(primals)]
        return apply(xs[:count], xs[count:])

    at, dots = ([of[k] for k in varying] for of in (primals, tangents))
    return out, jax.jvp(of_varying, (at,), (dots,))[1]


def _transpose(
    cts: Sequence[Array | ad.Zero],
    *xs: Array | ad.UndefinedPrimal,
    pull: Pull,
    count: int,
    **_: object,
):
    given = [None if isinstance(ct, ad.Zero) else ct for ct in cts]
    if all(ct is None for ct in given):
        return [None] * len(xs)
    others = [x for x in xs[:count] if not isinstance(x, ad.UndefinedPrimal)]
    return [*[None] * count, *pull(others, given)]


def _batch(
    xs: Sequence[Array],
    axes: Sequence[int | None],
    *,
    apply: Apply,
    pull: Pull,
    count: int,
    **_: object,
):
    (size,) = {x.shape[axis] for x, axis in zip(xs, axes, strict=True) if axis is not None}
    others = [None if axis is None else 0 for axis in axes[:count]]
    xs = [
        jnp.moveaxis(x, axis, 0)
        if axis is not None
        else jnp.broadcast_to(x, (size, *jnp.shape(x)))
        if k >= count
        else x
        for k, (x, axis) in enumerate(zip(xs, axes, strict=True))
    ]

    def of_batch(function: Callable[..., Values]) -> Callable[..., Values]:
        return jax.vmap(function, in_axes=(others, 0), axis_size=size)

    out = linear(of_batch(apply), of_batch(pull), xs[:count], xs[count:])
    return out, [0] * len(out)


_linear.def_impl(_run)
_linear.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals)
ad.primitive_jvps[_linear] = _differentiate
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _batch
mlir.register_lowering(_linear, lambda context, *xs, jaxpr, **_: lowered(context, jaxpr, *xs))
