"""Names, shapes and numbers never compile a program again."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import CompilationCounter
from jaxmbd.library import names
from jaxmbd.model.compiled import Compiled
from jaxmbd.xla.shared_programs import shared_jit


def angle(t):
    return 0.5 * t


def hinge(name="one", body="rod", pin="pin", shape=None, mass=1.0):
    m = mbd.Mechanism(name)
    m.add_body(body, mass=mass, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0), shape=shape)
    m.add(mbd.Revolute(pin, m.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Actuator(f"motor of {name}", pin))
    return m


def analyses(m):
    """All of them on one mechanism; the ends of the motions."""
    system, state = m.build()
    driven = mbd.Mechanism(m.name)
    driven.bodies, driven.constraints, driven.forces = (
        dict(m.bodies),
        dict(m.constraints),
        dict(m.forces),
    )
    driven.ground = m.ground
    (body,), (motor,) = m.bodies, m.forces
    driven.add(mbd.RotationDriver(f"driver of {body}", "ground", body, axis=(0, 1, 0), angle=angle))
    pair = driven.build()
    with CompilationCounter() as counter:
        ends = [
            mbd.simulate(system, state, h=1e-3, steps=5).r[-1],
            mbd.simulate(system, state, save_at=[0.0, 0.01], step=mbd.Adaptive(max_steps=64)).r[-1],
            mbd.linearize(system, state).A,
            mbd.accelerations(system, state).a,
            mbd.kinematics(*pair, [0.0, 0.1]).r[-1],
            *mbd.inverse_dynamics(*pair, [0.0, 0.1], actuators=[motor]).efforts.values(),
            *mbd.inverse_dynamics(*pair, [0.0, 0.1]).efforts.values(),
        ]
        mbd.mobility(system, state)
    return counter.every, ends


@pytest.mark.essential
def test_names_shapes_and_numbers_compile_nothing():
    first, ends = analyses(hinge())
    assert first > 0  # the counter counts
    names = {"name": "two [x]", "body": "stick", "pin": "axle"}
    for other in (
        hinge(**names),
        hinge(shape=mbd.Box((1, 0.1, 0.2), mass=3.0)),
        hinge(mass=jnp.asarray(2.0)),
    ):
        again, new = analyses(other)
        assert again == 0
    np.testing.assert_array_equal(ends[2], analyses(hinge(**names))[1][2])


def test_errors_and_reports_keep_their_names():
    system, state = hinge("named", "stick", "axle").build()
    sol = mbd.simulate(system, state, h=1e-3, steps=2)
    assert set(sol.reactions(system)) == {"axle"} and system.bodies == ("stick",)
    found = mbd.linearize(system, state)
    assert found.coordinates == ("stick.theta.y",) and found.inputs[0].name == "motor of named"


@pytest.mark.parametrize("name", names())
def test_describing_and_building_a_mechanism_compiles_nothing(name):
    with CompilationCounter() as counter:
        mbd.load(name)
    assert counter.every == 0


def test_a_consistent_start_is_not_assembled_and_a_longer_or_other_run_compiles_nothing():
    m = hinge("consistent")
    m.add(mbd.PointForce("push", "rod", force=(0.0, 0.0, 1.0)))  # no other mechanism here has one
    system, state = m.build()
    with CompilationCounter() as counter:
        mbd.simulate(system, state, h=1e-3, steps=5)
    assert "_assemble" not in counter.names and "march" in counter.names
    moving = mbd.set_joints(system, state, {"pin": {"angle": 0.3, "rate": 2.0}})
    with CompilationCounter() as counter:
        sol = mbd.simulate(system, moving, h=2e-3, t_end=0.05)
        mbd.simulate(system, state, h=1e-3, steps=17, t0=0.5)
    assert counter.every == 0
    assert sol.stats["assembly_displacement"].max() == 0.0


def test_questions_about_motions_of_other_lengths_compile_nothing():
    system, state = hinge("asked").build()
    short = mbd.simulate(system, state, h=1e-3, steps=18)
    long = mbd.simulate(system, state, h=1e-3, steps=31)

    def ask(sol):
        return [
            sol.energy().total,
            sol.momentum().angular,
            sol.violation().velocity,
            sol.reactions()["pin"].force,
            sol.joint("pin").rate,
        ]

    with CompilationCounter() as counter:
        first = ask(short)
    assert 0 < counter.built <= 5
    with CompilationCounter() as counter:
        second = ask(long)
        long.at(7), long.rows(slice(3))
    assert counter.every == 0
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b[:19], rtol=1e-12, atol=1e-12)
    # Traced, they are part of the caller's program.
    inside = jax.jit(lambda s: ask(dataclasses.replace(short, t=s))[0])(short.t)
    np.testing.assert_allclose(inside, first[0], rtol=1e-12)


def test_instants_are_numbers_and_no_constants_of_a_program():
    system, state = hinge("instants").build()
    mbd.accelerations(system, state, 0.0)
    with CompilationCounter() as counter:
        for t in (0.1, 0.2):
            mbd.accelerations(system, state, t)
    assert counter.every == 0


def test_short_runs_compile_quickly_and_long_ones_for_speed(monkeypatch):
    monkeypatch.delenv("JAXMBD_COMPILE", raising=False)

    @Compiled
    def double(x):
        return 2.0 * x

    used = []
    monkeypatch.setattr(double, "_program", lambda x: used.append("fast") or 2.0 * x)
    monkeypatch.setitem(double.__dict__, "_quick", lambda x: used.append("quick") or 2.0 * x)
    x = np.ones(3)
    for work in (5_000, 15_000, 1):  # 20,000 altogether are little, one more is not
        double.for_work(work, x)(x)
    double.for_work(1, np.ones(4))(x)  # another mechanism
    assert used == ["quick", "quick", "fast", "quick"]
    monkeypatch.setenv("JAXMBD_COMPILE", "fast")
    double.for_work(1, np.ones(5))(x)
    assert used[-1] == "fast"
    monkeypatch.setenv("JAXMBD_COMPILE", "slow")
    with pytest.raises(ValueError, match="must be auto, quick or fast"):
        double.for_work(1, x)


@pytest.mark.parametrize("integrator", [mbd.ImplicitEuler(), mbd.GeneralizedAlpha()])
def test_programs_compiled_quickly_and_for_speed_agree_to_rounding(monkeypatch, integrator):
    system, state = mbd.load("four_bar")
    ends = []
    for choice in ("quick", "fast"):
        monkeypatch.setenv("JAXMBD_COMPILE", choice)
        sol = mbd.simulate(system, state, h=1e-3, steps=100, integrator=integrator)
        ends.append(sol.r)
    np.testing.assert_allclose(*ends, atol=1e-12)


def scaled(a, b):
    """A function made anew, which closes over arrays."""
    return lambda x: jnp.sin(a) @ x + b


def test_functions_made_anew_share_one_program_and_keep_their_own_numbers(rng):
    first, second = ((rng.normal(size=(3, 3)), rng.normal(size=3)) for _ in range(2))
    x = rng.normal(size=(6, 3))
    calls = {
        "shared_jit": lambda a, b: shared_jit(jax.vmap(scaled(a, b)))(x),
        "run_batch": lambda a, b: mbd.run_batch(scaled(a, b), x, chunk=4, progress=False),
    }
    for name, call in calls.items():
        call(*first)
        with CompilationCounter() as counter:
            found = call(*second)
        assert counter.built == 0, name
        np.testing.assert_allclose(found, x @ np.sin(second[0]).T + second[1], rtol=1e-12)


def test_a_function_that_changes_is_traced_anew():
    factor = {"now": jnp.array([2.0, 3.0])}

    def times(x):
        return factor["now"] * x

    before = mbd.run_batch(times, np.ones((2, 2)), progress=False)
    factor["now"] = jnp.array([5.0, 7.0])
    after = mbd.run_batch(times, np.ones((2, 2)), progress=False)
    np.testing.assert_array_equal(before[0], [2.0, 3.0])
    np.testing.assert_array_equal(after[0], [5.0, 7.0])
