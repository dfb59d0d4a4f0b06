"""Trees of the package as data: a text that says all of a structure but the numbers in its arrays.

Two trees of one description are traced to one program, in any process with the same code. What a
description could not say in full, such as a function or a class of the user's, is refused.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

_OURS = ("jaxmbd", "equinox")  # whose classes are known by their names


class Undescribed(Exception):
    """Something in a tree has no description."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """Stands for the k-th array of a tree."""

    k: int


Description = list[Any]  # lists, texts and numbers that JSON can hold
Functions = Callable[[Callable[..., Any]], Description]  # descriptions of functions


def describe(
    tree: PyTree, *, functions: Functions | None = None, held: bool = False
) -> Description:
    """The tree as lists, texts and numbers that JSON can hold; of arrays the shape and type.

    Args:
        tree: What to describe.
        functions: Describes functions in it, with which it cannot be rebuilt; refused by default.
        held: Whether the numbers of arrays are part of the description.

    Raises:
        Undescribed: A part is neither data nor of this package.
    """
    return _Description(functions).of(tree, held=held)


def rebuild(description: Description, arrays: Sequence[object]) -> PyTree:
    """The tree that was described with a `Slot` in place of each array.

    Raises:
        Undescribed: It is no such description.
    """
    kind, *rest = description
    if kind not in _REBUILD:
        raise Undescribed(f"no part of a tree is called {kind!r}")
    return _REBUILD[kind](arrays, *rest)


@dataclasses.dataclass(frozen=True)
class _Description:
    """How parts are described."""

    functions: Functions | None

    def of(self, x: PyTree, *, held: bool) -> Description:
        """`held` says that the part is static, so that its numbers belong to the program."""
        if x is None or isinstance(x, bool | int | str):
            return ["value", x]
        if isinstance(x, float):
            return ["float", x.hex()]
        if isinstance(x, Slot):
            return ["slot", x.k]
        if isinstance(x, np.dtype):
            return ["dtype", x.str]
        if isinstance(x, type):
            return ["class", _path(x)]
        if eqx.is_array(x):
            shape = list(x.shape)
            if held:
                return ["constant", str(x.dtype), shape, np.asarray(x).tobytes().hex()]
            return ["array", str(x.dtype), shape, bool(getattr(x, "weak_type", False))]
        if isinstance(x, eqx.Module):
            return self._of_fields(x, held=held)
        if type(x) in (tuple, list):
            return [type(x).__name__, [self.of(v, held=held) for v in x]]
        if type(x) is dict:
            # As JAX orders its leaves.
            pairs = [[self.of(k, held=True), self.of(x[k], held=held)] for k in sorted(x)]
            return ["dict", pairs]
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return ["named", _path(type(x)), [self.of(v, held=held) for v in x]]
        if self.functions is not None and isinstance(x, jax.tree_util.PyTreeDef):
            structure: Any = x
            slots = jax.tree.unflatten(structure, [Slot(k) for k in range(structure.num_leaves)])
            return ["structure", self.of(slots, held=held)]
        if self.functions is not None and callable(x):
            return self.functions(x)
        raise Undescribed(f"{type(x).__module__}.{type(x).__qualname__}")

    def _of_fields(self, module: eqx.Module, *, held: bool) -> Description:
        fields = []
        for field in dataclasses.fields(module):
            if hasattr(module, field.name):
                static = held or bool(field.metadata.get("static", False))
                fields.append([field.name, self.of(getattr(module, field.name), held=static)])
        return ["module", _path(type(module)), fields]


def _label(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _path(cls: type) -> str:
    """A class of data by the label under which a rebuilt one is found."""
    label = _label(cls)
    if _find(label) is not cls:
        raise Undescribed(label)
    return label


def _class_of(label: str) -> type:
    found = _find(label)
    if found is None:
        raise Undescribed(label)
    return found


# A description finds classes here and nowhere else: no name in it is imported, nor followed to an
# attribute. Whatever it says, it makes data of these classes and calls nothing.
_Kind = TypeVar("_Kind", bound=type)
_allowed: dict[str, type] = {}
_kinds: list[type] = [eqx.Module, eqx.Enumeration]


def describable(kind: _Kind) -> _Kind:
    """Allow the classes of this package that derive from a kind of data; a decorator."""
    _kinds.append(kind)
    return kind


def _find(label: str) -> type | None:
    """The class of data of this label, if this process has defined it."""
    if label not in _allowed:
        _allowed.update(_classes_of_data())
    return _allowed.get(label)


def _classes_of_data() -> dict[str, type]:
    """Modules, enumerations, named tuples and elements of this package and of equinox, by label."""
    todo = list(_kinds)
    todo += [c for c in tuple.__subclasses__() if hasattr(c, "_fields")]
    found: dict[str, type] = {}
    for cls in todo:
        todo += type.__subclasses__(cls)
        ours = cls.__module__.split(".")[0] in _OURS and "<" not in cls.__qualname__
        if ours:
            found.setdefault(_label(cls), cls)  # equinox derives classes of the same label
    return found


def _module(arrays: Sequence[object], label: str, fields: list[Description]) -> eqx.Module:
    cls = _class_of(label)
    if not issubclass(cls, eqx.Module):
        raise Undescribed(label)
    known = {field.name for field in dataclasses.fields(cls)}
    module = object.__new__(cls)
    for name, value in fields:
        if name not in known:
            raise Undescribed(f"{label} has no field {name!r}")
        object.__setattr__(module, name, rebuild(value, arrays))
    return module


def _constant(arrays: Sequence[object], dtype: str, shape: list[int], content: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(content), np.dtype(dtype)).reshape(shape)


def _value(arrays: Sequence[object], x: object) -> bool | int | str | None:
    if x is not None and not isinstance(x, bool | int | str):
        raise Undescribed(f"a value is no {type(x).__name__}")
    return x


def _named(arrays: Sequence[object], label: str, parts: list[Description]) -> PyTree:
    cls: Callable[..., PyTree] = _class_of(label)
    if not issubclass(cls, tuple):
        raise Undescribed(label)
    return cls(*(rebuild(p, arrays) for p in parts))


_REBUILD: dict[str, Callable[..., PyTree]] = {
    "value": _value,
    "float": lambda arrays, x: float.fromhex(x),
    "slot": lambda arrays, k: arrays[k],
    "dtype": lambda arrays, x: np.dtype(x),
    "class": lambda arrays, path: _class_of(path),
    "constant": _constant,
    "module": _module,
    "tuple": lambda arrays, parts: tuple(rebuild(p, arrays) for p in parts),
    "list": lambda arrays, parts: [rebuild(p, arrays) for p in parts],
    "dict": lambda arrays, parts: {rebuild(k, arrays): rebuild(v, arrays) for k, v in parts},
    "named": _named,
}


def with_slots(tree: PyTree) -> PyTree:
    """The tree with a `Slot` in place of every array, in the order of its leaves."""
    leaves, structure = jax.tree.flatten(tree)
    count = iter(range(len(leaves)))
    return jax.tree.unflatten(
        structure, [Slot(next(count)) if eqx.is_array(x) else x for x in leaves]
    )
