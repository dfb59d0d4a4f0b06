"""Compiled programs kept between processes, by JAX's own cache."""

import contextlib
import os
import re
import stat
import warnings
from pathlib import Path

import jax
import platformdirs

_OWN = "jaxmbd-programs"  # subfolder of the folder that was chosen; nothing outside is touched
_LARGEST = 512 * 2**20  # bytes; the oldest programs go first
# What JAX and this package call their programs, and what a killed process leaves of one.
_PROGRAM = re.compile(r"[\w.-]+-[0-9a-f]{64}-(cache|atime|traced)|\.jaxmbd-[0-9a-f]{32}\.partial")
_folder: Path | None = None
_said: set[str] = set()


def folder() -> Path | None:
    """The folder of kept programs; None if this process keeps none, or keeps them elsewhere."""
    return _folder


def enable_compilation_cache(path: str | Path | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the next process reads instead of compiling.

    Call it before anything is computed. Programs are kept as they were traced and as they were
    compiled, those of `mbd.jit` too. Those that contain elements or objects of classes of your own
    are traced again by every process. They lie in the subfolder `jaxmbd-programs`, which is cut to
    512 MiB whenever this is called, and may be deleted at any time. Other files are never touched.
    A folder that JAX has been given already, by `jax_compilation_cache_dir` or
    JAX_COMPILATION_CACHE_DIR, stays; JAX then keeps compiled programs there, and nothing else is
    kept.

    A program runs with your rights. The subfolder is therefore made for you alone, and nothing is
    kept, with a warning, if it belongs to another user, if others may write to it, or if others
    may replace it.

    XLA writes a line about the processor on standard error for every program that it reads. To be
    spared these lines, set `TF_CPP_MIN_LOG_LEVEL=3` in the environment before JAX is imported.

    Args:
        path: The folder; by default the environment variable JAXMBD_CACHE, else the user's cache
            folder. JAXMBD_CACHE=off keeps nothing.

    Returns:
        The subfolder, or None where nothing is kept.

    Raises:
        ValueError: The folder cannot be made or written.
    """
    if path is None:
        path = os.environ.get("JAXMBD_CACHE") or platformdirs.user_cache_path("jaxmbd")
        if str(path).lower() in ("off", "0"):
            return None
        present: str | None = getattr(jax.config, "jax_compilation_cache_dir", None)
        if present is not None:
            return Path(present)
    global _folder
    folder = Path(path).expanduser() / _OWN
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        reason = _distrusted(folder)
    except OSError as error:
        raise ValueError(f"no programs can be kept in {folder}: {error.strerror}") from None
    if reason is None and not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"no programs can be kept in {folder}: it cannot be written")
    if reason is None:
        try:
            _prune(folder)
        except OSError as error:
            reason = f"it cannot be listed ({error.strerror})"
    if reason is not None:
        _say_once(f"no programs are kept in {folder}: {reason}")
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    _folder = folder
    # Another process may read or write a program at this moment, and then compiles it.
    warnings.filterwarnings(
        "ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning
    )
    return folder


def _distrusted(folder: Path) -> str | None:
    """Why programs in a folder could be those of another user; None where they cannot."""
    own, parent = folder.lstat(), folder.parent.stat()
    if not stat.S_ISDIR(own.st_mode):
        return "it is not a folder; remove it"
    if not hasattr(os, "geteuid"):  # Windows keeps a user's cache folder to the user
        return None
    me = os.geteuid()
    if own.st_uid != me:
        return "it belongs to another user"
    if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it; chmod go-w {folder}"
    if parent.st_uid not in (me, 0):
        return "the folder above belongs to another user"
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        return f"others may replace it; chmod o-w {folder.parent}"
    return None


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


def _prune(folder: Path) -> None:
    """Delete the programs that have not been written for longest, down to the bound."""
    # JAX's own bound needs a lock, and a process that is killed leaves it broken.
    found = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and _PROGRAM.fullmatch(file.name):
                found.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= _LARGEST:
            return
        with contextlib.suppress(OSError):
            file.unlink()
            total -= size
