"""Attributes and small elements of URDF files, checked, and the loops of an extended URDF."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from .import_report import ImportReport
from .model_files import ModelFileError
from .xml_tree import Element

# (frame, frame) or (frame, frame, "3d" or "6d") of each loop, or a file that names them.
Loops: TypeAlias = str | Path | Sequence[Sequence[str]]


def loops_of(given: Loops, report: ImportReport) -> list[tuple[str, str, str]]:
    """(frame, frame, "3d" or "6d") from a list of such, or from the YAML file of an extended
    URDF.
    """
    if isinstance(given, str | Path):
        content = _yaml(Path(given))
        pairs = content.pop("closed_loop", [])
        kinds = content.pop("type", ["6D"] * len(pairs))
        for key in content:
            if key.startswith(("name_mot", "Lid")):
                report.ignore(key, "", "which joints have motors", moves=False)
            else:
                report.refuse(key, "", "this entry of an extended URDF is not supported")
        given = [(*pair, kind) for pair, kind in zip(pairs, kinds, strict=True)]
    found = []
    for item in given:
        first, second, kind = item if len(item) == 3 else (*item, "3d")
        if str(kind).lower() not in ("3d", "6d"):
            raise ModelFileError(
                f"{report.source}: loops: a loop is held by '3d' (a point) or '6d' (a frame), not "
                f"{kind!r}"
            )
        found.append((first, second, str(kind).lower()))
    return found


def _yaml(path: Path) -> dict:
    try:
        import yaml
    except ImportError:
        raise ModelFileError("reading the loops of an extended URDF needs pyyaml") from None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ModelFileError(
            f"{path.name}: cannot be read: {' '.join(str(error).split())}"
        ) from None
    if not isinstance(content, dict):
        raise ModelFileError(f"{path.name}: not the YAML file of an extended URDF")
    return content


# --- attributes ---


def by_name(root: Element, tag: str) -> dict[str, Element]:
    """The children of a kind by their names, which are unique."""
    found: dict[str, Element] = {}
    for element in root.all(tag):
        name = element.get("name")
        if not name:
            raise element.error("the attribute 'name' is missing")
        if name in found:
            raise element.error("the name is taken")
        found[name] = element
    if tag == "link" and not found:
        raise root.error("has no links")
    return found


def needed(element: Element, tag: str) -> Element:
    """A child that must be there."""
    found = element.first(tag)
    if found is None:
        raise element.error(f"<{tag}> is missing")
    return found


def _numbers(
    element: Element, name: str, count: int, default: Sequence[float] | None
) -> tuple[float, ...]:
    text = element.get(name)
    if text is None:
        if default is None:
            raise element.error(f"the attribute {name!r} is missing")
        return tuple(default)
    values: tuple[float, ...] = ()
    try:
        values = tuple(float(x) for x in text.split())
    except ValueError:
        pass  # told below
    if len(values) != count or not np.all(np.isfinite(values)):
        wanted = "a number" if count == 1 else f"{count} numbers"
        raise element.error(f"{name} must be {wanted}, not {text[:60]!r}")
    return values


def number(element: Element, name: str, default: float | None = None) -> float:
    """An attribute that is a number."""
    return _numbers(element, name, 1, None if default is None else (default,))[0]


def vector(element: Element, name: str, default: Sequence[float] | None = None):
    """An attribute of three numbers."""
    return _numbers(element, name, 3, default)


def origin_of(element: Element) -> tuple[np.ndarray, np.ndarray]:
    """Place and orientation of an element; roll, pitch and yaw turn about fixed axes."""
    origin = element.first("origin")
    if origin is None:
        return np.zeros(3), np.eye(3)
    xyz = np.array(vector(origin, "xyz", (0.0, 0.0, 0.0)))
    roll, pitch, yaw = vector(origin, "rpy", (0.0, 0.0, 0.0))
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    R = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return xyz, R


def inertia_of(element: Element) -> np.ndarray:
    """The matrix of an `<inertia>` element."""
    xx, xy, xz, yy, yz, zz = (
        number(element, f"i{k}", 0.0 if k[0] != k[1] else None)
        for k in ("xx", "xy", "xz", "yy", "yz", "zz")
    )
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def color_of(material: Element) -> tuple[float, ...] | None:
    """The color of a material, where it says one itself."""
    color = material.first("color")
    if color is None:
        return None
    values = _numbers(color, "rgba", 4, None)
    return tuple(min(max(x, 0.0), 1.0) for x in values)
