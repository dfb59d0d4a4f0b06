"""Results as files: NPZ with the arrays of a `Solution` under their own names, CSV with one row per
instant.
"""

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..files import table_text, written
from ..model.frames import FrameOnBody
from ..model.shapes import AbstractShape, Composite
from ..model.system import System
from ..model.visuals import Looks
from ..outcomes import RESULTS
from .columns import Column, table_of
from .headers import written_as
from .solution import Solution

ARRAYS = (
    *("t", "r", "A", "v", "omega", "a", "alpha", "lam"),
    *("angles", "element_states", "inputs", "iterations"),
)
# What a solution that was put together, or an older file, may lack; the shape of a row of nothing.
OPTIONAL = {"angles": (0,), "element_states": (0,), "inputs": (3, 0)}
_EYE = np.eye(3)


def result_name(result: RESULTS) -> str:
    """The name of an outcome, such as "successful"."""
    names = {int(getattr(RESULTS, n)._value): n for n in RESULTS._name_to_item}
    return names[int(np.max(np.asarray(result._value)))]


def drawing(system: System) -> dict:
    """What a picture needs to know of a system: names, outlines, joints.

    A body without a shape gets the outline of its equivalent cuboid, the solid box with its mass
    and inertia; a body without mass gets none.
    """
    return {
        "name": system.name,
        "bodies": list(system.bodies),
        "rows": list(system.row_names),
        "outlines": [
            [
                line.tolist()
                for line in (_cuboid(mass, inertia) if shape is None else shape.outline())
            ]
            for shape, mass, inertia in zip(
                system.shapes, np.asarray(system.mass), np.asarray(system.inertia), strict=True
            )
        ],
        "solids": [
            _equivalent(mass, inertia) if shape is None else solids(shape)
            for shape, mass, inertia in zip(
                system.shapes, np.asarray(system.mass), np.asarray(system.inertia), strict=True
            )
        ],
        "shaped": [shape is not None for shape in system.shapes],
        "gravity": np.asarray(system.gravity, float).tolist(),
        "connections": [
            {
                "name": c.name,
                "kind": c.kind,
                "i": c.i,
                "j": c.j,
                "s_i_bar": np.asarray(c.s_i_bar).tolist(),
                "s_j_bar": np.asarray(c.s_j_bar).tolist(),
                "axis_i_bar": np.asarray(c.axis_i_bar).tolist(),
                "axis_j_bar": np.asarray(c.axis_j_bar).tolist(),
                "link": c.is_link,
                "angle": c.angle,
                "slides": c.element.has_displacement,
                "outline_i": [np.asarray(line).tolist() for line in c.outline_i],
                "outline_j": [np.asarray(line).tolist() for line in c.outline_j],
            }
            for c in system.connections
        ],
        "frames": [
            {
                "name": name,
                "body": frame.body,
                "s_bar": np.asarray(frame.s_bar, float).tolist(),
                "A_bar": np.asarray(frame.A_bar, float).tolist(),
            }
            for name, frames in _frames(system)
            if len(frames) == 1
            for frame in frames
        ],
        "sights": [
            {
                "name": name,
                "bodies": [i.body, j.body],
                "s_i_bar": np.asarray(i.s_bar, float).tolist(),
                "s_j_bar": np.asarray(j.s_bar, float).tolist(),
            }
            for name, frames in _frames(system)
            if len(frames) == 2
            for i, j in (frames,)
        ],
        "beams": [
            {
                "name": beam.name,
                "nodes": list(beam.nodes),
                "extents": np.asarray(beam.extents).tolist(),
            }
            for beam in system.beams
        ],
        "springs": [
            {
                "name": name,
                "bodies": list(bodies),
                "s_i_bar": s_i.tolist(),
                "s_j_bar": s_j.tolist(),
            }
            for stack in system.forces
            if (ends := stack.force.line()) is not None
            for name, bodies, s_i, s_j in zip(
                stack.names, stack.bodies, *map(np.asarray, ends), strict=True
            )
        ],
    }


