"""Compilation of analyses: names and shapes of a system never reach `jit`, so that renaming
compiles nothing, and work that takes a moment is compiled in a moment.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ..xla.cpu_fusion import left_apart, one_kernel
from ..xla.jit import outermost
from ..xla.options import compiler_options, preference, switches
from ..xla.traced_cache import KeptPrograms
from .forces import FunctionForce
from .functions import forward_mode
from .system import System
from .validation import is_concrete

# Steps times bodies that a program compiled quickly may take altogether: about a second of work,
# which is what compiling with all optimizations takes longer. Beyond, such a program is four to
# six times slower.
_QUICK_WORK = 20_000


def telling_forward_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of a system; where a force of the user's has no forward mode, it says so
    with the names.
    """

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        named = [x for x in args if isinstance(x, System) and any(x.bodies)]
        if not named:
            return function(*args, **kwargs)  # the caller knows the names
        with forward_mode(_parts(named[0])):
            return function(*args, **kwargs)

    return told


def _parts(system: System) -> str:
    """For messages: the mechanism and those of its forces that are functions."""
    stacks = [stack for stack in system.forces if isinstance(stack.force, FunctionForce)]
    names = ", ".join(repr(name) for stack in stacks for name in stack.names)
    return f"mechanism {system.name!r}" + (f", user force {names}" if names else "")


class Compiled:
    """`equinox.filter_jit` of a function of systems, which sees them without names.

    What it returns must not hold names either: callers put them in afterwards.

    Args:
        function: What to compile.
        once: Whether it runs once or twice rather than thousands of times: it is then compiled
            quickly, without the optimizations that cost more time than they save.
    """

    def __init__(self, function: Callable[..., Any], *, once: bool = False):
        functools.update_wrapper(self, function)
        self._function, self._once = function, once
        self._program: Any = eqx.filter_jit(function)
        self._work: dict[Any, int] = {}
        self._kept: dict[bool, KeptPrograms] = {}
        self._beside: dict[Any, Any] = {}

    @functools.cached_property
    def _quick(self) -> Any:
        options = compiler_options("quick")
        if not options:
            return self._program
        jit: Any = eqx.filter_jit  # its keywords for `jax.jit` are not in its signature
        return jit(self._function, compiler_options=options)

    @telling_forward_mode
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(self._once and preference() != "fast", args, kwargs)

    def _run(self, quick: bool, args: tuple, kwargs: dict[str, Any]) -> Any:
        """By a program that was kept where there is one."""
        args, kwargs = _unnamed(args), _unnamed(kwargs)
        if not runs_now(args, kwargs):
            if self._once:
                # As a part of a larger program it cannot be compiled quickly, but what kernels
                # hold compiles in half the time.
                return one_kernel(lambda both: self._function(*both[0], **both[1]), (args, kwargs))
            return self._program(*args, **kwargs)
        if quick not in self._kept:
            self._kept[quick] = KeptPrograms(
                self._function, compiler_options("quick") if quick else None
            )
        kept = self._kept[quick].find(args, kwargs)
        if kept is not None:
            return kept(args, kwargs)
        with left_apart() if quick else nullcontext():
            return (self._quick if quick else self._program)(*args, **kwargs)

    def for_work(self, amount: int, like: object) -> Callable[..., Any]:
        """The program for some steps times bodies: compiled quickly while there are few.

        What a process has asked of mechanisms like `like` counts, so that many short runs get the
        optimized program as well. The choice does not depend on time, and both programs agree to
        rounding.
        """
        key = jax.tree.structure(like), tuple(jnp.shape(x) for x in jax.tree.leaves(like))
        self._work[key] = self._work.get(key, 0) + amount
        preferred = preference()
        quick = self._work[key] <= _QUICK_WORK if preferred == "auto" else preferred == "quick"
        if not quick:
            return self

        return self._quickly

    @telling_forward_mode
    def _quickly(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(True, args, kwargs)

    def at_once(self, *args: Any) -> Any:
        """The result for known arguments, also while a user's program is being traced: what follows
        from it then need not be a part of that program.
        """
        if runs_now(args):
            return self(*args)
        args = _unnamed(args)
        leaves, structure = jax.tree.flatten(args)
        like = structure, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves), switches()
        if like not in self._beside:
            with left_apart():
                self._beside[like] = self._quick.lower(*args).compile()
        return self._beside[like](*args)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(...).lower`, for measurements."""
        return self._program.lower(*_unnamed(args), **_unnamed(kwargs))


_MADE: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
_MADE_AT_MOST = 256


def remembered(program: Compiled, run: Callable[..., Any], *args: Any) -> Any:
    """`run(*args)`, where `run` is one of the ways of a program, remembered for `if_made`."""
    found = run(*args)
    _MADE[_like(program, args)] = run
    if len(_MADE) > _MADE_AT_MOST:
        _MADE.popitem(last=False)
    return found


def if_made(program: Compiled, *args: Any) -> Any:
    """The result of a program where this process has run it for such arguments; None elsewhere, so
    that nothing is compiled.
    """
    run = _MADE.get(_like(program, args)) if runs_now(args) else None
    return None if run is None else run(*args)


def _like(program: Compiled, args: object) -> Any:
    """What decides whether a program is compiled again."""
    leaves, structure = jax.tree.flatten(_unnamed(args))
    kinds = tuple((x.shape, x.dtype) if eqx.is_array(x) else id(x) for x in leaves)
    return id(program), structure, kinds, switches()


def compiled_once(function: Callable[..., Any]) -> Compiled:
    """`Compiled` for what runs once or twice."""
    return Compiled(function, once=True)


def runs_now(*trees: Any) -> bool:
    """Whether nothing is being traced: options of the compiler belong to outermost programs."""
    return is_concrete(trees) and outermost()


def computed_now() -> AbstractContextManager[None]:
    """A context in which what is known is computed at once, also while a user's program is being
    traced.
    """
    return nullcontext() if runs_now() else jax.ensure_compile_time_eval()


def _unnamed(value: PyTree) -> Any:
    """Systems without names, those that a solution carries too."""
    return jax.tree.map(lambda x: x.unnamed() if _is_system(x) else x, value, is_leaf=_is_system)


def _is_system(x: object) -> bool:
    return isinstance(x, System)
