"""Batches whose axis comes last: lanes of a vector unit, neighboring threads of a GPU.

`jax.vmap` puts the batch axis first. Compilers vectorize along the last axis, where they then find
the 3 or 6 numbers of one body; with the batch axis there, every instruction works on neighboring
elements. So under `vmap` a function wrapped by `in_lanes` is traced once for a single element, and
its operations are replayed on arrays with a trailing axis. An operation without a rule here goes
through its own rule
of `vmap`: always right, at worst as slow as that. Where the replay fails altogether, as it may with
a version of JAX that it does not know, plain `vmap` takes over with one warning.
`mbd.options(lanes=False)` leaves everything to plain `vmap`.
"""

import functools
import warnings
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Bool, PyTree

from .batch_last_rules import replayed, spread
from .cpu_fusion import one_kernel
from .custom_rule_call import opaque
from .dependence import reached as reached_by
from .dependence import reached_by_scan
from .jaxprs import (
    CALLS,
    JAXLIB,
    Array,
    Atom,
    Flags,
    PyTreeDef,
    Tangents,
    Values,
    bind,
    held_function,
    scan_parts,
    solve_part,
)
from .options import switches

# Larger batches go in chunks of so many members: on a CPU, whose numbers stay in the cache of a
# core. A GPU is full with them, and of a million in single precision not all were right there.
_IN_KERNELS = JAXLIB < (0, 11)  # later versions of XLA leave too much out of kernels
_CHUNK, _GPU_CHUNK = 64 if _IN_KERNELS else 128, 131_072
_SHORT = 8  # turns up to which a loop is written out on a GPU

_warned = False


class _Rule:
    """A rule for `vmap`, with what the replay of a function that holds it needs to know.

    Attributes:
        in_lanes: Whether it replays the function.
        common: Whether all members get the same.
    """

    def __init__(
        self,
        rule: Callable[..., tuple[PyTree, PyTree]],
        *,
        in_lanes: bool = False,
        common: bool = False,
    ):
        functools.update_wrapper(self, rule)
        self.in_lanes, self.common = in_lanes, common
        self._rule = rule

    def __call__(self, *args: PyTree) -> tuple[PyTree, PyTree]:
        return self._rule(*args)


def in_lanes(function: Callable[[PyTree], PyTree]) -> Callable[[PyTree], PyTree]:
    """Wrap a function of one pytree of arrays so that `vmap` puts the batch axis last.

    Not differentiable in reverse mode: for functions that are not, such as the iteration inside
    `implicit_root`.
    """
    mapped = custom_vmap(function)

    def rule(size: int, batched: PyTree, tree: PyTree):
        leaves, structure = jax.tree.flatten(tree)
        flags = jax.tree.leaves(batched)
        if not switches().lanes:
            return _plain(function, leaves, flags, structure, size)
        single = all(x.dtype != jnp.float64 for x in leaves)  # of half the bytes
        chunk = _CHUNK * (1 + single) if jax.default_backend() == "cpu" else _GPU_CHUNK
        if size > chunk:
            own = [x for x, flag in zip(leaves, flags, strict=True) if flag]

            def one(own: Values):
                each = iter(own)
                full = [next(each) if flag else x for x, flag in zip(leaves, flags, strict=True)]
                return mapped(jax.tree.unflatten(structure, full))

            out = _in_chunks(jax.vmap(one), own, size, chunk)
            return out, jax.tree.map(lambda _: True, out)
        try:
            return _replayed(function, leaves, flags, structure, size)
        except (
            Exception
        ) as error:  # the rules read JAX's own equations, which may change with any version
            reason = error
        out = _plain(
            function, leaves, flags, structure, size
        )  # an error of the function itself comes up here
        _warn(reason)
        return out

    mapped.def_vmap(_Rule(rule, in_lanes=True))

    @functools.wraps(function)
    def wrapped(tree: PyTree) -> PyTree:
        return mapped(tree) if switches().lanes else function(tree)

    return wrapped


def batched_in_lanes(function: Callable[..., PyTree], *args: PyTree) -> PyTree:
    """`function(*args)`, which differentiates as itself, and whose `vmap` where nothing is
    differentiated works with the batch axis last throughout.
    """
    if not (switches().lanes or switches().kernels):
        return function(*args)
    arrays, rest = eqx.partition(args, eqx.is_array)
    given, structure = jax.tree.flatten(arrays)
    shape: PyTree = None

    def of_arrays(given: Values) -> Values:
        nonlocal shape
        out = function(*eqx.combine(jax.tree.unflatten(structure, given), rest))
        out, others = eqx.partition(out, eqx.is_array)
        leaves, tree = jax.tree.flatten(out)
        shape = tree, others
        return leaves

    @in_lanes
    def whole(given: Values) -> Values:
        return one_kernel(of_arrays, given)

    def run(*given: Array) -> Values:
        return whole(list(given))

    def rule(given: Values, dots: Tangents, _: Values | None) -> tuple[Values, Tangents]:
        # What does not vary is left out: derivatives are of what is asked for alone.
        varying = [k for k, dot in enumerate(dots) if dot is not None]

        def of_varying(some: Values) -> Values:
            changed = dict(zip(varying, some, strict=True))
            return of_arrays([changed.get(k, x) for k, x in enumerate(given)])

        some, tangents = ([of[k] for k in varying] for of in (given, dots))
        out, out_dots = jax.jvp(of_varying, (some,), (tangents,))
        return out, [None if dot.dtype == jax.dtypes.float0 else dot for dot in out_dots]

    out = opaque(run, rule, *given)
    tree, others = shape
    return eqx.combine(jax.tree.unflatten(tree, out), others)


