"""Types of the options that experiments have beside those of `runner.py`."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer


def repeated(flag: str, names: Iterable[str], help: str) -> Any:
    """An option that is given once for every choice: one of `names` each, or None for all."""
    choice: Any = StrEnum(flag.strip("-").title(), {name: name for name in names})
    return Annotated[list[choice] | None, typer.Option(flag, help=f"{help}; repeat for more.")]


def parts(names: Iterable[str]) -> Any:
    """The option `--part`: some parts of an experiment, which leave the results of the others."""
    return repeated("--part", names, "Renew only this part")
