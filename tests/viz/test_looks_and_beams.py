"""Views of bodies with several colored shapes, of triangle meshes, and of beams."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.viz.data import picture
from jaxmbd.viz.scene import scene

CORNERS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
FACES = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]


def nodes_of(m):
    sol = mbd.simulate(*m.build(), h=1e-3, steps=1)
    return {node.name: node for node in scene(picture(sol)).nodes}


def test_shapes_keep_their_colors_and_places():
    m = mbd.Mechanism("looks")
    red, green = mbd.Box((0.2, 0.1, 0.1), density=1.0), mbd.Mesh(CORNERS, FACES)
    visuals = [
        mbd.Visual(red, color=(1, 0, 0)),
        mbd.Visual(green, position=(0.5, 0, 0), color=(0, 1, 0, 0.5)),
    ]
    body = m.add_body("body", mass=1.0, inertia=(1, 1, 1), visuals=visuals)
    m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0.05), axis=(0, 1, 0)))
    box, mesh = nodes_of(m)["body"].parts[:2]
    assert (box.color, box.opacity, mesh.color, mesh.opacity) == ("ff0000", 1.0, "00ff00", 0.5)
    np.testing.assert_allclose(np.ptp(box.mesh.points, axis=0), [0.2, 0.1, 0.1])
    np.testing.assert_allclose(mesh.mesh.points.min(axis=0), [0.5, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(mesh.mesh.points.max(axis=0), [1.5, 1.0, 1.0])


def test_pieces_of_a_beam_fill_its_line():
    m = mbd.Mechanism("beam")
    section = mbd.Section.rectangle(0.02, 0.05, E=2e9, rho=1000.0)
    beam = m.add_beam("beam", [(0, 0, 0), (1, 0, 0)], elements=4, section=section)
    m.add(mbd.Fixed("root", m.ground, beam.first, point=(0, 0, 0)))
    nodes = nodes_of(m)
    ends = []
    for k in range(5):
        (part,) = nodes[f"beam.{k}"].parts
        place = nodes[f"beam.{k}"].motion[0][0]
        points = part.mesh.points + place  # the beam is straight along x at the start
        ends += [points[:, 0].min(), points[:, 0].max()]
        assert np.ptp(points[:, 1]) == pytest.approx(0.02) or np.ptp(points[:, 1]) == pytest.approx(
            0.05
        )
    np.testing.assert_allclose(ends, [0, 0.125, 0.125, 0.375, 0.375, 0.625, 0.625, 0.875, 0.875, 1])
