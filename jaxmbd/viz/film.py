"""What a view says about a motion beside its poses: quantities to plot, reactions, contacts.

A new quantity is a row of `_of_bodies`, `_of_joints` or `_of_mechanism`; force elements say theirs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..model.system import System
from ..results.solution import Solution
from .data import Picture
from .efforts import Effort, efforts

_XYZ = ("x", "y", "z")
_MOST_QUANTITIES = 4_000_000  # numbers altogether, about as many bytes of a page before packing


@dataclass(frozen=True)
class Quantity:
    """Something over time.

    Attributes:
        kind: "body", "joint", "spring" (any force element), "contact" or "mechanism".
        owner: Its name.
        name: Of the quantity.
        unit: Of its values.
        values: (T, k).
        components: k names.
    """

    kind: str
    owner: str
    name: str
    unit: str
    values: np.ndarray
    components: tuple[str, ...] = ("",)

    @property
    def title(self) -> str:
        """As callers name it: "rod.position"."""
        return f"{self.owner}.{self.name}"


@dataclass(frozen=True)
class Contact:
    """The n places of a contact: points and forces on body i (T, n, 3), states (T, n); the plane
    of body j where that is the ground.
    """

    name: str
    point: np.ndarray
    force: np.ndarray
    state: np.ndarray
    plane: tuple[np.ndarray, np.ndarray] | None


@dataclass(frozen=True)
class Film:
    """A motion to be shown.

    Attributes:
        data: Poses and the drawing.
        quantities: What may be plotted.
        reactions: Forces and moments of the joints on their bodies j by name, (T, 3) each.
        contacts: Where bodies touch.
        efforts: What acts along joint coordinates.
        about: A line about it.
    """

    data: Picture
    quantities: list[Quantity] = field(default_factory=list)
    reactions: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    contacts: list[Contact] = field(default_factory=list)
    efforts: list[Effort] = field(default_factory=list)
    about: str = ""


def film(data: Picture, solution: Solution | None, system: System | None, *, forces: bool) -> Film:
    """Everything about a motion; forces only for a solution whose system is known, with as many
    rows as `data`.
    """
    reactions, contacts, along = {}, [], []
    if forces and solution is not None and system is not None:
        if system.nc:
            reactions = {
                name: (np.asarray(x.force), np.asarray(x.moment))
                for name, x in solution.reactions(system).items()
            }
        contacts = list(_contacts(solution, system))
        along = list(efforts(data, solution, system))
    quantities = [*_of_joints(data, reactions), *_of_bodies(data)]
    if solution is not None and system is not None:
        quantities += _of_elements(solution, system)
        quantities += _of_mechanism(solution, system)
    named = {q.title for q in quantities}  # contacts with stiffness have said theirs
    quantities += [
        Quantity("contact", c.name, "force", "N", np.sum(c.force, axis=1), _XYZ)
        for c in contacts
        if f"{c.name}.force" not in named
    ]
    return Film(data, _within(quantities), reactions, contacts, along, _about(data))


def _of_bodies(data: Picture) -> Iterator[Quantity]:
    arrays = data.arrays
    kinds = (
        ("position", "m", arrays["r"]),
        ("velocity", "m/s", arrays["v"]),
        ("acceleration", "m/s²", arrays["a"]),
        ("angular velocity, body frame", "rad/s", arrays["omega"]),
    )
    for b, body in enumerate(data.bodies):
        for name, unit, values in kinds:
            yield Quantity("body", body, name, unit, values[:, b], _XYZ)


def _of_joints(data: Picture, reactions: dict) -> Iterator[Quantity]:
    angles = data.arrays["angles"]
    for c in data.drawing["connections"]:
        column = c.get("angle")
        if column is not None and column < angles.shape[1]:
            yield Quantity("joint", c["name"], "angle", "rad", angles[:, column : column + 1])
        if c.get("slides"):
            yield Quantity("joint", c["name"], "displacement", "m", _displacement(data, c))
        if c["name"] in reactions:
            force, moment = reactions[c["name"]]
            yield Quantity("joint", c["name"], "reaction force", "N", force, _XYZ)
            yield Quantity("joint", c["name"], "reaction moment", "N·m", moment, _XYZ)


def _displacement(data: Picture, c: dict) -> np.ndarray:
    """Along the axis of body i, from its point to that of body j, (T, 1) [m]."""
    count = len(data.arrays["t"])
    r = np.concatenate([data.arrays["r"], np.zeros((count, 1, 3))], axis=1)
    ground = np.broadcast_to(np.eye(3), (count, 1, 3, 3))
    A = np.concatenate([data.arrays["A"], ground], axis=1)
    i, j = c["i"], c["j"]
    apart = r[:, j] + A[:, j] @ np.array(c["s_j_bar"]) - r[:, i] - A[:, i] @ np.array(c["s_i_bar"])
    return np.sum(apart * (A[:, i] @ np.array(c["axis_i_bar"])), axis=1, keepdims=True)


def _of_elements(solution: Solution, system: System) -> Iterator[Quantity]:
    for name, element in solution.elements(system).items():
        for x in element.outputs:
            values = np.asarray(x.value)
            width = values.shape[-1] if values.ndim > 1 else 1
            parts = x.components or tuple(map(str, range(width))) if width > 1 else ("",)
            if values.ndim < 3:
                yield Quantity("spring", name, x.name, x.unit, values.reshape(-1, width), parts)
                continue
            for k in range(values.shape[1]):
                yield Quantity("spring", name, f"{x.name} {k}", x.unit, values[:, k], parts)


def _of_mechanism(solution: Solution, system: System) -> Iterator[Quantity]:
    energy = solution.energy(system)
    parts = (energy.kinetic, energy.potential, energy.total)
    values = np.stack([np.asarray(x) for x in parts], axis=1)
    names = ("kinetic", "potential", "total")
    yield Quantity("mechanism", system.name, "energy", "J", values, names)


def _contacts(solution: Solution, system: System) -> Iterator[Contact]:
    bodies = {
        name: pair
        for stack in (*system.forces, *system.laws)
        for name, pair in zip(stack.names, stack.bodies, strict=True)
    }
    rigid = {name for stack in system.laws for name in stack.names}
    for name, places in solution.contact_places(system).items():
        point, normal = np.asarray(places.points), np.asarray(places.normals)
        force, state = np.asarray(places.forces), np.asarray(places.state)
        did = (solution.contact if name in rigid else solution.element)(name, system)
        gap = np.asarray(did.gap)
        plane = None
        flat = np.max(np.ptp(normal.reshape(-1, 3), axis=0)) < 1e-9
        if bodies[name][1] == system.nb and flat:
            plane = point[0, 0] - gap[0, 0] * normal[0, 0], normal[0, 0]
        yield Contact(name, point, force, state, plane)


def _within(quantities: Sequence[Quantity]) -> list[Quantity]:
    """As many as a page can hold, the first ones first."""
    kept, total = [], 0
    for quantity in quantities:
        total += quantity.values.size
        if total <= _MOST_QUANTITIES:
            kept.append(quantity)
    return kept


def _about(data: Picture) -> str:
    bodies, joints = len(data.bodies), len(data.drawing["connections"])
    t = data.arrays["t"]
    about = f"{_counted(bodies, 'body', 'bodies')}, {_counted(joints, 'joint', 'joints')}"
    if len(t) > 1:
        about += f", {t[-1] - t[0]:.4g} s"
    return about if data.result in ("successful", "unknown") else f"{about}; {data.result}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def known_names(film: Film) -> list[str]:
    """The titles of all quantities."""
    return [q.title for q in film.quantities]


_IN_TABLES = {
    "r": "position",
    "v": "velocity",
    "a": "acceleration",
    "omega": "angular velocity, body frame",
}


def _as_tables_have_it(name: str, film: Film) -> str:
    """A title by the name of a table's column: "pin.reaction_force.x" is a part of "pin.reaction
    force", "rod.r.z" of "rod.position", "energy.total" of "four_bar.energy".
    """
    owner, _, rest = name.partition(".")
    if owner == "energy":
        return f"{film.data.drawing['name']}.energy"
    whole = rest.partition(".")[0].partition("[")[0]
    return f"{owner}.{_IN_TABLES.get(whole, whole.replace('_', ' '))}"


def chosen(film: Film, names: Sequence[str]) -> list[int]:
    """The places of some quantities.

    Raises:
        ValueError: There is no such quantity; the message lists some that there are.
    """
    known: dict[str, Any] = {title: k for k, title in enumerate(known_names(film))}
    names = [name if name in known else _as_tables_have_it(name, film) for name in names]
    for name in names:
        if name not in known:
            owner = name.partition(".")[0]
            close = [x for x in known if x.startswith(f"{owner}.")] or list(known)
            listed = ", ".join(close[:8]) or "none"
            raise ValueError(f"view: there is no quantity {name!r} to plot; there are {listed}")
    return [known[name] for name in names]
