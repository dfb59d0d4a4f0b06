"""What acts along joint coordinates, for arrows: springs, motors, tendons, stops, friction."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..model.coordinates import Angle, Displacement
from ..model.laws.base import CONTACT, DRY
from ..model.system import System
from ..results.solution import Solution
from .data import Picture


@dataclass(frozen=True)
class Effort:
    """A force or a torque on body j along a coordinate of a joint.

    Attributes:
        name: Of the element.
        kind: "force" or "moment".
        body: j, nb for the ground.
        point: Where it is drawn, in the frame of body j [m].
        vector: Global components, (T, 3) [N] or [N·m].
    """

    name: str
    kind: str
    body: int
    point: np.ndarray
    vector: np.ndarray


def efforts(data: Picture, solution: Solution, system: System) -> Iterator[Effort]:
    """Of all elements along joint coordinates; one for each coordinate of a tendon."""
    for name, coordinate, bodies, value in _along(solution, system):
        i, j = bodies[coordinate.of[0]], bodies[coordinate.of[1]]
        axis = np.asarray(coordinate.axis_i_bar)
        if i < system.nb:
            axis = data.arrays["A"][:, i] @ axis
        vector = value[:, None] * axis
        if isinstance(coordinate, Displacement):
            yield Effort(name, "force", j, np.asarray(coordinate.s_j_bar), vector)
        else:
            yield Effort(name, "moment", j, _pin(data, i, j), vector)


def _along(solution: Solution, system: System) -> Iterator[tuple[str, Any, tuple, np.ndarray]]:
    """By name of an element: a coordinate, the bodies of the element, the effort along it."""
    motions = solution.elements(system)
    for stack in system.forces:
        coordinates = _coordinates(stack.force)
        factors = getattr(
            stack.force, "coefficients", np.ones((len(stack.names), len(coordinates)))
        )
        for k, name in enumerate(stack.names if coordinates else ()):
            said = {x.name: np.asarray(x.value) for x in motions[name].outputs}
            value = said.get("torque", said.get("force"))
            if value is not None and value.ndim == 1:
                for c, coordinate in enumerate(coordinates):
                    own = jax.tree.map(lambda x, k=k: x[k], coordinate)
                    yield name, own, stack.bodies[k], float(factors[k][c]) * value
    for stack in system.laws if "law_forces" in solution.stats else ():
        if stack.kind == CONTACT:
            continue
        for k, name in enumerate(stack.names):
            did = (solution.friction if stack.kind == DRY else solution.limit)(name, system)
            signs = 1.0 if stack.kind == DRY else np.asarray(stack.law.signs)
            value = np.sum(signs * np.asarray(did.force), axis=1)
            for coordinate in _coordinates(stack.law):
                yield name, jax.tree.map(lambda x, k=k: x[k], coordinate), stack.bodies[k], value


def _coordinates(elements: Any) -> list[Any]:
    """The joint coordinates of stacked elements, with their leading axis."""
    leaves = jax.tree.leaves(elements, is_leaf=lambda x: isinstance(x, Angle | Displacement))
    return [x for x in leaves if isinstance(x, Angle | Displacement)]


def _pin(data: Picture, i: int, j: int) -> np.ndarray:
    """Where two bodies are joined, in the frame of body j; its mass center where they are not."""
    for c in data.drawing["connections"]:
        if {c["i"], c["j"]} == {i, j}:
            return np.asarray(c["s_j_bar" if c["j"] == j else "s_i_bar"], float)
    return np.zeros(3)
