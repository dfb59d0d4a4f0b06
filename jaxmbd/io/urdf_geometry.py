"""Geometries of URDF files as shapes, and the places of their meshes."""

from collections.abc import Mapping
from pathlib import Path

from .. import model as mbd
from ..model.mesh_files import read_mesh
from ..model.shapes import AbstractShape
from . import xml_tree
from .model_files import ModelFileError
from .urdf_elements import number, vector
from .xml_tree import Element


class Geometry:
    """What turns `<geometry>` elements of one file into shapes.

    Args:
        folder: That of the file, None for a text.
        packages: Folders of packages by name.
    """

    def __init__(self, folder: xml_tree.Folder | None, packages: Mapping[str, str | Path]):
        self.folder, self.packages = folder, packages

    def shape(self, geometry: Element) -> AbstractShape:
        """The shape, without mass."""
        for element in geometry.children:
            try:
                if element.tag == "box":
                    return mbd.Box(vector(element, "size"), mass=0.0)
                if element.tag == "sphere":
                    return mbd.Sphere(number(element, "radius"), mass=0.0)
                if element.tag in ("cylinder", "capsule"):
                    cls = mbd.Cylinder if element.tag == "cylinder" else mbd.Capsule
                    radius, length = (number(element, x) for x in ("radius", "length"))
                    return cls(radius, length, mass=0.0)
                if element.tag == "mesh":
                    scale = vector(element, "scale", (1.0, 1.0, 1.0))
                    return mbd.Mesh(*read_mesh(self._file(element), scale))
            except ModelFileError:
                raise
            except ValueError as error:
                raise element.error(str(error)) from None
            raise element.error("there is no such geometry")
        raise geometry.error("a geometry is missing")

    def _file(self, element: Element) -> Path:
        """The mesh that an element names, relative to the file, to its package or to none."""
        name = element.get("filename") or ""
        if self.folder is None:
            raise element.error("a text has no folder; save it to a file that names meshes")
        scheme, _, rest = name.partition("://")
        if not rest:
            return self.folder.path(name, element)
        if scheme == "file":
            return self.folder.path(rest, element)
        if scheme not in ("package", "model"):
            raise element.error(f"a mesh cannot come from {scheme}://")
        package, _, inside = rest.partition("/")
        if package in self.packages:
            return xml_tree.Folder(Path(self.packages[package])).path(inside, element)
        # As a rule the package is the folder of the file, or one above it.
        for folder in (self.folder.root, *self.folder.root.parents):
            if folder.name == package:
                if folder != self.folder.root and not self.folder.anywhere:
                    break
                return xml_tree.Folder(folder).path(inside, element)
        if (self.folder.root / package).is_dir():
            return self.folder.path(rest, element)
        raise element.error(
            f"the package {package!r} is not below the model's folder; give its place, "
            f"packages={{{package!r}: folder}}"
        )