def _frames(system: System) -> list[tuple[str, tuple[FrameOnBody, ...]]]:
    """Frames, and where sensors look from, by name."""
    found = [(frame.name, (frame,)) for frame in system.frames]
    return found + [(x.name, x.measured.frames()) for x in system.sensors]


def solids(shape: AbstractShape | Looks) -> list[dict]:
    """The parts of a shape as plain data: `kind` (its class), `fields` (what it declares), `r` and
    `A` (where it is in the body frame), and `color` where it has one of its own.
    """
    if isinstance(shape, Composite | Looks):
        colors = shape.colors if isinstance(shape, Looks) else (None,) * len(shape.parts)
        placed = zip(
            shape.parts, np.asarray(shape.offsets), np.asarray(shape.rotations), colors, strict=True
        )
        return [
            part
            | {"r": (A @ part["r"] + r).tolist(), "A": (A @ part["A"]).tolist()}
            | ({} if color is None else {"color": list(color)})
            for inner, r, A, color in placed
            for part in solids(inner)
        ]
    fields = {name: getattr(shape, name) for name in shape.declared()}
    return [_solid(type(shape).__name__, fields)]


def _solid(kind: str, fields: dict[str, Any], A: np.ndarray = _EYE) -> dict:
    plain = {k: x if isinstance(x, str) else np.asarray(x).tolist() for k, x in fields.items()}
    return {"kind": kind, "fields": plain, "r": [0.0] * 3, "A": A.tolist()}


def _equivalent(mass: np.floating, inertia: np.ndarray) -> list[dict]:
    """The solid box with the given mass and inertia; none where an edge of it is zero."""
    half, axes = _half_edges(mass, inertia)
    return [_solid("Box", {"size": 2.0 * half}, axes)] if np.all(half > 0.0) else []


def _cuboid(mass: np.floating, inertia: np.ndarray) -> list[np.ndarray]:
    """Outline of the solid box with the given mass and inertia, body frame; empty without mass or
    extent.
    """
    half, axes = _half_edges(mass, inertia)
    if not np.any(half > 0.0):
        return []
    ring = np.array([[1, 1, 1], [-1, 1, 1], [-1, -1, 1], [1, -1, 1], [1, 1, 1]]) * half
    low = ring * np.array([1, 1, -1])
    lines = [ring, low] + [np.stack([ring[k], low[k]]) for k in range(4)]
    return [line @ axes.T for line in lines]


