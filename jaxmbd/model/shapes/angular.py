"""Shapes with edges: boxes and tetrahedra."""

import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Mat3, Scalar, Vec3, library_of
from .. import given, surfaces
from ..collision.narrow import Balls
from ..surfaces import Surface
from ..validation import Numbers, array, concrete, positive, vector
from .base import AbstractShape, mass_of


class Box(AbstractShape):
    """A rectangular block with edges (a, b, c) [m] along the body axes."""

    size: Vec3 = given.vector("m")
    mass: Scalar

    def __init__(
        self, size: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.size = vector(size, 3, "Box: size")
        for k in range(3):
            positive(self.size[k], "Box: size")
        self.mass = mass_of("Box", mass, density, library_of(self.size).prod(self.size))

    @property
    def inertia(self) -> Mat3:
        xp = library_of(self.size, self.mass)
        s2 = self.size**2
        return xp.diag(self.mass / 12.0 * (xp.sum(s2) - s2))

    def outline(self) -> list[np.ndarray]:
        a, b, c = np.asarray(self.size) / 2.0
        ring = np.array([[a, b, c], [-a, b, c], [-a, -b, c], [a, -b, c], [a, b, c]])
        low = ring * np.array([1, 1, -1])
        return [ring, low] + [np.stack([ring[k], low[k]]) for k in range(4)]

    def surface(self, faces: int) -> Surface:
        return surfaces.box(self.size)

    def balls(self) -> Balls:
        corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        return Balls.of([0.5 * self.size * corner for corner in corners], 0.0)


def _check_corners(corners: np.ndarray) -> None:
    size = np.max(np.abs(corners))
    if np.max(np.abs(np.mean(corners, axis=0))) > 1e-6 * size:  # a file may hold rounded ones
        raise ValueError("Tetrahedron: give corners from the mass center; subtract their mean")
    if abs(np.linalg.det(corners[1:] - corners[:1])) <= 1e-6 * size**3:
        raise ValueError("Tetrahedron: the four corners lie in a plane")


class Tetrahedron(AbstractShape):
    """A solid tetrahedron by its corners from the mass center, which is their mean, (4, 3) [m]."""

    corners: Float[Array, "4 3"] = given.points("m", least=4, most=4)
    mass: Scalar

    def __init__(
        self, corners: Numbers, *, mass: Numbers | None = None, density: Numbers | None = None
    ):
        self.corners = array(corners, (4, 3), "Tetrahedron: corners")
        known = concrete(self.corners)
        if known is not None:
            _check_corners(known)
        edges = self.corners[1:] - self.corners[:1]
        self.mass = mass_of(
            "Tetrahedron", mass, density, abs(library_of(edges).linalg.det(edges)) / 6.0
        )

    @property
    def inertia(self) -> Mat3:
        second_moment = self.mass / 20.0 * self.corners.T @ self.corners
        return second_moment.trace() * np.eye(3, dtype=self.mass.dtype) - second_moment

    def outline(self) -> list[np.ndarray]:
        corners = np.asarray(self.corners)
        return [corners[[0, 1, 2, 3, 0, 2]], corners[[1, 3]]]

    def surface(self, faces: int) -> Surface:
        corners = np.asarray(self.corners, float)
        around = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        inside_out = np.linalg.det(corners[1:] - corners[:1]) < 0.0
        return surfaces.flat(corners, around[:, ::-1] if inside_out else around)

    def balls(self) -> Balls:
        return Balls.of(list(self.corners), 0.0)
