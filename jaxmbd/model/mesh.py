"""Triangle meshes as shapes."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from ..rotations.types import Array, Mat3, Scalar, Vec3, host
from . import given
from .mesh_files import read_mesh
from .shapes import AbstractShape
from .surfaces import Surface, flat
from .validation import Numbers, array, concrete, default_dtype, number

_SHARP = np.cos(np.radians(25.0))  # edges between faces that meet more sharply are drawn
_MOST_LINES = 4000


class Triangles:
    """Indices of vertices, (m, 3), which no program computes with; equal where they are the same
    numbers.
    """

    def __init__(self, faces: np.ndarray):
        self.faces = faces
        self._hash = hash(faces.tobytes())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Triangles) and np.array_equal(self.faces, other.faces)

    def __repr__(self) -> str:
        return f"{len(self.faces)} triangles"


class Mesh(AbstractShape):
    """A solid, or a surface for display, bounded by triangles.

    With a mass or a density it must enclose a volume: mass, mass center and inertia are those of
    the homogeneous solid, and the body frame is at its mass center. With neither it has no mass,
    and its frame is the one in which the vertices are given.

    Attributes:
        vertices: From the mass center, or as given, (n, 3) [m].
        triangles: Of the vertices, see `faces`.
        mass: [kg].
        center: The mass center in the frame in which the vertices were given, (3,) [m].
        unit_inertia: Inertia of one kilogram, (3, 3) [m²].
    """

    looks_alone: ClassVar[bool] = True

    mass: Scalar
    center: Vec3
    unit_inertia: Mat3
    vertices: Float[Array, "n 3"] = given.points("m", least=3)
    triangles: Triangles = given.triangles()

    def __init__(self, vertices, faces, *, mass=None, density=None):
        if mass is not None and density is not None:
            raise ValueError("Mesh: give either mass or density, or neither for looks alone")
        points, triangles = _checked(vertices, faces)
        zero = host.zeros((), default_dtype())
        self.triangles = Triangles(triangles)
        if mass is None and density is None:
            self.vertices, self.mass = points, zero
            self.center, self.unit_inertia = (
                host.zeros(3, zero.dtype),
                host.zeros((3, 3), zero.dtype),
            )
            return
        volume, center, second = _moments(points, triangles)
        self.mass = (
            number(mass, "Mesh: mass")
            if mass is not None
            else number(density, "Mesh: density") * volume
        )
        self.center, self.vertices = center, points - center
        self.unit_inertia = np.trace(second) * np.eye(3, dtype=zero.dtype) - second

    @staticmethod
    def from_file(
        path: str | Path,
        *,
        scale: Numbers = 1.0,
        mass: Numbers | None = None,
        density: Numbers | None = None,
    ) -> "Mesh":
        """A mesh from an STL, OBJ, DAE, PLY, OFF or glTF file; needs `trimesh`.

        Args:
            path: The file.
            scale: A factor, or three.
            mass: As in `Mesh` [kg].
            density: As in `Mesh` [kg/m³].

        Raises:
            ValueError: The file cannot be read, or encloses no volume where it must give mass.
        """
        vertices, faces = read_mesh(path, scale)
        try:
            return Mesh(vertices, faces, mass=mass, density=density)
        except ValueError as error:
            raise ValueError(f"{Path(path).name}: {error}") from None

    @property
    def faces(self) -> Int[np.ndarray, "m 3"]:
        """Indices of the vertices of all triangles, counterclockwise from outside, (m, 3)."""
        return self.triangles.faces

    @property
    def inertia(self) -> Mat3:
        return self.mass * self.unit_inertia

    @classmethod
    def declared(cls) -> dict[str, tuple[given.Spec, dataclasses.Field]]:
        found = super().declared()
        return {"vertices": found["vertices"], "faces": found["triangles"]}

    def surface(self, faces: int) -> Surface:
        return flat(self.vertices, self.faces)

    def outline(self) -> list[np.ndarray]:
        points = np.asarray(self.vertices)
        return [points[list(edge)] for edge in _sharp_edges(points, np.asarray(self.faces))]


def _checked(vertices: Any, faces: Numbers) -> tuple[Any, np.ndarray]:
    count = len(vertices)
    points = concrete(array(vertices, (count, 3), "Mesh: vertices"))
    if points is None:
        raise ValueError("Mesh: vertices must be numbers, not traced by JAX")
    triangles = np.asarray(faces)
    if triangles.ndim != 2 or triangles.shape[1] != 3 or not len(triangles):
        raise ValueError(f"Mesh: faces must be triangles, (m, 3), not {triangles.shape}")
    if not np.all(triangles == np.round(triangles)):
        raise ValueError("Mesh: faces must be whole numbers, indices of vertices")
    triangles = triangles.astype(np.int32)
    if triangles.min() < 0 or triangles.max() >= count:
        raise ValueError(f"Mesh: faces name vertices beyond the {count} that there are")
    return points, triangles


def _moments(points: np.ndarray, faces: np.ndarray) -> tuple[Any, Any, Any]:
    """Volume, mass center, and the second moments of one kilogram about that, ∫ x xᵀ dm, by
    tetrahedra from a point amid the vertices.
    """
    faces = _merged(points, faces)
    edges = _edges(faces)
    middle = points.mean(axis=0)
    corners = (points - middle)[faces]
    volumes = np.linalg.det(corners) / 6.0
    volume = volumes.sum()
    size = np.ptp(points, axis=0).max()
    _, counts = np.unique(edges, axis=0, return_counts=True)
    if np.any(counts % 2):
        raise ValueError(
            "Mesh: it is not closed (an edge has one face), so that it encloses no volume; give "
            "mass and inertia of the body, or a closed mesh"
        )
    if not volume > 1e-12 * size**3:
        inside = "its faces are turned inside out" if volume < 0.0 else "it encloses no volume"
        raise ValueError(f"Mesh: {inside}; give mass and inertia of the body, or another mesh")
    center = np.einsum("f,fc->c", volumes, corners.sum(axis=1)) / (4.0 * volume)
    corners = corners - center
    sums = corners.sum(axis=1)
    second = np.einsum("f,fkc,fkd->cd", volumes, corners, corners)
    second = (second + np.einsum("f,fc,fd->cd", volumes, sums, sums)) / (20.0 * volume)
    return np.asarray(volume), middle + center, second


def _merged(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Faces by the first of the vertices in one place: a file may repeat them in every face."""
    size = max(float(np.ptp(points, axis=0).max()), 1e-300)
    _, first, same = np.unique(
        np.round(points / size, 9), axis=0, return_index=True, return_inverse=True
    )
    return first[same.reshape(-1)][faces]


def _edges(faces: np.ndarray) -> np.ndarray:
    """The edges of all faces, one face after the other, lower vertex first, (3 m, 2)."""
    return np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)


def _sharp_edges(points: np.ndarray, faces: np.ndarray) -> list[tuple[int, int]]:
    """Edges of one face, and those at which two faces meet at an angle; the longest where there
    are many.
    """
    faces = _merged(points, faces)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    edges = _edges(faces)
    owner = np.repeat(np.arange(len(faces)), 3)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    edges, owner = edges[order], owner[order]
    new = np.ones(len(edges), bool)
    new[1:] = np.any(edges[1:] != edges[:-1], axis=1)
    start = np.flatnonzero(new)
    count = np.diff(np.append(start, len(edges)))
    second = owner[np.minimum(start + 1, len(owner) - 1)]
    smooth = (count == 2) & (np.sum(normals[owner[start]] * normals[second], axis=1) > _SHARP)
    kept = edges[start[~smooth]]
    lengths = np.linalg.norm(points[kept[:, 0]] - points[kept[:, 1]], axis=1)
    kept = kept[np.argsort(-lengths, kind="stable")[:_MOST_LINES]]
    return [(int(a), int(b)) for a, b in kept]
