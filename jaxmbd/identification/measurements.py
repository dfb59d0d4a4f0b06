"""Measurements: samples of any quantities of a motion, by the column names of `Solution.to_csv`."""

import csv
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ..model.names import nearest
from ..model.system import System
from ..results.asking import full_name
from ..results.columns import columns_by_name, columns_of
from ..results.headers import name_of
from ..results.solution import Solution
from ..results.units import in_si

# Fields of `Solution.joint`, of joints that turn and of joints that slide.
_TURNING = ("angle", "rate", "acceleration")
_SLIDING = ("displacement", "speed", "displacement_acceleration")


# Of all quantities, or by name; of all samples, or of each.
Sigma = ArrayLike | Mapping[str, ArrayLike] | None


@dataclass(frozen=True, eq=False)
class Measurements:
    """Samples of some quantities at the same times.

    Args:
        t: Times of the samples, (T,) [s], increasing.
        values: Samples (T,) by name, as `quantities` lists them: "slider.r.x" (also v, omega, a,
            alpha), "rod.A13", "pin.angle", "slide.speed", "pin.force.x", "spring.force",
            "encoder.angle", "imu.angular_velocity.y", "energy.total", gaps and forces of laws; or a
            sum or difference of such names, "pin.angle + elbow.angle". Not iterations and states
            of laws, which are counts. NaN where a sample is missing.
        sigma: Standard deviation of the noise: one number, or one by name; a number, or one for
            every sample, (T,). It weighs the quantities; with None all weigh alike and the noise is
            estimated from what the fit leaves.
        covariance: In place of `sigma`, of quantities whose noise is correlated: covariances of the
            quantities in the order of `values`, (q, q).
        wrapped: Names of angles that are known up to whole turns; their residuals lie within half a
            turn. With None, an angle that jumps by a turn from one sample to the next is refused;
            () takes it as it is.
    """

    t: Any
    values: Mapping[str, Any]
    sigma: Sigma = None
    covariance: Any = None
    wrapped: Sequence[str] | None = None

    def __post_init__(self):
        t = np.asarray(self.t, float)
        if t.ndim != 1 or not t.size or not np.all(np.isfinite(t)):
            raise ValueError("measurements: t must be finite, shape (T,)")
        back = np.flatnonzero(np.diff(t) <= 0.0)
        if back.size:
            raise ValueError(
                f"measurements: t must be increasing, but {t[back[0] + 1]:g} s follows "
                f"{t[back[0]]:g} s; give pieces that overlap as experiments of their own"
            )
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
        if self.sigma is not None and self.covariance is not None:
            raise ValueError("measurements: give sigma or covariance, not both")
        for name, s in zip(values, self.deviations(), strict=True):
            if not np.all(s > 0.0):
                raise ValueError(f"measurements: sigma of {name!r} must be positive, not {s}")
        if self.covariance is not None:
            _check_covariance(np.asarray(self.covariance, float), len(values))
        unknown = sorted(set(self.wrapped or ()) - set(values))
        if unknown:
            raise ValueError(f"measurements: wrapped: there is no {', '.join(unknown)}")

    @staticmethod
    def read(
        path: str | Path, names: list[str] | None = None, sigma: Sigma = None
    ) -> "Measurements":
        """From a CSV file with a header and a column "t", or an NPZ file with arrays by name; a
        header may have units, as "t [s]". Numbers below units such as "pin.angle [deg]" become SI.

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

    @property
    def knows_noise(self) -> bool:
        """Whether the noise is given."""
        return self.sigma is not None or self.covariance is not None

    def deviations(self) -> np.ndarray:
        """Standard deviation of every sample, (q, T); one where none is given."""
        shape = len(self.values), len(self.t)
        if self.covariance is not None:
            own = np.sqrt(np.diagonal(np.asarray(self.covariance, float)))
            return np.broadcast_to(own[:, None], shape)
        if isinstance(self.sigma, Mapping):
            missing = [name for name in self.values if name not in self.sigma]
            if missing:
                raise ValueError(f"measurements: sigma lacks {', '.join(missing)}")
            own = [np.broadcast_to(self.sigma[name], shape[1:]) for name in self.values]
            return np.array(own, float)
        return np.broadcast_to(1.0 if self.sigma is None else np.asarray(self.sigma, float), shape)

    def whitening(self) -> np.ndarray | None:
        """Matrices that make the noise of an instant independent with a deviation of one, (T, q,
        q); rows and columns of missing samples are zero. None where the noise is independent.
        """
        if self.covariance is None:
            return None
        covariance = np.asarray(self.covariance, float)
        there = np.isfinite(np.stack(list(self.values.values()))).T
        patterns, which = np.unique(there, axis=0, return_inverse=True)
        matrices = np.zeros((len(patterns), *covariance.shape))
        for k, pattern in enumerate(patterns):
            own = np.ix_(pattern, pattern)
            matrices[k][own] = np.linalg.inv(np.linalg.cholesky(covariance[own]))
        return matrices[which.reshape(-1)]

    def check(self, system: System) -> None:
        """Refuse names that a system does not have, counts, which have no derivatives, and angles
        that jump by a turn.

        Raises:
            ValueError: As it says; the message names the quantity.
        """
        columns = {column.name: column for column in columns_of(system)}
        for asked, values in self.values.items():
            units = set()
            for _, short in terms_of(asked):
                name = full_name(short, columns)
                if name not in columns:
                    known = quantity_names(system)
                    near = nearest(name, known, cutoff=0.4) or known[:3]
                    raise ValueError(
                        f"measurements: {system.name!r} has no {name!r}; did you mean "
                        f"{', '.join(near)}?"
                    )
                if not columns[name].smooth:
                    raise ValueError(
                        f"measurements: {name!r} is a count, which has no derivatives to fit "
                        "numbers by; leave it out"
                    )
                units.add(columns[name].unit)
            if len(units) > 1:
                raise ValueError(
                    f"measurements: {asked!r} adds {' and '.join(sorted(units))}, which differ"
                )
            if units == {"rad"} and self.wrapped is None:
                _refuse_jumps(asked, self.t, values)


def terms_of(name: str) -> list[tuple[int, str]]:
    """The quantities of a sum or difference, with their signs."""
    parts = re.split(r" ([+-]) ", name)
    signs = [1, *(1 if sign == "+" else -1 for sign in parts[1::2])]
    return list(zip(signs, parts[::2], strict=True))


def _refuse_jumps(name: str, t: np.ndarray, values: np.ndarray) -> None:
    there = np.isfinite(values)
    jumps = np.diff(values[there])
    rest = np.sort(np.abs(jumps))
    # A jump by a turn among steps that are small beside it.
    usual = rest[: max(1, int(0.9 * len(rest)))].max(initial=0.0)
    at = np.flatnonzero((np.abs(np.abs(jumps) - 2.0 * np.pi) < 0.5) & (usual < 1.0))
    if at.size:
        raise ValueError(
            f"measurements: {name!r} jumps by a turn after t = {t[there][at[0]]:g} s: it is "
            f"wrapped; give wrapped=({name!r},), or unwrap it (np.unwrap), or give wrapped=() if "
            "it did move so"
        )


def _check_covariance(covariance: np.ndarray, q: int) -> None:
    if covariance.shape != (q, q) or not np.allclose(covariance, covariance.T):
        raise ValueError(
            f"measurements: covariance must be symmetric of shape ({q}, {q}), is of shape "
            f"{covariance.shape}"
        )
    if not np.all(np.linalg.eigvalsh(covariance) > 0.0):
        raise ValueError("measurements: covariance must be positive definite")


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
    factors = [in_si(name.strip()) for name in header]
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
    values = np.array(columns).reshape(-1, len(header)) * factors
    return dict(zip(header, values.T, strict=True))


def quantity_names(system: System) -> list[str]:
    """All names that measurements of a system may have."""
    return [column.name for column in columns_of(system) if column.smooth]


def quantities(
    system: System, solution: Solution, names: Iterable[str]
) -> list[Float[Array, " T"]]:
    """Columns of a motion by name, or sums and differences of columns."""
    parts = [terms_of(name) for name in names]
    wanted = list(dict.fromkeys(name for part in parts for _, name in part))
    columns = dict(zip(wanted, columns_by_name(solution, system, wanted), strict=True))
    return [
        sum(sign * jnp.asarray(columns[name]) for sign, name in part[1:])
        + jnp.asarray(columns[part[0][1]])
        for part in parts
    ]
