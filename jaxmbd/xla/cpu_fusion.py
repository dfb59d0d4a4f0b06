"""Small operations that a CPU runs as one compiled function.

On a CPU, XLA turns a program into a list of compiled functions, one for each operation or fusion,
and a call of each takes some 40 ns: more than an operation on a few bodies. A step has hundreds of
them. XLA can compile a part of a program as one function, a kernel, and does so by itself for tiny
loops; `one_kernel` asks for it.

What needs a library, or handles larger arrays, stays outside, and what lies between becomes
kernels. On other devices there are none. Under plain `vmap` there are none either, but a batch in
lanes (`xla/batch_last.py`) becomes kernels itself. A function that is differentiated keeps only
those inside its roots. `mbd.options(kernels=False)` leaves all of them out.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax
from jax.core import ShapedArray, Tracer
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    jaxpr_as_fun,
)
from jax.extend.mlir import ir
from jax.interpreters import ad, batching, mlir
from jaxtyping import PyTree

from .cpu_rewrites import dtype_of, empty_array, holds_numbers, is_empty, rewritten, shape_of
from .jaxprs import (
    JAXLIB,
    KERNEL,
    NESTED,
    Array,
    Atom,
    Context,
    Lowered,
    Values,
    equation,
    flattened,
    inner_programs,
    is_nested,
    lowered,
    operation,
    program,
    scan_parts,
    variables,
)
from .options import switches

_RETURNED = 1_000  # numbers, up to which an argument is returned whole
_WORTH = 4  # operations, from which a call is worth what it costs

# A setting of JAX's own kind: what is traced and lowered under it is not taken for anything else.
_apart = jax.make_user_context(default_value=False)


@dataclass(frozen=True)
class _Limits:
    """Size limits: larger arrays and loops stay outside of kernels.

    Attributes:
        array: Numbers of an array.
        carried: Numbers that a loop changes from turn to turn. A kernel copies them, because it
            must not write to its arguments.
    """

    array: int
    carried: int


# Larger arrays fill the cache of a core. Those of a batch are written in any case. As of 0.11, XLA
# gives operations on much smaller ones to a library, and fails on those in a kernel
# (`tests/xla/test_upstream_defects.py`).
_IN_RUN = _Limits(70_000 if JAXLIB < (0, 11) else 4_000, 1_000_000)
_IN_BATCH = _Limits(300_000, 30_000) if JAXLIB < (0, 11) else _IN_RUN

# In single precision, so does 0.10.1 with reductions of 32768 numbers; sums have another form.
_EXTREMES, _EXTREMES_SINGLE = ("reduce_max", "reduce_min"), 30_000

_Turns = dict[int, list[JaxprEqn]]

_marked = operation(KERNEL)
_call = operation("jaxmbd_kernel_call")


def kernels_wanted() -> bool:
    """Whether a program that is compiled now gets kernels."""
    return not _apart.value and bool(switches().kernels)


def left_apart(apart: bool = True) -> contextlib.AbstractContextManager[None]:
    """No kernels in what is compiled here: without optimizations they take longer to compile."""
    return _apart(apart)


def one_kernel(function: Callable[..., PyTree], *args: PyTree, batch: bool = False) -> PyTree:
    """`function(*args)`, on a CPU as few compiled functions, one if possible; `batch` tells that
    its arrays are those of a batch in lanes.
    """
    if not switches().kernels:
        return function(*args)
    given, static = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(given)
    shape: PyTree = None

    def flat(*leaves: Array):
        nonlocal shape
        out = function(*eqx.combine(jax.tree.unflatten(structure, leaves), static))
        arrays, rest = eqx.partition(out, eqx.is_array)
        flat, tree = jax.tree.flatten(arrays)
        shape = tree, rest
        return flat

    closed = jax.make_jaxpr(flat)(*leaves)
    # What the function closes over becomes an argument where it is not a number.
    consts = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    traced = {v: x for v, x in consts.items() if isinstance(x, Tracer)}
    numbers = {v: x for v, x in consts.items() if v not in traced}
    inner = closed.jaxpr
    whole = program([*traced, *inner.invars], inner.outvars, inner.eqns, numbers)
    traced = traced.values()
    out = _marked.bind(*traced, *leaves, jaxpr=whole, limits=_IN_BATCH if batch else _IN_RUN)
    tree, rest = shape
    return eqx.combine(jax.tree.unflatten(tree, out), rest)


def _inline(*args: Array, jaxpr: ClosedJaxpr, **_: object) -> Values:
    return jaxpr_as_fun(jaxpr)(*args)


def _differentiate(
    primals: Sequence[Array],
    tangents: Sequence[Array | ad.Zero],
    *,
    jaxpr: ClosedJaxpr,
    **_: object,
):
    varying = [k for k, dot in enumerate(tangents) if not isinstance(dot, ad.Zero)]

    def of_varying(some: Values):
        changed = dict(zip(varying, some, strict=True))
        return _inline(*[changed.get(k, x) for k, x in enumerate(primals)], jaxpr=jaxpr)

    out, dots = jax.jvp(
        of_varying, ([primals[k] for k in varying],), ([tangents[k] for k in varying],)
    )
    return out, [
        ad.Zero(jax.typeof(x).to_tangent_aval()) if dot.dtype == jax.dtypes.float0 else dot
        for x, dot in zip(out, dots, strict=True)
    ]


def _batch(args: Sequence[Array], axes: Sequence[int | None], *, jaxpr: ClosedJaxpr, **_: object):
    out = jax.vmap(jaxpr_as_fun(jaxpr), in_axes=tuple(axes))(*args)
    return out, [0] * len(out)


def _in_parts(context: Context, *args: ir.Value, jaxpr: ClosedJaxpr, limits: _Limits) -> Lowered:
    """Lower the function, whose parts are calls of kernels."""
    if kernels_wanted():
        jaxpr = _divided(flattened(jaxpr, rewritten), limits)
    return lowered(context, jaxpr, *args)


def _divided(closed: ClosedJaxpr, limits: _Limits) -> ClosedJaxpr:
    """The program with operations that fit as few calls, between which as few values pass as that
    allows.
    """
    jaxpr = closed.jaxpr
    consts = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    fitting, others = _in_turns(jaxpr, limits)
    made: list[JaxprEqn] = []
    for at in sorted({*fitting, *others}):
        if group := fitting.get(at):
            later = [e for k in fitting if k > at for e in fitting[k]]
            later += [e for k in others if k >= at for e in others[k]]
            needed = {v for e in later for v in variables(e.invars)}
            made += _together(group, needed | set(variables(jaxpr.outvars)), consts)
        for eqn in others.get(at, []):
            # Branches that do not fit are left as they are: of calls of LAPACK in loops in such
            # branches, XLA got some wrong that stood beside kernels.
            if is_nested(eqn) and eqn.primitive.name != "cond":
                inner = inner_programs(eqn, lambda f: _divided(f, limits))
                eqn = eqn.replace(params=eqn.params | inner)
            made.append(eqn)
    return program(jaxpr.invars, jaxpr.outvars, made, consts)


def _in_turns(jaxpr: Jaxpr, limits: _Limits) -> tuple[_Turns, _Turns]:
    """Equations in alternating groups: fusible ones, then the others that depend on them.

    Every one that fits comes in the last turn that serves whoever needs it: what is computed long
    before would pass through all calls between.
    """
    first: dict[Var, int] = {}  # after how many operations that do not fit a value is there
    earliest, fits = [], [_fits(eqn, limits) for eqn in jaxpr.eqns]
    for eqn, small in zip(jaxpr.eqns, fits, strict=True):
        at = max((first.get(v, 0) for v in variables(eqn.invars)), default=0)
        earliest.append(at)
        first |= dict.fromkeys(eqn.outvars, at if small else at + 1)
    end = max(first.values(), default=0)
    latest = dict.fromkeys(variables(jaxpr.outvars), end)
    fitting: _Turns = {}
    others: _Turns = {}
    for eqn, small, at in reversed(list(zip(jaxpr.eqns, fits, earliest, strict=True))):
        if small:
            at = min((latest[v] for v in eqn.outvars if v in latest), default=at)
        (fitting if small else others).setdefault(at, []).insert(0, eqn)
        for v in variables(eqn.invars):
            latest[v] = min(latest.get(v, at), at)
    return fitting, others


def _together(group: list[JaxprEqn], needed: set[Var], consts: dict[Var, Array]) -> list[JaxprEqn]:
    """Equations that return the needed outputs of a group; one call if the group is large."""
    out = [v for eqn in group for v in eqn.outvars if v in needed]
    if not out:
        return []
    if len(group) < _WORTH and not any(eqn.primitive.name in NESTED for eqn in group):
        return group
    own = {v for eqn in group for v in eqn.outvars} | consts.keys()
    given = list(dict.fromkeys(v for e in group for v in variables(e.invars) if v not in own))
    return _calls(given, out, group, consts)


def _calls(
    given: list[Var], out: list[Var], group: list[JaxprEqn], consts: dict[Var, Array]
) -> list[JaxprEqn]:
    """The call of a kernel, and what goes before it.

    XLA, up to jaxlib 0.12 at least, ends the process at a function of which an argument is never
    used (`tests/xla/test_upstream_defects.py`). Therefore arguments are no numbers
    that it knows, have elements, and are returned as well. Of a large one a single number is
    returned, because the whole would be copied.
    """
    empty = {v: empty_array(v) for v in given if is_empty(v)}
    given = [v for v in given if v not in empty]
    hidden, eqns, used = [Var(v.aval) for v in given], list(group), []
    for v in given:
        if math.prod(shape_of(v)) > _RETURNED:
            n = len(shape_of(v))
            corner = Var(ShapedArray((1,) * n, dtype_of(v)))
            bounds = {"start_indices": (0,) * n, "limit_indices": (1,) * n}
            eqns.append(equation(lax.slice_p, [v], [corner], bounds | {"strides": None}))
            v = corner
        used.append(v)
    back = [Var(v.aval) for v in used]
    if used:
        eqns.append(equation(_barrier, used, back, {}))
    kernel = program(given, [*out, *back], eqns, consts | empty)
    call = equation(_call, hidden, [*out, *(Var(v.aval) for v in back)], {"jaxpr": kernel})
    return [*([equation(_barrier, given, hidden, {})] if given else []), call]


def _fits(eqn: JaxprEqn, limits: _Limits) -> bool:
    name = eqn.primitive.name
    if not all(
        holds_numbers(v) and math.prod(shape_of(v)) <= limits.array
        for v in (*eqn.invars, *eqn.outvars)
    ):
        return False
    if name in _SIMPLE:
        return name not in _EXTREMES or not _of_a_library(eqn.invars[0])
    if name in ("scatter", "scatter-add"):
        # XLA turns a scatter to a single place into simpler operations.
        return math.prod(shape_of(eqn.invars[1])[:-1]) == 1
    if not is_nested(eqn) or sum(math.prod(shape_of(v)) for v in _carried(eqn)) > limits.carried:
        return False
    return all(_fits(inner, limits) for jaxpr in _nested(eqn) for inner in jaxpr.eqns)


def _of_a_library(v: Atom) -> bool:
    """Whether XLA gives a reduction of these numbers to a library."""
    return dtype_of(v) == np.float32 and math.prod(shape_of(v)) > _EXTREMES_SINGLE


def _nested(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    each = inner_programs(eqn).values()
    return [f for x in each for f in (x if isinstance(x, tuple) else (x,))]


def _carried(eqn: JaxprEqn) -> Sequence[Atom]:
    """The carry of a loop."""
    if eqn.primitive.name == "while":
        return eqn.invars[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :]
    return eqn.invars[scan_parts(eqn)[1]] if eqn.primitive.name == "scan" else []


def _lower_call(context: Context, *args: ir.Value, jaxpr: ClosedJaxpr) -> Lowered:
    """A call that XLA does not take apart."""
    out = mlir.core_call_lowering(context, *args, name="kernel", call_jaxpr=jaxpr)
    marks = {"inlineable": "false", "xla_cpu_small_call": "true"}
    first: Any = out[0]
    call = ir.OpResult(first).owner
    call.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
        {name: ir.StringAttr.get(mark) for name, mark in marks.items()}
    )
    return out


_marked.def_impl(_inline)
_marked.def_abstract_eval(lambda *_, jaxpr, **__: jaxpr.out_avals)
ad.primitive_jvps[_marked] = _differentiate
batching.primitive_batchers[_marked] = _batch
mlir.register_lowering(_marked, lambda context, *xs, jaxpr, **_: lowered(context, jaxpr, *xs))
mlir.register_lowering(_marked, _in_parts, platform="cpu")
_call.def_abstract_eval(lambda *_, jaxpr: jaxpr.out_avals)
mlir.register_lowering(_call, _lower_call, platform="cpu")

_barrier = jax.make_jaxpr(lax.optimization_barrier)([0.0]).eqns[0].primitive
_SIMPLE = frozenset(
    """abs add add_any and asin acos atan atan2 broadcast_in_dim cbrt ceil clamp concatenate
    convert_element_type copy copy_p cos cosh div dynamic_slice dynamic_update_slice eq erf exp exp2
    expand_dims expm1 floor gather ge gt integer_pow iota is_finite le log log1p logistic lt max min
    mul name ne neg nextafter not optimization_barrier or pad pow reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum rem reshape rev round rsqrt select_n sign sin sinh slice split
    sqrt square squeeze stack stop_gradient sub tan tanh tile transpose unstack xor""".split()
)
