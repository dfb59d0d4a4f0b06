"""One instant of a motion as the functions of a user see it."""

from collections.abc import Collection
from typing import Any

from jaxtyping import Array

from ...model.state import State
from ...model.system import System
from ...results.columns import refuse_unknown
from ...results.solution import Solution
from ...rotations.types import Scalar
from ..placing.numbers import numbers_of


class Instant:
    """One instant of a motion: `now["hinge.angle"]` is any quantity that `quantities` lists, inputs
    included.

    Args:
        system: Of the motion.
        row: The instant.
        without: Inputs that have no value there, because they are held over the interval before.
    """

    def __init__(self, system: System, row: Solution, without: Collection[str] = ()):
        self._system, self._row, self._without = system, row, without
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Array:
        if name in self._without:
            raise ValueError(
                f"final: the input {name!r} is held over each interval and has no value at the "
                "end: put it into stage, or take hold='linear'"
            )
        if name not in self._known:
            refuse_unknown([name], self._system)
            self._known |= numbers_of(self._system, self._row, [name])
        return self._known[name]

    @property
    def t(self) -> Scalar:
        """The time [s]."""
        return self._row.t[0]

    @property
    def state(self) -> State:
        """Poses and twists of all bodies."""
        return self._row.at(0)
