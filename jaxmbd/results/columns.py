"""The columns of tables of a motion: names, units, values.

A new quantity is a function that yields groups, and an entry in `_groups`.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from ..model.laws.base import CONTACT
from ..model.names import nearest
from ..model.sensors import Sensor
from ..model.system import System
from ..model.validation import is_concrete
from ..rotations.types import Array, host
from .asking import fitting, full_name
from .efforts import efforts_in
from .elements import element_labels
from .events import latest
from .laws import slices
from .sensors import entry_names, instant_readings
from .solution import Solution
from .units import in_units, split

_XYZ = ("x", "y", "z")
_ASCII = str.maketrans({"·": " ", "²": "^2", "³": "^3"})
_MOTION = {"r": "m", "v": "m/s", "omega": "rad/s", "a": "m/s²", "alpha": "rad/s²"}
_POSE_AND_TWIST = ("r", "v", "omega")


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Such as "pin.angle".
        unit: Of its values; "-" without dimension.
        usual: Whether a table has it where none are chosen.
        smooth: Whether it changes smoothly with the motion; a count does not.
    """

    name: str
    unit: str
    usual: bool = True
    smooth: bool = True

    @property
    def header(self) -> str:
        """As tables have it: "pin.angle [rad]"; the unit in ASCII, which every program reads."""
        return f"{self.name} [{self.unit.translate(_ASCII)}]"


@dataclass(frozen=True)
class Group:
    """Columns that are computed together.

    Attributes:
        kind: "joints", "forces", ...: stands before a name that another group has too.
        columns: What they are.
        values: Of a solution, (T, number of columns); traced where that is.
    """

    kind: str
    columns: list[Column]
    values: Callable[[Solution], Array] = field(repr=False)


def column_names(system: System, columns: Sequence[str] | None = None) -> list[str]:
    """The columns of a table of a motion of a system, all or some as `Solution.to_csv` takes them.

    Raises:
        ValueError: There is no such column.
    """
    groups = chosen(_groups_of(system), columns or ["*"])
    return [column.name for group in groups for column in group.columns]


def columns_of(system: System) -> list[Column]:
    """All columns of a motion of a system but the time."""
    return [column for group in _groups_of(system)[1:] for column in group.columns]


def refuse_unknown(names: Iterable[str], system: System) -> None:
    """Refuse names that no quantity of a motion has.

    Raises:
        ValueError: The message names the nearest.
    """
    known = {column.name for column in columns_of(system)}
    for name in names:
        if full_name(name, known) not in known:
            meant = nearest(name, known, cutoff=0.4)
            hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
            raise ValueError(
                f"there is no quantity {name!r}; {hint}mbd.quantities(system) lists them"
            )


def columns_by_name(solution: Solution, system: System, names: Iterable[str]) -> list[Array]:
    """Columns of a motion that are known to exist, (T,) each; traced where the motion is."""
    groups = _groups_of(system)
    known = {column.name for group in groups for column in group.columns}
    wanted, found = [full_name(name, known) for name in names], {}
    for group in groups:
        part = _some(group, set(wanted))
        if part.columns:
            values = part.values(solution)
            found |= {column.name: values[:, k] for k, column in enumerate(part.columns)}
    return [found[name] for name in wanted]


def _groups_of(system: System) -> list[Group]:
    return _groups(system, system.nb, system.nc, laws=bool(system.laws))


def table_of(
    solution: Solution, system: System | None, columns: Sequence[str] | None
) -> tuple[list[Column], np.ndarray]:
    """Columns and rows, (T, n), of a table with the usual columns, or those chosen."""
    bodies, rows = solution.r.shape[1], solution.multipliers.shape[1]
    angles, laws = solution.angles is not None, has_laws(solution, system)
    groups = _groups(system, bodies, rows, laws=laws, angles=angles)
    groups += [*_events(solution), *_efforts(solution)]
    parts = chosen(groups, columns)
    found = [column for group in parts for column in group.columns]
    rows = np.concatenate([group.values(solution) for group in parts], axis=1)
    return in_units(found, rows, columns)


def has_laws(solution: Solution, system: System | None) -> bool:
    """Whether a motion holds what stops, dry friction and contacts did."""
    return system is not None and bool(system.laws) and "law_forces" in solution.stats


def _events(solution: Solution) -> list[Group]:
    if (found := solution.events) is None:
        return []
    columns = [Column(f"event.{name}", "s") for name in found.names]
    return [Group("events", columns, lambda sol: latest(found, sol.t))]


def _efforts(solution: Solution) -> Iterator[Group]:
    """What inverse dynamics has found."""
    for key, name, unit in efforts_in(solution.stats):
        yield Group(
            "efforts",
            [Column(f"{name}.effort", unit)],
            lambda sol, key=key: _beside([sol.stats[key]]),
        )


