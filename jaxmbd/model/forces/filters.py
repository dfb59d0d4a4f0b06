"""Linear filters along a joint's coordinate: state-space models and transfer functions; the numeric
element, which both share, and its two descriptions.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, host, library_of
from .. import given
from ..body import Body
from ..coordinates import Angle, Displacement
from ..motions import Motion, value_at
from ..validation import POSITIVE, array, default_dtype, is_concrete, number, require
from .along import limited
from .along_states import AbstractAlongCoordinate, AbstractCoordinateForce
from .stateful import StateLabel, StateRule

# What is subtracted from the command to make the input of a filter; of "command" nothing.
SOURCES = ("command", "coordinate", "rate")
_MOST_STATES = 6


class LinearFilter(AbstractAlongCoordinate):
    """An effort C z + D u along a joint's coordinate x, with the filter ż = A z + B u.

    The input u is the command w, or w - x, or w - ẋ.

    Attributes:
        coordinate: x.
        rule: Of z, (s,).
        command: w, a number or a motion.
        A, B, C, D: The model, (s, s), (s,), (s,) and a number.
        limit: Of the effort [N·m] or [N], or None.
        source: One of `SOURCES`.
        rests: Whether A is regular, as far as it is known.
    """

    linear = True

    coordinate: Angle | Displacement
    rule: StateRule
    command: Scalar | Motion
    A: Float[Array, "s s"]
    B: Float[Array, " s"]
    C: Float[Array, " s"]
    D: Scalar
    limit: Scalar | None
    source: str = eqx.field(static=True)
    rests: bool = eqx.field(static=True)

    def labels(self) -> tuple[StateLabel, ...]:
        return tuple(StateLabel(f"z{k + 1}", "-") for k in range(self.B.shape[-1]))

    def _input(self, x: Scalar, rate: Scalar, t: Scalar) -> Scalar:
        command = value_at(self.command, t)
        if self.source == "command":
            return command
        return command - (x if self.source == "coordinate" else rate)

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.A @ z + self.B * self._input(x, rate, t)

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        return limited(self.C @ z + self.D * self._input(x, rate, t), self.limit)


@dataclass(frozen=True, eq=False)
class AbstractFilter(AbstractCoordinateForce):
    """A linear filter whose output is the effort in a joint."""

    command: Any = given.value("any", 0.0)
    source: str = given.choice(*SOURCES, default="command")
    initial: Any = given.numbers("-", None)
    effort_limit: Any = given.number("N·m or N", None, bounds=POSITIVE)

    def _list(self, field: str) -> Float[Array, " n"]:
        """A field that is a list of numbers, or a single one."""
        value, what = getattr(self, field), f"{self.title}: {field}"
        count = _length(value)
        return array(value, (count,), what) if count else number(value, what)[None]

    def _filter(
        self,
        bodies: tuple[Body, ...],
        A: Float[Array, "s s"],
        B: Float[Array, " s"],
        C: Float[Array, " s"],
        D: Scalar,
    ) -> LinearFilter:
        """The numeric element with this model."""
        count = B.shape[0]
        if not 1 <= count <= _MOST_STATES:
            cure = "" if count else "; a gain without states is a Servo"
            raise ValueError(
                f"{self.title}: a filter has 1 to {_MOST_STATES} states, not {count}{cure}"
            )
        if self.source not in SOURCES:
            raise ValueError(f"{self.title}: source must be one of {SOURCES}, not {self.source!r}")
        begin = (
            host.zeros(count, default_dtype())
            if self.initial is None
            else array(self.initial, (count,), f"{self.title}: initial")
        )
        return LinearFilter(
            coordinate=self._coordinate(bodies),
            rule=StateRule.held(begin),
            command=self._value("command"),
            A=A,
            B=B,
            C=C,
            D=D,
            limit=self._number_or_none("effort_limit"),
            source=self.source,
            rests=not is_concrete(A) or bool(np.linalg.det(A) != 0.0),
        )


def _length(value: Any) -> int:
    """Of a list or an array; zero for a number."""
    try:
        return len(value)
    except TypeError:
        return 0


@dataclass(frozen=True, eq=False)
class StateSpace(AbstractFilter):
    """A linear filter in a joint, given as a state-space model: the effort is C z + D u with
    ż = A z + B u. It has 1 to 6 states, "z1", "z2", ...

    The input u is `command` with `source="command"`, the error command - x with
    `source="coordinate"`, or command - ẋ with `source="rate"`, where x is the joint's coordinate.

    Attributes:
        joint: The joint (object or name).
        A: (s, s) [1/s].
        B: (s,), states per second and unit of u.
        C: (s,) [N·m] or [N] per unit of the states.
        D: [N·m] or [N] per unit of u.
        command: In units of u; a number, a function of time or an `Input`.
        source: "command", "coordinate" or "rate", see above.
        initial: The states at the initial time, (s,); zero by default.
        effort_limit: [N·m] or [N]; None for no limit. The states do not know of it.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    A: Any = given.numbers("1/s")
    B: Any = given.numbers("1/s")
    C: Any = given.numbers("N·m or N")
    D: Any = given.number("N·m or N per unit of u", 0.0)

    def element(self, *bodies: Body) -> LinearFilter:
        B = self._list("B")
        count = B.shape[0]
        return self._filter(
            bodies,
            array(self.A, (count, count), f"{self.title}: A"),
            B,
            array(self.C, (count,), f"{self.title}: C"),
            self._number("D"),
        )


@dataclass(frozen=True, eq=False)
class TransferFunction(AbstractFilter):
    """A linear filter in a joint, given as a transfer function from its input u to the effort.

        G(s) = (b₀ sᵐ + ... + b_m)/(a₀ sⁿ + ... + a_n),   m ≤ n,   1 ≤ n ≤ 6

    The input u is `command` with `source="command"`, the error command - x with
    `source="coordinate"`, or command - ẋ with `source="rate"`, where x is the joint's coordinate.

    The states "z1", ..., "zn" are those of the controllable canonical form: z_n = u a₀/(a₀ sⁿ + ...
    + a_n), and each state is the rate of the next.

    Attributes:
        joint: The joint (object or name).
        numerator: b₀, ..., b_m, highest power of s first, (m + 1,), as in `scipy.signal`.
        denominator: a₀, ..., a_n, highest power of s first, (n + 1,).
        command: In units of u; a number, a function of time or an `Input`.
        source: "command", "coordinate" or "rate", see above.
        initial: The states at the initial time, (n,); zero by default.
        effort_limit: [N·m] or [N]; None for no limit. The states do not know of it.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    numerator: Any = given.numbers("N·m or N")
    denominator: Any = given.numbers("-")

    def element(self, *bodies: Body) -> LinearFilter:
        b, a = self._list("numerator"), self._list("denominator")
        missing = a.shape[0] - b.shape[0]
        if missing < 0:
            raise ValueError(
                f"{self.title}: the numerator is of higher order than the denominator, so that the "
                "effort would follow a derivative of the input; add a pole to the denominator"
            )
        a = require(a[0] != 0.0, a, f"{self.title}: denominator must not begin with zero")
        xp, n = library_of(a, b), a.shape[0] - 1
        b = xp.concatenate([np.zeros(missing, b.dtype), b]) / a[0]
        a = a / a[0]
        # Each state is the rate of the next one.
        A = xp.concatenate([-a[None, 1:], np.eye(n, dtype=a.dtype)[:-1]])[:n]
        unit = host.asarray(np.arange(n) == 0, default_dtype())
        return self._filter(bodies, A, unit, b[1:] - b[0] * a[1:], b[0])
