"""Compiled programs that functions made anew for every use share, found by their text."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .jaxprs import eval_jaxpr
from .options import switches

_SHARED: OrderedDict[bytes, Any] = OrderedDict()
_SHARED_AT_MOST = 64


def shared_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` of a function of arrays that is made anew for every use and comes to the same
    program again and again.

    The function is traced anew, so that what it closes over is what it holds now; arrays among that
    become arguments, and a program that was compiled before, for another such function, serves
    again.
    """
    known: dict[Any, tuple[Any, Any, Any]] = {}

    def run(*args: Any) -> Any:
        flat, structure = jax.tree.flatten(args)
        flat = [jnp.asarray(x) for x in flat]
        like = structure, tuple((x.shape, x.dtype) for x in flat), switches()
        if like not in known:
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)

            def program(consts: Any, flat: Any) -> Any:
                return eval_jaxpr(closed.jaxpr, consts, *flat)

            lowered = jax.jit(program).lower(closed.consts, flat)
            known[like] = closed.consts, program_of(lowered), jax.tree.structure(shapes)
        consts, compiled, out = known[like]
        return jax.tree.unflatten(out, compiled(consts, flat))

    return run


def program_of(lowered: Any, where: Any = None) -> Any:
    """Compile, or return a cached executable with the same HLO text and device placement."""
    key = hashlib.sha256((lowered.as_text() + str(where)).encode()).digest()
    if key not in _SHARED:
        _SHARED[key] = lowered.compile()
        if len(_SHARED) > _SHARED_AT_MOST:
            _SHARED.popitem(last=False)
    _SHARED.move_to_end(key)
    return _SHARED[key]
