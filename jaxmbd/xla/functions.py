"""Descriptions of functions as data: two functions of one description trace to one program.

A description holds the function's instructions and everything that they reach: defaults, what it
closes over, and the globals that they name, functions among them in the same way. What belongs to
an installed package is known by its name and the package's version. As everywhere in JAX, a
function must be pure: what it reads in other ways while it is traced, such as a file or a clock, is
not seen.
"""

import builtins
import dis
import functools
import hashlib
import importlib.metadata
import itertools
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .descriptions import Description, Undescribed, describe
from .tracing import is_traced

_ROOT = Path(__file__).parents[1]  # of this package, whose code is part of every key


def describe_function(function: Callable[..., object]) -> Description:
    """Everything that a trace of the function follows from besides its arguments, as JSON holds it.

    Raises:
        Undescribed: It reaches something that cannot be described; the message names it.
    """
    try:
        return _Descriptions().of(function, "the function itself")
    except (Undescribed, MemoryError):
        raise
    except Exception as error:  # whatever users' objects do when they are looked at
        raise Undescribed(f"something that cannot be looked at ({error})") from None


class _Descriptions:
    """Descriptions of values, one of each function."""

    def __init__(self):
        self.known: dict[int, int] = {}

    def of(self, x: PyTree, name: str) -> Description:
        """The description of a value; the name is for the message."""
        if isinstance(x, types.CodeType):
            return self._of_code(x)
        if isinstance(x, types.ModuleType) and _is_installed(x.__name__):
            return ["package", x.__name__, _version(x.__name__)]
        if type(x) in (bytes, complex) or x is Ellipsis:
            return ["value", repr(x)]
        if eqx.is_array(x) or isinstance(x, np.generic):
            return _of_numbers(x, name)
        if type(x) in (tuple, list, set, frozenset):
            parts: Any = x
            items = sorted(parts, key=repr) if type(x) in (set, frozenset) else parts
            return [type(x).__name__, [self.of(v, f"a part of {name}") for v in items]]
        if type(x) is dict:
            pairs = [[self.of(k, name), self.of(v, f"{name}[{k!r}]")] for k, v in x.items()]
            return ["dict", pairs]
        known = self._of_callable(x, name)
        return self._of_data(x, name) if known is None else known

    def _of_callable(self, x: PyTree, name: str) -> Description | None:
        """The description of a function, or of what a package calls so; None of anything else."""
        named = _of_installed(x)
        if named is not None:
            return named
        if isinstance(x, types.FunctionType):
            return self._of_function(x, name)
        if isinstance(x, types.MethodType):
            return ["method", self.of(x.__func__, name), self.of(x.__self__, f"{name}.__self__")]
        if isinstance(x, functools.partial):
            parts = (x.func, x.args, x.keywords)
            return ["partial", [self.of(part, name) for part in parts]]
        inner = getattr(x, "__wrapped__", None)
        if inner is not None and _is_installed(type(x).__module__):  # such as `jax.jit` of another
            return ["wrapped", type(x).__qualname__, self.of(inner, name)]
        return None

    def _of_function(self, function: types.FunctionType, name: str) -> Description:
        if id(function) in self.known:
            return ["again", self.known[id(function)]]
        self.known[id(function)] = len(self.known)
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closed = [[n, self._of_cell(cell, n)] for n, cell in cells]
        return [
            "function",
            self._of_code(code),
            self.of(function.__defaults__, f"a default of {name}"),
            self.of(function.__kwdefaults__, f"a default of {name}"),
            closed,
            _version_of(function) or self._of_globals(function, code),
        ]

    def _of_cell(self, cell: types.CellType, name: str) -> Description:
        try:
            value = cell.cell_contents
        except ValueError:
            return ["empty"]
        return self.of(value, f"{name!r}")

    def _of_code(self, code: types.CodeType) -> Description:
        """Instructions without line numbers, so that a comment changes nothing."""
        text = repr((code.co_code, code.co_exceptiontable, code.co_flags, code.co_names))
        names = (code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        digest = hashlib.sha256((text + repr((names, counts))).encode()).hexdigest()
        return ["code", digest, [self.of(x, "a constant") for x in code.co_consts]]

    def _of_globals(self, function: types.FunctionType, code: types.CodeType) -> Description:
        found: dict[str, Any] = {}
        instructions = [*_instructions(code), None]
        for instruction, after in itertools.pairwise(instructions):
            if instruction is None:
                continue
            name = instruction.argval
            if instruction.opname == "IMPORT_NAME" and not _is_installed(name):
                raise Undescribed(f"an import of {name!r}")
            if instruction.opname not in _GLOBALS:
                continue
            if name not in function.__globals__:
                if not hasattr(builtins, name):
                    raise Undescribed(f"{name!r}, which is not defined yet")
                if name in _UNSEEN:
                    raise Undescribed(f"{name!r}, through which anything could be reached")
                continue
            value, key = function.__globals__[name], name
            if isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
                # Of a module of the user's own, what the function takes of it.
                if after is None or after.opname not in _ATTRIBUTES:
                    raise Undescribed(f"the module {name!r} as a whole")
                key = f"{name}.{after.argval}"
                value = getattr(value, after.argval, None)
            if key not in found:
                found[key] = self.of(value, f"{key!r}")
        return sorted(found.items())

    def _of_data(self, x: PyTree, name: str) -> Description:
        def part(f: Callable[..., object]) -> Description:
            known = self._of_callable(f, name)
            if known is None:
                raise Undescribed(name)
            return known

        try:
            return describe(x, functions=part, held=True)
        except Undescribed:
            kind = f"{type(x).__module__}.{type(x).__qualname__}"
            raise Undescribed(f"{name}, whose class is {kind}") from None


_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
# What reaches more than the instructions name.
_UNSEEN = frozenset({"__import__", "eval", "exec", "globals", "input", "locals", "open", "vars"})


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    """Instructions of a function and of all functions defined in it."""
    yield from dis.get_instructions(code)
    for x in code.co_consts:
        if isinstance(x, types.CodeType):
            yield from _instructions(x)


def _of_numbers(x: PyTree, name: str) -> Description:
    if is_traced(x):
        raise Undescribed(f"{name}, which is being traced")
    kind, numbers = str(x.dtype), x
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        with jax.ensure_compile_time_eval():  # while a user's program is being traced
            kind, numbers = str(jax.random.key_impl(x)), jax.random.key_data(x)
    numbers = np.asarray(numbers)
    digest = hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()
    return [
        "numbers",
        kind,
        list(numbers.shape),
        bool(getattr(x, "weak_type", 0)),
        digest,
    ]


def _version_of(function: types.FunctionType) -> Description | None:
    """Name and version of the package that made a function, as `jax.grad` does; else None."""
    module = function.__globals__.get("__name__")
    return [module, _version(module)] if _is_installed(module) else None


def _of_installed(x: PyTree) -> Description | None:
    """Package, name and version of an object that a package exports; None for any other object."""
    module, path = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str) or not _is_installed(module):
        return None
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return ["installed", module, path, _version(module)] if found is x else None


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module belongs to Python, to this package or to an installed one."""
    top = (module or "__main__").split(".")[0]
    if top in sys.stdlib_module_names:
        return True
    found = sys.modules.get(top)
    file = getattr(found, "__file__", None)
    places = [file] if file else list(getattr(found, "__path__", []))
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), _ROOT]
    roots = [Path(root).resolve() for root in installed]
    inside = [any(Path(p).resolve().is_relative_to(root) for root in roots) for p in places]
    return bool(inside) and all(inside)


@functools.cache
def _version(module: str) -> str:
    """Version of the package that a module belongs to; of Python for the standard library."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return sys.version
    known = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(known, str):
        return known
    owners = importlib.metadata.packages_distributions().get(top, [])
    return str([importlib.metadata.version(name) for name in owners])
