"""What people read when they print: it tells, compiles nothing, and fails on nothing."""

import dataclasses
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import CompilationCounter
from jaxmbd.model import compiled


def pendulum(**options):
    m = mbd.Mechanism("swing", **options)
    m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", "ground", "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    return m


def run(system, state):
    return mbd.simulate(system, state, h=1e-2, steps=5)


def test_a_mechanism_lists_its_parts():
    m = pendulum()
    m.add(mbd.ViscousFriction("oil", "pin", rotational=0.1))
    m.add_body("cross", massless=True, v=(0, 0, 0))
    assert repr(m).splitlines() == [
        "Mechanism 'swing': 2 bodies, 1 joint, 1 force, gravity (0, 0, -9.81) m/s²",
        "  body  'rod'    2 kg",
        "  body  'cross'  massless",
        "  joint  'pin'  Revolute  ground - rod",
        "  force  'oil'  ViscousFriction  ground - rod",
    ]


def test_a_mechanism_of_traced_numbers_says_so():
    seen = []

    def traced(mass):
        m = mbd.Mechanism("m", gravity=(0, 0, -mass))
        m.add_body("rod", mass=mass, inertia=(1.0, 1.0, 1.0))
        seen.append(repr(m))

    jax.eval_shape(traced, 2.0)
    assert seen == ["Mechanism 'm': 1 body\n  body  'rod'  traced mass"]


def test_a_long_mechanism_is_cut_off():
    lines = repr(mbd.load_mechanism("n_pendulum:40")).splitlines()
    assert len(lines) < 30 and lines.count("  ... and 28 more") == 2


def test_a_system_tells_its_size_also_where_its_numbers_are_traced():
    system, _ = pendulum().build()
    text = repr(system)
    assert text.splitlines() == [
        "System 'swing': 1 body, 1 joint, 5 constraint rows",
        "  without closed loops, 2 kg, gravity (0, 0, -9.81) m/s²; linear systems: range-space",
    ]
    seen = []

    def traced(mass):
        seen.append(repr(dataclasses.replace(system, mass=mass)))

    jax.eval_shape(traced, system.mass)
    assert seen == [text.replace("2 kg, ", "")]


def test_an_outcome_is_named():
    assert "successful" in repr(mbd.RESULTS.successful)
    assert "Newton" in repr(mbd.RESULTS.newton_max_steps)


def test_a_mobility_is_a_table():
    found = mbd.Mobility(18, 20, 17, 1, 3, ("a", "b"), (), 6.3)
    lines = [line.split() for line in repr(found).splitlines()]
    assert lines[0] == ["Mobility:", "1", "degree", "of", "freedom"]
    assert ["constraint", "rows", "20"] in lines and ["rank", "17"] in lines
    assert ["redundant", "rows", "3"] in lines


@pytest.mark.essential
def test_a_solution_tells_how_it_went_and_compiles_nothing(monkeypatch):
    monkeypatch.setattr(compiled, "_MADE", OrderedDict())  # other tests ask like motions
    system, state = pendulum().build()
    solution = run(system, state)
    with CompilationCounter() as counter:
        fresh = repr(solution)
    assert counter.every == 0
    assert fresh.startswith("Solution of 'swing': 6 rows from t = 0 to 0.05 s, 1 body, 5 constr")
    assert "outcome: successful, 5 steps" in fresh and len(fresh.splitlines()) == 4
    assert "violation: see sol.violation()" in fresh and "energy: see sol.energy()" in fresh
    gap = jnp.max(jnp.abs(solution.violation().position))
    total = solution.energy().total
    with CompilationCounter() as counter:
        asked = repr(solution)
    assert counter.every == 0
    assert f"violation: at most {gap:.1e}, in 'pin: " in asked
    change = f"{total[0]:.6g} J at the start, change {total[-1] - total[0]:.3g} J at the end"
    assert change in asked


def test_solutions_of_any_content_can_be_printed():
    system, state = pendulum().build()
    seen = []
    shapes = jax.eval_shape(lambda s: seen.append(repr(found := run(system, s))) or found, state)
    (traced,) = seen
    assert traced == "Solution of 'swing': 6 rows, 1 body, 5 constraint rows (traced)"
    assert repr(shapes) == traced
    assert "t=None" in repr(jax.tree.map(lambda _: None, shapes))
    zeros = jax.tree.map(lambda x: np.zeros((3, *x.shape), x.dtype), shapes)
    assert "a batch of 3 motions, 6 rows" in repr(zeros) and "3 successful" in repr(zeros)


@pytest.mark.essential
def test_an_equilibrium_tells_angles_and_stability_and_compiles_nothing():
    found = mbd.equilibrium(*pendulum().build())
    with CompilationCounter() as compiled:
        lines = repr(found).splitlines()
    assert compiled.every == 0
    assert lines[0] == "Equilibrium of 'swing' at rest, t = 0 s"
    assert lines[1].startswith("  outcome: successful, residual ")
    assert lines[2:] == ["  stability: stable", "  'pin'  1.5708 rad  (90 degrees)"]
    assert "(traced)" in repr(jax.tree.map(lambda _: None, found))


def test_small_results_are_tables_and_never_fail():
    state = pendulum().build()[1]
    values, shapes = np.array([2.0j, -1.0 + 3.0j]), np.zeros((1, 1, 6), complex)
    modes = mbd.Modes(values, None, np.array([0.5, 2.0]), np.array([0.0, 0.25]), None, state)
    assert repr(modes).splitlines() == [
        "Modes: 2",
        "  0  0.5 Hz  damping ratio 0",
        "  1  2 Hz    damping ratio 0.25",
    ]
    assert "frequency=None" in repr(jax.tree.map(lambda _: None, modes))
    steady = mbd.Stability(np.array([-4.0 + 0j]), shapes, np.ones(1), 0, 1)
    assert repr(steady) == (
        "Stability: unstable in 1 direction, 0 indifferent, of 1 freedom, lowest stiffness -4"
    )
    x = jnp.zeros((2, 2))
    basis = jnp.zeros((1, 6, 1))
    found = mbd.Linearization(x, x[:, :0], x[0], basis, state, (), ("q",), ("q",), ("rod",))
    assert repr(found).splitlines()[0] == "Linearization: 1 coordinate, 1 speed, 0 inputs"
    path = mbd.Path(
        parameter=np.array([0.0, 1.0]),
        r=np.zeros((2, 1, 3)),
        A=np.zeros((2, 1, 3, 3)),
        lam=np.zeros((2, 5)),
        unstable=np.array([0, 1]),
        points=(),
        complete=False,
        reason="lost",
        angles=np.zeros((2, 1)),
    )
    assert repr(path) == "Path: 2 points from 0 to 1, 1 stable, ended early: lost"
