"""Geoms of a compiled MuJoCo model as visual shapes."""

import numpy as np

from ..model import Box, Capsule, Cylinder, HollowCylinder, Mesh, Sphere, Visual
from .mjcf_scene import Compiled

_HIDDEN = 3  # groups of geoms from which MuJoCo's viewer shows none


def visuals_of(file: Compiled, body: int, center: np.ndarray, A: np.ndarray) -> list[Visual]:
    """What a body of the file shows, in a body frame at `center` with axes `A`; planes and height
    fields are left out.
    """
    model, data = file.model, file.data
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    geoms = range(first, first + count)
    seen = [g for g in geoms if model.geom_group[g] < _HIDDEN] or list(geoms)
    found = []
    for g in seen:
        shape = _shape(file, g)
        if shape is not None:
            turned = A.T @ data.geom_xmat[g].reshape(3, 3)
            moved = A.T @ (data.geom_xpos[g] - center)
            found.append(Visual(shape, position=moved, A=turned, color=_color(file, g)))
    return found


def _color(file: Compiled, g: int) -> tuple[float, ...]:
    model = file.model
    material = int(model.geom_matid[g])
    # A geom's own color counts unless it was left at the default.
    plain = np.allclose(model.geom_rgba[g], 0.5 * np.ones(4) + [0, 0, 0, 0.5])
    rgba = model.mat_rgba[material] if material >= 0 and plain else model.geom_rgba[g]
    return tuple(float(min(max(x, 0.0), 1.0)) for x in rgba)


def _shape(file: Compiled, g: int) -> Sphere | Capsule | HollowCylinder | Box | Mesh | None:
    mujoco, model = file.mujoco, file.model
    kind, size = int(model.geom_type[g]), model.geom_size[g]
    types = mujoco.mjtGeom
    if kind == types.mjGEOM_SPHERE:
        return Sphere(size[0], mass=0.0)
    if kind == types.mjGEOM_CAPSULE:
        return Capsule(size[0], 2.0 * size[1], mass=0.0)
    if kind == types.mjGEOM_CYLINDER:
        return Cylinder(size[0], 2.0 * size[1], mass=0.0)
    if kind == types.mjGEOM_BOX:
        return Box(2.0 * size, mass=0.0)
    if kind == types.mjGEOM_ELLIPSOID:
        return Mesh(*ball(size))
    if kind == types.mjGEOM_MESH:
        mesh = int(model.geom_dataid[g])
        v, n = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        f, k = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        return Mesh(model.mesh_vert[v : v + n].astype(float), model.mesh_face[f : f + k])
    return None


def ball(radii: np.ndarray, around: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of an ellipsoid."""
    rings = around // 2
    polar = np.linspace(0.0, np.pi, rings + 1)[1:-1]
    turn = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    across = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    rows = [np.column_stack([np.sin(p) * across, np.full(around, np.cos(p))]) for p in polar]
    points = np.concatenate([*rows, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])
    top, bottom = len(points) - 2, len(points) - 1
    faces = []
    for k in range(around):
        after = (k + 1) % around
        faces.append([top, k, after])
        last = (rings - 2) * around
        faces.append([bottom, last + after, last + k])
        for ring in range(rings - 2):
            a, b = ring * around, (ring + 1) * around
            faces += [[a + k, b + k, b + after], [a + k, b + after, a + after]]
    return points * np.asarray(radii, float), np.array(faces)
