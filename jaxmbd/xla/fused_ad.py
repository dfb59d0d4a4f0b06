"""Functions of arrays as one part, whose derivatives are parts as well.

JAX differentiates a program operation by operation, and the derivative of what a CPU runs as one
compiled function would be hundreds of operations again. Here it is two functions: one for the value
and what the derivative needs besides, such as factors of a matrix, the other linear in the
tangents. They are parts in turn, so derivatives of any order are.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import PyTree

from .batch_last import in_lanes
from .cpu_fusion import one_kernel
from .custom_rule_call import opaque
from .jaxprs import Tangents, Values
from .linear_call import linear
from .options import switches


def as_part(function: Callable[..., Values], *args: PyTree) -> Values:
    """`function(*args)`, from pytrees of arrays a list of arrays: on a CPU few compiled functions,
    under `vmap` with the batch axis last. Its derivatives are made in the same way.

    Neither it nor its derivatives may use arrays that depend on what is differentiated or batched
    except its arguments.
    """
    if not switches().checkpoints:
        return function(*args)
    leaves, structure = jax.tree.flatten(args)

    def of_leaves(leaves: Values) -> Values:
        return function(*jax.tree.unflatten(structure, leaves))

    @in_lanes
    def whole(leaves: Values) -> Values:
        return one_kernel(of_leaves, leaves)

    def rule(leaves: Values, dots: Tangents, _: Values | None) -> tuple[Values, Tangents]:
        return _derivative(of_leaves, leaves, dots)

    return opaque(lambda *leaves: whole(list(leaves)), rule, *leaves)


def _derivative(
    function: Callable[[Values], Values], args: Values, dots: Tangents
) -> tuple[Values, Tangents]:
    """Outputs, and tangents of those that have one."""
    varying = [k for k, dot in enumerate(dots) if dot is not None]
    if not varying:
        values = as_part(function, args)
        return values, [None] * len(values)
    tangents = [dot for dot in dots if dot is not None]
    out: Values = []
    inner: Any = None  # the program of the tangents, which `known` traces

    def known(args: Values) -> Values:
        """Outputs, and what the tangents of outputs depend on besides those of arguments."""
        nonlocal out, inner

        def of_varying(some: Values) -> Values:
            changed = dict(zip(varying, some, strict=True))
            return function([changed.get(k, x) for k, x in enumerate(args)])

        out, of_tangents = jax.linearize(of_varying, [args[k] for k in varying])
        inner = jax.make_jaxpr(of_tangents)(tangents)
        return [*out, *(x for x in inner.consts if isinstance(x, Tracer))]

    values = as_part(known, args)
    count = len(out)
    floating = [k for k, x in enumerate(out) if jnp.issubdtype(x.dtype, jnp.inexact)]

    def tangents_of(needed: Values, tangents: Values, asked: list[int]) -> Values:
        each = iter(needed)
        consts = [next(each) if isinstance(x, Tracer) else x for x in inner.consts]
        dots = jaxpr_as_fun(ClosedJaxpr(inner.jaxpr, consts))(*tangents)
        return [dots[k] for k in asked]

    def apply(needed: Values, tangents: Values) -> Values:
        return as_part(functools.partial(tangents_of, asked=floating), needed, tangents)

    def pull(needed: Values, cts: Tangents) -> Values:
        return as_part(pulled, needed, cts)

    def pulled(needed: Values, cts: Tangents) -> Values:
        pairs = [(k, ct) for k, ct in zip(floating, cts, strict=True) if ct is not None]
        of_asked = functools.partial(tangents_of, needed, asked=[k for k, _ in pairs])
        (back,) = jax.linear_transpose(of_asked, tangents)([ct for _, ct in pairs])
        return back

    each = linear(apply, pull, values[count:], tangents)
    found: Tangents = [None] * count
    for k, dot in zip(floating, each, strict=True):
        found[k] = dot
    return values[:count], found
