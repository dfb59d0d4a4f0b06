"""The numbers of a mechanism by path: "gravity", "bodies.rod.mass", "joints.pin.point",
"forces.spring.stiffness".
"""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .body import Body, orientation
from .elements import AbstractElement
from .events import Event
from .given import Kind, specs
from .joints import AbstractRelation
from .validation import inertia_matrix, is_concrete, number, vector

_PARTS = (Kind.BODY, Kind.BODIES, Kind.JOINT, Kind.JOINTS)
_BODY_FIELDS = ("mass", "inertia", "r", "A", "v", "omega")


def _tables(mechanism) -> dict[str, Mapping[str, Any]]:
    """Its parts other than bodies, in the order in which they are added."""
    return {
        "joints": mechanism.constraints,
        "forces": mechanism.forces,
        "laws": mechanism.laws,
        "frames": mechanism.frames,
        "sensors": mechanism.sensors,
        "events": mechanism.events,
    }


def values(mechanism) -> dict[str, Any]:
    """All numbers of a mechanism by path; see `Mechanism.values`."""
    found: dict[str, Any] = {"gravity": mechanism.gravity}
    for body in mechanism.single_bodies.values():
        for field in _BODY_FIELDS:
            if getattr(body, field) is not None:
                found[f"bodies.{body.name}.{field}"] = getattr(body, field)
    for kind, parts in _tables(mechanism).items():
        for name, part in parts.items():
            for field in _fields(part):
                _collect(f"{kind}.{name}.{field}", getattr(part, field), found)
    for name, beam in mechanism.beams.items():
        for field in dataclasses.fields(beam):
            if field.name not in ("name", "section", "elements"):
                _collect(f"beams.{name}.{field.name}", getattr(beam, field.name), found)
        for field in dataclasses.fields(beam.section):
            path = f"beams.{name}.section.{field.name}"
            _collect(path, getattr(beam.section, field.name), found)
    return found


def _fields(part: AbstractElement | Event) -> list[str]:
    """Fields of a part that may hold numbers."""
    if isinstance(part, Event):
        return ["value"]
    return [field.name for field in dataclasses.fields(part)]


def _collect(path: str, value: Any, found: dict[str, Any]) -> None:
    """Numbers, arrays and modules that hold arrays; lists of primitives by their position and
    field.
    """
    if isinstance(value, (str, Body, AbstractRelation, bool)) or value is None:
        return
    if isinstance(value, list | tuple) and any(isinstance(x, AbstractRelation) for x in value):
        return
    if path.endswith(".primitives"):
        for k, primitive in enumerate(value):
            for field in dataclasses.fields(primitive):
                _collect(f"{path}.{k}.{field.name}", getattr(primitive, field.name), found)
    elif _is_numeric(value):
        found[path] = value


def _is_numeric(value: object) -> bool:
    leaves = jax.tree.leaves(value)
    if isinstance(value, eqx.Module):
        return any(eqx.is_array(x) for x in leaves)
    return bool(leaves) and all(eqx.is_array_like(x) and not callable(x) for x in leaves)


def with_values(mechanism, changes: Mapping[str, object]):
    """A copy with some numbers replaced; see `Mechanism.with_values`."""
    bodies, parts, beams, gravity = {}, {}, {}, mechanism.gravity
    for path, value in changes.items():
        kind, name, fields = _split(mechanism, path)
        if kind == "gravity":
            gravity = value
        elif kind == "bodies":
            bodies.setdefault(name, {})[fields[0]] = value
        elif kind == "beams":
            beams.setdefault(name, []).append((fields, value))
        else:
            parts.setdefault((kind, name), []).append((fields, value))
    copy = type(mechanism)(mechanism.name, gravity=gravity)
    for name, body in mechanism.single_bodies.items():
        copy.bodies[name] = _changed_body(body, bodies.get(name, {}))
    for name, beam in mechanism.beams.items():
        for fields, value in beams.get(name, []):
            beam = _changed_beam(beam, fields, value)
        own = {f.name: getattr(beam, f.name) for f in dataclasses.fields(beam)}
        copy.add_beam(own.pop("name"), own.pop("points"), **own)
    for kind, table in _tables(mechanism).items():
        for name, part in table.items():
            for fields, value in parts.get((kind, name), []):
                part = _changed_part(part, fields, value)
            copy.add(_by_name(part))
    return copy


