"""What pictures are made of: arrays of a result and the drawing of its system."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..io.results import CONTACTS, plain_drawing, read_npz
from ..model.elements import kinds
from ..model.joints import AbstractRelation
from ..model.system import System
from ..results.export import ARRAYS, arrays_of, check_fit, contact_arrays, drawing, result_name
from ..results.solution import Solution

LARGEST = 1e100  # beyond it, matplotlib's own numbers overflow
_EXTENT_ROWS = 300  # looked at for the limits of a picture


_DRAWN = tuple(name for name in ARRAYS if name != "lam")


@dataclass(frozen=True)
class Picture:
    """A result ready to be drawn.

    Attributes:
        arrays: t, r, A, v, omega, a, alpha, lam, iterations as NumPy arrays, finite rows only;
            contact_points, contact_forces and contact_states where there are contacts; ghosts_r and
            ghosts_A, (T, n, nb, ...), where others of a batch are shown.
        drawing: Names, outlines and joints (see `results.export.drawing`).
        result: The outcome's name.
    """

    arrays: dict[str, np.ndarray]
    drawing: dict[str, Any]
    result: str

    @property
    def bodies(self) -> list[str]:
        return self.drawing["bodies"]


def picture(
    source: Solution | str | Path, system: System | None = None, *, multipliers: bool = False
) -> Picture:
    """From a solution with its system, or from a result file; the `multipliers` of a solution take
    a moment.

    Raises:
        ValueError: Another system's solution, a damaged file, or nothing that could be drawn.
    """
    if isinstance(source, Solution):
        system = source.system if system is None else system
        check_fit(source, system)
        arrays = arrays_of(source, ARRAYS if multipliers else _DRAWN)
        rows = source.multipliers.shape[1]
        plan = drawing(system) if system is not None else _plain(arrays, rows)
        if system is not None:
            arrays |= contact_arrays(source, system)
        return Picture(_drawable(arrays), plan, result_name(source.result))
    data = read_npz(source)
    stats = data["stats"]
    arrays = {k: data[k] for k in (*ARRAYS, *CONTACTS) if k in data}
    return Picture(
        _drawable(arrays),
        stats.get("drawing") or _plain(arrays, arrays["lam"].shape[1]),
        stats.get("result", "unknown"),
    )


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a message, the first ones of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(list(names)[:most]) + more


def _drawable(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows with finite times and poses."""
    if 0 in arrays["r"].shape:
        raise ValueError(
            "the result holds no rows" if len(arrays["t"]) == 0 else "the result holds no bodies"
        )
    good = finite_rows(arrays["t"], arrays["r"], arrays["A"])
    if not np.any(good):
        raise ValueError("the result holds no finite row: the run failed at its start")
    if max(np.max(np.abs(arrays[name][good])) for name in ("t", "r", "A")) > LARGEST:
        raise ValueError(
            f"the result holds times or positions beyond {LARGEST:g}, which cannot be drawn"
        )
    return {name: x[good] for name, x in arrays.items()}


def _plain(arrays: dict[str, np.ndarray], rows: int) -> dict[str, Any]:
    return plain_drawing(arrays["r"].shape[1], rows)


# --- what is drawn, and how far it reaches ---


def drawn(data: Picture) -> list[dict]:
    """Connections that a picture shows; most drivers sit at a joint that is drawn already."""
    known = kinds(AbstractRelation)
    # A `Constraint` is one by its primitives, which may hold bodies as well.
    drivers = {name for name, cls in known.items() if cls.is_driver is True}
    return [c for c in data.drawing["connections"] if c["link"] or c["kind"] not in drivers]


def parts(data: Picture) -> list[dict]:
    """Everything that is drawn between two bodies."""
    return [*drawn(data), *data.drawing["springs"]]


def ends(part: dict) -> tuple[tuple[int, list[float]], tuple[int, list[float]]]:
    """Body and point of the two ends of a connection or spring."""
    i, j = part["bodies"] if "bodies" in part else (part["i"], part["j"])
    return (i, part["s_i_bar"]), (j, part["s_j_bar"])


def outlines(part: dict) -> tuple[list, list]:
    """Lines of a joint on its two bodies; files of earlier versions have none."""
    return part.get("outline_i", []), part.get("outline_j", [])


def cube(data: Picture) -> tuple[np.ndarray, float]:
    """Center and half edge of a cube that holds the whole motion."""
    low, high = extent(data)
    middle, half = 0.5 * (low + high), 0.55 * float(np.max(high - low))
    if not max(half, float(np.max(np.abs(middle)))) < LARGEST:
        raise ValueError(f"the drawing reaches beyond {LARGEST:g} m, which cannot be drawn")
    if half <= 1e-9 * (1.0 + float(np.max(np.abs(middle)))):
        half = 0.5  # a point at rest
    return middle, half


def extent(data: Picture) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest coordinates of everything that is drawn, over the motion."""
    count = len(data.arrays["t"])
    rows = np.unique(np.linspace(0, count - 1, min(count, _EXTENT_ROWS)).round().astype(int))
    points = [[p for line in outline for p in line] for outline in data.drawing["outlines"]] + [[]]
    for part in parts(data):
        for (b, p), lines in zip(ends(part), outlines(part), strict=True):
            points[b] += [p, *(x for line in lines for x in line)]
    extremes = [data.arrays["r"].min((0, 1)), data.arrays["r"].max((0, 1)), *points.pop()]
    for b, own in enumerate(points):
        if own:
            r, A = data.arrays["r"][rows, b], data.arrays["A"][rows, b]
            placed = r[:, None] + np.einsum("tij,nj->tni", A, np.array(own))
            extremes += [placed.min((0, 1)), placed.max((0, 1))]
    return np.min(extremes, axis=0), np.max(extremes, axis=0)


def finite_rows(t: np.ndarray, r: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Which rows have finite times and poses, (T,)."""
    good = np.isfinite(t) & np.all(np.isfinite(r), axis=(1, 2))
    return good & np.all(np.isfinite(A), axis=(1, 2, 3))
