"""Packaged mechanisms: JSON files beside this module, and generators.

This layer knows names and files only. A new packaged mechanism is a new JSON file here; a family of
mechanisms is a function in `generators.py`.
"""

import difflib
import os
from importlib import resources
from pathlib import Path

from ..io.formats import read_file
from ..io.model_files import ModelFileError, read_mechanism
from ..model.expressions import shown
from ..model.mechanism import Mechanism
from ..model.state import State
from ..model.system import System
from .bicycle import whipple_bicycle as whipple_bicycle
from .generators import GENERATORS as GENERATORS
from .generators import SIZED as SIZED
from .generators import gyro_top as gyro_top
from .generators import n_pendulum as n_pendulum
from .six_body_linkage import six_body_linkage as six_body_linkage
from .stewart import stewart_platform as stewart_platform

LARGEST = 10_000  # bodies of a mechanism asked for by name; a size beyond is a slip of the pen


def names() -> list[str]:
    """Names of the packaged mechanisms, generators included."""
    files = [
        f.name.removesuffix(".json")
        for f in resources.files(__name__).iterdir()
        if f.name.endswith(".json")
    ]
    return sorted([*files, *GENERATORS])


def load_mechanism(model: str | Path) -> Mechanism:
    """The mechanism of a packaged name ("slider_crank", "n_pendulum", "n_pendulum:16") or of a JSON
    file.

    Raises:
        ModelFileError: Neither a packaged name nor a readable model file.
    """
    text = str(model)
    name, colon, size = text.partition(":")
    if name in names():
        if colon and name not in SIZED:
            raise ModelFileError(f"{shown(text)}: {name} comes in one size; write {name!r}")
        return _packaged(name, *([_size(name, size)] if colon else []))
    if os.path.exists(text):
        return read_file(text)
    near = difflib.get_close_matches(name, names(), n=3)
    meant = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ModelFileError(
        f"{shown(text)} is neither a file nor a packaged mechanism;{meant} packaged are "
        f"{', '.join(names())}"
    )


def _packaged(name: str, *size: int) -> Mechanism:
    if name not in GENERATORS:
        with resources.as_file(resources.files(__name__) / f"{name}.json") as path:
            return read_mechanism(path)
    try:
        return GENERATORS[name](*size)
    except ValueError as error:
        raise ModelFileError(f"{':'.join([name, *map(str, size)])!r}: {error}") from None


def _size(name: str, text: str) -> int:
    asked = shown(f"{name}:{text}")
    if not (text.isascii() and text.isdigit()):
        raise ModelFileError(f"{asked}: the size must be a whole number, as in '{name}:16'")
    digits = text.lstrip("0") or "0"
    bodies = SIZED[name](int(digits[:20]))  # twenty digits are too many already
    if bodies > LARGEST:
        raise ModelFileError(
            f"{asked} asks for {bodies} bodies; the largest packaged size is {LARGEST}"
        )
    return int(digits)


def load(model: str | Path) -> tuple[System, State]:
    """System and state, as described, of a packaged name or a JSON file; see `load_mechanism` and
    `Mechanism.build`.
    """
    return load_mechanism(model).build()
