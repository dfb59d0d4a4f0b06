"""Files: those that are written appear whole or not at all, those that a model names lie in its
folder.
"""

import contextlib
import csv
import errno
import io
import itertools
import os
import re
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

# --- reading ---


def inside(folder: Path, name: str, *, anywhere: bool = False, cure: str = "move it there") -> Path:
    """The file that a model in a folder names: every path that a model holds goes through here.

    Args:
        folder: The folder, resolved.
        name: As the model writes it, relative to the folder.
        anywhere: Whether it may lie outside of the folder.
        cure: What the message tells the user to do with a file outside of it.

    Raises:
        ValueError: There is no such file, or it lies outside of the folder, by `..`, an absolute
            path or a link.
    """
    if "\0" in name:
        raise ValueError("a path contains a zero byte")
    try:
        path = (folder / name).resolve()
        is_file = path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, a circle of links
        path, is_file = folder, False
    if not anywhere and not path.is_relative_to(folder):
        raise ValueError(f"the file {name!r} lies outside of the model's folder; {cure}")
    if not is_file:
        raise ValueError(f"there is no file {name!r} in the model's folder")
    return path


# --- writing ---

# How files of a kind begin; an existing file that begins otherwise holds something else.
_BEGINNINGS = {
    ".npz": (b"PK",),
    ".csv": (b"t [s]", b"\xef\xbb\xbft [s]"),  # and all of `_is_table`
    ".png": (b"\x89PNG",),
    ".pdf": (b"%PDF",),
    ".svg": (b"<?xml", b"<svg"),
    ".gif": (b"GIF8",),
    ".mp4": (b"\0\0\0",),
    ".webm": (b"\x1aE\xdf\xa3",),
    ".html": (b"<",),
    ".glb": (b"glTF",),
    ".js": (b"// jaxmb",),
}
_WITH_UNIT = re.compile(r".* \[[^\[\]]+\]", re.DOTALL)
_LONGEST = 2**24  # characters of a table's first two lines


def check_writable(path: Path, what: str = "file") -> None:
    """Refuse, before any work, a path that `written` could not write.

    Raises:
        OSError: As `written` would.
    """
    temporary = _unused(path)
    with _terminable(), _named_errors(path, what), _removed(temporary):
        _check_replaceable(path)
        with open(temporary, "wb", opener=_exclusive):
            pass


@contextlib.contextmanager
def written(
    path: str | Path, mode: str, what: str = "file", **options: Any
) -> Generator[IO, None, None]:
    """A file that appears whole or not at all: written beside its place and moved there.

    Two processes that write one path both succeed, and the file of the last one stays. A path that
    is a link is replaced itself.

    Raises:
        OSError: It cannot be written, or would replace something else than a file of its kind; the
            message names the path.
        ValueError: What is written failed.
    """
    path = Path(path)
    temporary = _unused(path)
    with _terminable(), _named_errors(path, what), _removed(temporary):
        _check_replaceable(path)
        with open(temporary, mode, opener=_exclusive, **options) as file:
            yield file
        os.replace(temporary, path)


@contextlib.contextmanager
def placed(path: str | Path, what: str = "file") -> Generator[Path, None, None]:
    """As `written`, for writers that open the file by its name: the path to write, of the same
    name, in a folder that is closed to other users.
    """
    path = Path(path)
    temporary = _unused(path)
    with _terminable(), _named_errors(path, what), _removed(temporary):
        _check_replaceable(path)
        temporary.mkdir(mode=0o700)
        yield temporary / path.name
        os.replace(temporary / path.name, path)


def stem_of(name: str) -> str:
    """A file's name, without a suffix, for something that a model may call anything."""
    return re.sub(r"[^\w-]+", "_", name)[:100] or "model"


def _unused(path: Path) -> Path:
    """A name beside the path that nobody can foresee."""
    return path.with_name(f".jaxmbd-{secrets.token_hex(16)}.partial")


def _exclusive(path: str, flags: int) -> int:
    """Create a file: never open one that is there, nor follow a link."""
    return os.open(path, flags | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _check_replaceable(path: Path) -> None:
    """Refuse to replace anything but a file of the kind that the suffix of its path names.

    Raises:
        OSError: There is something else; the message says what to do.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        return  # the link is replaced, not what it leads to
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "it exists and is not a file; choose another name")
    folder = path.absolute().parent.stat()
    owners = (0, status.st_uid, folder.st_uid)
    if folder.st_mode & stat.S_ISVTX and hasattr(os, "geteuid") and os.geteuid() not in owners:
        raise PermissionError(errno.EPERM, "it belongs to another user; choose another name")
    kind = path.suffix.lower()
    with open(path, "rb") as file:
        begins = file.read(8)
    ours = begins.startswith(_BEGINNINGS.get(kind, (b"",))) and (kind != ".csv" or _is_table(path))
    if begins and not ours:
        raise FileExistsError(
            errno.EEXIST,
            f"it exists and is not a {kind} file of jaxmbd; choose another name, or remove it",
        )


def table_text(header: Iterable[str], rows: Iterable[Iterable[float]]) -> Iterator[str]:
    """The lines of a table of numbers as CSV text, its header first: what `written` takes for a
    table of this package where it begins with the time and all columns have units.
    """
    lines = io.StringIO(newline="")
    writer = csv.writer(lines)
    for row in itertools.chain([header], rows):
        writer.writerow(row)
        yield lines.getvalue()
        lines.seek(0)
        lines.truncate()


def _is_table(path: Path) -> bool:
    """Whether a file begins as `table_text` writes it: a header with the time first and a unit in
    every column, and a row of numbers with neither more nor fewer digits than they need, to the
    ends of these lines. Tables of other origin differ in one of these.
    """
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        text = file.read(_LONGEST)
    try:
        header, *rows = itertools.islice(csv.reader(io.StringIO(text, newline="")), 2)
        numbers = [[float(x) for x in row] for row in rows]
    except (ValueError, csv.Error):
        return False
    whole = all(len(row) == len(header) for row in rows)
    units = header[0] == "t [s]" and all(_WITH_UNIT.fullmatch(name) for name in header)
    return whole and units and text.startswith("".join(table_text(header, numbers)))


@contextlib.contextmanager
def _removed(temporary: Path) -> Generator[None, None, None]:
    """Leave nothing of a temporary file or folder, however it ends."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _named_errors(path: Path, what: str) -> Generator[None, None, None]:
    """Errors that name the path."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot write the {what} {str(path)!r}: {error.strerror or error}"
        ) from error
    except Exception as error:
        raise ValueError(f"cannot write the {what} {str(path)!r}: {error}") from error


class _Terminated(BaseException):
    """The process was asked to end."""


@contextlib.contextmanager
def _terminable() -> Generator[None, None, None]:
    """Within it SIGTERM ends the process only after what was begun is cleaned up."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # the program has its own handler, or it is this one
        return

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
