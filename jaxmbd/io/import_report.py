"""What became of a foreign model file: what was left out, and how the mechanism moves."""

import dataclasses
from collections.abc import Callable
from functools import cached_property

from ..analyses.assembly import assemble
from ..analyses.mobility import Mobility, mobility
from ..model.mechanism import Mechanism
from ..model.readable import counted
from ..model.state import State
from ..model.validation import Numbers
from .xml_tree import Element


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Something of a file that the mechanism does not have.

    Attributes:
        tag: Of its element, such as "geom".
        name: Its name in the file, or "".
        why: In a few words.
        line: Of the file, or None.
        moves: Whether the motion of the file's mechanism can depend on it.
    """

    tag: str
    name: str
    why: str
    line: int | None = None
    moves: bool = True

    def __str__(self) -> str:
        name = f" name={self.name!r}" if self.name else ""
        line = "" if self.line is None else f" (line {self.line})"
        return f"<{self.tag}{name}>{line}: {self.why}"


class ImportReport:
    """What `from_mjcf` and `from_urdf` say about a file.

    Attributes:
        source: The file's name.
        ignored: What was left out by choice, or says nothing about the motion: ranges and dry
            friction of joints unless they are asked for, contacts, sensors, cameras, lights.
        refused: What the mechanism would need to move as the file says, and does not have; with
            `strict` such a file raises instead.
        notes: What else was done, for instance links merged into others.
        merged: Names of links that became part of others, with those.
        loops: Names of the joints that close loops, couplings included.
        keyframes: Names of the keyframes of the file.
    """

    def __init__(self, source: str):
        self.source = source
        self.ignored: list[LeftOut] = []
        self.refused: list[LeftOut] = []
        self.notes: list[str] = []
        self.merged: dict[str, str] = {}
        self.loops: list[str] = []
        self.keyframes: list[str] = []
        self._lines: dict[tuple[str, str], int] = {}
        self._mechanism: Mechanism | None = None
        self._state: Callable[[Numbers, Numbers], State] | None = None

    def locate(self, root: Element) -> None:
        """Learn the lines of the named elements of a file."""
        for element in root.walk():
            self._lines.setdefault((element.tag, element.get("name") or ""), element.line)

    def ignore(
        self, tag: str, name: str, why: str, line: int | None = None, *, moves: bool = True
    ) -> None:
        """Note something that is left out."""
        item = self._left_out(tag, name, why, line)
        self.ignored.append(dataclasses.replace(item, moves=moves))

    def refuse(self, tag: str, name: str, why: str, line: int | None = None) -> None:
        """Note something that is missed."""
        self.refused.append(self._left_out(tag, name, why, line))

    def _left_out(self, tag: str, name: str, why: str, line: int | None) -> LeftOut:
        if line is None and name:
            line = self._lines.get((tag, name))
        return LeftOut(tag, name, why, line)

    def describe(
        self, mechanism: Mechanism, state: Callable[[Numbers, Numbers], State] | None = None
    ) -> None:
        """Take over the mechanism that the file became, and how its coordinates make a state."""
        self._mechanism, self._state = mechanism, state

    def state(self, qpos: Numbers, qvel: Numbers) -> State:
        """The state of the mechanism at the coordinates and speeds of MuJoCo's model.

        Angles count from the description: of joints that are more than half a turn away from it,
        `angles` must say so.

        Args:
            qpos: Positions, (nq,), as MuJoCo orders them.
            qvel: Speeds, (nv,).
        """
        if self._state is None:
            raise ValueError(f"{self.source}: only an MJCF file has MuJoCo's coordinates")
        return self._state(qpos, qvel)

    def summary(self) -> str:
        """What is left out and could change the motion, on one line; "" for nothing."""
        kinds: dict[tuple[str, str], list[str]] = {}
        for item in self.ignored + self.refused:
            if item.moves:
                kinds.setdefault((item.tag, item.why), []).append(item.name)
        parts = []
        for (tag, why), names in kinds.items():
            named = ", ".join(repr(name) for name in names[:6] if name)
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            parts.append(f"<{tag}> {named}{more}: {why}" if named else f"<{tag}>: {why}")
        return "; ".join(parts)

    @cached_property
    def mobility(self) -> Mobility:
        """Freedoms, rank and redundant rows at the pose of the file, assembled; computed when
        first asked for.
        """
        if self._mechanism is None:
            raise ValueError("this report has no mechanism")
        system, state = self._mechanism.build()
        state, _ = assemble(system, state)
        return mobility(system, state)

    @property
    def freedoms(self) -> int:
        """Degrees of freedom."""
        return self.mobility.freedoms

    @property
    def rank(self) -> int:
        """Rank of the constraint Jacobian."""
        return self.mobility.rank

    def __str__(self) -> str:
        found = self.mobility
        lines = [
            f"{self.source}: {counted(found.coordinates // 6, 'body', 'bodies')}, "
            f"{counted(found.rows, 'constraint row')} of rank {found.rank}, "
            f"{counted(found.freedoms, 'degree')} of freedom"
        ]
        if self.loops:
            lines.append(f"loops closed by {', '.join(self.loops)}")
        if self.merged:
            pairs = (f"{link} ({into})" for link, into in self.merged.items())
            lines.append(f"links merged into others: {', '.join(pairs)}")
        lines += self.notes
        lines += [f"left out: {item}" for item in self.ignored]
        lines += [f"refused: {item}" for item in self.refused]
        return "\n".join(lines)
