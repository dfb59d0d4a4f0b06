"""Functions with a rule of their own for derivatives, as operations that JAX never looks into.

`jax.custom_jvp` keeps its rule only until JAX splits a program into what depends on tangents and
what does not, as every derivative in reverse mode does. Forward mode over that would differentiate
the body: an iteration instead of its root. The rule of an operation is never lost.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from .jaxprs import OPAQUE, lowered, operation

Arrays = list[Any]
# From the arguments, the tangents of those that vary (None of the others), and the outputs where
# they are known: the outputs, and their tangents or None.
Rule = Callable[[Arrays, Arrays, Arrays | None], tuple[Arrays, Arrays]]

_opaque = operation(OPAQUE)


def opaque(function: Callable[..., Arrays], rule: Rule, *args: Any) -> Arrays:
    """`function(*args)`, of arrays, whose derivatives are those of the rule.

    Neither may use arrays that depend on what is differentiated or batched except its arguments.
    """
    return _opaque.bind(*args, jaxpr=_Program(function, args), rule=rule)


class _Program:
    """The program of a function, traced when it is asked for: where an operation is differentiated,
    which is most often at once, the rule takes its place.
    """

    def __init__(self, function: Callable[..., Arrays], args: Sequence[Any]):
        self._function, self._shapes = function, [jax.typeof(x) for x in args]

    @functools.cached_property
    def closed(self) -> ClosedJaxpr:
        """The whole."""
        return jax.make_jaxpr(self._function)(*self._shapes)

    @property
    def jaxpr(self) -> Jaxpr:
        """The equations of the program."""
        return self.closed.jaxpr

    @property
    def consts(self) -> Arrays:
        """The constants of the program."""
        return self.closed.consts


def known(eqn: JaxprEqn, args: Arrays, out: Arrays) -> Arrays:
    """The outputs of an opaque operation, which are known, with its derivatives."""
    count, rule = len(args), eqn.params["rule"]

    def of_known(primals: Arrays, dots: Arrays, _: Arrays | None = None):
        out = primals[count:]
        return out, rule(primals[:count], dots[:count], out)[1]

    return opaque(lambda *both: list(both[count:]), of_known, *args, *out)


def with_derivative_of(function: Callable[..., Any], value: Any, *args: Any) -> Any:
    """An array that is known to be `function(*args)`, with the derivatives of that, which is traced
    for them alone.
    """
    given, static = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(given)

    def flat(leaves: Arrays) -> Any:
        return function(*eqx.combine(jax.tree.unflatten(structure, leaves), static))

    def known_value(value: Any, *leaves: Any) -> Arrays:
        return opaque(lambda value, *_: [value], rule, value, *leaves)

    def rule(args: Arrays, dots: Arrays, _: Arrays | None) -> tuple[Arrays, Arrays]:
        value, *leaves = args
        varying = [k for k, dot in enumerate(dots[1:]) if dot is not None]
        if not varying:
            return args[:1], [None]

        def of_varying(some: Arrays) -> Any:
            changed = dict(zip(varying, some, strict=True))
            return flat([changed.get(k, x) for k, x in enumerate(leaves)])

        some, tangents = ([of[k] for k in varying] for of in (leaves, dots[1:]))
        return known_value(*args), [jax.jvp(of_varying, (some,), (tangents,))[1]]

    return known_value(jax.lax.stop_gradient(value), *leaves)[0]


def _run(*args: Any, jaxpr: _Program, rule: Rule) -> Arrays:
    return jaxpr_as_fun(jaxpr.closed)(*args)


def _differentiate(primals, tangents, *, jaxpr: _Program, rule: Rule):
    dots = [
        None if isinstance(dot, ad.Zero) or not np.issubdtype(x.dtype, np.inexact) else dot
        for x, dot in zip(primals, tangents, strict=True)
    ]
    out, out_dots = rule(list(primals), dots, None)
    zeros = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in out]
    return out, [z if dot is None else dot for z, dot in zip(zeros, out_dots, strict=True)]


def _batch(args, axes, *, jaxpr: _Program, rule: Rule):
    (size,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    args = [
        x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True)
    ]
    axes = [None if axis is None else 0 for axis in axes]

    def of_batch(primals, dots, out):
        # None is a tree without leaves: what does not vary stays that.
        in_axes = (
            axes,
            [None if dot is None else axis for dot, axis in zip(dots, axes, strict=True)],
            0,
        )
        return jax.vmap(rule, in_axes=in_axes, axis_size=size)(primals, dots, out)

    batch = jax.vmap(jaxpr_as_fun(jaxpr.closed), in_axes=axes, axis_size=size)
    out = opaque(batch, of_batch, *args)
    return out, [0] * len(out)


_opaque.def_impl(_run)
_opaque.def_abstract_eval(lambda *_, jaxpr, rule: jaxpr.closed.out_avals)
ad.primitive_jvps[_opaque] = _differentiate
batching.primitive_batchers[_opaque] = _batch
mlir.register_lowering(
    _opaque, lambda context, *xs, jaxpr, **_: lowered(context, jaxpr.closed, *xs)
)
