"""A primitive with a custom JVP rule that, unlike `jax.custom_jvp`, survives partial evaluation.

`jax.custom_jvp` keeps its rule only until JAX splits a program into what depends on tangents and
what does not, as every derivative in reverse mode does. Forward mode over that would differentiate
the body: an iteration instead of its root. The rule of an operation is never lost.
"""

import functools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import PyTree

from .jaxprs import OPAQUE, Array, Tangents, Values, lowered, operation

# From the arguments, the tangents of those that vary (None of the others), and the outputs where
# they are known: the outputs, and their tangents or None.
Rule = Callable[[Values, Tangents, Values | None], tuple[Values, Tangents]]

_opaque = operation(OPAQUE)


def opaque(function: Callable[..., Values], rule: Rule, *args: Array) -> Values:
    """`function(*args)`, of arrays, whose derivatives are those of the rule.

    Neither may use arrays that depend on what is differentiated or batched except its arguments.
    """
    return _opaque.bind(*args, jaxpr=_Program(function, args), rule=rule)


class _Program:
    """The program of a function, traced when it is asked for: where an operation is differentiated,
    which is most often at once, the rule takes its place.
    """

    def __init__(self, function: Callable[..., Values], args: Sequence[Array]):
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
    def consts(self) -> Values:
        """The constants of the program."""
        return self.closed.consts


def known(eqn: JaxprEqn, args: Values, out: Values) -> Values:
    """The outputs of an opaque operation, which are known, with its derivatives."""
    count, rule = len(args), eqn.params["rule"]

    def of_known(primals: Values, dots: Tangents, _: Values | None = None):
        out = primals[count:]
        return out, rule(primals[:count], dots[:count], out)[1]

    return opaque(lambda *both: list(both[count:]), of_known, *args, *out)


def with_derivative_of(function: Callable[..., Array], value: Array, *args: PyTree) -> Array:
    """An array that is known to be `function(*args)`, with the derivatives of that, which is traced
    for them alone.
    """
    given, static = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(given)

    def flat(leaves: Values) -> Array:
        return function(*eqx.combine(jax.tree.unflatten(structure, leaves), static))

    def known_value(value: Array, *leaves: Array) -> Values:
        return opaque(lambda value, *_: [value], rule, value, *leaves)

    def rule(args: Values, dots: Tangents, _: Values | None) -> tuple[Values, Tangents]:
        leaves = args[1:]
        varying = [k for k, dot in enumerate(dots[1:]) if dot is not None]
        if not varying:
            return args[:1], [None]

        def of_varying(some: Values) -> Array:
            changed = dict(zip(varying, some, strict=True))
            return flat([changed.get(k, x) for k, x in enumerate(leaves)])

        some, tangents = ([of[k] for k in varying] for of in (leaves, dots[1:]))
        return known_value(*args), [jax.jvp(of_varying, (some,), (tangents,))[1]]

    return known_value(jax.lax.stop_gradient(value), *leaves)[0]


def _run(*args: Array, jaxpr: _Program, rule: Rule) -> Values:
    return jaxpr_as_fun(jaxpr.closed)(*args)


def _differentiate(
    primals: Sequence[Array], tangents: Sequence[Array | ad.Zero], *, jaxpr: _Program, rule: Rule
):
    dots = [
        None if isinstance(dot, ad.Zero) or not np.issubdtype(x.dtype, np.inexact) else dot
        for x, dot in zip(primals, tangents, strict=True)
    ]
    out, out_dots = rule(list(primals), dots, None)
    zeros = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in out]
    return out, [z if dot is None else dot for z, dot in zip(zeros, out_dots, strict=True)]


def _batch(args: Sequence[Array], axes: Sequence[int | None], *, jaxpr: _Program, rule: Rule):
    (size,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    args = [
        x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True)
    ]
    axes = [None if axis is None else 0 for axis in axes]

    def of_batch(primals: Values, dots: Tangents, out: Values | None):
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
