"""Read result files; they are written by `Solution.to_npz` (see `analyses.export`)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..analyses.export import ARRAYS


class ResultFileError(ValueError):
    """A file is not a result of this package."""


def read_npz(path: str | Path) -> dict[str, Any]:
    """Arrays of a result file by name; `stats` is a dictionary again.

    Raises:
        ResultFileError: The file cannot be read or lacks an array.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            data: dict[str, Any] = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise ResultFileError(f"cannot read the result file {str(path)!r}: {error}") from None
    missing = [name for name in ARRAYS if name not in data]
    if missing:
        raise ResultFileError(f"{path.name}: not a result file of jaxmbd: it lacks {', '.join(missing)}")
    data["stats"] = json.loads(str(data["stats"])) if "stats" in data else {}
    return data
