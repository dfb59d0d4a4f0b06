"""A check of what reads JAX's internals, on first use of a version of jaxlib that the suite has not
been run with.

A small step is computed with each such mechanism and without it: a loop with products, sums and
gathers, alone, as a batch, and as a gradient. What differs is switched off, with a warning. The
outcome is kept as JSON where programs are kept; otherwise every process checks.
"""

import contextlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..files import written
from . import disk_cache, versions
from .batch_last import in_lanes
from .checkpoint import checkpointed, saved
from .cpu_fusion import left_apart, one_kernel
from .indexing import sums_at, take
from .jaxprs import Array
from .options import INTERNAL, only

_INDEX = np.array([0, 2, 1, 1, 3])
_Known = dict[str, frozenset[str]]
_found: _Known = {}  # by version
_NAME = "self-check-{}-{}.json"
_TOLERANCE = 1e3  # units in the last place of the larger numbers


def failures() -> frozenset[str]:
    """The switches whose mechanism fails with this version of jaxlib."""
    version = versions.JAXLIB_VERSION
    if version not in _found:
        _found[version] = frozenset()  # while it is checked, which asks for switches too
        folder = disk_cache.folder()
        file = None if folder is None else folder / _NAME.format(version, jax.default_backend())
        known = None if file is None else _read(file)
        if known is None:
            known = _checked()
            if file is not None:
                _write(file, known)
        _found[version] = frozenset(known)
        if known:
            _warn(known)
    return _found[version]


def _checked() -> dict[str, str]:
    """The switches that fail, and how."""
    failed = {}
    for name, program in zip(INTERNAL, PROGRAMS, strict=True):
        try:
            plain, own = _run(program, None), _run(program, name)
        except Exception as error:  # of any kind, by equations that are not as they were
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        largest = float(np.max(np.abs(plain)))
        difference = float(np.max(np.abs(own - plain)))
        if not difference <= _TOLERANCE * float(np.finfo(plain.dtype).eps) * largest:
            failed[name] = f"results differ by {difference:.1e} of {largest:.1e}"
    return failed


def _run(program: Callable[..., Any], name: str | None) -> np.ndarray:
    """The result of a program with one mechanism or without any, also while another is traced."""
    x = np.linspace(0.1, 0.9, 12, dtype=jax.dtypes.canonicalize_dtype(float)).reshape(3, 4)
    with only(name), left_apart(False):
        compiled = jax.jit(program).lower(x).compile()
    return np.asarray(compiled(x))


def _step(x: Array) -> Array:
    """A loop over what steps are made of; of four numbers."""
    matrix = jnp.outer(x, x) + jnp.eye(4, dtype=x.dtype)

    def turn(_: Array, y: Array) -> Array:
        force = jnp.sin(take(y, _INDEX)) * jnp.sqrt(1.0 + take(x, _INDEX) ** 2)
        y = matrix @ y + sums_at(force, _INDEX, 4)
        return y / (1.0 + jnp.max(jnp.abs(y)))

    return jax.lax.fori_loop(0, 3, turn, jnp.cos(x))


def _alone(x: Array) -> Array:
    return one_kernel(_step, x[0])


def _batch(x: Array) -> Array:
    return jax.vmap(in_lanes(_step))(x)


def _gradient(x: Array) -> Array:
    def one(y: Array, scale: Array) -> tuple[Array, None]:
        return checkpointed(lambda y, s: jnp.sin(saved(jnp.exp(-y * y))) * s + y)(y, scale), None

    return jax.grad(lambda x: jnp.sum(jax.lax.scan(one, x[0], x)[0] ** 2))(x)


PROGRAMS = _alone, _batch, _gradient  # of each of `INTERNAL`


def _read(file: Path) -> dict[str, str] | None:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or not all(
        name in INTERNAL and isinstance(reason, str) for name, reason in known.items()
    ):
        return None
    return known


def _write(file: Path, failed: dict[str, str]) -> None:
    with contextlib.suppress(OSError), written(file, "w", "check") as stream:
        json.dump(failed, stream)


def _warn(failed: dict[str, str]) -> None:
    reasons = "; ".join(f"{name} ({reason})" for name, reason in failed.items())
    warnings.warn(
        f"with jaxlib {versions.JAXLIB_VERSION} some of what jaxmbd does beyond JAX fails its "
        f"check and is off: {reasons}. Results are right, and take longer. Please report it",
        stacklevel=2,
    )