@custom_vmap
def anyone(flag: Bool[jax.Array, ""]) -> Bool[jax.Array, ""]:
    """Any-reduction over the batch, so that rare work is done for all elements in the same step."""
    return flag


def _of_anyone(size: int, batched: list[bool], flag: Array):
    return anyone(jnp.any(flag)), False


anyone.def_vmap(_Rule(_of_anyone, common=True))


def _in_chunks(
    function: Callable[[Values], PyTree], leaves: Values, size: int, chunk: int
) -> PyTree:
    """`function` of batches, one chunk of members after another."""
    count = size // chunk
    full = count * chunk
    chunks = [x[:full].reshape(count, chunk, *x.shape[1:]) for x in leaves]
    out = lax.map(function, chunks)
    out = jax.tree.map(lambda x: x.reshape(full, *x.shape[2:]), out)
    if full == size:
        return out
    rest = function([x[full:] for x in leaves])
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), out, rest)


def _replayed(
    function: Callable[[PyTree], PyTree],
    leaves: Values,
    flags: Flags,
    structure: PyTreeDef,
    size: int,
) -> tuple[PyTree, PyTree]:
    """Outputs with the batch axis first, and which of them have it, by a replay with the axis
    last.
    """
    values = [jnp.moveaxis(x, 0, -1) if flag else x for x, flag in zip(leaves, flags, strict=True)]
    member = [_member(x, flag) for x, flag in zip(leaves, flags, strict=True)]
    jaxpr, shapes = jax.make_jaxpr(
        lambda x: function(jax.tree.unflatten(structure, x)), return_shape=True
    )(member)
    found: Flags = []

    def replay(values: Values) -> Values:
        nonlocal found
        out, found = _replay(jaxpr, values, flags, size)
        return out

    values = one_kernel(replay, values, batch=True) if _IN_KERNELS else replay(values)
    out = [jnp.moveaxis(x, -1, 0) if flag else x for x, flag in zip(values, found, strict=True)]
    tree = jax.tree.structure(shapes)
    return jax.tree.unflatten(tree, out), jax.tree.unflatten(tree, found)


def _plain(
    function: Callable[[PyTree], PyTree],
    leaves: Values,
    flags: Flags,
    structure: PyTreeDef,
    size: int,
) -> tuple[PyTree, PyTree]:
    """Outputs by plain `jax.vmap`, and which of them are batched."""
    axes = [0 if flag else None for flag in flags]
    batch = jax.vmap(
        lambda x: function(jax.tree.unflatten(structure, x)), in_axes=(axes,), axis_size=size
    )
    out = batch(leaves)
    return out, jax.tree.map(lambda _: True, out)


def _common(eqn: JaxprEqn) -> bool:
    """Whether all members get the same from the operation, whatever they put in."""
    return getattr(eqn.params.get("rule"), "common", False)


def _warn(reason: Exception) -> None:
    """Say once in a process that batches are slower than they should be."""
    global _warned
    if _warned:
        return
    _warned = True
    words = str(reason).splitlines()
    # No line of the user's is at fault, and the frames that lie between it and this one, while JAX
    # traces, are JAX's.
    warnings.warn(
        "jaxmbd could not put the batch axis last in a vmapped solve and uses plain jax.vmap "
        "instead: results are the same, batches may take up to twice as long. Please report it "
        f"with your version of jax ({jax.__version__}) and this reason: {type(reason).__name__}: "
        f"{words[0] if words else ''}. mbd.options(lanes=False), or JAXMBD_LANES=0 in the "
        "environment, chooses plain jax.vmap without this warning",
        stacklevel=2,
    )


def _member(x: Array, flag: bool) -> jax.ShapeDtypeStruct:
    """The shape of one batch element of an argument whose leading axis is the batch axis."""
    return jax.ShapeDtypeStruct(
        x.shape[1:] if flag else x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)
    )


