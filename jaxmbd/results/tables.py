"""Tables of a motion in memory."""

import importlib
from collections.abc import Sequence
from typing import Any

from ..model.system import System
from .columns import table_of
from .export import check_fit
from .solution import Solution

_LIBRARIES = ("pandas", "polars")


def data_frame(
    solution: Solution, system: System | None = None, columns: Sequence[str] | None = None
) -> Any:
    """See `Solution.table`."""
    library = _library()
    system = solution.system if system is None else system
    check_fit(solution, system)
    found, rows = table_of(solution, system, columns)
    names = [column.name for column in found]
    frame = library.DataFrame(dict(zip(names, rows.T, strict=True)))
    if library.__name__ == "pandas":
        frame.attrs["units"] = {column.name: column.unit for column in found}
    return frame


def _library() -> Any:
    """The first of the libraries that is installed."""
    for name in _LIBRARIES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError(
        "a table needs pandas or polars: pip install pandas; Solution.to_csv writes the same "
        "table without them"
    )
