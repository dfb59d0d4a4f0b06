"""Small operations that a CPU runs as one compiled function.

On a CPU, XLA turns a program into a list of compiled functions, one for each operation or fusion,
and a call of each takes some 40 ns: more than an operation on a few bodies. A step has hundreds of
them. XLA can compile a part of a program as one function, a kernel, and does so by itself for tiny
loops; `one_kernel` asks for it.

What needs a library, or handles larger arrays, stays outside, and what lies between becomes
kernels. On other devices there are none. Under plain `vmap` there are none either, but a batch in
lanes (`roots/lanes.py`) becomes kernels itself. A function that is differentiated keeps only those
inside its roots. The environment variable JAXMBD_KERNELS=0, read while a program is compiled,
leaves all of them out; 1 asks for them on versions of jaxlib, too, with which they have not been
tested.
"""

import contextlib
import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jax.extend.mlir import ir
from jax.interpreters import ad, batching, mlir

from ..indexing import SUMS, TAKE, summed, taken
from .programs import CALLS, JAXLIB, KERNEL, bind, compiled_sum, operation, scan_parts, solve_part

_TESTED = (0, 13)  # the first version of jaxlib with which kernels have not been tested
# A library multiplies matrices faster from so many products of numbers on, unless they are thin.
_PRODUCTS, _THIN = 4_000, 6
_SUMS = 4_000  # numbers, from which a sum may be given to a library
_RETURNED = 1_000  # numbers, up to which an argument is returned whole
_WORTH = 4  # operations, from which a call is worth what it costs

# A setting of JAX's own kind: what is traced and lowered under it is not taken for anything else.
_apart = jax.make_user_context(default_value=False)


@dataclass(frozen=True)
class _Limits:
    """What is larger stays outside of kernels.

    Attributes:
        array: Numbers of an array.
        carried: Numbers that a loop changes from turn to turn. A kernel copies them, because it
            must not write to its arguments.
    """

    array: int
    carried: int


# Larger arrays fill the cache of a core. Those of a batch are written in any case. As of 0.11, XLA
# gives operations on much smaller ones to a library, and fails on those in a kernel.
_IN_RUN = _Limits(70_000 if JAXLIB < (0, 11) else 4_000, 1_000_000)
_IN_BATCH = _Limits(300_000, 30_000) if JAXLIB < (0, 11) else _IN_RUN

_Turns = dict[int, list[JaxprEqn]]

_marked = operation(KERNEL)
_call = operation("jaxmbd_kernel_call")


def kernels_wanted() -> bool:
    """Whether a program that is compiled now gets kernels."""
    chosen = os.environ.get("JAXMBD_KERNELS", "")
    return not _apart.value and chosen != "0" and (JAXLIB < _TESTED or chosen == "1")


def left_apart() -> contextlib.AbstractContextManager:
    """No kernels in what is compiled here: without optimizations they take longer to compile."""
    return _apart(True)


def one_kernel(function: Callable[..., Any], *args: Any, batch: bool = False) -> Any:
    """`function(*args)`, on a CPU as few compiled functions, one if possible; `batch` tells that
    its arrays are those of a batch in lanes.
    """
    given, static = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(given)
    shape: Any = None

    def flat(*leaves):
        nonlocal shape
        out = function(*eqx.combine(jax.tree.unflatten(structure, leaves), static))
        arrays, rest = eqx.partition(out, eqx.is_array)
        flat, tree = jax.tree.flatten(arrays)
        shape = tree, rest
        return flat

    closed = jax.make_jaxpr(flat)(*leaves)
    # What the function closes over becomes an argument where it is not a number.
    traced = [x for x in closed.consts if isinstance(x, Tracer)]

    def of_traced(traced, leaves):
        each = iter(traced)
        consts = [next(each) if isinstance(x, Tracer) else x for x in closed.consts]
        return eval_jaxpr(closed.jaxpr, consts, *leaves)

    whole = jax.make_jaxpr(of_traced)(traced, leaves)
    out = _marked.bind(*traced, *leaves, jaxpr=whole, limits=_IN_BATCH if batch else _IN_RUN)
    tree, rest = shape
    return eqx.combine(jax.tree.unflatten(tree, out), rest)


