"""Result files as solutions of their systems."""

import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..io.model_files import ModelFileError, mechanism_from_dict
from ..io.results import ResultFileError, read_npz
from ..model.system import System
from ..model.validation import as_jax
from ..outcomes import RESULTS
from ..results.export import ARRAYS, check_fit
from ..results.solution import Solution


def system_in(path: str | Path) -> System | None:
    """The system of the model that a result file holds, or None.

    Raises:
        ResultFileError: There is a model, and it makes no sense.
    """
    model = read_npz(path)["stats"].get("model")
    if model is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run that wrote the file has told
        try:
            return mechanism_from_dict(model).build()[0]
        except (ModelFileError, ValueError) as error:
            raise ResultFileError(
                f"the model in the result file {str(path)!r} makes no sense: {error}"
            ) from None


def solution_of(path: str | Path, system: System) -> Solution:
    """A result file as the solution of its system.

    Raises:
        ValueError: It is of another system.
    """
    data = read_npz(path)
    stats = {k: x for k, x in map(_numbers, data["stats"].items()) if x is not None}
    rows = len(data["t"])
    arrays: dict[str, Any] = {k: as_jax(data[k]) for k in ARRAYS if k != "iterations"}
    solution = Solution(
        multipliers=arrays.pop("lam"),
        **arrays,
        iterations=jnp.asarray(data["iterations"]),
        result=getattr(RESULTS, data["stats"].get("result", ""), RESULTS.successful),
        stats=stats,
        system=system,
        observed=tuple(k for k, x in stats.items() if x.shape[:1] == (rows,)),
    )
    check_fit(solution, system)
    return solution


def _numbers(entry: tuple[str, object]) -> tuple[str, np.ndarray | None]:
    """An entry of the numbers of a run as an array, None of anything else."""
    name, value = entry
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        return name, None
    return name, array if array.dtype.kind in "biuf" else None
