"""Model files: JSON to a `Mechanism`, in the format "jaxmbd-1" or the older one of the paper's codes."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from pydantic import ValidationError

from .. import model
from ..model.joints import AbstractConstraint
from ..model.mechanism import Mechanism
from ..model.validation import default_dtype
from .expressions import Expression
from .older_format import is_older_format, read_older_format
from .schema import MechanismFile

_SECTIONS = {"bodies": "body", "joints": "joint", "drivers": "driver", "forces": "force"}


class ModelFileError(ValueError):
    """A model file cannot be read; the message names the file, the part and the cure."""


def read_mechanism(path: str | Path) -> Mechanism:
    """The mechanism in a JSON file.

    Raises:
        ModelFileError: Not a file, not JSON, not one of the two formats, or a part that makes no sense.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"cannot read the model file {str(path)!r}: {error}") from None
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelFileError(f"{path.name}: not a JSON file: {error}") from None
    try:
        return mechanism_from_dict(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path.name}: {error}") from None


def mechanism_from_dict(data: Any) -> Mechanism:
    """The mechanism that a parsed JSON object describes."""
    if not isinstance(data, dict):
        raise ModelFileError(f"a model file holds one JSON object, not {type(data).__name__}")
    try:
        if is_older_format(data):
            return read_older_format(data)
        return _from_file(MechanismFile.model_validate(data))
    except ValidationError as error:
        raise ModelFileError(_explain(error, data)) from None
    except ValueError as error:
        raise ModelFileError(str(error)) from None


def _from_file(file: MechanismFile) -> Mechanism:
    m = Mechanism(file.name, gravity=file.gravity)
    for body in file.bodies:
        fields = body.model_dump(exclude={"name", "shape", "comment"})
        m.add_body(body.name, shape=None if body.shape is None else _shape(body.shape), **fields)
    for part in [*file.joints, *file.drivers]:
        m.add(_constraint(part))
    for part in file.forces:
        m.add(_force(part))
    return m


def _shape(file) -> Any:
    if file.type == "Composite":
        parts = [_shape(p.shape) for p in file.parts]
        eye = jnp.eye(3, dtype=default_dtype())
        return model.Composite(
            parts, [p.position for p in file.parts], [eye if p.A is None else p.A for p in file.parts]
        )
    return getattr(model, file.type)(**file.model_dump(exclude={"type"}))


def _motion(value: Any) -> Any:
    """A time function of a file: a string becomes an expression, a number stays."""
    return Expression(value) if isinstance(value, str) else value


def _driving_motion(value: Any) -> Expression:
    return Expression(value if isinstance(value, str) else repr(float(value)))


def _constraint(file) -> AbstractConstraint:
    fields = file.model_dump(exclude={"type", "name", "body_i", "body_j", "comment"})
    if file.type == "PoseDriver":
        fields |= {key: _Load(tuple(_driving_motion(c) for c in fields[key])) for key in ("displacement", "rotation")}
        return model.PoseDriver(file.name, file.body_i, file.body_j, **fields)
    for key in ("angle", "displacement", "length"):
        if fields.get(key) is not None:
            fields[key] = _driving_motion(fields[key]) if file.type.endswith("Driver") else _motion(fields[key])
    if file.type == "Constraint":
        fields["primitives"] = [_primitive(p) for p in file.primitives]
    return getattr(model, file.type)(file.name, file.body_i, file.body_j, **fields)


def _primitive(file) -> Any:
    fields = file.model_dump(exclude={"type"})
    return getattr(model, file.type)(**{**fields, "f": _motion(fields["f"])})


class _Load(eqx.Module):
    """Three time functions as one vector function of time."""

    components: tuple[Expression, ...]

    def __call__(self, t):
        return jnp.stack([c(t) for c in self.components])


def _load(value: list) -> Any:
    if not any(isinstance(c, str) for c in value):
        return value
    return _Load(tuple(_driving_motion(c) for c in value))


def _force(file) -> Any:
    fields = file.model_dump(exclude={"type", "name", "comment"})
    positional = [fields.pop(key) for key in ("body_i", "body_j", "body", "joint") if key in fields]
    for key in ("force", "torque"):
        if key in fields:
            fields[key] = _load(fields[key])
    for key in ("actuator", "control"):
        if fields.get(key) is not None:
            fields[key] = _driving_motion(fields[key])
    return getattr(model, file.type)(file.name, *positional, **fields)


def _explain(error: ValidationError, data: dict) -> str:
    """Validation errors as sentences that name the part."""
    sentences = []
    for item in error.errors()[:5]:
        where, rest = _part(item["loc"], data)
        field = ".".join(str(k) for k in rest)
        kind, context = item["type"], item.get("ctx", {})
        if kind == "missing":
            sentences.append(f"{where}: the field {field!r} is missing")
        elif kind == "extra_forbidden":
            sentences.append(f"{where}: unknown field {field!r}")
        elif kind == "union_tag_invalid":
            known = context["expected_tags"].replace("'", "")
            sentences.append(f"{where}: unknown type {context['tag']!r}; known are {known}")
        elif kind == "union_tag_not_found":
            sentences.append(f"{where}: the field 'type' is missing")
        else:
            message = item["msg"].removeprefix("Value error, ")
            sentences.append(f"{where}: {field}: {message}" if field else f"{where}: {message}")
    more = error.error_count() - len(sentences)
    return "; ".join(dict.fromkeys(sentences)) + (f"; and {more} more" if more > 0 else "")


def _part(location: tuple, data: dict) -> tuple[str, list]:
    """The name of the part at an error's location, and the rest of the location without union tags."""
    path = list(location)
    if len(path) >= 2 and path[0] in _SECTIONS and isinstance(path[1], int):
        part = data[path[0]][path[1]]
        name = part.get("name") if isinstance(part, dict) else None
        where = f"{_SECTIONS[path[0]]} {name!r}" if isinstance(name, str) else f"{path[0]}[{path[1]}]"
        kind = part.get("type") if isinstance(part, dict) else None
        rest = [k for k in path[2:] if k != kind]
        return where, [k for k in rest if not (isinstance(k, str) and ("[" in k or k in ("float", "function-after")))]
    return "model", path