def chosen(groups: list[Group], columns: Sequence[str] | None) -> list[Group]:
    """The groups with those columns alone that a table has: the usual ones, or those that fit one
    of some names, in which * stands for any text. The time is always first. A text is one name.
    """
    columns = [columns] if isinstance(columns, str) else columns
    names = [column.name for group in groups for column in group.columns]
    if columns is None:
        wanted = {column.name for group in groups for column in group.columns if column.usual}
    else:
        wanted = {"t"} | {name for x in columns for name in fitting(split(x)[0], names)}
    return [part for group in groups if (part := _some(group, wanted)).columns]


def _some(group: Group, wanted: set[str]) -> Group:
    places = [k for k, column in enumerate(group.columns) if column.name in wanted]
    return Group(
        group.kind, [group.columns[k] for k in places], lambda sol: group.values(sol)[:, places]
    )


def _groups(
    system: System | None, bodies: int, rows: int, *, laws: bool, angles: bool = True
) -> list[Group]:
    """All groups, of unique names; `laws` and `angles` say whether the motion has these."""
    found = [_time()]
    if system is not None:
        found += [
            *_joints(system, angles),
            *_reactions(system),
            *_elements(system),
            _energy(system),
        ]
        found += _laws(system) if laws else []
        found += [*_frames(system), *_sensors(system), *_inputs(system)]
    found += [*_bodies(system, bodies), _multipliers(system, rows)]
    count = Counter(column.name for group in found for column in group.columns)

    def unique(group: Group) -> Group:
        columns = [
            dataclasses.replace(c, name=f"{group.kind}.{c.name}") if count[c.name] > 1 else c
            for c in group.columns
        ]
        return Group(group.kind, columns, group.values)

    return [unique(group) for group in found]


def _time() -> Group:
    return Group("run", [Column("t", "s")], lambda sol: _beside([sol.t]))


def _joints(system: System, angles: bool) -> Iterator[Group]:
    """Coordinates of joints and their rates, by the names of `JointMotion`."""
    angle = {"angle": "rad", "rate": "rad/s", "acceleration": "rad/s²"}
    slide = {"displacement": "m", "speed": "m/s", "displacement_acceleration": "m/s²"}
    for c in system.connections:
        units = (angle if c.angle is not None else {}) | (
            slide if c.element.has_displacement else {}
        )
        if not units or (c.angle is not None and not angles):
            continue
        columns = [
            Column(f"{c.name}.{field}", unit, not field.endswith("acceleration"))
            for field, unit in units.items()
        ]

        def values(
            sol: Solution, name: str = c.name, fields: tuple[str, ...] = tuple(units)
        ) -> Array:
            motion = sol.joint(name, system)
            return _beside([getattr(motion, field) for field in fields])

        yield Group("joints", columns, values)


def _reactions(system: System) -> Iterator[Group]:
    if not system.nc:
        return
    columns = [
        Column(f"{c.name}.{field}.{axis}", unit)
        for c in system.connections
        for field, unit in (("reaction_force", "N"), ("reaction_moment", "N·m"))
        for axis in _XYZ
    ]

    def values(sol: Solution) -> Array:
        found = sol.reactions(system).values()
        return _beside([y for x in found for y in (x.force, x.moment)])

    yield Group("joints", columns, values)


def _elements(system: System) -> Iterator[Group]:
    columns = [
        Column(f"{name}.{output.name}{entry}", output.unit)
        for stack, own in zip(system.forces, element_labels(system), strict=True)
        for name in stack.names
        for output in own
        for entry in _entries(output.shape, output.components)
    ]
    if not columns:
        return

    def values(sol: Solution) -> Array:
        found = sol.elements(system).values()
        return _beside([x.value for element in found for x in element.outputs])

    yield Group("forces", columns, values)


def _entries(shape: tuple[int, ...], components: tuple[str, ...]) -> list[str]:
    """What stands behind the name of an array for each of its entries: "[0].x"."""
    places = shape[:-1] if components else shape
    before = ["".join(f"[{k}]" for k in index) for index in np.ndindex(*places)]
    return [f"{b}.{c}" for b in before for c in components] if components else before


def _energy(system: System) -> Group:
    fields = "kinetic", "potential", "total"

    def values(sol: Solution) -> Array:
        energy = sol.energy(system)
        return _beside([getattr(energy, field) for field in fields])

    # A prescribed motion may be of bodies without mass.
    usual = not system.massless
    return Group("run", [Column(f"energy.{field}", "J", usual) for field in fields], values)


