"""File formats by suffix: a new one is a file with a function, registered here or by a user's
program.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..model.mechanism import Mechanism
from ..model.validation import users_line
from .import_report import ImportReport
from .mjcf import read_mjcf
from .mjcf_writer import write_mjcf
from .model_files import ModelFileError, ModelFileWarning, read_mechanism
from .urdf import UrdfOptions, read_urdf
from .writer import write_mechanism

Reader = Callable[[Path], Mechanism]
Writer = Callable[[Mechanism, Path], Any]


def _read_mjcf(path: Path) -> Mechanism:
    return _told(path, "mbd.from_mjcf", *read_mjcf(path))


def _read_urdf(path: Path) -> Mechanism:
    return _told(path, "mbd.from_urdf", *read_urdf(path, UrdfOptions()))


def _told(path: Path, reader: str, mechanism: Mechanism, report: ImportReport) -> Mechanism:
    """The mechanism, after a warning of what it does not have of the file."""
    left_out = report.summary()
    if left_out:
        warnings.warn(
            f"{path.name}: left out: {left_out}. {reader} reads more of it, and reports",
            ModelFileWarning,
            stacklevel=users_line(),
        )
    return mechanism


_READERS: dict[str, Reader] = {
    ".json": read_mechanism,
    ".xml": _read_mjcf,
    ".urdf": _read_urdf,
}
_WRITERS: dict[str, Writer] = {".json": write_mechanism, ".xml": write_mjcf}


def register_format(
    suffix: str, *, read: Reader | None = None, write: Writer | None = None
) -> None:
    """Make `load`, `save` and the command line know a file format.

    Args:
        suffix: With its dot, such as ".xml"; a format that is known already is replaced.
        read: From a path to a `Mechanism`; a ValueError's message is shown to the user with the
            name of the file.
        write: From a mechanism and a path.
    """
    if not (isinstance(suffix, str) and suffix.startswith(".") and len(suffix) > 1):
        raise ValueError(
            f"register_format: a suffix is written with its dot, such as '.xml', not {suffix!r}"
        )
    if read is not None:
        _READERS[suffix.lower()] = read
    if write is not None:
        _WRITERS[suffix.lower()] = write


def read_file(path: str | Path) -> Mechanism:
    """The mechanism in a model file, in the format that its suffix names; JSON by default.

    Raises:
        ModelFileError: The file cannot be read, or makes no sense; the message names the part and
            the cure.
    """
    path = Path(path)
    read = _READERS.get(path.suffix.lower(), read_mechanism)
    try:
        return read(path)
    except ModelFileError as error:
        if path.suffix.lower() in _READERS:
            raise
        raise ModelFileError(
            f"{error}. The suffix names the format; known are {', '.join(sorted(_READERS))}, and "
            f"{path.suffix or 'a file without one'} is read as .json"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path.name}: {error}") from error


def write_file(mechanism: Mechanism, path: str | Path) -> None:
    """Write a mechanism in the format that the suffix of the path names.

    Raises:
        ModelFileError: No format has that suffix, or it cannot hold something; the message names
            the part.
        OSError: The file cannot be written.
    """
    path = Path(path)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ModelFileError(
            f"{path.name}: no format to write has this suffix; known are "
            f"{', '.join(sorted(_WRITERS))}"
        )
    write(mechanism, path)
