"""What pictures are made of: arrays of a result and the drawing of its system."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..analyses.export import drawing, result_name
from ..analyses.solution import Solution
from ..io.results import read_npz
from ..model.system import System


@dataclass(frozen=True)
class Picture:
    """A result ready to be drawn.

    Attributes:
        arrays: t, r, A, v, omega, a, alpha, lam, iterations as NumPy arrays, finite rows only.
        drawing: Names, outlines and joints (see `analyses.export.drawing`).
        result: The outcome's name.
    """

    arrays: dict[str, np.ndarray]
    drawing: dict[str, Any]
    result: str

    @property
    def bodies(self) -> list[str]:
        return self.drawing["bodies"]


def picture(source: Solution | str | Path, system: System | None = None) -> Picture:
    """From a solution with its system, or from a result file."""
    if isinstance(source, Solution):
        arrays = {
            k: np.asarray(getattr(source, k)) for k in ("t", "r", "A", "v", "omega", "a", "alpha", "lam", "iterations")
        }
        plan = drawing(system) if system is not None else _plain(arrays)
        return Picture(_finite(arrays), plan, result_name(source.result))
    data = read_npz(source)
    stats = data.pop("stats")
    data.pop("result", None)
    return Picture(_finite(data), stats.get("drawing") or _plain(data), stats.get("result", "unknown"))


def _finite(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    good = np.all(np.isfinite(arrays["r"]), axis=(1, 2))
    if not np.any(good):
        raise ValueError("the result holds no finite row: the run failed at its start")
    return {name: x[good] for name, x in arrays.items()}


def _plain(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    nb, nc = arrays["r"].shape[1], arrays["lam"].shape[1]
    return {
        "name": "result",
        "bodies": [f"body{k}" for k in range(nb)],
        "rows": [f"row{k}" for k in range(nc)],
        "outlines": [[] for _ in range(nb)],
        "connections": [],
        "springs": [],
    }
