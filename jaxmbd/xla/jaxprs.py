"""Helpers to evaluate, split and rewrite jaxprs, and the types of their values."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.core import eval_jaxpr as eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var, jaxpr_as_fun
from jax.extend.mlir import ir
from jax.interpreters import mlir
from jaxtyping import PyTree

from .options import switches
from .versions import JAXLIB as JAXLIB

if TYPE_CHECKING:
    from jax import Array

    PyTreeDef = Hashable  # no class to pyright
else:
    from jax.tree_util import PyTreeDef as PyTreeDef

    # Programs hold tracers, arrays of either library, and literals, for which every version of JAX
    # has a class of its own: a checker at run time has nothing to hold on to.
    Array = object

Values = list[Array]
Tangents = list[Array | None]  # None stands for a tangent or cotangent that is zero
Flags = list[bool]
T = TypeVar("T")
Atom = Var | Literal
Context = mlir.LoweringRuleContext
Lowered = Sequence[ir.Value | Sequence[ir.Value]]

# Operations of this package.
KERNEL, LINEAR, OPAQUE = "jaxmbd_kernel", "jaxmbd_linear", "jaxmbd_opaque"


def bind(eqn: JaxprEqn, *xs: Array, **changed: object) -> Values:
    """Apply the operation, with some of its parameters changed."""
    # An operation that holds functions (custom_vjp_call) takes them otherwise than its equation
    # stores them; up to jax 0.8 they came apart from the other parameters.
    given = eqn.primitive.get_bind_params(eqn.params | changed)
    functions, params = given if isinstance(given, tuple) else ((), given)
    out = eqn.primitive.bind(*functions, *xs, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def shaped(v: Atom) -> ShapedArray:
    """Shape and type of a variable that stands for an array."""
    aval: Any = v.aval
    return aval


def operation(name: str) -> Primitive:
    """An operation with several outputs that holds a program."""
    made = Primitive(name)
    made.multiple_results = True
    # As of jax 0.12, operations that hold others of a higher level of JAX's must be able to lower
    # them in advance. Those of this package do so where they are lowered themselves.
    made.is_high = lambda *_, **__: False  # pyright: ignore[reportAttributeAccessIssue]
    return made


def compiled_sum(x: Array, axes: Iterable[int | np.integer]) -> Array:
    """The sum over some axes, compiled like everything else; without a derivative.

    XLA as of jax 0.11, in single precision before too, gives sums that involve an array of 4096
    numbers or more to a library, which takes up to ten times as long as what it would compile
    itself, and which a kernel cannot call. It knows them by their form, and this one, the same to
    the last bit, has another. `tests/xla/test_upstream_defects.py` fails when it no longer does.
    """
    axes, kind = tuple(int(k) for k in axes), jnp.result_type(x)
    own = jnp.issubdtype(kind, jnp.floating) and (JAXLIB >= (0, 11) or kind == jnp.float32)
    if not own:
        return jnp.sum(x, axis=axes, dtype=kind)
    return lax.reduce(x, np.zeros((), kind), lambda a, b: a - (-b), axes)


def solve_part(eqn: JaxprEqn, xs: list[T]) -> tuple[ClosedJaxpr, list[T]]:
    """The solving function of a `custom_linear_solve`, and its arguments."""
    lengths = eqn.params["const_lengths"]
    first, end = lengths.matvec + lengths.vecmat, sum(lengths)
    return eqn.params["jaxprs"].solve, [*xs[first : first + lengths.solve], *xs[end:]]


def scan_parts(eqn: JaxprEqn) -> tuple[slice, slice, slice]:
    """The arguments of a scan: constants, carry, and inputs that are consumed row by row.

    Shapes tell them apart in every version of JAX, whose names for their numbers change: a row has
    an axis less than what it is taken from.
    """
    inner = eqn.params["jaxpr"].jaxpr

    def whole(outer: Sequence[Atom], own: Sequence[Atom]) -> int:
        return sum(shaped(a).ndim == shaped(b).ndim for a, b in zip(outer, own, strict=True))

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
# Those of them that are traced before anyone asks.
PLAIN_CALLS = frozenset(CALLS) - {KERNEL, LINEAR, OPAQUE}


# --- programs made of the equations of others, which nothing traces again
# ------------------------------------------------------------------------------------------------

# How an equation is written with others: the function that does it, or None where it stays.
Written = Callable[..., Sequence[Array | np.ndarray]]
Rewrite = Callable[[JaxprEqn], Written | None]

_MODEL = jax.make_jaxpr(lambda x: -x)(0.0).jaxpr
# Later than in jax 0.8, where equations came from in the user's program is an argument.
_TRACED: dict[str, Any] = (
    {"outer_traceback": None}
    if "outer_traceback" in signature(mlir.jaxpr_subcomp).parameters
    else {}
)


def equation(
    operation: Primitive, xs: Sequence[Atom], out: list[Var], params: Mapping[str, object]
) -> JaxprEqn:
    """An equation without effects."""
    return _MODEL.eqns[0].replace(primitive=operation, invars=list(xs), outvars=out, params=params)


def program(
    invars: Iterable[Var],
    outvars: Iterable[Atom],
    eqns: Iterable[JaxprEqn],
    consts: Mapping[Var, Array | np.ndarray],
) -> ClosedJaxpr:
    """The program of some equations, with those constants that it uses."""
    invars, outvars, eqns = list(invars), list(outvars), list(eqns)
    used = {v for eqn in eqns for v in variables(eqn.invars)} | set(variables(outvars))
    consts = {v: x for v, x in consts.items() if v in used}
    effects = frozenset().union(*(eqn.effects for eqn in eqns))
    high = any(_is_high(eqn) for eqn in eqns)
    # JAX counts the names when it evaluates what it must lower in two steps.
    debug: Any = _MODEL.debug_info
    debug = debug._replace(arg_names=("",) * len(invars), result_paths=("",) * len(outvars))
    made = Jaxpr(list(consts), invars, outvars, eqns, effects, debug, high)
    return ClosedJaxpr(made, list(consts.values()))


def _is_high(eqn: JaxprEqn) -> bool:
    """Whether the equation must become others before it can be lowered."""
    told: Any = eqn.primitive
    return told.is_high(*(v.aval for v in eqn.invars), **eqn.params)


def variables(values: Iterable[Atom]) -> list[Var]:
    """The variables among the values; literals are left out."""
    return [v for v in values if not isinstance(v, Literal)]


def flattened(closed: ClosedJaxpr, rewrite: Rewrite) -> ClosedJaxpr:
    """The program without calls of functions in it, nor in its loops and branches, and without
    repeated and unused equations. Some are written anew.
    """
    copy = _Copy(rewrite)
    invars = [Var(v.aval) for v in closed.jaxpr.invars]
    out = copy.inline(closed, invars)
    known, kept = set(variables(out)), []
    for eqn in reversed(copy.eqns):
        if eqn.effects or any(v in known for v in eqn.outvars):
            kept.append(eqn)
            known.update(variables(eqn.invars))
    return program(invars, out, reversed(kept), copy.consts)


class _Copy:
    """Equations of programs, one after another, with variables of its own."""

    def __init__(self, rewrite: Rewrite):
        self.rewrite = rewrite
        self.eqns: list[JaxprEqn] = []
        self.consts: dict[Var, Array] = {}
        self._made: dict[Hashable, list[Var]] = {}
        self._var_of: dict[int, Var] = {}

    def inline(
        self, closed: ClosedJaxpr, args: Sequence[Atom], *, final: bool = False
    ) -> list[Atom]:
        """Outputs of a program on some variables or numbers; `final` writes nothing anew."""
        jaxpr = closed.jaxpr
        known: dict[Var, Atom] = dict(zip(jaxpr.invars, args, strict=True))
        for v, x in zip(jaxpr.constvars, closed.consts, strict=True):
            known[v] = self._const(v, x)

        def read(v: Atom) -> Atom:
            return v if isinstance(v, Literal) else known[v]

        for eqn in jaxpr.eqns:
            out = self._copied(eqn, [read(v) for v in eqn.invars], final=final)
            known |= dict(zip(eqn.outvars, out, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _copied(self, eqn: JaxprEqn, xs: list[Atom], *, final: bool) -> Sequence[Atom]:
        function = None if final else self.rewrite(eqn)
        if function is not None:
            return self.inline(_written(eqn, function), xs, final=True)
        if is_nested(eqn):
            return self._add(eqn, xs, inner_programs(eqn, lambda f: flattened(f, self.rewrite)))
        called = called_function(eqn, xs)
        if called is not None:
            return self.inline(*called, final=final)
        return self._add(eqn, xs, {})

    def _const(self, v: Var, value: Array) -> Var:
        """One variable for every array."""
        if id(value) not in self._var_of:
            own = self._var_of[id(value)] = Var(v.aval)
            self.consts[own] = value  # which keeps the array, so that no other gets its number
        return self._var_of[id(value)]

    def _add(self, eqn: JaxprEqn, xs: list[Atom], changed: Mapping[str, object]) -> list[Var]:
        params = {**eqn.params, **changed}
        key = None if eqn.effects or changed else _key(eqn.primitive, xs, params, eqn.ctx)
        if key in self._made:
            return self._made[key]
        out = [Var(v.aval) for v in eqn.outvars]
        self.eqns.append(eqn.replace(invars=xs, outvars=out, params=params))
        if key is not None:
            self._made[key] = out
        return out


def _key(
    primitive: Primitive, xs: Sequence[object], params: dict[str, object], context: object
) -> Hashable | None:
    """A key that is equal for equations with the same result; None where equality is unknown."""
    each = tuple((str(x.val), x.aval) if isinstance(x, Literal) else x for x in xs)
    key = primitive, each, tuple(sorted(params.items())), context
    try:
        hash(key)
    except TypeError:
        return None
    return key


_WRITTEN: dict[Hashable, ClosedJaxpr] = {}
_WRITTEN_AT_MOST = 4096


def _written(eqn: JaxprEqn, function: Written) -> ClosedJaxpr:
    """The program that replaces an equation; cached by operation, shapes and parameters."""
    avals = [v.aval for v in eqn.invars]
    key = _key(eqn.primitive, avals, eqn.params, eqn.ctx)
    if key is not None and key in _WRITTEN:
        return _WRITTEN[key]
    made = jax.make_jaxpr(function)(*avals)
    if key is not None:
        if len(_WRITTEN) >= _WRITTEN_AT_MOST:
            _WRITTEN.clear()
        _WRITTEN[key] = made
    return made


def traced_once(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Wrap a function of pytrees of arrays so that it is traced once for each set of shapes:
    applying the recorded operations again takes a tenth of the time. The function may close over
    known arrays only.
    """
    known: dict[Hashable, tuple[ClosedJaxpr, PyTreeDef]] = {}

    def call(*args: PyTree) -> PyTree:
        if not switches().programs:
            return function(*args)
        leaves, structure = jax.tree.flatten(args)
        shapes = [jax.typeof(x) for x in leaves]
        key = structure, tuple(shapes), switches()
        if key not in known:
            like = jax.tree.unflatten(structure, shapes)
            closed, out = jax.make_jaxpr(function, return_shape=True)(*like)
            known[key] = closed, jax.tree.structure(out)
        closed, tree = known[key]
        return jax.tree.unflatten(tree, jaxpr_as_fun(closed)(*leaves))

    return call