def _replay(closed: ClosedJaxpr, values: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    """Outputs of a traced function on values of which some have the trailing axis."""
    jaxpr = closed.jaxpr
    known = {v: (x, False) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
    known |= {
        v: pair for v, pair in zip(jaxpr.invars, zip(values, flags, strict=True), strict=True)
    }

    def read(v: Atom):
        return (v.val, False) if isinstance(v, Literal) else known[v]

    for eqn in jaxpr.eqns:
        pairs = [read(v) for v in eqn.invars]
        xs, flags = [x for x, _ in pairs], [flag for _, flag in pairs]
        name = eqn.primitive.name
        if name in CALLS:
            out, flags = _replay(held_function(eqn), xs, flags, size)
        elif not any(flags):
            out = bind(eqn, *xs)
            flags = [False] * len(out)
        elif name in _NESTED:
            out, flags = _NESTED[name](eqn, xs, flags, size)
        else:
            out = replayed(eqn, xs, flags, size)
            flags = [True] * len(out)
        known |= {
            v: pair for v, pair in zip(eqn.outvars, zip(out, flags, strict=True), strict=True)
        }
    pairs = [read(v) for v in jaxpr.outvars]
    return [x for x, _ in pairs], [flag for _, flag in pairs]


def _while(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    nc, nb = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    parts = [slice(0, nc), slice(nc, nc + nb), slice(nc + nb, None)]
    cond_consts, body_consts, init = (xs[k] for k in parts)
    of_cond, of_body, start = (flags[k] for k in parts)
    carry = list(start)
    apart = False  # whether members stop at different times
    while True:
        apart = any(_reached(cond.jaxpr, [*of_cond, *carry]))
        reached = [True] * len(carry) if apart else _reached(body.jaxpr, [*of_body, *carry])
        if all(flag <= old for flag, old in zip(reached, carry, strict=True)):
            break
        carry = [a or b for a, b in zip(reached, carry, strict=True)]

    def running(values: Values):
        (keep,), (flag,) = _replay(cond, [*cond_consts, *values], [*of_cond, *carry], size)
        return spread(keep, flag, size) if apart else keep

    def step(values: Values):
        new, out = _replay(body, [*body_consts, *values], [*of_body, *carry], size)
        new = [
            spread(x, f, size) if flag else x for x, f, flag in zip(new, out, carry, strict=True)
        ]
        if not apart:
            return new
        keep = running(values)
        return [
            lax.select(jnp.broadcast_to(keep, x.shape), x, old)
            for x, old in zip(new, values, strict=True)
        ]

    init = [
        spread(x, f, size) if flag else x for x, f, flag in zip(init, start, carry, strict=True)
    ]
    return list(lax.while_loop(lambda values: jnp.any(running(values)), step, init)), carry


def _scan(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    p = eqn.params
    parts = scan_parts(eqn)
    consts, init, sequence = (xs[k] for k in parts)
    of_consts, start, of_sequence = (flags[k] for k in parts)
    carry, rows = reached_by_scan(eqn, flags, _common)
    nk, wanted = len(carry), [*carry, *rows]

    def step(values: Values, x: Values):
        new, out = _replay(
            p["jaxpr"], [*consts, *values, *x], [*of_consts, *carry, *of_sequence], size
        )
        new = [
            spread(y, f, size) if flag else y for y, f, flag in zip(new, out, wanted, strict=True)
        ]
        return new[:nk], new[nk:]

    init = [
        spread(x, f, size) if flag else x for x, f, flag in zip(init, start, carry, strict=True)
    ]
    # On a GPU, each turn of a loop costs launches and copies that take longer than a small turn.
    written_out = jax.default_backend() != "cpu" and p["length"] <= _SHORT
    unroll = p["length"] if written_out else p["unroll"]
    end, each = lax.scan(
        step, init, sequence, length=p["length"], reverse=p["reverse"], unroll=max(unroll, 1)
    )
    return [*end, *each], wanted


def _linear_solve(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    (function, xs), (_, flags) = solve_part(eqn, xs), solve_part(eqn, flags)
    return _replay(function, xs, flags, size)


def _own_vmap(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    """A function with a rule of its own for `vmap`."""
    rule = eqn.params["rule"]
    if getattr(rule, "in_lanes", False):
        return _replay(eqn.params["call"], xs, flags, size)
    front = [jnp.moveaxis(x, -1, 0) if flag else x for x, flag in zip(xs, flags, strict=True)]
    args, batched = (jax.tree.unflatten(eqn.params["in_tree"], v) for v in (front, flags))
    out, flags = (jax.tree.leaves(tree) for tree in rule(size, list(batched), *args))
    return [jnp.moveaxis(x, 0, -1) if f else x for x, f in zip(out, flags, strict=True)], flags


def _reached(jaxpr: Jaxpr, flags: Flags) -> Flags:
    return reached_by(jaxpr, flags, _common)


def _checkpoint(eqn: JaxprEqn, xs: Values, flags: Flags, size: int) -> tuple[Values, Flags]:
    """The function itself: what its derivatives keep is of no concern here."""
    return _replay(ClosedJaxpr(eqn.params["jaxpr"], ()), xs, flags, size)


_NESTED = {
    "checkpoint": _checkpoint,
    "custom_linear_solve": _linear_solve,
    "custom_vmap_call": _own_vmap,
    "remat2": _checkpoint,
    "scan": _scan,
    "while": _while,
}
