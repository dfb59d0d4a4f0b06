"""Triangles of shapes: closed, facing outwards, with the volume and inertia of the solids."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.model import shapes
from jaxmbd.results.export import drawing, solids
from jaxmbd.viz import meshes
from jaxmbd.viz.marks import Teeth

SHAPES = [
    shapes.Box((0.3, 0.2, 0.5), density=1.0),
    shapes.HollowCylinder(0.1, 0.2, 0.5, density=1.0, axis="x"),
    shapes.HollowCylinder(0.0, 0.2, 0.5, density=1.0, axis="y"),
    shapes.Sphere(0.4, density=1.0),
    shapes.Capsule(0.1, 0.4, density=1.0, axis="y"),
    shapes.Cone(0.2, 0.5, density=1.0, axis="x"),
    shapes.Tetrahedron([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]], density=1.0),
    shapes.Composite(
        [shapes.Box((0.1, 0.2, 0.3), density=1.0), shapes.Sphere(0.1, density=1.0)],
        [(0, 0, 0), (0.4, 0.1, 0)],
        [np.eye(3), np.eye(3)[[1, 2, 0]]],
    ),
]
# Chords instead of arcs: of a circle with n corners the area is sin(2π/n) / (2π/n), 0.8 % less for
# n = 28; of a ball about twice as much, and moments go with the fourth and fifth power.
CHORDS = 0.04


def moments(mesh):
    """Volume, first and second moments of a closed surface, by tetrahedra from the origin."""
    a, b, c = np.moveaxis(mesh.points[mesh.triangles], 1, 0)
    volumes = np.einsum("ni,ni->n", a, np.cross(b, c)) / 6.0
    total = a + b + c
    second = sum(np.einsum("n,ni,nj->ij", volumes, x, x) for x in (a, b, c, total)) / 20.0
    return volumes.sum(), (volumes[:, None] * total).sum(0) / 4.0, second


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: type(s).__name__)
def test_a_surface_encloses_the_mass_and_the_inertia_of_its_shape(shape):
    parts = [meshes.solid(part) for part in solids(shape)]
    volume, first, second = moments(meshes.joined(parts))
    assert volume == pytest.approx(float(shape.mass), rel=CHORDS)
    assert np.max(np.abs(first)) < 1e-12 + CHORDS * volume * 0.1
    inertia = np.trace(second) * np.eye(3) - second
    scale = np.max(np.abs(shape.inertia))
    np.testing.assert_allclose(inertia, shape.inertia, atol=CHORDS * scale)


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=lambda s: type(s).__name__)
def test_a_surface_is_closed_and_its_normals_point_outwards(shape):
    (part,) = solids(shape)
    mesh = meshes.solid(part)
    places = {tuple(p): k for k, p in enumerate(np.round(mesh.points, 9) + 0.0)}
    own = np.array([places[tuple(p)] for p in np.round(mesh.points, 9) + 0.0])
    corners = own[mesh.triangles]
    edges = np.concatenate([corners[:, [k, (k + 1) % 3]] for k in range(3)])
    there = sorted(map(tuple, edges))
    assert there == sorted((b, a) for a, b in edges)
    assert len(set(there)) == len(there)
    a, b, c = np.moveaxis(mesh.points[mesh.triangles], 1, 0)
    face = np.cross(b - a, c - a)
    for k in range(3):
        assert np.all(np.sum(face * mesh.normals[mesh.triangles[:, k]], axis=1) > 0.0)
    np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1.0, atol=1e-12)


def test_every_shape_has_a_surface():
    ours = {k: cls for k, cls in shapes.shape_kinds().items() if "jaxmbd" in cls.__module__}
    bare = {k for k, cls in ours.items() if cls.surface is shapes.AbstractShape.surface}
    assert {"Box", "Mesh"} <= set(ours) and bare == {"Composite"}


def test_a_drawing_that_makes_no_sense_is_refused_with_the_shape():
    part = {"kind": "Box", "fields": {"size": [1.0, 2.0]}, "r": [0.0] * 3, "A": np.eye(3).tolist()}
    with pytest.raises(ValueError, match="the drawing's Box makes no sense"):
        meshes.solid(part)
    part["fields"] = {"radius": 1.0}
    with pytest.raises(ValueError, match="the drawing's Box makes no sense"):
        meshes.solid(part)


def inside(wheel, points):
    """Which points lie within the teeth of a wheel, by the angles of its outline."""
    place, ring = wheel
    mesh = place.meshes[0]
    local = points[:, :2]
    top = mesh.points[np.isclose(mesh.points[:, 2], mesh.points[:, 2].max())][:, :2]
    radius = np.linalg.norm(top, axis=1)
    split = 0.5 * (radius.min() + radius.max())
    line = top[radius < split] if ring else top[radius > split]
    angle = np.arctan2(*line.T[::-1])
    order = np.argsort(angle)
    edge = np.interp(
        np.arctan2(*local.T[::-1]),
        angle[order],
        np.linalg.norm(line[order], axis=1),
        period=2.0 * np.pi,
    )
    size = np.linalg.norm(local, axis=1)
    return size > edge if ring else size < edge


@pytest.mark.parametrize("internal", [False, True])
def test_teeth_of_gears_stay_in_mesh_while_they_turn(internal):
    m = mbd.Mechanism("pair")
    gear = {"mass": 1.0, "inertia": (1, 1, 1)}
    m.add_body("pinion", r=(0.1, 0.2, 0), **gear)
    m.add_body("wheel", r=(0.1 + (0.3 if not internal else -0.1), 0.2, 0), **gear)
    for name in ("pinion", "wheel"):
        point = m.bodies[name].r
        m.add(mbd.Revolute(f"{name} pin", m.ground, name, point=point, axis=(0, 0, 1)))
    ratio = 0.5 if internal else -0.5
    m.add(mbd.Gear("mesh", "pinion", "wheel", axis_i=(0, 0, 1), ratio=ratio))
    system, state = m.build()
    connection = next(c for c in drawing(system)["connections"] if c["kind"] == "Gear")
    poses = [(np.asarray(state.r[b]), np.asarray(state.A[b])) for b in (0, 1)]
    (_, first), (_, second) = Teeth(0.01).add(connection, poses)

    def turned(angle):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])

    for turn in np.linspace(0.0, 1.0, 9):
        frames = [
            (r + turned(a) @ place.r, turned(a) @ place.A)
            for (r, _), place, a in zip(poses, (first, second), (turn, ratio * turn), strict=True)
        ]
        for k, (place, other) in enumerate(((first, second), (second, first))):
            (r, A), (r_o, A_o) = frames[k], frames[1 - k]
            teeth = (r + place.meshes[0].points @ A.T - r_o) @ A_o
            ring = internal and other is second
            # Trapezoidal teeth are no involutes: corners may scratch. Half a tooth aside, 3 % of
            # all points would be inside.
            assert np.mean(inside((other, ring), teeth)) < 0.02