def _split(mechanism, path: str) -> tuple[str, str, list[str]]:
    """Kind, name and fields of a path; names may contain dots."""
    if path == "gravity":
        return "gravity", "", []
    kind, _, rest = path.partition(".")
    tables = {
        "bodies": mechanism.single_bodies,
        "beams": mechanism.beams,
        **_tables(mechanism),
    }
    for name in sorted(tables.get(kind, ()), key=len, reverse=True):
        if rest.startswith(name + "."):
            fields = rest[len(name) + 1 :].split(".")
            if _has_field(kind, tables[kind][name], fields):
                return kind, name, fields
    known = list(values(mechanism))
    near = difflib.get_close_matches(path, known, n=3, cutoff=0.5) or known[:5]
    raise ValueError(
        f"mechanism {mechanism.name!r} has no number {path!r}; did you mean {', '.join(near)}?"
    )


def _has_field(kind: str, part: Any, fields: list[str]) -> bool:
    if kind == "bodies":
        return len(fields) == 1 and fields[0] in _BODY_FIELDS
    if kind == "beams" and fields[0] == "section":
        known = {f.name for f in dataclasses.fields(part.section)}
        return len(fields) == 2 and fields[1] in known
    if fields[0] == "primitives" and len(fields) == 3 and fields[1].isdigit():
        k = int(fields[1])
        return k < len(part.primitives) and hasattr(part.primitives[k], fields[2])
    labels = {k for k, (spec, _) in specs(type(part)).items() if spec.kind in _PARTS} | {"name"}
    return len(fields) == 1 and fields[0] in set(_fields(part)) - labels


def _changed_body(body: Body, changes: dict[str, Any]) -> Body:
    checked = {}
    for field, value in changes.items():
        what = f"body {body.name!r}: {field}"
        if field == "mass":
            checked[field] = number(value, what)
            if is_concrete(value) and not float(np.asarray(value)) > 0.0:
                raise ValueError(f"{what} must be positive, not {float(np.asarray(value)):g} kg")
        elif field == "inertia":
            # Published data that were let in as they are may be changed as they are.
            checked[field] = inertia_matrix(value, what, allow_unphysical=_is_unphysical(body))
        elif field == "A":
            checked[field] = orientation(value, None, None, what)
        else:
            checked[field] = vector(value, 3, what)
            if field in ("v", "omega"):
                v, omega = checked.get("described", body.described)
                checked["described"] = (v or field == "v", omega or field == "omega")
    return dataclasses.replace(body, **checked)


def _changed_beam(beam: Any, fields: list[str], value: object) -> Any:
    if fields[0] == "section":
        section = dataclasses.replace(beam.section, **{fields[1]: value})
        return dataclasses.replace(beam, section=section)
    return dataclasses.replace(beam, **{fields[0]: value})


def _is_unphysical(body: Body) -> bool:
    if body.inertia is None or not is_concrete(body.inertia):
        return False
    a, b, c = np.linalg.eigvalsh(np.asarray(body.inertia))
    return bool(c > a + b)


def _changed_part(part: Any, fields: list[str], value: object) -> Any:
    if isinstance(part, Event):
        return part.passing(value)
    if fields[0] != "primitives":
        return dataclasses.replace(part, **{fields[0]: value})
    primitives, k = list(part.primitives), int(fields[1])
    primitives[k] = dataclasses.replace(primitives[k], **{fields[2]: value})
    return dataclasses.replace(part, primitives=primitives)


def _by_name(part: Any) -> Any:
    """The part with names in place of bodies and joints, so that it finds those of the copy."""

    def name(x: object):
        return x.name if isinstance(x, (Body, AbstractRelation)) else x

    changes = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, (Body, AbstractRelation)):
            changes[field.name] = name(value)
        elif field.name in ("bodies", "others", "joints"):
            changes[field.name] = tuple(name(x) for x in value)
    return dataclasses.replace(part, **changes) if changes else part
