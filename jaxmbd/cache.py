"""Compiled programs kept between processes, by JAX's own cache."""

import contextlib
import os
import warnings
from pathlib import Path

import jax
import platformdirs

_LARGEST = 512 * 2**20  # bytes; the oldest programs go first
_folder: Path | None = None


def folder() -> Path | None:
    """Where this process keeps programs; None where it does not, or keeps them elsewhere."""
    return _folder


def enable_compilation_cache(path: str | Path | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the next process reads instead of compiling.

    Call it before anything is computed. Programs are kept as they were traced and as they were
    compiled; those that contain functions or elements of your own are traced again by every
    process. The folder is cut to 512 MiB whenever this is called, and may be deleted at any time. A
    folder that JAX has been given already, by `jax_compilation_cache_dir` or
    JAX_COMPILATION_CACHE_DIR, stays; JAX then keeps compiled programs there, and nothing else is
    kept.

    XLA writes a line about the processor on standard error for every program that it reads. To be
    spared these lines, set `TF_CPP_MIN_LOG_LEVEL=3` in the environment before JAX is imported.

    Args:
        path: The folder; by default the environment variable JAXMBD_CACHE, else the user's cache
            folder. JAXMBD_CACHE=off keeps nothing.

    Returns:
        The folder, or None where nothing is kept.

    Raises:
        ValueError: The folder cannot be made or written.
    """
    if path is None:
        path = os.environ.get("JAXMBD_CACHE") or platformdirs.user_cache_path("jaxmbd") / "programs"
        if str(path).lower() in ("off", "0"):
            return None
        present: str | None = getattr(jax.config, "jax_compilation_cache_dir", None)
        if present is not None:
            return Path(present)
    global _folder
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"no programs can be kept in {folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"no programs can be kept in {folder}: it cannot be written")
    _prune(folder)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    _folder = folder
    # Another process may read or write a program at this moment, and then compiles it.
    warnings.filterwarnings(
        "ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning
    )
    return folder


def _prune(folder: Path) -> None:
    """Delete the programs that have not been written for longest, down to the bound."""
    # JAX's own bound needs a lock, and a process that is killed leaves it broken.
    found = []
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            status = file.stat()
            found.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= _LARGEST:
            return
        with contextlib.suppress(OSError):
            file.unlink()
            total -= size
