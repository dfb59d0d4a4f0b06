"""What a description may hold and seldom means: degrees for radians, millimeters for meters, a body
that nothing holds. One check, when a mechanism is built, which warns by name.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .body import Body
from .given import Kind, specs
from .validation import (
    DescriptionWarning,
    concrete,
    degrees_for_radians,
    is_concrete,
    users_line,
)
from .visuals import Looks

_ANY_SCALE = "rad or m"  # the unit of numbers along the coordinate of a joint
_WIDE = 10.0  # a radius of gyration by the size of the mechanism
_FAR, _LIGHT = 50.0, 0.05  # [m], and [kg/m]: a mechanism as long is seldom as light
_EARTH = (1.0, 30.0)  # gravity in m/s² on the ground of a planet


def warn_of_doubts(mechanism: Any, connections: Sequence[Any]) -> None:
    """Warn of what is seldom meant, all of it in one warning that names the parts; traced numbers
    are passed over. `connections` are those of the mechanism's system.
    """
    found = [*_degrees(mechanism)]
    found += [
        f"body {body.name!r} is connected to nothing: no joint, force or contact names it. Connect "
        "it, or give it a velocity, v=(0, 0, 0), if it shall move freely"
        for body in unconnected(mechanism)
    ]
    size = _size(list(mechanism.bodies.values()), connections)
    if size is not None:
        found += [*_wide_inertias(mechanism, size), *_millimeters(mechanism, size)]
    if found:
        warnings.warn(
            f"mechanism {mechanism.name!r}: {'; '.join(found)}",
            DescriptionWarning,
            stacklevel=users_line(),
        )


def _degrees(mechanism: Any) -> Iterator[str]:
    tables = (mechanism.constraints, mechanism.forces, mechanism.laws)
    for part in (part for table in tables for part in table.values()):
        for field, (spec, _) in specs(type(part)).items():
            value = getattr(part, field)
            if _is_angle(part, field, spec):
                yield from degrees_for_radians(value, f"{part.title}: {field}")


def _is_angle(part: Any, field: str, spec: Any) -> bool:
    if spec.kind not in (Kind.NUMBER, Kind.VALUE):
        return False
    # The control of a servo is a set point as long as its gain is the stiffness.
    along = spec.unit == _ANY_SCALE or (field == "control" and getattr(part, "gain", 0.0) is None)
    joint = getattr(part, "joint", None)
    if not along or joint is None:
        return spec.unit == "rad"
    coordinate = getattr(part, "coordinate", None)
    return joint.has_angle if coordinate is None else coordinate == "angle"


def let_fly(mechanism: Any) -> None:
    """Describe the velocities of bodies that nothing connects, so that they are meant to fly: in
    foreign files a body without a joint says that itself.
    """
    for body in unconnected(mechanism):
        mechanism.bodies[body.name] = dataclasses.replace(body, described=(True, True))


def unconnected(mechanism: Any) -> list[Body]:
    """Bodies that no part names, among others that parts name; one whose velocity is described is
    meant to fly.
    """
    tables = (mechanism.constraints, mechanism.forces, mechanism.laws)
    named = {
        body.name if isinstance(body, Body) else body
        for table in tables
        for part in table.values()
        for body in part.targets()
    }
    bodies = mechanism.single_bodies.values() if named else ()
    return [b for b in bodies if b.name not in named and not any(b.described)]


def _size(bodies: Sequence[Body], connections: Sequence[Any]) -> float | None:
    """The largest distance from a mass center to a joint of its body or to the first mass center
    [m]; None where there is none, or where numbers are traced.
    """
    distances = [b.r - bodies[0].r for b in bodies]
    distances += [c.s_i_bar for c in connections if c.i < len(bodies)]
    distances += [c.s_j_bar for c in connections if c.j < len(bodies)]
    if not is_concrete(distances):
        return None
    size = float(np.max(np.linalg.norm(np.asarray(distances), axis=1)))
    return size if size > 0.0 else None


def _wide_inertias(mechanism: Any, size: float) -> Iterator[str]:
    for name, body in mechanism.single_bodies.items():
        if body.mass is None or not is_concrete((body.mass, body.inertia, body.shape)):
            continue
        mass, inertia = float(np.asarray(body.mass)), np.asarray(body.inertia)
        if body.shape is not None and np.allclose(inertia, np.asarray(body.shape.inertia)):
            continue
        radius = np.sqrt(np.linalg.eigvalsh(inertia)[-1] / mass) if mass > 0.0 else 0.0
        if radius > _WIDE * size and radius > _WIDE * _extent(body):
            yield (
                f"body {name!r}: its inertia makes a radius of gyration of {radius:.3g} m in a "
                f"mechanism of {size:.3g} m; inertia is in kg·m², were kg·mm² meant?"
            )


def _extent(body: Body) -> float:
    """How far what a body shows reaches from its mass center [m]: the size of a wheel on its
    shaft.
    """
    lines = Looks.of(body.visuals).outline() if body.visuals else []
    lines += [] if body.shape is None else body.shape.outline()
    return max((float(np.max(np.linalg.norm(line, axis=1))) for line in lines), default=0.0)


def _millimeters(mechanism: Any, size: float) -> Iterator[str]:
    gravity = concrete(mechanism.gravity)
    masses = [b.mass for b in mechanism.bodies.values() if b.mass is not None]
    if gravity is None or not masses or not is_concrete(masses):
        return
    mass, g = float(np.sum(np.asarray(masses))), float(np.linalg.norm(gravity))
    if size > _FAR and mass < _LIGHT * size and _EARTH[0] < g < _EARTH[1]:
        yield (
            f"it is {size:.3g} m long and has a mass of {mass:.3g} kg, with gravity of {g:.3g} "
            "m/s²; lengths are in m, were millimeters meant?"
        )
