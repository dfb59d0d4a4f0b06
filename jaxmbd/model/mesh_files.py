"""Triangles of mesh files, and a gate for the files that these name in turn."""

from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from ..files import inside
from .validation import Numbers

_KINDS = (".stl", ".obj", ".dae", ".ply", ".off", ".gltf", ".glb")
_LARGEST = 2**30  # bytes of a file


def read_mesh(path: str | Path, scale: Numbers = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) and faces (m, 3) of a mesh file, all of its parts together.

    Raises:
        ValueError: The file cannot be read, or names one outside of its folder.
    """
    path = Path(path)
    try:
        import trimesh
    except ImportError:
        raise ValueError(
            f"reading the mesh {path.name!r} needs trimesh: pip install 'jaxmbd[mjcf]'"
        ) from None
    if not path.is_file():
        raise ValueError(f"there is no mesh file {str(path)!r}")
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise ValueError(f"{path.name}: mesh files end in {', '.join(_KINDS)}")
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"{path.name}: larger than {_LARGEST // 2**20} MiB, the most that is read")
    try:
        if kind == ".dae":
            _refuse_entities(path.read_bytes())
        with open(path, "rb") as file:
            mesh: Any = trimesh.load(
                file,
                file_type=kind[1:],
                resolver=_beside(trimesh, path),
                force="mesh",
                skip_materials=True,
            )
    except Exception as error:  # trimesh raises what its parsers raise
        raise ValueError(f"{path.name}: not a mesh that trimesh reads: {error}") from None
    vertices, faces = np.asarray(mesh.vertices, float), np.asarray(mesh.faces, int)
    if not len(faces):
        raise ValueError(f"{path.name}: the mesh has no triangles")
    return vertices * np.asarray(scale, float), faces


def _beside(trimesh: Any, path: Path) -> Any:
    """What trimesh asks for the files that a mesh file names, such as the numbers of a .gltf."""

    class Beside(trimesh.resolvers.Resolver):
        def __init__(self, folder: Path):
            self.folder = folder

        def get(self, name: str) -> bytes:
            found = inside(self.folder, name)
            if found.stat().st_size > _LARGEST:
                raise ValueError(f"{name!r} is larger than {_LARGEST // 2**20} MiB")
            return found.read_bytes()

        def keys(self) -> list[str]:
            return []

        def namespaced(self, namespace: str) -> Any:
            raise ValueError("a mesh file holds no others")

        def write(self, name: str, data: Any) -> None:
            raise ValueError("a mesh is only read")

    return Beside(path.resolve().parent)


def _refuse_entities(content: bytes) -> None:
    """A document type can hold entities, which other parsers expand without a bound."""
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        raise ValueError("it declares a document type")

    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)
