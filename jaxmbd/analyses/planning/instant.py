"""One instant of a motion as the functions of a user see it."""

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
    """

    def __init__(self, system: System, row: Solution):
        self._system, self._row = system, row
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Array:
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
