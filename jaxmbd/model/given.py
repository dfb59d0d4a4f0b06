"""What the fields of joints, drivers, forces and primitives are: kinds with units, declared where
the field is.

All that reads, writes, checks or lists elements follows from these declarations: a new element
needs no entry anywhere else. The helpers return dataclass fields, for instance `axis: Any =
given.axis()`.
"""

import dataclasses
import enum
import inspect
from typing import Any

from .validation import Bounds

_KEY = "jaxmbd"
_MISSING = dataclasses.MISSING


class Kind(enum.Enum):
    """What a field holds, and how a file writes it."""

    BODY = "a body by name"
    BODIES = "bodies by name"
    JOINT = "a joint by name"
    JOINTS = "joints by name"
    VECTOR = "three numbers"
    NUMBER = "a number"
    NUMBERS = "a number or nested lists of numbers"
    POINTS = "a list of points, three numbers each"
    TRIANGLES = "a list of triangles, three indices of points each"
    FLAG = "true or false"
    SWITCH = "true or false at the beginning, or an input"
    CHOICE = "one of a few words"
    MOTION = "a function of time or an input; in files a number, an expression or an input"
    VALUE = "a number, a function of time or an input"
    LOAD = "three numbers, or a function of time or an input with three components"
    PRIMITIVES = "a list of primitives"
    CURVE = "points, three expressions of t, or a function of a parameter"
    FUNCTION = "a function of a point"
    CHARACTERISTIC = "two lists of numbers, or a function of a coordinate and its rate"


@dataclasses.dataclass(frozen=True)
class Spec:
    """The declaration of one field.

    Attributes:
        kind: What it holds.
        unit: Of its numbers, such as "m" or "N·m/rad"; "-" without dimension.
        options: The words of a choice.
        bounds: Of a number that only some values make sense for.
        lengths: The least and the largest length of a list; None where any length will do.
    """

    kind: Kind
    unit: str = ""
    options: tuple[str, ...] = ()
    bounds: Bounds | None = None
    lengths: tuple[int, int | None] = (0, None)


def _field(spec: Spec, default: object, *, kw_only: bool = True, static: bool = False) -> Any:
    # As `equinox.field` does it: what is static is no array, and programs are compiled for it.
    metadata = {_KEY: spec, "static": True} if static else {_KEY: spec}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


def body() -> Any:
    """A body, object or name; positional."""
    return _field(Spec(Kind.BODY), _MISSING, kw_only=False)


def bodies(default: object = _MISSING) -> Any:
    """Several bodies."""
    return _field(Spec(Kind.BODIES), default)


def joint() -> Any:
    """A joint, object or name; positional."""
    return _field(Spec(Kind.JOINT), _MISSING, kw_only=False)


def joints() -> Any:
    """Several joints, objects or names."""
    return _field(Spec(Kind.JOINTS), _MISSING, kw_only=False)


def point(default: object = _MISSING) -> Any:
    """A point, global at the initial pose [m]."""
    return vector("m", default)


def axis() -> Any:
    """A direction, global at the initial pose, of any length."""
    return vector("-")


def vector(unit: str, default: object = _MISSING, *, kw_only: bool = True) -> Any:
    """Three numbers."""
    return _field(Spec(Kind.VECTOR, unit), default, kw_only=kw_only)


def number(unit: str, default: object = _MISSING, *, bounds: Bounds | None = None) -> Any:
    """One number, within bounds."""
    return _field(Spec(Kind.NUMBER, unit, bounds=bounds), default)


def numbers(unit: str, default: object = _MISSING) -> Any:
    """A list of numbers, or lists of them."""
    return _field(Spec(Kind.NUMBERS, unit), default)


def flag(default: bool) -> Any:
    """Yes or no."""
    return _field(Spec(Kind.FLAG), default)


def switch() -> Any:
    """Whether an element acts, where that may change; None, the default, for always."""
    return _field(Spec(Kind.SWITCH), None)


def choice(*options: str, default: object = _MISSING, static: bool = False) -> Any:
    """One of a few words; `static` where the class is a pytree."""
    return _field(Spec(Kind.CHOICE, options=options), default, static=static)


def points(unit: str, *, least: int = 1, most: int | None = None) -> Any:
    """A list of points, (n, 3)."""
    return _field(Spec(Kind.POINTS, unit, lengths=(least, most)), _MISSING)


def triangles() -> Any:
    """Triangles by the indices of their corners, which no program computes with."""
    return _field(Spec(Kind.TRIANGLES, lengths=(1, None)), _MISSING, static=True)


def motion(unit: str, default: object = _MISSING) -> Any:
    """A function of time [s], or its text."""
    return _field(Spec(Kind.MOTION, unit), default)


def value(unit: str, default: object = _MISSING, *, kw_only: bool = True) -> Any:
    """A number, a function of time, or its text."""
    return _field(Spec(Kind.VALUE, unit), default, kw_only=kw_only)


def load(unit: str) -> Any:
    """Three numbers or texts, or a function of time that returns three numbers."""
    return _field(Spec(Kind.LOAD, unit), _MISSING)


def curve() -> Any:
    """A curve: points, three expressions of a parameter t, or a function, global at the initial
    pose [m].
    """
    return _field(Spec(Kind.CURVE, "m"), _MISSING)


def function() -> Any:
    """A Python function, which no file holds."""
    return _field(Spec(Kind.FUNCTION), _MISSING)


def characteristic(unit: str) -> Any:
    """What a spring does by its coordinate: a table of two lists, arguments and values, or a Python
    function of the coordinate and its rate, which no file holds; None by default.
    """
    return _field(Spec(Kind.CHARACTERISTIC, unit), None)


def primitives() -> Any:
    """A list of primitives."""
    return _field(Spec(Kind.PRIMITIVES), _MISSING)


def summary(described: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(described.__doc__ or "").split("\n\n")[0].split())


def specs(cls: type) -> dict[str, tuple[Spec, dataclasses.Field]]:
    """The declared fields of an element's class, by name."""
    return {f.name: (f.metadata[_KEY], f) for f in dataclasses.fields(cls) if _KEY in f.metadata}


def primitive_specs(cls: type) -> dict[str, tuple[Spec, dataclasses.Field]]:
    """The same of a primitive's class; undeclared fields hold numbers, unless they are set by the
    program (None).
    """
    found = specs(cls)
    for f in dataclasses.fields(cls):
        if f.name not in found and f.init and f.default is not None:
            kind = Kind.VALUE if f.name == "f" else Kind.NUMBERS
            found[f.name] = (Spec(kind), f)
    return found
