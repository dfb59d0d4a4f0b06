"""`jax.jit` with options of the compiler that suit mechanisms."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import PyTree

from .options import EFFORTS, chosen_options, preference
from .traced_cache import kept_where_possible


def outermost() -> bool:
    """Whether no program is being traced: options of the compiler belong to outermost ones."""
    return not isinstance(jnp.zeros(()), Tracer)


def jit(
    function: Callable[..., PyTree] | None = None, *, effort: str = "balanced", **options: object
) -> Any:
    """`jax.jit` with compiler options that suit mechanisms: for a function, or as a decorator.

    The result is that of `jax.jit` to rounding. Within another program, which has options of its
    own, within `jax.grad` and `jax.vmap`, and on accelerators it is `jax.jit`: write
    `mbd.jit(jax.grad(f))`, not `jax.grad(mbd.jit(f))`. JAXMBD_COMPILE=quick or =fast in the
    environment takes the place of the effort.

    After `mbd.enable_compilation_cache()` the next process does not trace the function either: its
    program is kept under the function's instructions and everything that they reach, such as
    models, arrays and other functions. As for `jax.jit`, the function must be pure: what it reads
    from files or clocks while it is traced stays what it was. Where the function reaches something
    that has no description, such as an object of a class of your own, or `options` are given, every
    process traces it; a `CompilationWarning` says why.

    Args:
        function: What to compile; without it, a decorator is returned.
        effort: How much the compiler does. "balanced" compiles faster than `jax.jit` without making
            programs slower; "quick", for trying things out, compiles faster still and makes
            programs several times slower; "full" is `jax.jit`.
        options: Passed on to `jax.jit`, for instance `static_argnames`.

    Returns:
        The compiled function, with `lower`, `trace` and `clear_cache` as of `jax.jit`.

    Raises:
        ValueError: An effort of another name.
    """
    if effort not in EFFORTS:
        raise ValueError(f"jit: effort must be one of {', '.join(EFFORTS)}, not {effort!r}")
    if function is None:
        return functools.partial(jit, effort=effort, **options)
    return Jitted(function, effort, options)


class CompilationWarning(UserWarning):
    """A program cannot be kept between processes."""


class Jitted:
    """A compiled function, as returned by `mbd.jit`; a method if it stands in a class."""

    def __init__(self, function: Callable[..., PyTree], effort: str, options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self._function = function
        self._effort, self._options = effort, options
        inner: dict[str, Any] = {k: v for k, v in options.items() if k != "compiler_options"}
        self._inner: Any = jax.jit(function, **inner)
        self._outer: dict[Any, Any] = {}
        self._told = False

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        leaves = jax.tree.leaves((args, kwargs))
        alone = outermost() and not any(isinstance(x, Tracer) for x in leaves)
        return (self._program(kept=True) if alone else self._inner)(*args, **kwargs)

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def lower(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """As of `jax.jit`."""
        return self._program().lower(*args, **kwargs)

    def trace(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """As of `jax.jit`."""
        return self._program().trace(*args, **kwargs)

    def clear_cache(self) -> None:
        """As of `jax.jit`."""
        for program in (self._inner, *self._outer.values()):
            program.clear_cache()

    def _program(self, *, kept: bool = False) -> Any:
        key = preference(), kept
        if key not in self._outer:
            given = self._options.get("compiler_options") or {}
            chosen = chosen_options(self._effort) | given
            options: dict[str, Any] = self._options | {"compiler_options": chosen}
            function = self._function
            if kept and set(self._options) <= {"compiler_options"}:
                function = kept_where_possible(function, self._tell)
            self._outer[key] = jax.jit(function, **options)
        return self._outer[key]

    def _tell(self, reason: str) -> None:
        """Say once that every process traces the function."""
        module = getattr(self._function, "__module__", None) or ""  # a bare console has none
        own = module.split(".")[0] == __name__.split(".")[0]
        if not self._told and not own:
            self._told = True
            name = getattr(self._function, "__name__", "function")
            warnings.warn(
                f"mbd.jit: every process traces {name!r} anew, because it uses {reason}; what was "
                "compiled is kept all the same",
                CompilationWarning,
                stacklevel=2,
            )
