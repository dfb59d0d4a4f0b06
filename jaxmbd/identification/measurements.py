"""Measurements: samples of any quantities of a motion, by the column names of `Solution.to_csv`."""

import csv
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..analyses.columns import name_of
from ..analyses.solution import Solution
from ..model.system import System


@dataclass(frozen=True, eq=False)
class Measurements:
    """Samples of some quantities at the same times.

    Args:
        t: Times of the samples, (T,) [s], increasing.
        values: Samples (T,) by name: "slider.r.x" (also v, omega, a, alpha), "rod.A13", "lam[motor:
            angle]", as in the columns of `Solution.to_csv`. NaN where a sample is missing.
        sigma: Standard deviation of the noise: one number, or one by name. It weighs the
            quantities; with None all weigh alike and the noise is estimated from what the fit
            leaves.
    """

    t: Any
    values: Mapping[str, Any]
    sigma: Any = None

    def __post_init__(self):
        t = np.asarray(self.t, float)
        if t.ndim != 1 or not t.size or not np.all(np.isfinite(t)) or np.any(np.diff(t) <= 0.0):
            raise ValueError("measurements: t must be finite and increasing, shape (T,)")
        values = {name: np.asarray(x, float) for name, x in self.values.items()}
        if not values:
            raise ValueError("measurements: no quantity is given")
        for name, x in values.items():
            if x.shape != t.shape:
                raise ValueError(f"measurements: {name!r} has shape {x.shape}, but t has {t.shape}")
            if not np.any(np.isfinite(x)):
                raise ValueError(f"measurements: {name!r} holds no number at all")
        object.__setattr__(self, "t", t)
        object.__setattr__(self, "values", values)
        for name, s in zip(values, self.deviations(), strict=True):
            if not s > 0.0:
                raise ValueError(f"measurements: sigma of {name!r} must be positive, not {s}")

    @staticmethod
    def read(path: str | Path, names: list[str] | None = None, sigma: Any = None) -> "Measurements":
        """From a CSV file with a header and a column "t", or an NPZ file with arrays by name; a
        header may have units, as "t [s]".

        Args:
            path: The file; an empty field of a CSV file is a missing sample.
            names: The columns to use; all but "t" by default.
            sigma: As in `Measurements`.
        """
        path = Path(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                columns = {name: file[name] for name in file.files}
        else:
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
            rows[:1] = [[name_of(name) for name in row] for row in rows[:1]]
            try:
                table = np.array(
                    [[float(x) if x.strip() else np.nan for x in row] for row in rows[1:]]
                )
                columns = dict(zip(rows[0], table.T, strict=True))
            except (ValueError, IndexError) as error:
                raise ValueError(
                    f"{path.name}: not a table of numbers with a header: {error}"
                ) from None
        wanted = [name for name in columns if name != "t"] if names is None else list(names)
        missing = [name for name in ["t", *wanted] if name not in columns]
        if missing:
            raise ValueError(
                f"{path.name}: no column {', '.join(map(repr, missing))}; it has "
                f"{', '.join(columns)}"
            )
        return Measurements(columns["t"], {name: columns[name] for name in wanted}, sigma)

    def deviations(self) -> np.ndarray:
        """Standard deviation of every quantity, one where none is given."""
        if isinstance(self.sigma, Mapping):
            missing = [name for name in self.values if name not in self.sigma]
            if missing:
                raise ValueError(f"measurements: sigma lacks {', '.join(missing)}")
            return np.array([float(self.sigma[name]) for name in self.values])
        return np.full(len(self.values), 1.0 if self.sigma is None else float(self.sigma))

    def check(self, system: System) -> None:
        """Refuse names that a system does not have."""
        known = quantity_names(system)
        for name in self.values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known[:3]
                raise ValueError(
                    f"measurements: {system.name!r} has no {name!r}; did you mean "
                    f"{', '.join(near)}?"
                )

    def predicted(self, system: System, solution: Solution) -> Float[Array, "q T"]:
        """The same quantities of a motion, interpolated linearly between its instants."""
        return jnp.stack(
            [
                jnp.interp(jnp.asarray(self.t), solution.t, quantity(system, solution, n))
                for n in self.values
            ]
        )


def quantity_names(system: System) -> list[str]:
    """All names that measurements of a system may have."""
    names = [
        f"{b}.{f}.{x}"
        for b in system.bodies
        for f in ("r", "v", "omega", "a", "alpha")
        for x in "xyz"
    ]
    names += [f"{b}.A{m}{n}" for b in system.bodies for m in (1, 2, 3) for n in (1, 2, 3)]
    return names + [f"lam[{name}]" for name in system.row_names]


def quantity(system: System, solution: Solution, name: str) -> Float[Array, " T"]:
    """One column of a motion by name."""
    if name.startswith("lam["):
        return solution.lam[:, system.row_names.index(name[4:-1])]
    body, _, rest = name.rpartition(".")
    if rest in ("x", "y", "z"):
        body, _, field = body.rpartition(".")
        return getattr(solution, field)[:, system.bodies.index(body), "xyz".index(rest)]
    return solution.A[:, system.bodies.index(body), int(rest[1]) - 1, int(rest[2]) - 1]


def observed(measurements: Measurements) -> tuple[np.ndarray, np.ndarray]:
    """Samples over their deviations, flat, and which of them exist."""
    stacked = np.stack(list(measurements.values.values())) / measurements.deviations()[:, None]
    there = np.isfinite(stacked)
    return stacked[there], there
