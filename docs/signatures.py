"""Signatures as the reference shows them: short types that are links, and what the fields of
elements hold, as the first page of the reference lists it.
"""

import collections.abc
import inspect
import types
import typing
from typing import Any

import numpy as np

import jaxmbd as mbd
from jaxmbd.model.given import Kind, specs

# Where names of other packages are explained.
_JAX, _NUMPY = "https://docs.jax.dev/en/latest", "https://numpy.org/doc/stable/reference"
ELSEWHERE = {
    "Array": f"{_JAX}/_autosummary/jax.Array.html",
    "ArrayLike": f"{_JAX}/_autosummary/jax.typing.ArrayLike.html",
    "PyTree": f"{_JAX}/pytrees.html",
    "ndarray": f"{_NUMPY}/generated/numpy.ndarray.html",
    "Module": "https://docs.kidger.site/equinox/api/module/module/#equinox.Module",
    "GradientTransformation": "https://optax.readthedocs.io/en/latest/api/transformations.html",
    "Callable": "https://docs.python.org/3/library/collections.abc.html#collections.abc.Callable",
    "Sequence": "https://docs.python.org/3/library/collections.abc.html#collections.abc.Sequence",
    "Mapping": "https://docs.python.org/3/library/collections.abc.html#collections.abc.Mapping",
    "Iterator": "https://docs.python.org/3/library/collections.abc.html#collections.abc.Iterator",
    "Path": "https://docs.python.org/3/library/pathlib.html#pathlib.Path",
}
# What a field of an element holds, in one word; the reference's page has a table of them.
WORDS = {
    Kind.BODY: "Body | str",
    Kind.BODIES: "bodies",
    Kind.JOINT: "joint",
    Kind.JOINTS: "joints",
    Kind.VECTOR: "vector",
    Kind.NUMBER: "number",
    Kind.NUMBERS: "numbers",
    Kind.POINTS: "points",
    Kind.TRIANGLES: "triangles",
    Kind.FLAG: "bool",
    Kind.SWITCH: "switch",
    Kind.CHOICE: "str",
    Kind.MOTION: "motion",
    Kind.VALUE: "value",
    Kind.LOAD: "load",
    Kind.PRIMITIVES: "primitives",
    Kind.CURVE: "curve",
    Kind.FUNCTION: "function",
    Kind.CHARACTERISTIC: "characteristic",
}
_PUBLIC = {value: name for name, value in vars(mbd).items() if inspect.isclass(value)}


def readable(annotation: object) -> str:
    """A type in words that a reader knows; empty where it says nothing."""
    if annotation in (inspect.Parameter.empty, Any) or isinstance(annotation, typing.TypeVar):
        return ""
    if annotation is object:
        return "ArrayLike"  # `model.validation.Numbers`, which takes anything at run time
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2].strip("'\"")
    if getattr(annotation, "__module__", "").startswith("jaxtyping"):
        return "PyTree" if "PyTree" in repr(annotation) else "Array"
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _either(inside)
    if origin is typing.Literal:
        return " | ".join(map(repr, inside))
    if origin is typing.Annotated:
        return readable(inside[0])
    if origin is not None:
        return _generic(origin, inside)
    return _named(annotation)


def _named(annotation: object) -> str:
    name = _PUBLIC.get(annotation) or getattr(annotation, "__name__", "")
    if name == "Array" or (inspect.isclass(annotation) and issubclass(annotation, np.generic)):
        return "Array"
    return name


def _either(parts: tuple) -> str:
    words = [word for part in parts if (word := readable(part))]
    # A NumPy array is taken and given wherever one of JAX is.
    if "Array" in words:
        words = [word for word in words if word != "ndarray"]
    if {"float", "Array"} <= set(words) or "ArrayLike" in words:
        words = ["ArrayLike", *(w for w in words if w not in _LIKE)]
    return " | ".join(dict.fromkeys(words))


_LIKE = {"float", "int", "bool", "complex", "Array", "ndarray", "ArrayLike", "Sequence"}


def _generic(origin: Any, inside: tuple) -> str:
    name = _named(origin)
    if origin is collections.abc.Callable or name == "Callable":
        return "Callable"
    words = ["..." if part is ... else readable(part) for part in inside]
    return f"{name}[{', '.join(words)}]" if all(words) else name


def signature_of(obj: object, what: str) -> tuple[str, str | None] | None:
    """The signature of a function or class and its return type; None where it has none."""
    try:
        found = inspect.signature(obj)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return None
    fields = specs(obj) if inspect.isclass(obj) and hasattr(obj, "__dataclass_fields__") else {}
    parameters = list(found.parameters.values())
    if what == "method" and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    shown, starred = [], False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            starred = True
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(_parameter(p, WORDS[fields[p.name][0].kind] if p.name in fields else None))
    returned = "" if inspect.isclass(obj) else readable(found.return_annotation)
    return f"({', '.join(shown)})", returned or None


def _parameter(p: inspect.Parameter, word: str | None) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    word = readable(p.annotation) if word is None else word
    text = f"{stars}{p.name}" + (f": {word}" if word else "")
    if p.default is p.empty:
        return text
    equals = " = " if word else "="
    return f"{text}{equals}{_default(p.default)}"


def _default(value: object) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    text = repr(value)
    # What is no literal, or a long one, is explained in the text.
    return text if len(text) < 40 and not text.startswith("<") and "\n" not in text else "..."
