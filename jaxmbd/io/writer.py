"""Mechanisms to model files in the format "jaxmbd-1": what is written is read back to the last
bit.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..files import written
from ..model.beams import Beam
from ..model.body import Body
from ..model.elements import AbstractElement
from ..model.events import Event
from ..model.expressions import Components
from ..model.given import Kind, Spec, primitive_specs, specs
from ..model.inputs import Input
from ..model.joints import AbstractRelation
from ..model.mechanism import Mechanism
from ..model.primitives import AbstractPrimitive
from ..model.shapes import AbstractShape, Composite
from ..model.validation import inertia_matrix, is_concrete
from ..model.visuals import Visual
from .event_files import event_to_dict
from .model_files import ModelFileError


def write_mechanism(mechanism: Mechanism, path: str | Path) -> None:
    """Write a mechanism to a JSON file, which appears whole or not at all.

    Raises:
        ModelFileError: Something that a file cannot hold, such as a Python function; the message
            names the part and says what to give instead.
        OSError: The file cannot be written; the message names it.
    """
    text = json.dumps(mechanism_to_dict(mechanism), indent=2, ensure_ascii=False, allow_nan=False)
    with written(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def mechanism_to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """The JSON object that `mechanism_from_dict` reads back; see `write_mechanism`."""
    parts = list(mechanism.constraints.values())
    return {
        "format": "jaxmbd-1",
        "name": mechanism.name,
        "gravity": _numbers(mechanism.gravity, f"mechanism {mechanism.name!r}: gravity"),
        "bodies": [_body(b) for b in mechanism.single_bodies.values()],
        # The order of description is that of the rows: drivers stand where they were added.
        "joints": [_element(p) for p in parts],
        "forces": [_element(p) for p in mechanism.forces.values()],
        # Left out where there are none, so that older readers read the file.
        **({"laws": [_element(p) for p in mechanism.laws.values()]} if mechanism.laws else {}),
        **(
            {"frames": [_element(p) for p in mechanism.frames.values()]} if mechanism.frames else {}
        ),
        **(
            {"sensors": [_element(p) for p in mechanism.sensors.values()]}
            if mechanism.sensors
            else {}
        ),
        **({"beams": [_beam(b) for b in mechanism.beams.values()]} if mechanism.beams else {}),
        **({"events": [_event(e) for e in mechanism.events.values()]} if mechanism.events else {}),
    }


def _event(event: Event) -> dict[str, Any]:
    try:
        return event_to_dict(event, _numbers)
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(str(error)) from None


def _body(body: Body) -> dict[str, Any]:
    what = f"body {body.name!r}"
    file: dict[str, Any] = {"name": body.name}
    if body.massless:
        file["massless"] = True
    elif body.mass is not None:
        file["mass"] = _numbers(body.mass, f"{what}: mass")
        inertia = np.asarray(_numbers(body.inertia, f"{what}: inertia"))
        diagonal = np.diag(inertia)
        file["inertia"] = (
            diagonal if np.array_equal(np.diag(diagonal), inertia) else inertia
        ).tolist()
        try:
            inertia_matrix(inertia, what)
        except ValueError:
            file["allow_unphysical_inertia"] = True
    if body.shape is not None:
        file["shape"] = _shape(body.shape, what)
    if body.visuals:
        file["visuals"] = [_visual(visual, what) for visual in body.visuals]
    file["r"], file["A"] = _numbers(body.r, f"{what}: r"), _numbers(body.A, f"{what}: A")
    for name, described in zip(("v", "omega"), body.described, strict=True):
        if described:
            file[name] = _numbers(getattr(body, name), f"{what}: {name}")
    return file


def _visual(visual: Visual, what: str) -> dict[str, Any]:
    file = {"shape": _shape(visual.shape, what), "position": _numbers(visual.position, what)}
    file["A"] = _numbers(visual.A, what)
    return file if visual.color is None else file | {"color": list(visual.color)}


def _beam(beam: Beam) -> dict[str, Any]:
    file = {k: v for k, v in _element(beam).items() if k != "type"}
    what = f"{beam.title}: section"
    file["section"] = {
        f.name: _numbers(getattr(beam.section, f.name), f"{what}: {f.name}")
        for f in dataclasses.fields(beam.section)
    }
    if beam.elements is not None:
        file["elements"] = int(beam.elements)
    return file


def _shape(shape: AbstractShape, what: str) -> dict[str, Any]:
    kind = type(shape).__name__
    if isinstance(shape, Composite):
        positions = np.asarray(_numbers(shape.offsets, what)) + np.asarray(
            _numbers(shape.center, what)
        )
        rotations = _numbers(shape.rotations, what)
        parts = [
            {"shape": _shape(part, what), "position": position, "A": A}
            for part, position, A in zip(shape.parts, positions.tolist(), rotations, strict=True)
        ]
        return {"type": kind, "parts": parts}
    if not shape.declared():
        raise ModelFileError(
            f"{what}: a file cannot hold a {kind}, whose class declares no fields; declare them "
            "with jaxmbd.given"
        )
    file: dict[str, Any] = {"type": kind}
    for name, (spec, _) in shape.declared().items():
        file[name] = _field(spec, getattr(shape, name), f"{what}: {name}")
    mass = _numbers(shape.mass, what)
    return file if shape.looks_alone and mass == 0.0 else file | {"mass": mass}


def _element(part: AbstractElement) -> dict[str, Any]:
    kind, what = type(part), part.title
    if not kind.in_files:
        raise ModelFileError(
            f"{what}: a file cannot hold a {kind.__name__}, which is made of Python functions"
        )
    file: dict[str, Any] = {"type": kind.__name__, "name": part.name}
    for name, (spec, field) in specs(kind).items():
        value = getattr(part, name)
        if not (value is None or _is_default(value, field.default)):
            file[name] = _field(spec, value, f"{what}: {name}")
    return file


def _is_default(value: object, default: object) -> bool:
    return isinstance(value, str | bool | tuple) and value == default


def _primitive(primitive: AbstractPrimitive, what: str) -> dict[str, Any]:
    kind = type(primitive)
    file: dict[str, Any] = {"type": kind.__name__}
    for name, (spec, _) in primitive_specs(kind).items():
        file[name] = _field(spec, getattr(primitive, name), f"{what}: {kind.__name__}: {name}")
    return file


def _field(spec: Spec, value: Any, what: str) -> Any:
    """A field as a file writes it."""
    kind = spec.kind
    if kind in (Kind.BODY, Kind.JOINT):
        return _name(value)
    if kind in (Kind.BODIES, Kind.JOINTS):
        return [_name(x) for x in value]
    if kind in (Kind.FLAG, Kind.CHOICE) or isinstance(value, bool):
        return value
    if kind is Kind.TRIANGLES:
        return value.tolist()
    if kind is Kind.PRIMITIVES:
        return [_primitive(p, what) for p in value]
    if isinstance(value, str):
        return value
    if isinstance(value, Input):
        rest = {"size": value.size, "unit": value.unit, "default": value.default}
        return {"input": value.name} | {k: x for k, x in rest.items() if x not in (None, "-")}
    if isinstance(
        text := getattr(value, "text", None), str
    ):  # an Expression, or a module that is one
        return text
    if kind is Kind.CHARACTERISTIC and callable(value):
        raise ModelFileError(
            f"{what} is a Python function, which a file cannot hold; give a table instead, two "
            "lists of numbers"
        )
    if kind is Kind.CURVE and not callable(value) and not any(isinstance(x, str) for x in value):
        return _numbers(value, what)
    if isinstance(value, Components):
        return [c.text for c in value.components]
    if isinstance(value, list | tuple) and any(isinstance(x, str) for x in value):
        return [x if isinstance(x, str) else _numbers(x, what) for x in value]
    if callable(value):
        raise ModelFileError(
            f"{what} is a Python function, which a file cannot hold; write it as an expression of "
            "time, such as '0.5*sin(2*pi*t)'"
        )
    return _numbers(value, what)


def _name(part: Body | AbstractRelation | str) -> str:
    return part if isinstance(part, str) else part.name


def _numbers(value: object, what: str) -> Any:
    """A number or nested lists of numbers, in double precision, which JSON keeps to the last
    bit.
    """
    if not is_concrete(value):
        raise ModelFileError(f"{what} is traced by JAX: save outside jit, vmap and grad")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        raise ModelFileError(f"{what} is no finite number: {value!r}")
    return array.astype(float).tolist()
