"""Compiled programs that functions made anew for every use share, found by their text."""

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from .jaxprs import eval_jaxpr
from .options import switches

_SHARED: OrderedDict[bytes, Any] = OrderedDict()
_SHARED_AT_MOST = 64

# Linux grants a process some 65,000 memory maps. A large program takes thousands, and where there
# are no more the compiler says "Cannot allocate memory" and gives a program that does nothing.
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
_LET_GO, _WARN = 0.4, 0.8  # of the maps granted


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
        let_go()
        _SHARED[key] = lowered.compile()
        if len(_SHARED) > _SHARED_AT_MOST:
            _SHARED.popitem(last=False)
    _SHARED.move_to_end(key)
    return _SHARED[key]


def let_go() -> None:
    """Forget the oldest programs while the process has many memory maps; warn where others hold
    most of them.
    """
    held = _share_of_maps()
    while _SHARED and held > _LET_GO:
        for _ in range(-(-len(_SHARED) // 2)):
            _SHARED.popitem(last=False)
        held = _share_of_maps()
    if held > _WARN:
        warnings.warn(
            f"compiled programs take {100 * held:.0f} % of the memory maps that the system grants "
            "a process; compilation fails where there are no more. jax.clear_caches() lets "
            "programs go that are no longer needed, or raise vm.max_map_count",
            RuntimeWarning,
            stacklevel=2,
        )


def _share_of_maps() -> float:
    """How many of the memory maps granted the process has; zero where that is not known."""
    try:
        most = int(_MOST_MAPS.read_text())
        with _MAPS.open("rb") as file:
            return sum(1 for _ in file) / most
    except (OSError, ValueError):
        return 0.0
