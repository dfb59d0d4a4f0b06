"""Shapes of bodies as geoms that touch nothing and weigh nothing."""

import xml.etree.ElementTree as ET

import numpy as np

from ..model import shapes
from ..model.body import Body
from ..model.mesh import Mesh
from ..rotations import euler_parameters
from ..rotations.types import host
from .mjcf_writer_parts import texts

_TURNS = {  # from a shape along z to one along another axis
    "x": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "y": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "z": np.eye(3),
}


_FACES = 32  # of a round part that is written as a mesh


def write_looks(element: ET.Element, assets: ET.Element, body: Body) -> bool:
    """Write what a body shows; whether MJCF holds all of it."""
    complete = True
    if body.visuals:
        parts = [(v.shape, v.position, v.A, v.color) for v in body.visuals]
    elif isinstance(body.shape, shapes.Composite):
        c = body.shape
        parts = [(*x, None) for x in zip(c.parts, c.offsets, c.rotations, strict=True)]
    else:
        parts = [] if body.shape is None else [(body.shape, np.zeros(3), np.eye(3), None)]
    for k, (shape, position, A, color) in enumerate(parts):
        found = _geom(shape, assets, f"{body.name} {k}")
        if found is None:
            complete = False
            continue
        attributes, turn = found
        geom = ET.SubElement(element, "geom", attributes)
        geom.attrib |= {"mass": "0", "contype": "0", "conaffinity": "0", "group": "1"}
        geom.set("pos", texts(position))
        geom.set("quat", texts(euler_parameters.from_matrix(host.asarray(A, float) @ turn)))
        if color is not None:
            geom.set("rgba", texts(color))
    return complete


def _geom(
    shape: shapes.AbstractShape, assets: ET.Element, name: str
) -> tuple[dict[str, str], np.ndarray] | None:
    """Type and size of a shape, and its turn from MuJoCo's axes."""
    eye = np.eye(3)
    if isinstance(shape, shapes.Box):
        return {"type": "box", "size": texts(0.5 * np.asarray(shape.size))}, eye
    if isinstance(shape, shapes.Sphere):
        return {"type": "sphere", "size": texts(shape.radius)}, eye
    if isinstance(shape, shapes.Capsule):
        size = [float(shape.radius), 0.5 * float(shape.length)]
        return {"type": "capsule", "size": texts(size)}, _TURNS[shape.axis]
    if isinstance(shape, shapes.HollowCylinder) and float(shape.inner_radius) == 0.0:
        size = [float(shape.radius), 0.5 * float(shape.length)]
        return {"type": "cylinder", "size": texts(size)}, _TURNS[shape.axis]
    if isinstance(shape, Mesh):
        points, triangles = shape.vertices, shape.faces
    elif (surface := shape.surface(_FACES)) is not None:  # no type of MJCF's own
        points, triangles = surface.points, surface.triangles
    else:
        return None
    mesh = ET.SubElement(assets, "mesh", name=name, inertia="shell")
    mesh.set("vertex", texts(points))
    mesh.set("face", " ".join(str(int(k)) for k in np.asarray(triangles).reshape(-1)))
    return {"type": "mesh", "mesh": name}, eye
