"""Programs as JAX writes them down: what evaluates, divides and replays them has in common."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Primitive

Values = list[Any]
Flags = list[bool]

JAXLIB = tuple(int(x) for x in version("jaxlib").split(".")[:2])

# Operations of this package.
KERNEL, LINEAR, OPAQUE = "jaxmbd_kernel", "jaxmbd_linear", "jaxmbd_opaque"


def bind(eqn: JaxprEqn, *xs: Any, **changed: Any) -> Values:
    """Apply the operation, with some of its parameters changed."""
    # An operation that holds functions (custom_vjp_call) takes them otherwise than its equation
    # stores them; up to jax 0.8 they came apart from the other parameters.
    given = eqn.primitive.get_bind_params(eqn.params | changed)
    functions, params = given if isinstance(given, tuple) else ((), given)
    out = eqn.primitive.bind(*functions, *xs, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def reached(jaxpr: Jaxpr, flags: Flags, common: Any = lambda eqn: False) -> Flags:
    """Outputs that depend on flagged inputs; not through operations that are common to all."""
    known = dict(zip(jaxpr.invars, flags, strict=True))

    def read(v: Any) -> bool:
        return not isinstance(v, Literal) and known.get(v, False)

    for eqn in jaxpr.eqns:
        flag = any(read(v) for v in eqn.invars) and not common(eqn)
        known |= {v: flag for v in eqn.outvars}
    return [read(v) for v in jaxpr.outvars]


def needed(jaxpr: Jaxpr, flags: Flags) -> Flags:
    """Inputs on which flagged outputs depend."""
    known = {
        v
        for v, flag in zip(jaxpr.outvars, flags, strict=True)
        if flag and not isinstance(v, Literal)
    }
    for eqn in reversed(jaxpr.eqns):
        if known.intersection(eqn.outvars):
            known.update(v for v in eqn.invars if not isinstance(v, Literal))
    return [v in known for v in jaxpr.invars]


def operation(name: str) -> Primitive:
    """An operation with several outputs that holds a program."""
    made = Primitive(name)
    made.multiple_results = True
    # As of jax 0.12, operations that hold others of a higher level of JAX's must be able to lower
    # them in advance. Those of this package do so where they are lowered themselves.
    made.is_high = lambda *_, **__: False  # pyright: ignore[reportAttributeAccessIssue]
    return made


def compiled_sum(x: Any, axes: Iterable[Any]) -> Any:
    """The sum over some axes, compiled like everything else; without a derivative.

    XLA as of jax 0.11 gives sums that involve an array of 4096 numbers or more to a library, which
    takes up to ten times as long as what it would compile itself. It knows them by their form, and
    this one, the same to the last bit, has another.
    """
    axes = tuple(int(k) for k in axes)
    if JAXLIB < (0, 11) or not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        return jnp.sum(x, axis=axes, dtype=jnp.result_type(x))
    return lax.reduce(x, np.zeros((), jnp.result_type(x)), lambda a, b: a - (-b), axes)


def solve_part(eqn: JaxprEqn, xs: Values) -> tuple[Any, Values]:
    """Of a `custom_linear_solve` the function that solves, and its arguments."""
    lengths = eqn.params["const_lengths"]
    first, end = lengths.matvec + lengths.vecmat, sum(lengths)
    return eqn.params["jaxprs"].solve, [*xs[first : first + lengths.solve], *xs[end:]]


def scan_parts(eqn: JaxprEqn) -> tuple[slice, slice, slice]:
    """Of the arguments of a scan: constants, what is carried, and what goes in row by row.

    Shapes tell them apart in every version of JAX, whose names for their numbers change: a row has
    an axis less than what it is taken from.
    """
    inner = eqn.params["jaxpr"].jaxpr

    def whole(outer: Any, own: Any) -> int:
        return sum(a.aval.ndim == b.aval.ndim for a, b in zip(outer, own, strict=True))

    carried = whole(eqn.outvars, inner.outvars)
    end = whole(eqn.invars, inner.invars)
    return slice(0, end - carried), slice(end - carried, end), slice(end, None)


# Operations that call a function and do nothing else, and where they keep it.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    KERNEL: "jaxpr",
    LINEAR: "jaxpr",
    OPAQUE: "jaxpr",
}
