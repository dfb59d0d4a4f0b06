"""Packaged mechanisms: JSON files beside this module, and generators.

This layer knows names and files only. A new packaged mechanism is a new JSON file here; a family of mechanisms is a
function in `generators.py`.
"""

from importlib import resources
from pathlib import Path

from ..io.model_files import ModelFileError, read_mechanism
from ..model.mechanism import Mechanism
from ..model.state import State
from ..model.system import System
from .generators import GENERATORS as GENERATORS
from .generators import SIZED as SIZED
from .generators import n_pendulum as n_pendulum
from .stewart import stewart_platform as stewart_platform


def names() -> list[str]:
    """Names of the packaged mechanisms, generators included."""
    files = [f.name.removesuffix(".json") for f in resources.files(__package__).iterdir() if f.name.endswith(".json")]
    return sorted([*files, *GENERATORS])


def load_mechanism(model: str | Path) -> Mechanism:
    """The mechanism of a packaged name ("slider_crank", "n_pendulum", "n_pendulum:16") or of a JSON file.

    Raises:
        ModelFileError: Neither a packaged name nor a readable model file.
    """
    text = str(model)
    name, _, argument = text.partition(":")
    if name in GENERATORS:
        if argument and name not in SIZED:
            raise ModelFileError(f"{text!r}: {name} comes in one size; write {name!r}")
        try:
            return GENERATORS[name](int(argument)) if argument else GENERATORS[name]()
        except ValueError as error:
            raise ModelFileError(f"{text!r}: {error}") from None
    if name in names():
        with resources.as_file(resources.files(__package__) / f"{name}.json") as path:
            return read_mechanism(path)
    if Path(text).exists():
        return read_mechanism(text)
    raise ModelFileError(f"{text!r} is neither a file nor a packaged mechanism; packaged are {', '.join(names())}")


def load(model: str | Path, *, linear_solver: str = "auto") -> tuple[System, State]:
    """System and state, as described, of a packaged name or a JSON file; see `load_mechanism` and `Mechanism.build`."""
    return load_mechanism(model).build(linear_solver=linear_solver)
