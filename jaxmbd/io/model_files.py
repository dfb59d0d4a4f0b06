"""Model files: JSON to a `Mechanism`, in the format "jaxmbd-1" or the older one of the paper's
codes.
"""

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .. import model
from ..model.beams import Beam
from ..model.body import orientation
from ..model.elements import kinds
from ..model.expressions import Expression, shown, time_function
from ..model.forces import AbstractForceDescription
from ..model.given import Kind, Spec, primitive_specs, specs
from ..model.joints import AbstractRelation
from ..model.laws import AbstractLawDescription
from ..model.mechanism import Mechanism
from ..model.primitives import primitives
from ..model.sections import Section
from ..model.sensors import AbstractSensor
from ..model.shapes import AbstractShape, shape_kinds
from ..model.validation import users_line
from .event_files import read_event
from .older_format import is_older_format, read_older_format
from .schema import mechanism_file
from .schema_values import InputFile

_SECTIONS = {
    "bodies": "body",
    "joints": "joint",
    "drivers": "driver",
    "forces": "force",
    "laws": "law",
    "frames": "frame",
    "sensors": "sensor",
    "beams": "beam",
    "constraints": "constraint",
    "events": "event",
}
_BEAM = specs(Beam)
_MAX_BYTES = 64 * 2**20


class ModelFileError(ValueError):
    """A model file cannot be read; the message names the file, the part and the cure."""


class ModelFileWarning(UserWarning):
    """A model file was read, but something in it was ignored; the message names the file and the
    part.
    """


def read_mechanism(path: str | Path) -> Mechanism:
    """The mechanism in a JSON file.

    Raises:
        ModelFileError: Not a file, not JSON, not one of the two formats, or a part that makes no
            sense.
    """
    path = Path(path)
    try:
        mechanism, remarks = _mechanism(_parse(_read(path)))
    except ModelFileError as error:
        raise ModelFileError(f"{_label(path)}: {error}") from None
    _warn([f"{_label(path)}: {remark}" for remark in remarks])
    return mechanism


def mechanism_from_dict(data: object) -> Mechanism:
    """The mechanism that a parsed JSON object describes.

    Raises:
        ModelFileError: Not one of the two formats, or a part that makes no sense.
    """
    mechanism, remarks = _mechanism(data)
    _warn(remarks)
    return mechanism


def _mechanism(data: object) -> tuple[Mechanism, list[str]]:
    if not isinstance(data, dict):
        raise ModelFileError(f"a model file holds one JSON object, not {shown(data)}")
    try:
        if is_older_format(data):
            return read_older_format(data)
        return _from_file(mechanism_file().model_validate(data)), []
    except ValidationError as error:
        raise ModelFileError(_explain(error, data)) from None
    except ValueError as error:
        raise ModelFileError(str(error)) from None


def _warn(remarks: list[str]) -> None:
    """Warn at the line outside of this package from which the file is read."""
    for remark in remarks:
        warnings.warn(remark, ModelFileWarning, stacklevel=users_line())


# --- text ---


