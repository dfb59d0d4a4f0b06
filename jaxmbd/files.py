"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def written(path: str | Path, mode: str, what: str = "file", **options) -> Iterator[IO]:
    """A file that appears whole or not at all: written beside its place and moved there.

    Raises:
        OSError: It cannot be written; the message names the path.
        ValueError: What is written failed.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, mode, **options) as file:
            yield file
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(
                f"cannot write the {what} {str(path)!r}: {error.strerror or error}"
            ) from error
        if isinstance(error, Exception):
            raise ValueError(f"cannot write the {what} {str(path)!r}: {error}") from error
        raise