def _half_edges(mass: np.floating, inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half the edges of the solid box with the given mass and inertia, (3,), and their directions
    as columns; zeros without mass.

    With principal moments J and edges d, J_1 = m (d_2² + d_3²) / 12, hence d_1² = 6 (J_2 + J_3 -
    J_1) / m. Moments that violate the triangle inequality, as published ones do, would make it
    negative; that edge is zero then.
    """
    if not (np.isfinite(mass) and mass > 0.0 and np.all(np.isfinite(inertia))):
        return np.zeros(3), _EYE
    moments, axes = np.linalg.eigh(0.5 * (inertia + inertia.T))
    half = 0.5 * np.sqrt(np.maximum(6.0 * (np.sum(moments) - 2.0 * moments) / mass, 0.0))
    if not np.all(np.isfinite(half)):
        return np.zeros(3), _EYE
    axes = axes * np.sign(np.linalg.det(axes))  # a rotation, no reflection
    return half, axes


def check_fit(solution: Solution, system: System | None) -> None:
    """Raise `ValueError` unless the solution is one motion, of a system with these bodies and
    rows.
    """
    shape = np.shape(solution.r)
    if len(shape) != 3:
        raise ValueError(
            f"the solution is a batch, its r has shape {shape}: take one motion with "
            "jax.tree.map(lambda x: x[k], sol)"
        )
    found, rows = shape[1], np.shape(solution.multipliers)[-1]
    if system is not None and (found, rows) != (system.nb, system.nc):
        raise ValueError(
            f"the solution has {found} bodies and {rows} rows, but system {system.name!r} has "
            f"{system.nb} and {system.nc}: give the system it was made with"
        )


def arrays_of(solution: Solution, names: Iterable[str] = ARRAYS) -> dict[str, np.ndarray]:
    """The arrays of a solution by name; empty ones where it was put together without them."""
    arrays = {name: getattr(solution, name) for name in (*names, *OPTIONAL)}
    for name, shape in OPTIONAL.items():
        if arrays[name] is None:
            arrays[name] = np.zeros((len(solution.t), *shape))
    return {name: np.asarray(x) for name, x in arrays.items()}


def contact_arrays(solution: Solution, system: System) -> dict[str, np.ndarray]:
    """Points, forces and states of all places of contact: (T, n, 3), (T, n, 3) and (T, n)."""
    found = list(solution.contact_places(system).values())
    if not found:
        return {}

    def together(field: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(x, field)) for x in found], axis=1)

    return {
        "contact_points": together("points"),
        "contact_forces": together("forces"),
        "contact_states": together("state"),
    }


def write_npz(
    path: str | Path,
    solution: Solution,
    system: System | None = None,
    model: Mapping[str, object] | None = None,
) -> None:
    """Write a solution to an NPZ file.

    The array `stats` holds a JSON text with the numbers of the run and, given a system, its
    drawing; `stats["events"]` are pairs, the instant and the name; `stats["model"]` is the model
    file as a JSON object, where it is given. A motion with contacts has `contact_points`,
    `contact_forces` and `contact_states`.

    The file appears whole or not at all: it is written beside its place and moved there.

    Raises:
        OSError: The file cannot be written; the message names the path.
        ValueError: The solution is a batch, or of another system.
    """
    system = solution.system if system is None else system
    check_fit(solution, system)
    stats = jax.tree.map(lambda x: np.asarray(x).tolist(), solution.stats)
    stats["result"] = result_name(solution.result)
    if solution.events is not None:
        stats["events"] = solution.events.table()
    if system is not None:
        stats["drawing"] = drawing(system)
    if model is not None:
        stats["model"] = dict(model)
    arrays: dict[str, Any] = arrays_of(solution)
    arrays |= {"result": np.asarray(solution.result._value), "stats": np.array(json.dumps(stats))}
    if system is not None:
        arrays |= contact_arrays(solution, system)
    with written(path, "wb", "result file") as file:
        np.savez_compressed(file, **arrays)


def write_csv(
    path: str | Path,
    solution: Solution,
    system: System | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Write a table, see `Solution.to_csv`.

    The file appears whole or not at all, and errors are those of `write_npz`.
    """
    system = solution.system if system is None else system
    check_fit(solution, system)
    found, rows = table_of(solution, system, columns)
    _write_rows(path, [column.header for column in found], rows)


def write_table(path: Path, columns: dict[str, np.ndarray], units: Mapping[str, str]) -> None:
    """Write arrays under their names: any shapes to an NPZ file, columns of one length to a CSV
    file, whose header has their units ("-" where `units` has none).

    The file appears whole or not at all.
    """
    if path.suffix == ".csv":
        header = [Column(name, units.get(name, "-")).header for name in columns]
        _write_rows(path, header, np.stack(list(columns.values()), axis=1))
        return
    with (
        written(path, "wb", "result file") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        # Not numpy.savez, whose own arguments are names too.
        for name, array in columns.items():
            with archive.open(name.replace("/", "_") + ".npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _write_rows(path: str | Path, header: list[str], rows: np.ndarray) -> None:
    # Spreadsheets take a table for one of the computer's own alphabet unless a mark begins it,
    # which other programs stumble over: only names that need it bring one.
    encoding = "utf-8" if all(map(str.isascii, header)) else "utf-8-sig"
    with written(
        path, "w", "result file", newline="", encoding=encoding, errors="backslashreplace"
    ) as file:
        file.writelines(table_text([written_as(name) for name in header], rows.tolist()))