def _inline(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return jaxpr_as_fun(jaxpr)(*args)


def _differentiate(primals, tangents, *, jaxpr: ClosedJaxpr, **_: Any):
    varying = [k for k, dot in enumerate(tangents) if not isinstance(dot, ad.Zero)]

    def of_varying(some):
        changed = dict(zip(varying, some, strict=True))
        return _inline(*[changed.get(k, x) for k, x in enumerate(primals)], jaxpr=jaxpr)

    out, dots = jax.jvp(
        of_varying, ([primals[k] for k in varying],), ([tangents[k] for k in varying],)
    )
    return out, [
        ad.Zero(jax.typeof(x).to_tangent_aval()) if dot.dtype == jax.dtypes.float0 else dot
        for x, dot in zip(out, dots, strict=True)
    ]


def _batch(args, axes, *, jaxpr: ClosedJaxpr, **_: Any):
    out = jax.vmap(jaxpr_as_fun(jaxpr), in_axes=tuple(axes))(*args)
    return out, [0] * len(out)


def _in_parts(*args: Any, jaxpr: ClosedJaxpr, limits: _Limits) -> list[Any]:
    """The function, whose parts are calls of kernels."""
    if not kernels_wanted():
        return _inline(*args, jaxpr=jaxpr)
    flat = jax.make_jaxpr(lambda args: _flattened(jaxpr.jaxpr, jaxpr.consts, args))(list(args))
    return _evaluated(flat.jaxpr, flat.consts, list(args), limits)


def _flattened(jaxpr: Jaxpr, consts, args) -> list[Any]:
    """The function without calls of functions in it, nor in its loops, and without products of
    small or thin matrices, which libraries would take over.
    """
    known = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(
        zip(jaxpr.invars, args, strict=True)
    )

    def read(v):
        return v.val if isinstance(v, Literal) else known[v]

    for eqn in jaxpr.eqns:
        xs = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        if not eqn.effects and all(_is_empty(v) for v in eqn.outvars):
            # A part of an empty part can end the translation of a function, on one CPU of all
            # later ones too, before its calls of LAPACK, which XLA then does not find.
            out = [_empty(v) for v in eqn.outvars]
        elif name == "dot_general" and _compiled(eqn):
            out = [_product(eqn, *xs)]
        elif name == TAKE:
            out = [taken(*xs, **eqn.params)]
        elif name == SUMS:
            out = [summed(*xs, **eqn.params)]
        elif name == "reduce_sum" and math.prod(_shape(eqn.invars[0])) > _SUMS:
            out = [compiled_sum(xs[0], eqn.params["axes"])]
        elif _is_nested(eqn):
            out = _rebuilt(eqn, xs, _flattened)
        elif (inner := _called(eqn, xs)) is not None:
            function, xs = inner
            out = _flattened(
                getattr(function, "jaxpr", function), getattr(function, "consts", ()), xs
            )
        else:
            out = bind(eqn, *xs)
        known |= dict(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _called(eqn: JaxprEqn, xs: list[Any]) -> tuple[Any, list[Any]] | None:
    """The function that the operation calls and does nothing else, and its arguments; None if it is
    no call.
    """
    name = eqn.primitive.name
    if name == "custom_linear_solve":
        return solve_part(eqn, xs)
    function = eqn.params.get(_CALLS.get(name, ""))
    return None if function is None else (function, xs)


def _rebuilt(eqn: JaxprEqn, xs: list[Any], evaluate: Callable[..., list[Any]]) -> list[Any]:
    """Control flow whose functions are evaluated by `evaluate(jaxpr, consts, args)`."""
    name, params = eqn.primitive.name, eqn.params

    def of(closed: ClosedJaxpr, *args: Any) -> tuple[Any, ...]:
        return tuple(evaluate(closed.jaxpr, closed.consts, list(args)))

    if name == "while":
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        of_cond, of_body, start = xs[:nc], xs[nc : nc + nb], xs[nc + nb :]
        out = lax.while_loop(
            lambda state: of(params["cond_jaxpr"], *of_cond, *state)[0],
            lambda state: of(params["body_jaxpr"], *of_body, *state),
            tuple(start),
        )
        return list(out)
    if name == "cond":
        branches = [lambda *args, branch=branch: of(branch, *args) for branch in params["branches"]]
        index, *args = xs
        if jnp.result_type(index) == jnp.bool_:
            return list(lax.cond(index, branches[1], branches[0], *args))
        return list(lax.switch(index, branches, *args))
    consts, start, rows = (xs[part] for part in scan_parts(eqn))
    carried = len(start)

    def turn(state, row):
        out = of(params["jaxpr"], *consts, *state, *row)
        return out[:carried], out[carried:]

    end, each = lax.scan(
        turn,
        tuple(start),
        tuple(rows),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*end, *each]


def _product(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    """A product of matrices as a sum, which libraries do not take over."""
    out: Any = eqn.outvars[0].aval
    contracted, batch = eqn.params["dimension_numbers"]
    factors = []
    free = [
        [k for k in range(jnp.ndim(z)) if k not in (*contracted[o], *batch[o])]
        for o, z in enumerate((x, y))
    ]
    nb, n = len(batch[0]), out.ndim
    shape = (*out.shape, *(jnp.shape(x)[k] for k in contracted[0]))
    starts = nb, nb + len(free[0])
    for o, z in enumerate((x, y)):
        order = (*batch[o], *free[o], *contracted[o])
        at = range(starts[o], starts[o] + len(free[o]))
        places = (*range(nb), *at, *range(n, len(shape)))
        z = lax.transpose(lax.convert_element_type(z, out.dtype), order)
        factors.append(lax.broadcast_in_dim(z, shape, places))
    products, axes = factors[0] * factors[1], tuple(range(n, len(shape)))
    small = products.size <= _SUMS
    return jnp.sum(products, axis=axes) if small else compiled_sum(products, axes)


def _compiled(eqn: JaxprEqn) -> bool:
    """Whether a product takes less time written out than in a library."""
    if not all(_holds_numbers(v) for v in (*eqn.invars, *eqn.outvars)):
        return False
    contracted, batch = eqn.params["dimension_numbers"]
    x, y = (_shape(v) for v in eqn.invars)
    pairs, depth = math.prod(x[k] for k in batch[0]), math.prod(x[k] for k in contracted[0])
    if 0 in (*x, *y):
        return True
    height, width = (math.prod(z) // (pairs * depth) for z in (x, y))
    if depth <= _THIN and min(height, width) <= _THIN:
        return True
    return pairs * depth * height * width <= _PRODUCTS


def _shape(v: Any) -> tuple[int, ...]:
    return v.aval.shape


def _evaluated(jaxpr: Jaxpr, consts, args: list[Any], limits: _Limits) -> list[Any]:
    """Operations that fit as few calls, between which as few values pass as that allows."""
    known = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(
        zip(jaxpr.invars, args, strict=True)
    )
    fitting, others = _in_turns(jaxpr, limits)
    inside = functools.partial(_evaluated, limits=limits)

    def read(v):
        return v.val if isinstance(v, Literal) else known[v]

    for at in sorted({*fitting, *others}):
        if group := fitting.get(at):
            later = [e for k in fitting if k > at for e in fitting[k]]
            later += [e for k in others if k >= at for e in others[k]]
            needed = {v for e in later for v in e.invars if not isinstance(v, Literal)}
            needed |= {v for v in jaxpr.outvars if not isinstance(v, Literal)}
            known |= _together(group, needed, known)
        for eqn in others.get(at, []):
            xs = [read(v) for v in eqn.invars]
            # Branches that do not fit are left as they are: of calls of LAPACK in loops in such
            # branches, XLA got some wrong that stood beside kernels.
            loop = _is_nested(eqn) and eqn.primitive.name != "cond"
            out = _rebuilt(eqn, xs, inside) if loop else bind(eqn, *xs)
            known |= dict(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _in_turns(jaxpr: Jaxpr, limits: _Limits) -> tuple[_Turns, _Turns]:
    """Operations that fit, and the others, which follow those of their turn.

    Every one that fits comes in the last turn that serves whoever needs it: what is computed long
    before would pass through all calls between.
    """
    first: dict[Any, int] = {}  # after how many operations that do not fit a value is there
    earliest, fits = [], [_fits(eqn, limits) for eqn in jaxpr.eqns]
    for eqn, small in zip(jaxpr.eqns, fits, strict=True):
        at = max((first.get(v, 0) for v in _variables(eqn.invars)), default=0)
        earliest.append(at)
        first |= dict.fromkeys(eqn.outvars, at if small else at + 1)
    end = max(first.values(), default=0)
    latest = dict.fromkeys(_variables(jaxpr.outvars), end)
    fitting: _Turns = {}
    others: _Turns = {}
    for eqn, small, at in reversed(list(zip(jaxpr.eqns, fits, earliest, strict=True))):
        if small:
            at = min((latest[v] for v in eqn.outvars if v in latest), default=at)
        (fitting if small else others).setdefault(at, []).insert(0, eqn)
        for v in _variables(eqn.invars):
            latest[v] = min(latest.get(v, at), at)
    return fitting, others


def _variables(values: Any) -> list[Any]:
    return [v for v in values if not isinstance(v, Literal)]


def _together(group: list[JaxprEqn], needed: set, known: dict) -> dict:
    """What of a group of operations is needed, by a call if that is worth one."""
    out = [v for eqn in group for v in eqn.outvars if v in needed]
    if not out:
        return {}
    given = dict.fromkeys(
        v for eqn in group for v in eqn.invars if not isinstance(v, Literal) and v in known
    )
    arrays = [v for v in given if isinstance(known[v], Tracer)]
    numbers = {v: known[v] for v in given if not isinstance(known[v], Tracer)}

    def run(*values):
        own = numbers | dict(zip(arrays, values, strict=True))
        for eqn in group:
            xs = [v.val if isinstance(v, Literal) else own[v] for v in eqn.invars]
            own |= dict(zip(eqn.outvars, bind(eqn, *xs), strict=True))
        return [own[v] for v in out]

    values = [known[v] for v in arrays]
    if len(group) < _WORTH and not any(eqn.primitive.name in _NESTED for eqn in group):
        return dict(zip(out, run(*values), strict=True))
    made = jax.make_jaxpr(run)(*values)
    return dict(zip(out, _call.bind(*values, jaxpr=made), strict=True))


def _fits(eqn: JaxprEqn, limits: _Limits) -> bool:
    name = eqn.primitive.name
    if not all(
        _holds_numbers(v) and math.prod(_shape(v)) <= limits.array
        for v in (*eqn.invars, *eqn.outvars)
    ):
        return False
    if name in _SIMPLE:
        return True
    if name in ("scatter", "scatter-add"):
        # XLA turns a scatter to a single place into simpler operations.
        return math.prod(_shape(eqn.invars[1])[:-1]) == 1
    if not _is_nested(eqn) or sum(math.prod(_shape(v)) for v in _carried(eqn)) > limits.carried:
        return False
    return all(_fits(inner, limits) for jaxpr in _nested(eqn) for inner in jaxpr.eqns)


def _is_nested(eqn: JaxprEqn) -> bool:
    """Whether it is control flow that can be written anew: branches for several platforms are left
    to JAX, and loops whose members end one by one under `vmap`.
    """
    if eqn.primitive.name == "while":
        return not eqn.params["cond_jaxpr"].out_avals[0].shape
    return eqn.primitive.name in _NESTED and not eqn.params.get("branches_platforms")


def _nested(eqn: JaxprEqn) -> list[Any]:
    if eqn.primitive.name == "while":
        return [eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]]
    return list(eqn.params["branches"]) if "branches" in eqn.params else [eqn.params["jaxpr"]]


def _carried(eqn: JaxprEqn) -> list[Any]:
    """What a loop changes from turn to turn."""
    if eqn.primitive.name == "while":
        return eqn.invars[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :]
    return eqn.invars[scan_parts(eqn)[1]] if eqn.primitive.name == "scan" else []


def _is_empty(v: Any) -> bool:
    return _holds_numbers(v) and 0 in _shape(v)


def _empty(v: Any) -> np.ndarray:
    return np.zeros(_shape(v), v.aval.dtype)


def _holds_numbers(v: Any) -> bool:
    return str(getattr(v.aval, "dtype", None)) in _NUMBERS


def _lower_call(ctx: Any, *args: Any, jaxpr: ClosedJaxpr) -> Any:
    """A call that XLA does not take apart.

    XLA fails on a function of which an argument is never used. Therefore arguments are no numbers
    that it knows, have elements, and are returned as well. Of a large one a single number is
    returned, because the whole would be copied.
    """
    count = len(jaxpr.out_avals)

    def whole(*args):
        own = lax.optimization_barrier([x for x in args if x.size])

        def kernel(*own):
            each = iter(own)
            every = [next(each) if x.size else jnp.zeros(x.shape, x.dtype) for x in args]
            used = [
                x if x.size <= _RETURNED else lax.slice(x, [0] * x.ndim, [1] * x.ndim) for x in own
            ]
            return [*jaxpr_as_fun(jaxpr)(*every), *lax.optimization_barrier(used)]

        return jax.jit(kernel)(*own)[:count]

    out = mlir.lower_fun(whole, multiple_results=True)(ctx, *args)
    marks = {"inlineable": "false", "xla_cpu_small_call": "true"}
    for value in out:
        call = ir.OpResult(value).owner
        if call.name == "func.call":
            call.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
                {name: ir.StringAttr.get(mark) for name, mark in marks.items()}
            )
    return out


for _primitive in (_marked, _call):
    _primitive.def_impl(_inline)
    _primitive.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals)
    ad.primitive_jvps[_primitive] = _differentiate
    batching.primitive_batchers[_primitive] = _batch
    mlir.register_lowering(_primitive, mlir.lower_fun(_inline, multiple_results=True))
mlir.register_lowering(_marked, mlir.lower_fun(_in_parts, multiple_results=True), platform="cpu")
mlir.register_lowering(_call, _lower_call, platform="cpu")

_CALLS = CALLS | {
    "checkpoint": "jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "remat2": "jaxpr",
}
_NESTED = frozenset({"while", "scan", "cond"})
_NUMBERS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)
_SIMPLE = frozenset(
    """abs add add_any and asin acos atan atan2 broadcast_in_dim cbrt ceil clamp concatenate
    convert_element_type copy copy_p cos cosh div dynamic_slice dynamic_update_slice eq erf exp exp2
    expand_dims expm1 floor gather ge gt integer_pow iota is_finite le log log1p logistic lt max min
    mul name ne neg nextafter not optimization_barrier or pad pow reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum rem reshape rev round rsqrt select_n sign sin sinh slice split
    sqrt square squeeze stack stop_gradient sub tan tanh tile transpose unstack xor""".split()
)