def called_function(eqn: JaxprEqn, xs: list[Atom]) -> tuple[ClosedJaxpr, list[Atom]] | None:
    """The function that the equation calls and does nothing else, and its arguments; None if it is
    no call.
    """
    name = eqn.primitive.name
    if name == "custom_linear_solve":
        function, xs = solve_part(eqn, xs)
        return _closed(function), xs
    return (_closed(eqn.params[_INLINE[name]]), xs) if name in _INLINE else None


def held_function(eqn: JaxprEqn) -> ClosedJaxpr:
    """The function that an operation of `CALLS` calls."""
    return _closed(eqn.params[CALLS[eqn.primitive.name]])


def _closed(function: Any) -> ClosedJaxpr:
    # A program, or one with constants, or what traces one when its attributes are read.
    jaxpr, consts = getattr(function, "jaxpr", function), getattr(function, "consts", ())
    return ClosedJaxpr(jaxpr, consts)


def is_nested(eqn: JaxprEqn) -> bool:
    """Whether it is control flow that can be written anew: branches for several platforms are left
    to JAX, and loops whose members end one by one under `vmap`.
    """
    if eqn.primitive.name == "while":
        return not eqn.params["cond_jaxpr"].out_avals[0].shape
    return eqn.primitive.name in NESTED and not eqn.params.get("branches_platforms")


