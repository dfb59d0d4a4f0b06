"""What is added in one file, here in this one, is known to everything: model files and their
schema, drawings, contacts, integration. No source file of the package names any of it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import given
from jaxmbd.io import json_schema
from jaxmbd.viz.data import picture
from jaxmbd.viz.scene import scene

G, DEPTH = 9.81, 1e-3

# --- a shape ---


class Ellipsoid(mbd.AbstractShape):
    """A solid ellipsoid by its half axes [m]."""

    half: Any = given.vector("m")
    mass: Any

    def __init__(self, half, *, mass=None, density=None):
        self.half = np.asarray(half, float)
        volume = 4.0 / 3.0 * np.pi * np.prod(self.half)
        self.mass = np.asarray(density * volume if mass is None else mass, float)

    @property
    def inertia(self):
        squares = self.half**2
        return self.mass / 5.0 * np.diag(squares.sum() - squares)

    def outline(self):
        s = np.linspace(0.0, 2.0 * np.pi, 25)
        ring = np.stack([np.cos(s), np.sin(s), 0.0 * s], axis=1)
        half = np.asarray(self.half)
        return [np.roll(ring, k, axis=1) * half for k in range(3)]

    def surface(self, faces):
        ball = mbd.Sphere(1.0, mass=0.0).surface(faces)
        half = np.asarray(self.half)
        normals = ball.points / half
        normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        return mbd.Surface(ball.points * half, ball.triangles, normals)


class EllipsoidAndPlane(mbd.AbstractPair):
    """Its point that is deepest in the plane."""

    half: Any
    plane: mbd.Plane

    places = 1

    def witness(self, pose):
        n = pose.A[1] @ self.plane.n_bar
        p = pose.r[1] + pose.A[1] @ self.plane.s_bar
        n_bar = pose.A[0].T @ n
        reach = jnp.sqrt(jnp.sum((self.half * n_bar) ** 2))
        on_i = pose.r[0] - pose.A[0] @ (self.half**2 * n_bar) / reach
        gap = (on_i - p) @ n
        return gap[None], n[None], on_i[None], (on_i - gap * n)[None]


mbd.register_pair(Ellipsoid, mbd.Plane, lambda body, plane: EllipsoidAndPlane(body.half, plane))

# --- a law of contact, with a force and a friction of its own ---


class LinearSpring(mbd.AbstractNormalForce):
    """F = k δ + c δ dδ/dt."""

    stiffness: Any
    damping: Any

    def elastic(self, depth):
        return self.stiffness * jnp.maximum(depth, 0.0)

    def lost(self, depth, speed):
        return self.damping * speed * jnp.maximum(depth, 0.0)

    def energy(self, depth):
        return 0.5 * self.stiffness * jnp.maximum(depth, 0.0) ** 2


class Viscous(mbd.AbstractSlidingFriction):
    """A film of oil: friction is c w, whatever the load."""

    rate: Any

    def force(self, push, slip):
        return jnp.where(push > 0.0, -self.rate, 0.0) * slip

    def slides(self, push, drag):
        return drag > 0.0


@dataclass(frozen=True, eq=False)
class OiledContact(mbd.AbstractContact):
    """Contact with a linear spring, a linear damper and a film of oil."""

    spring: Any = given.number("N/m")
    damper: Any = given.number("N·s/m²", 0.0)
    oil: Any = given.number("N·s/m", 0.0)

    gives_way: ClassVar[bool] = True

    def normal_force(self):
        return LinearSpring(self._number("spring"), self._number("damper"))

    def sliding_friction(self):
        return Viscous(self._number("oil"))


# --- a coupling ---


@dataclass(frozen=True, eq=False)
class SquareCoupling(mbd.AbstractCoupling):
    """The coordinate of joint 2 is the square of that of joint 1, times a factor."""

    factor: Any = given.number("1/rad", 1.0)

    def rows(self, *bodies):
        first, second = self._coordinates(bodies)
        zero = np.zeros(())
        return [
            ("square", mbd.Coupled(first, second, np.stack([zero, zero, self._number("factor")])))
        ]


def described():
    m = mbd.Mechanism("everything")
    egg = m.add_body(
        "egg", shape=Ellipsoid((0.3, 0.2, 0.1), mass=2.0), r=(0, 0, 0.1 - DEPTH), v=(0.1, 0, 0)
    )
    m.add(OiledContact("floor", egg, m.ground, spring=2.0 * G / DEPTH, damper=1e5, oil=3.0))
    for k in (1, 2):
        m.add_body(f"wheel {k}", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(k, 5.0, 0))
        point = (k, 5.0, 0)
        m.add(mbd.Revolute(f"pin {k}", m.ground, f"wheel {k}", point=point, axis=(0, 0, 1)))
    m.add(SquareCoupling("square", "pin 1", "pin 2", factor=0.5))
    m.add(mbd.RotationDriver("motor", m.ground, "wheel 1", axis=(0, 0, 1), angle="0.5*t"))
    return m


@pytest.fixture(scope="module")
def moved():
    system, state = described().build()
    return mbd.simulate(system, state, h=2e-3, steps=200, integrator=mbd.GeneralizedAlpha())


def test_it_is_simulated(moved):
    # It rests on the depth at which the spring bears it, and the oil takes its speed.
    force = np.asarray(moved.element("floor").force)
    np.testing.assert_allclose(np.mean(force[100:]), 2.0 * G, rtol=1e-2)
    assert np.all(np.diff(moved.energy().total) < 1e-9)
    angle = moved["pin 2.angle"]
    np.testing.assert_allclose(angle, 0.5 * np.asarray(moved["pin 1.angle"]) ** 2, atol=1e-8)


def test_it_is_saved_and_loaded(tmp_path):
    m = described()
    mbd.save(m, tmp_path / "m.json")
    system, state = m.build()
    other, begun = mbd.load(tmp_path / "m.json")
    for a, b in zip(jax.tree.leaves((system, state)), jax.tree.leaves((other, begun)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_schema_has_it():
    schema = json_schema()["$defs"]
    assert {"EllipsoidFile", "OiledContactFile", "SquareCouplingFile"} <= set(schema)
    fields = schema["EllipsoidFile"]["properties"]
    assert set(fields) == {"type", "half", "mass", "density"}
    assert schema["OiledContactFile"]["required"] == ["name", "type", "body_i", "body_j", "spring"]


def test_it_is_drawn(moved, tmp_path):
    moved.to_npz(tmp_path / "m.npz")
    for source in (moved, tmp_path / "m.npz"):
        nodes = scene(picture(source)).nodes
        (egg,) = (node for node in nodes if node.name == "egg")
        points = np.concatenate([part.mesh.points for part in egg.parts])
        np.testing.assert_allclose(np.max(points, axis=0), [0.3, 0.2, 0.1], rtol=0.02)
        # As the packaged couplings are, by its lines alone, of which it has none.
        assert not [node for node in nodes if node.name == "square"]


def test_contact_places_know_it(moved):
    found = moved.contact_places()["floor"]
    np.testing.assert_allclose(found.points[0, 0], [0.0, 0.0, -DEPTH], atol=1e-12)
    np.testing.assert_allclose(found.forces[0, 0], [-0.3, 0.0, 2.0 * G], atol=1e-9)
    assert found.state[0, 0] == 2


def test_mjcf_has_it(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    m = mbd.Mechanism("m")
    m.add_body("egg", shape=Ellipsoid((0.3, 0.2, 0.1), mass=2.0))
    mbd.save(m, tmp_path / "m.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    assert model.ngeom == 1 and model.geom_type[0] == mujoco.mjtGeom.mjGEOM_MESH


def test_names_of_packaged_shapes_are_taken():
    with pytest.raises(TypeError, match="Sphere is the name of a shape of jaxmbd"):
        type("Sphere", (mbd.AbstractShape,), {"__module__": __name__})
