"""Saved mechanisms are read back as they were, to the last bit; what a file cannot hold is refused
by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, mechanism_from_dict, mechanism_to_dict
from jaxmbd.library import names
from model_file_examples import GOOD


def assert_same(m, path):
    mbd.save(m, path)
    ours, theirs = m.build(), mbd.load(path)
    assert jax.tree.structure(ours[1]) == jax.tree.structure(theirs[1])
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [n for n in names() if not n.startswith("stewart")])
def test_every_packaged_mechanism_is_saved(name, tmp_path):
    assert_same(mbd.load_mechanism(name), tmp_path / "m.json")


def test_functions_of_a_packaged_mechanism_become_expressions(tmp_path):
    m = mbd.load_mechanism("stewart_platform_legs")
    mbd.save(m, tmp_path / "m.json")
    again = mbd.load_mechanism(tmp_path / "m.json")
    t = jnp.asarray(0.37)
    for name, leg in m.forces.items():
        np.testing.assert_allclose(again.forces[name].actuator(t), leg.actuator(t), rtol=1e-15)
    for a, b in zip(jax.tree.leaves(m.build()[1]), jax.tree.leaves(again.build()[1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_is_written_as_it_was_read():
    once = mechanism_to_dict(mechanism_from_dict(GOOD))
    assert mechanism_to_dict(mechanism_from_dict(once)) == once


def test_changed_numbers_turned_bodies_and_texts_survive(tmp_path):
    m = mbd.Mechanism("fitted")
    body = m.add_body(
        "b [x]",
        shape=mbd.Composite(
            [mbd.Box((0.1, 0.2, 0.3), density=1e3), mbd.Sphere(0.1, mass=0.3)],
            [(0, 0, 0), (0.2, 0, 0)],
        ),
        r=(0.1, 0.2, 0.3),
        euler=(0.3, -0.7, 1.9),
        omega=(0.1, 0.0, 1 / 3),
    )
    m.add(mbd.RotationDriver("motor", m.ground, body, axis=(1, 2, 3), angle="0.3*sin(2*t)"))
    m.add(mbd.PointForce("push", body, force=("sin(t)", 0.1, "t**2")))
    m.add(
        mbd.Constraint(
            "rows",
            m.ground,
            body,
            primitives=[mbd.CD((0, 0, 1), (0, 0, 0), (0, 0, 0), "0.3 + 0.1*t")],
        )
    )
    assert_same(
        m.with_values({"bodies.b [x].mass": 0.1 + 0.2, "gravity": (0.0, 0.0, -1 / 3)}),
        tmp_path / "m.json",
    )


def test_what_a_file_cannot_hold_is_refused_by_name(tmp_path):
    m = mbd.Mechanism("m")
    body = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0))
    m.add(mbd.RotationDriver("motor", m.ground, body, axis=(0, 0, 1), angle=lambda t: 2 * t))
    with pytest.raises(
        ModelFileError, match="driver 'motor': angle is a Python function.*expression of time"
    ):
        mbd.save(m, tmp_path / "m.json")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="no format to write has this suffix; known are .json"):
        mbd.save(m, tmp_path / "m.yaml")

    def saved(mass):
        mbd.save(m.with_values({"bodies.b.mass": mass}), tmp_path / "m.json")
        return mass

    with pytest.raises(ModelFileError, match="body 'b': mass is traced by JAX"):
        jax.jit(saved)(1.0)


def test_a_user_force_is_refused_by_name(tmp_path):
    m = mbd.Mechanism("m")
    m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0))
    m.add(mbd.UserForce("wind", ["b"], lambda p, w, t: (0 * w.v, 0 * w.v)))
    with pytest.raises(ModelFileError, match="force 'wind': a file cannot hold a UserForce"):
        mbd.save(m, tmp_path / "m.json")