def inner_programs(
    eqn: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr] = lambda f: f
) -> dict[str, ClosedJaxpr | tuple[ClosedJaxpr, ...]]:
    """The functions that control flow holds, by the names of its parameters."""
    params = eqn.params
    if "branches" in params:
        return {"branches": tuple(change(branch) for branch in params["branches"])}
    names = ("cond_jaxpr", "body_jaxpr") if eqn.primitive.name == "while" else ("jaxpr",)
    return {name: change(params[name]) for name in names}


def lowered(context: Context, closed: ClosedJaxpr, *args: ir.Value) -> Lowered:
    """Lower an operation to the equations of a program."""
    if closed.jaxpr.is_high:  # becomes one of lower operations when it is traced again
        return mlir.lower_fun(jaxpr_as_fun(closed), multiple_results=True)(context, *args)
    consts = [
        mlir.ir_constant(x, aval=v.aval)
        for x, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    module = context.module_context
    if context.platforms is not None:
        module = module.replace(platforms=context.platforms)
    out, tokens = mlir.jaxpr_subcomp(
        module,
        closed.jaxpr,
        context.name_stack,
        context.tokens_in,
        consts,
        *args,
        dim_var_values=context.dim_var_values,
        const_lowering=context.const_lowering,
        **_TRACED,
    )
    context.set_tokens_out(tokens)
    return out


NESTED = frozenset({"while", "scan", "cond"})
_INLINE = CALLS | {
    "checkpoint": "jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "remat2": "jaxpr",
}
