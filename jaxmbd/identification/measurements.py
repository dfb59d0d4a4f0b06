"""Measurements: samples of any quantities of a motion, by the column names of `Solution.to_csv`."""

import csv
import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.names import nearest
from ..model.system import System
from ..results.columns import columns_by_name, columns_of, full_name, name_of
from ..results.solution import Solution

# Fields of `Solution.joint`, of joints that turn and of joints that slide.
_TURNING = ("angle", "rate", "acceleration")
_SLIDING = ("displacement", "speed", "displacement_acceleration")


@dataclass(frozen=True, eq=False)
class Measurements:
    """Samples of some quantities at the same times.

    Args:
        t: Times of the samples, (T,) [s], increasing.
        values: Samples (T,) by name, as in the columns of `Solution.to_csv`: "slider.r.x" (also v,
            omega, a, alpha), "rod.A13", "pin.angle", "slide.speed", "pin.reaction_force.x",
            "spring.force", "energy.total", gaps and forces of laws; not iterations and states of
            laws, which are counts. NaN where a sample is missing.
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
            path: The file; an empty field of a CSV file is a missing sample. Its text is UTF-8,
                with or without a byte-order mark.
            names: The columns to use; all but "t" by default.
            sigma: As in `Measurements`.

        Raises:
            ValueError: The file is no such table, has a column twice, or lacks one; the message
                names the file.
            OSError: It cannot be opened.
        """
        path = Path(path)
        columns = _arrays(path) if path.suffix == ".npz" else _table(path)
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
        """Refuse names that a system does not have, and counts, which have no derivatives."""
        smooth = {column.name: column.smooth for column in columns_of(system)}
        for asked in self.values:
            name = full_name(asked, smooth)
            if name not in smooth:
                known = quantity_names(system)
                near = nearest(name, known, cutoff=0.4) or known[:3]
                raise ValueError(
                    f"measurements: {system.name!r} has no {name!r}; did you mean "
                    f"{', '.join(near)}?"
                )
            if not smooth[name]:
                raise ValueError(
                    f"measurements: {name!r} is a count, which has no derivatives to fit "
                    "numbers by; leave it out"
                )

    def predicted(self, system: System, solution: Solution) -> Float[Array, "q T"]:
        """The same quantities of a motion, interpolated linearly between its instants."""
        return jnp.stack(
            [
                jnp.interp(jnp.asarray(self.t), solution.t, x)
                for x in quantities(system, solution, self.values)
            ]
        )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file that hold numbers, by name."""
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path.name}: not an NPZ file of plain arrays: {error}") from None
    for name, x in columns.items():
        if x.dtype.kind not in "iufb":
            raise ValueError(f"{path.name}: {name!r} holds no numbers, but {x.dtype}")
    return columns


def _table(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file by name."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets begin with a byte-order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: not UTF-8 text (byte {error.start}); save it as CSV UTF-8"
        ) from None
    try:
        read = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise ValueError(f"{path.name}: not a CSV file: {error}") from None
    if not read:
        raise ValueError(f"{path.name}: it is empty")
    header, *rows = read
    header = [name_of(name.strip()) for name in header]
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise ValueError(f"{path.name}: more than one column {', '.join(map(repr, repeated))}")
    columns = []
    for k, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(
                f"{path.name}: row {k + 1} has {len(row)} fields, but the header has {len(header)}"
            )
        try:
            columns.append([float(x) if x.strip() else np.nan for x in row])
        except ValueError as error:
            raise ValueError(
                f"{path.name}: not a table of numbers with a header: row {k + 1}: {error}"
            ) from None
    return dict(zip(header, np.array(columns).reshape(-1, len(header)).T, strict=True))


def quantity_names(system: System) -> list[str]:
    """All names that measurements of a system may have."""
    return [column.name for column in columns_of(system) if column.smooth]


def quantities(
    system: System, solution: Solution, names: Iterable[str]
) -> list[Float[Array, " T"]]:
    """Columns of a motion by name."""
    return [jnp.asarray(x) for x in columns_by_name(solution, system, names)]


def observed(measurements: Measurements) -> tuple[np.ndarray, np.ndarray]:
    """Samples over their deviations, flat, and which of them exist."""
    stacked = np.stack(list(measurements.values.values())) / measurements.deviations()[:, None]
    there = np.isfinite(stacked)
    return stacked[there], there