def _label(path: Path) -> str:
    return path.name if path.name.isprintable() else repr(path.name)


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            # What has no size, such as a pipe, is read no further than the limit.
            too_large = os.fstat(file.fileno()).st_size > _MAX_BYTES
            content = b"" if too_large else file.read(_MAX_BYTES + 1)
    except IsADirectoryError:
        raise ModelFileError("this is a folder, not a model file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"cannot read the model file: {reason.lower()}") from None
    if too_large or len(content) > _MAX_BYTES:
        raise ModelFileError(
            f"too large for a model file; at most {_MAX_BYTES // 2**20} MiB are read"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelFileError("not a text file in UTF-8; save it as JSON in UTF-8") from None
    if not text.strip():
        raise ModelFileError("the file is empty")
    return text


def _parse(text: str) -> Any:
    repeated: dict[int, str] = {}

    def unique(pairs: list[tuple[str, object]]) -> dict:
        result = dict(pairs)
        if len(result) < len(pairs):
            seen: set[str] = set()
            repeated[id(result)] = next(key for key, _ in pairs if key in seen or seen.add(key))
            kept.append(result)
        return result

    kept: list[dict] = []  # so that no other object takes an id
    try:
        data = json.loads(
            text, object_pairs_hook=unique, parse_constant=_refuse_constant, parse_int=_integer
        )
    except RecursionError:
        raise ModelFileError("not a model file: nested too deeply") from None
    except ValueError as error:
        raise ModelFileError(f"not a JSON file: {error}") from None
    if repeated:
        place, key = _first_repeated(data, repeated)
        raise ModelFileError(f"{place}: the key {shown(key)} appears more than once")
    return data


def _refuse_constant(token: str) -> float:
    raise ValueError(f"{token} is not a number in JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)  # infinite, and refused as such


def _first_repeated(data: dict | list, repeated: dict[int, str]) -> tuple[str, str]:
    """Where the outermost object with a repeated key is, and the key."""
    todo: list[tuple[list, object]] = [([], data)]
    for location, node in todo:
        if isinstance(node, dict) and id(node) in repeated:
            where, rest = _part(location, data)
            return ".".join([where, *map(str, rest)]) if rest else where, repeated[id(node)]
        if isinstance(node, dict | list):
            items = node.items() if isinstance(node, dict) else enumerate(node)
            todo += [([*location, key], child) for key, child in items]
    raise AssertionError("an object is missing from the tree")


# --- parts ---


def _from_file(file: Any) -> Mechanism:
    m = Mechanism(file.name, gravity=file.gravity)
    for body in file.bodies:
        fields = body.model_dump(exclude={"name", "shape", "visuals", "comment"})
        shape = None if body.shape is None else _shape(body.shape)
        m.add_body(body.name, shape=shape, visuals=[_visual(v) for v in body.visuals], **fields)
    for beam in file.beams:
        fields = {name: _read_field(spec, getattr(beam, name)) for name, (spec, _) in _BEAM.items()}
        section = Section(**beam.section.model_dump())
        m.add_beam(
            beam.name, fields.pop("points"), section=section, elements=beam.elements, **fields
        )
    for part in [*file.joints, *file.drivers]:
        m.add(_element(part, AbstractRelation))
    for part in file.forces:
        m.add(_element(part, AbstractForceDescription))
    for part in file.laws:
        m.add(_element(part, AbstractLawDescription))
    for part in file.frames:
        m.add(_element(part, model.Frame))
    for part in file.sensors:
        m.add(_element(part, AbstractSensor))
    for part in file.events:
        m.add(read_event(part))
    return m


def _visual(file: Any) -> model.Visual:
    return model.Visual(_shape(file.shape), position=file.position, A=file.A, color=file.color)


def _shape(file: Any) -> AbstractShape:
    if file.type == "Composite":
        parts = [_shape(p.shape) for p in file.parts]
        turns = [
            orientation(p.A, None, None, f"Composite part {k + 1}")
            for k, p in enumerate(file.parts)
        ]
        return model.Composite(parts, [p.position for p in file.parts], turns)
    make = model.Cylinder if file.type == "Cylinder" else shape_kinds()[file.type]
    return make(**file.model_dump(exclude={"type"}))


def _read_field(spec: Spec, value: Any) -> Any:
    """What the description takes for a field of a file."""
    if value is None:
        return None
    if isinstance(value, InputFile):
        return model.Input(value.input, value.size, value.unit, value.default)
    if spec.kind is Kind.MOTION:
        return Expression(value if isinstance(value, str) else repr(float(value)))
    if spec.kind is Kind.VALUE:
        return time_function(value)
    if spec.kind is Kind.PRIMITIVES:
        return [_primitive(p) for p in value]
    return value


def _element(file: Any, base: type) -> Any:
    cls = kinds(base)[file.type]
    fields = {
        name: _read_field(spec, getattr(file, name)) for name, (spec, _) in specs(cls).items()
    }
    return cls(name=file.name, **fields)


def _primitive(file: Any) -> Any:
    cls = primitives()[file.type]
    return cls(
        **{
            name: _read_field(spec, getattr(file, name))
            for name, (spec, _) in primitive_specs(cls).items()
        }
    )


# --- messages ---

_MUST_BE = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "an object with named fields",
    "model_attributes_type": "an object with named fields",
    "dict_type": "an object with named fields",
}


def _explain(error: ValidationError, data: dict) -> str:
    """Validation errors as sentences that name the part."""
    sentences = []
    for item in error.errors(include_url=False)[:5]:
        where, rest = _part(item["loc"], data, has_last=item["type"] != "missing")
        field = ".".join(str(k) for k in rest)
        message = _message(item, field)
        named = item["type"] in ("missing", "extra_forbidden")  # the message names the field
        sentences.append(
            f"{where}: {field}: {message}" if field and not named else f"{where}: {message}"
        )
    more = error.error_count() - 5
    return "; ".join(dict.fromkeys(sentences)) + (f"; and {more} more" if more > 0 else "")


def _message(item: ErrorDetails, field: str) -> str:
    kind, context = item["type"], item.get("ctx", {})
    if kind == "literal_error" and field == "format":
        return (
            f"this version of jaxmbd reads {context['expected']}, not {shown(item['input'])}; a "
            "newer file needs a newer version"
        )
    if kind == "missing":
        return f"the field {shown(field)} is missing"
    if kind == "extra_forbidden":
        return f"unknown field {shown(field)}"
    if kind == "union_tag_invalid":
        expected = context["expected_tags"].replace("'", "")
        return f"unknown type {shown(context['tag'])}; known are {expected}"
    if kind == "union_tag_not_found":
        return "the field 'type' is missing"
    if kind in _MUST_BE:
        return f"must be {_MUST_BE[kind]}, not {shown(item['input'])}"
    if kind == "string_too_short":
        return "must not be empty"
    return item["msg"].removeprefix("Value error, ")


def _part(
    location: Sequence[str | int], data: dict | list, *, has_last: bool = True
) -> tuple[str, list]:
    """The name of the part at a place in a file, and the rest of the place, without the tags of
    pydantic's unions.
    """
    path: list[Any] = []
    node: Any = data
    for key in location:
        inside: Any = dict(enumerate(node)) if isinstance(node, list) else node
        if isinstance(inside, dict) and key in inside:
            path.append(key)
            node = inside[key]
    if not has_last:
        path.append(location[-1])
    if len(path) >= 2 and path[0] in _SECTIONS and isinstance(path[1], int):
        part = data[path[0]][path[1]]
        name = part.get("name") if isinstance(part, dict) else None
        where = (
            f"{_SECTIONS[path[0]]} {shown(name)}"
            if name and isinstance(name, str)
            else f"{path[0]}[{path[1]}]"
        )
        return where, path[2:]
    return "model", path
