"""Frames on bodies, triangle meshes, several visual shapes: their numbers, and their files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, mechanism_from_dict, mechanism_to_dict
from jaxmbd.rotations import so3


def box_mesh(size, at=(0.0, 0.0, 0.0)):
    """Corners and triangles of a box."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    faces = [
        (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
        (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
    ]  # fmt: skip
    return 0.5 * signs * np.asarray(size) + np.asarray(at), faces


def test_a_mesh_has_the_mass_properties_of_the_solid_it_bounds():
    size, at = (0.3, 0.5, 0.2), (1.0, -2.0, 3.0)
    mesh, box = mbd.Mesh(*box_mesh(size, at), density=700.0), mbd.Box(size, density=700.0)
    assert float(mesh.mass) == pytest.approx(float(box.mass), rel=1e-13)
    np.testing.assert_allclose(mesh.center, at, rtol=1e-13)
    np.testing.assert_allclose(mesh.inertia, box.inertia, atol=1e-12)
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    corners = corners - corners.mean(axis=0)
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    tetrahedron = mbd.Tetrahedron(corners, mass=2.0)
    np.testing.assert_allclose(
        mbd.Mesh(corners, faces, mass=2.0).inertia, tetrahedron.inertia, atol=1e-14
    )
    slope = jax.grad(lambda d: mbd.Mesh(*box_mesh(size), density=d).inertia[0, 0])(700.0)
    assert float(slope) == pytest.approx(float(box.inertia[0, 0]) / 700.0, rel=1e-12)


def test_a_mesh_shows_its_sharp_edges():
    lines = mbd.Mesh(*box_mesh((1.0, 2.0, 3.0))).outline()
    lengths = sorted(float(np.linalg.norm(b - a)) for a, b in lines)
    assert lengths == pytest.approx([1.0] * 4 + [2.0] * 4 + [3.0] * 4)


def test_meshes_that_enclose_nothing_are_refused():
    points, faces = box_mesh((1, 1, 1))
    with pytest.raises(ValueError, match="not closed"):
        mbd.Mesh(points, faces[:-1], mass=1.0)
    with pytest.raises(ValueError, match="turned inside out"):
        mbd.Mesh(points, [f[::-1] for f in faces], mass=1.0)
    with pytest.raises(ValueError, match="beyond the 8"):
        mbd.Mesh(points, [(0, 1, 8)])
    with pytest.raises(ValueError, match=r"triangles, \(m, 3\)"):
        mbd.Mesh(points, [(0, 1)])
    assert float(mbd.Mesh(points, faces[:-1]).mass) == 0.0  # to look at, it may be open


@pytest.mark.parametrize("suffix", ["stl", "obj", "ply"])
def test_mesh_files_are_read(tmp_path, suffix):
    trimesh = pytest.importorskip("trimesh")
    points, faces = box_mesh((0.3, 0.5, 0.2))
    path = tmp_path / f"box.{suffix}"
    trimesh.Trimesh(points, faces).export(path)
    mesh = mbd.Mesh.from_file(path, scale=2.0, density=100.0)
    box = mbd.Box((0.6, 1.0, 0.4), density=100.0)
    # These files hold single precision, or eight digits.
    np.testing.assert_allclose(mesh.inertia, box.inertia, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="there is no mesh file"):
        mbd.Mesh.from_file(tmp_path / "none.stl")
    path.write_text("nothing")
    with pytest.raises(ValueError, match=f"box.{suffix}: "):
        mbd.Mesh.from_file(path)


def arm():
    m = mbd.Mechanism("arm")
    rod = m.add_body(
        "rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.5, 0, 0), omega=(0.3, 0, 1),
        visuals=[
            mbd.Visual(mbd.Mesh(*box_mesh((0.3, 0.5, 0.2))), position=(0.1, 0, 0), color=(1, 0, 0)),
            mbd.Visual(mbd.Sphere(0.1, mass=0.0), A=so3.exp(jnp.array([0.1, 0.2, 0.3]))),
        ],
    )  # fmt: skip
    ball = m.add(mbd.Spherical("ball", m.ground, rod, point=(0, 0, 0)))
    m.add_body("box", shape=mbd.Mesh(*box_mesh((1, 1, 1)), density=3.0), r=(3, 0, 0))
    m.add_body("link", massless=True, r=(1, 0, 0))
    m.add(mbd.Revolute("hinge", rod, "link", point=(1, 0, 0), axis=(0, 1, 0)))
    slide = m.add(mbd.Translational("slide", "link", "box", point=(1, 0, 0), axis=(1, 0, 0)))
    A = so3.exp(jnp.array([0.4, -0.2, 0.9]))
    m.add(mbd.Frame("tip", rod, point=(1.0, 0.1, -0.2), A=A))
    m.add(mbd.Frame("wall", m.ground, point=(1, 2, 3)))
    m.add(mbd.Armature("rotor", ball, inertia=0.1))
    m.add(mbd.JointSpring("spring", "hinge", stiffness=2.0, reference=0.1))
    m.add(mbd.Servo("servo", slide, control="sin(t)", stiffness=3.0))
    m.add(mbd.FixedTendon("tendon", ["hinge", slide], coefficients=(1.0, -2.0), stiffness=1.0))
    return m


def test_all_of_it_goes_through_files_to_the_last_bit(tmp_path):
    m = arm()
    mbd.save(m, tmp_path / "arm.json")
    again = mbd.load_mechanism(tmp_path / "arm.json")
    assert json.dumps(mechanism_to_dict(again)) == json.dumps(mechanism_to_dict(m))
    assert again.bodies["link"].massless and not again.bodies["rod"].massless
    assert again.bodies["rod"].visuals[0].color == (1.0, 0.0, 0.0, 1.0)
    changed = m.with_values({"frames.tip.point": (0.0, 0.0, 1.0), "forces.rotor.inertia": 0.2})
    assert changed.frames["tip"].point == (0.0, 0.0, 1.0)
    assert changed.bodies["rod"].visuals == m.bodies["rod"].visuals
    assert [x.name for x in changed.forces["tendon"].joints] == ["hinge", "slide"]


def test_a_frame_moves_with_its_body():
    system, state = arm().build()
    h = 1e-4
    sol = mbd.simulate(system, state, h=h, steps=20)
    tip = sol.frame("tip")
    middle = np.s_[1:-1]
    np.testing.assert_allclose(tip.v[middle], (tip.r[2:] - tip.r[:-2]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(tip.a[middle], (tip.v[2:] - tip.v[:-2]) / (2 * h), atol=1e-4)
    turn = jnp.einsum("tji,tjk->tik", tip.A[:-2], tip.A[2:])
    spin = jax.vmap(so3.log)(turn) / (2 * h)
    np.testing.assert_allclose(tip.omega[middle], spin, atol=1e-5)
    np.testing.assert_allclose(
        tip.alpha[middle], (tip.omega[2:] - tip.omega[:-2]) / (2 * h), atol=1e-3
    )
    np.testing.assert_array_equal(sol.frame("wall").r, np.tile([1.0, 2.0, 3.0], (21, 1)))
    moved = jax.jit(lambda s: s.frame("tip").r)(sol)
    np.testing.assert_allclose(moved, tip.r, atol=1e-15)


def test_what_a_body_shows_is_what_is_drawn():
    system, _ = arm().build()
    looks = system.shapes[0]
    assert isinstance(looks, mbd.Looks) and looks.colors == ((1.0, 0.0, 0.0, 1.0), None)
    points = np.concatenate(looks.outline()[:12])
    np.testing.assert_allclose(np.ptp(points, axis=0), (0.3, 0.5, 0.2), atol=1e-15)
    assert points[:, 0].max() == pytest.approx(0.25)


def test_wrong_frames_and_looks_are_refused():
    m = arm()
    with pytest.raises(ValueError, match="frame 'tip': the name is taken"):
        m.add(mbd.Frame("tip", "rod"))
    with pytest.raises(ValueError, match="unknown body 'hand'"):
        m.add(mbd.Frame("new", "hand"))
    with pytest.raises(ValueError, match="frame 'new': A is not a rotation matrix"):
        m.add(mbd.Frame("new", "rod", A=2.0 * np.eye(3)))
    with pytest.raises(ValueError, match="color must be three or four numbers"):
        mbd.Visual(mbd.Sphere(1.0, mass=1.0), color=(300, 0, 0))
    with pytest.raises(TypeError, match="is not a shape"):
        mbd.Visual("sphere")
    with pytest.raises(ValueError, match="unknown joint 'x'"):
        m.add(mbd.FixedTendon("t", ["x"], coefficients=(1.0,)))
    file = mechanism_to_dict(m)
    file["bodies"][0]["visuals"][0]["shape"]["faces"] = [[0, 1, -1]]
    with pytest.raises(ModelFileError, match="body 'rod'.*greater than or equal to 0"):
        mechanism_from_dict(file)