def _laws(system: System) -> Iterator[Group]:
    """Gaps, forces and states of stops, dry friction and contacts."""
    units = {(x.kind, name): x.law.units for x in system.laws for name in x.names}
    for (kind, name), (places, rows) in slices(system).items():
        n = places.stop - places.start
        at = [name] if n == 1 else [f"{name}[{k}]" for k in range(n)]
        parts = (".normal", ".tangent1", ".tangent2") if kind == CONTACT else ("",)
        of_gap, of_force = units[kind, name]
        columns = [Column(f"{where}.gap", of_gap) for where in at]
        columns += [Column(f"{where}.force{part}", of_force) for where in at for part in parts]
        columns += [Column(f"{where}.state", "-", smooth=False) for where in at]

        def values(sol: Solution, places: slice = places, rows: slice = rows) -> Array:
            pairs = (("law_gaps", places), ("law_forces", rows), ("law_states", places))
            return _beside([_part(sol.stats[k], at) for k, at in pairs])

        yield Group("laws", columns, values)


def _frames(system: System) -> Iterator[Group]:
    """The motion of frames, by the names of `FrameMotion`."""
    for frame in system.frames:
        columns = [
            Column(f"{frame.name}.{field}.{axis}", unit, field == "r")
            for field, unit in _MOTION.items()
            for axis in _XYZ
        ]

        def values(sol: Solution, name: str = frame.name) -> Array:
            motion = sol.frame(name, system)
            return _beside([getattr(motion, field) for field in _MOTION])

        yield Group("frames", columns, values)


def _sensors(system: System) -> Iterator[Group]:
    """What sensors read without delay, sampling and noise, which need more than an instant."""
    for sensor in system.sensors:
        columns = [Column(name, unit) for name, unit in entry_names(sensor)]

        def values(sol: Solution, sensor: Sensor = sensor) -> Array:
            return _beside([instant_readings(sensor, sol, system)])

        yield Group("sensors", columns, values)


def _inputs(system: System) -> Iterator[Group]:
    """What the inputs were; zero where nobody has given them."""
    columns = [
        Column(f"{label.name}{entry}", label.unit, smooth=False)
        for label in system.inputs
        for entry in _entries(label.shape, ())
    ]
    if not columns:
        return

    def values(sol: Solution) -> Array:
        if sol.inputs is None:
            return _beside([host.zeros((len(sol.t), len(columns)))])
        return _beside([sol.inputs[:, 0]])

    yield Group("inputs", columns, values)


def _bodies(system: System | None, count: int) -> Iterator[Group]:
    """Positions, velocities and accelerations of bodies. A usual table has those of no body that a
    coordinate of a joint describes already.
    """
    names = [f"body{k}" for k in range(count)] if system is None else system.bodies
    described = set() if system is None else _described(system)
    for b, name in enumerate(names):
        columns = [
            Column(f"{name}.{field}.{axis}", unit, field in _POSE_AND_TWIST and b not in described)
            for field, unit in _MOTION.items()
            for axis in _XYZ
        ]
        columns += [Column(f"{name}.A{m}{n}", "-", False) for m in (1, 2, 3) for n in (1, 2, 3)]

        def values(sol: Solution, b: int = b) -> Array:
            return _beside([_part(getattr(sol, field), b) for field in (*_MOTION, "A")])

        yield Group("bodies", columns, values)


def _described(system: System) -> set[int]:
    """Bodies at a joint that has an angle or a displacement, driven or not."""
    return {
        b
        for c in system.connections
        if c.angle is not None or c.element.has_displacement
        for b in (c.i, c.j)
    }


def _multipliers(system: System | None, rows: int) -> Group:
    names = [f"row{k}" for k in range(rows)] if system is None else system.row_names
    columns = [Column(f"lam[{name}]", "N or N·m", False) for name in names]
    columns.append(Column("iterations", "-", usual=False, smooth=False))
    return Group("run", columns, lambda sol: _beside([sol.lam, sol.iterations]))


def _part(x: Array, at: int | slice) -> Array:
    """`x[:, at]`; of a known array by NumPy, which compiles nothing."""
    return host.asarray(x)[:, at] if is_concrete(x) else x[:, at]


def _beside(parts: Sequence[Array]) -> Array:
    """Quantities of T instants side by side, (T, n), of the type of the first; of NumPy, which
    compiles nothing, unless one is traced.
    """
    xp = host if is_concrete(parts) else jnp
    arrays = [xp.asarray(x) for x in parts]
    flat = [x.reshape(len(x), math.prod(x.shape[1:])).astype(arrays[0].dtype) for x in arrays]
    return xp.concatenate(flat, axis=1)
