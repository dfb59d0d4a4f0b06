"""Other units of columns than SI, asked for behind a name: "pin.angle [deg]"."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .asking import fitting

if TYPE_CHECKING:
    from .columns import Column

# By unit: the SI unit it stands in place of, and how many of it are one of those.
_UNITS = {
    "deg": ("rad", 180.0 / math.pi),
    "deg/s": ("rad/s", 180.0 / math.pi),
    "deg/s²": ("rad/s²", 180.0 / math.pi),
    "rpm": ("rad/s", 30.0 / math.pi),
    "mm": ("m", 1e3),
    "mm/s": ("m/s", 1e3),
    "km/h": ("m/s", 3.6),
    "mm/s²": ("m/s²", 1e3),
    "g": ("m/s²", 1.0 / 9.80665),
    "ms": ("s", 1e3),
    "kN": ("N", 1e-3),
    "kN·m": ("N·m", 1e-3),
    "N·mm": ("N·m", 1e3),
    "kJ": ("J", 1e-3),
    "kW": ("W", 1e-3),
    "bar": ("Pa", 1e-5),
    "MPa": ("Pa", 1e-6),
}
_ASKED = re.compile(r"(.*\S) \[([^][]+)\]", flags=re.S)


def split(asked: str) -> tuple[str, str | None]:
    """A name, and the unit that stands behind it."""
    found = _ASKED.fullmatch(asked)
    if found is None:
        return asked, None
    return found[1], found[2].replace("^2", "²").replace(" m", "·m")


def in_si(header: str) -> float:
    """What the numbers below a header such as "pin.angle [deg]" are to be multiplied with to be in
    SI units; one where it has none, or one that is not known.
    """
    return 1.0 / _UNITS.get(split(header)[1] or "", ("", 1.0))[1]


def in_units(
    columns: "list[Column]", rows: np.ndarray, asked: Sequence[str] | str | None
) -> "tuple[list[Column], np.ndarray]":
    """Columns and rows, (T, n), with those columns in another unit whose name asks for one; of a
    name with *, those that can be in that unit.

    Raises:
        ValueError: A column has no such unit; the message lists those that it can have.
    """
    names = [column.name for column in columns]
    for name, unit in map(split, [asked] if isinstance(asked, str) else asked or []):
        if unit is None:
            continue
        places = [names.index(x) for x in fitting(name, names)]
        si, factor = _UNITS.get(unit, (unit, 1.0))
        fit = [k for k in places if columns[k].unit == si]
        if not fit:
            own = columns[places[0]].unit
            others = [x for x, (standard, _) in _UNITS.items() if standard == own]
            raise ValueError(
                f"{names[places[0]]!r} has no unit {unit!r}; it has {', '.join([own, *others])}"
            )
        for k in fit if unit != si else ():
            columns[k] = dataclasses.replace(columns[k], unit=unit)
            rows[:, k] *= factor
    return columns, rows
