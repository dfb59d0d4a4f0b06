"""What users add in one file of their own runs through everything: building, integrating,
derivatives, files, CLI."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

import jaxmbd as mbd
from helpers import ALL_FORMULATIONS, central_difference, name_of, random_state, vec
from jaxmbd.cli import app
from jaxmbd.equations import rows as equations
from jaxmbd.equations.index3 import Index3Step, StepData
from jaxmbd.equations.motion import StepScales
from jaxmbd.formulations import Screw
from own_elements import (
    CubicPull,
    KnifeEdge,
    OnParabola,
    SameHeight,
    Slot,
    SymplecticEuler,
    TwoAxes,
    read_table,
    write_table,
)

CURVATURE, G = 0.7, 9.81


def bead(curvature=CURVATURE, x=0.8, driver=False):
    """A body that slides, without turning, with a point on a parabola."""
    m = mbd.Mechanism("bead")
    b = m.add_body(
        "bead", mass=2.0, inertia=(0.3, 0.2, 0.4), r=(x, 0.0, curvature * x**2), v=(0.0, 0.0, 0.0)
    )
    e = np.eye(3)
    turns = [mbd.DP1(e[k], e[(k + 1) % 3]) for k in range(3)]
    plane = mbd.CD((0.0, 1.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    point = (0.0, 0.0, 0.0)
    m.add(mbd.Constraint("guide", m.ground, b, primitives=[*turns, plane]))
    m.add(mbd.Constraint("track", m.ground, b, primitives=[OnParabola(point, curvature)]))
    if driver:
        m.add(
            mbd.TranslationDriver("push", m.ground, b, axis=(1, 0, 0), displacement="0.3*sin(2*t)")
        )
    return m


def bead_motion(t, x0=0.8, c=CURVATURE):
    """z = c x²: (1 + 4c²x²) ẍ + 4c² x ẋ² + 2 g c x = 0."""

    def rate(_, y):
        x, v = y
        return [v, -(4 * c**2 * x * v**2 + 2 * G * c * x) / (1 + 4 * c**2 * x**2)]

    return solve_ivp(rate, (0, t[-1]), [x0, 0.0], t_eval=t, rtol=1e-12, atol=1e-12).y


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, TwoAxes()], ids=name_of)
def test_a_primitive_of_geometry_alone_moves_as_its_equation_says(formulation):
    system, state = bead().build()
    sol = mbd.simulate(
        system, state, h=1e-3, steps=300, formulation=formulation, integrator=mbd.GeneralizedAlpha()
    )
    x, v = bead_motion(np.asarray(sol.t))
    np.testing.assert_allclose(
        sol.r[:, 0, 0], x, atol=2e-6
    )  # second order: h² times derivatives of order ten
    np.testing.assert_allclose(sol.v[:, 0, 0], v, atol=2e-5)
    np.testing.assert_allclose(
        sol.r[:, 0, 2], CURVATURE * np.asarray(sol.r[:, 0, 0]) ** 2, atol=1e-10
    )
    # The force of the track against Newton's law.
    force = 2.0 * (np.asarray(sol.a[:, 0]) + [0.0, 0.0, G])
    np.testing.assert_allclose(
        sol.reactions(system)["track"].force[:, [0, 2]], force[:, [0, 2]], atol=1e-7
    )
    np.testing.assert_allclose(np.ptp(sol.energy(system).total), 0.0, atol=1e-4)


def test_kinematics_of_a_primitive_of_geometry_alone():
    system, state = bead(driver=True).build()
    ts = np.linspace(0.0, 1.0, 21)
    for formulation in (mbd.RA(), mbd.RP(), mbd.REps()):
        sol = mbd.kinematics(system, state, ts, formulation=formulation)
        x = 0.8 + 0.3 * np.sin(2 * ts)
        x_ddot, x_dot = -1.2 * np.sin(2 * ts), 0.6 * np.cos(2 * ts)
        np.testing.assert_allclose(sol.r[:, 0, 0], x, atol=1e-12)
        np.testing.assert_allclose(
            sol.a[:, 0, 2], 2 * CURVATURE * (x_dot**2 + x * x_ddot), atol=1e-10
        )


def test_a_primitives_own_number_has_a_derivative():
    def end(c):
        system, state = bead(c).build()
        return mbd.simulate(
            system, state, h=2e-3, steps=50, integrator=mbd.GeneralizedAlpha(), throw=False
        ).r[-1, 0, 0]

    derivative = jax.jit(jax.grad(end))(CURVATURE)
    np.testing.assert_allclose(
        derivative, central_difference(jax.jit(end), CURVATURE, 1e-5), rtol=1e-6
    )


def of_all_levels(rng):
    """Three bodies with rows of every kind: normal forms, general geometry on two and three bodies,
    velocity level."""
    m = mbd.Mechanism("all levels")
    for k in range(3):
        a = rng.normal(size=(3, 3))
        m.add_body(f"b{k}", mass=1.0 + k, inertia=np.eye(3) * 3 + 0.2 * (a + a.T))
    m.add(
        mbd.Constraint(
            "normal",
            "b0",
            "b1",
            primitives=[mbd.DP1(vec(rng), vec(rng), 0.1), mbd.D(vec(rng), vec(rng), 1.0)],
        )
    )
    m.add(
        mbd.Constraint(
            "parabola",
            "b1",
            "b2",
            primitives=[OnParabola(vec(rng), 0.7), OnParabola(vec(rng), 0.3)],
        )
    )
    m.add(
        mbd.Constraint(
            "three", "b0", "b2", others=["b1"], primitives=[SameHeight(lambda t: 0.1 * jnp.sin(t))]
        )
    )
    m.add(mbd.Constraint("knife", m.ground, "b1", primitives=[KnifeEdge(vec(rng), vec(rng))]))
    return m.build()[0], random_state(rng, 3)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, Screw(), TwoAxes()], ids=name_of)
def test_newtons_exact_matrix_of_rows_of_all_kinds(formulation, rng):
    system, state = of_all_levels(rng)
    q, u = formulation.from_state(state)
    h, t = 0.05, jnp.array(0.3)
    args = StepData(system.at(t), q, u, h * u, t, StepScales(jnp.array(h), jnp.array(h**2)))
    step = Index3Step(formulation, "auto", "position", 8)
    x = jnp.array(rng.normal(size=u.size + len(equations.row_bodies(formulation, system))))
    by_ad = jax.jit(jax.jacfwd(lambda x: step.residual(x, args)))(x)
    matrix = jax.jit(lambda x: step.matrix(x, args, exact=True))(x)
    dense = matrix.dense() + jnp.diag(jnp.concatenate([jnp.zeros(u.size), _softness(matrix)]))
    np.testing.assert_allclose(dense, by_ad, atol=1e-9 * np.max(np.abs(by_ad)))


def _softness(matrix):
    return jnp.zeros(len(matrix.bodies)) if matrix.regularization is None else matrix.regularization


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, Screw(), TwoAxes()], ids=name_of)
def test_right_sides_of_rows_of_all_kinds(formulation, rng):
    """γ of position rows is minus the second derivative of Φ, that of velocity rows minus the
    derivative of B u."""
    system, state = of_all_levels(rng)
    q, u = formulation.from_state(state)
    system, *_ = system.jet(jnp.array(0.2))
    start, nc = system.holonomic_rows, system.nc

    def moved(s):
        return jax.vmap(formulation.retract)(q, s * u)

    value = lambda s: equations.phi(formulation, system, moved(s))[:start]  # noqa: E731
    rate = lambda s: jnp.concatenate(equations.velocity_values(formulation, system, moved(s), u))  # noqa: E731
    found = jax.jit(lambda q, u: equations.gamma(formulation, system, q, u))(q, u)
    np.testing.assert_allclose(
        found[:start], -jax.jit(jax.jacfwd(jax.jacfwd(value)))(0.0), atol=1e-9
    )
    np.testing.assert_allclose(found[start:nc], -jax.jit(jax.jacfwd(rate))(0.0), atol=1e-9)


def skate(angle=0.4, speed=2.0, spin=0.9):
    """A blade on a level plane: its contact point moves only along itself."""
    m = mbd.Mechanism("skate")
    c, s = np.cos(angle), np.sin(angle)
    b = m.add_body(
        "blade",
        mass=2.0,
        inertia=(0.1, 0.2, 0.3),
        A=[[c, -s, 0], [s, c, 0], [0, 0, 1]],
        v=(speed * c, speed * s, 0.0),
        omega=(0, 0, spin),
    )
    m.add(mbd.Planar("ice", m.ground, b, point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(
        mbd.Constraint(
            "edge", m.ground, b, primitives=[KnifeEdge((0.0, 0.0, 0.0), (0.0, 1.0, 0.0))]
        )
    )
    m.gravity = (0.0, 0.0, -9.81)
    return m.build()


@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        (mbd.RA(), mbd.GeneralizedAlpha()),
        (mbd.RP(), mbd.BDF2()),
        (mbd.REps(), mbd.GeneralizedAlpha()),
    ],
    ids=name_of,
)
def test_a_skate_on_level_ice_goes_in_a_circle(formulation, integrator):
    speed, spin, angle, h = 2.0, 0.9, 0.4, 5e-3
    system, state = skate(angle, speed, spin)
    sol = mbd.simulate(
        system, state, h=h, steps=200, formulation=formulation, integrator=integrator
    )
    heading = angle + spin * np.asarray(sol.t)
    x = speed / spin * (np.sin(heading) - np.sin(angle))
    np.testing.assert_allclose(sol.r[:, 0, 0], x, atol=20 * h**2)
    across = -np.sin(heading) * np.asarray(sol.v[:, 0, 0]) + np.cos(heading) * np.asarray(
        sol.v[:, 0, 1]
    )
    np.testing.assert_allclose(across, 0.0, atol=1e-4)
    # The edge holds the body on its circle: m v ω.
    force = np.linalg.norm(np.asarray(sol.reactions(system)["edge"].force), axis=1)
    np.testing.assert_allclose(force, 2.0 * speed * spin, atol=0.01)
    assert np.max(np.abs(sol.violation(system).velocity)) < 1e-4


def test_methods_of_positions_alone_refuse_rows_at_velocity_level():
    system, state = skate()
    with pytest.raises(ValueError, match="edge.*velocities"):
        mbd.simulate(
            system,
            state,
            h=1e-3,
            steps=2,
            formulation=mbd.Directors(),
            integrator=mbd.EnergyMomentum(),
        )
    with pytest.raises(ValueError, match="edge.*velocities"):
        mbd.kinematics(system, state, [0.0, 0.1])


def with_everything():
    m = mbd.Mechanism("own", gravity=(0.0, 0.0, -1.0))
    arm = m.add_body("arm", mass=1.0, inertia=(0.1, 0.2, 0.3), r=(1.0, 0.0, 0.0))
    m.add_body("bob", mass=0.5, inertia=(0.1, 0.1, 0.1), r=(0.3, 0.2, 0.0))
    m.add(mbd.Revolute("pin", m.ground, arm, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(Slot("slot", arm, "bob", point=(0.3, 0.2, 0.0), axis=(1, 0, 0), normal=(0, 1, 0)))
    m.add(mbd.Constraint("track", m.ground, "bob", primitives=[OnParabola((0.0, 0.0, 0.045), 0.5)]))
    m.add(CubicPull("pull", "bob", stiffness=3.0))
    return m


def test_own_joint_force_and_primitive_keep_energy_in_all_formulations():
    system, state = with_everything().build()
    runs = {
        f.name: mbd.simulate(
            system, state, h=1e-3, steps=100, formulation=f, integrator=mbd.GeneralizedAlpha()
        )
        for f in (mbd.RA(), mbd.RP(), TwoAxes())
    }
    for sol in runs.values():
        np.testing.assert_allclose(sol.r, runs["rA"].r, atol=1e-7)
        assert np.ptp(sol.energy(system).total) < 1e-5


def test_an_own_force_keeps_energy_in_the_energy_momentum_method():
    m = mbd.Mechanism("bob", gravity=(0.0, 0.0, 0.0))
    m.add_body("bob", mass=0.5, inertia=(0.1, 0.1, 0.1), r=(0.3, 0.2, 0.0), v=(0.0, 0.5, 0.2))
    m.add(CubicPull("pull", "bob", stiffness=30.0))
    system, state = m.build()
    sol = mbd.simulate(
        system,
        state,
        h=0.05,
        steps=100,
        formulation=mbd.Directors(),
        integrator=mbd.EnergyMomentum(),
    )
    energy = np.asarray(sol.energy(system).total)
    assert np.ptp(energy) < 1e-10 * energy[0]


def test_own_elements_are_saved_loaded_and_drawn(tmp_path):
    m = with_everything()
    mbd.save(m, tmp_path / "own.json")
    assert [j["type"] for j in json.loads((tmp_path / "own.json").read_text())["joints"]][
        1
    ] == "Slot"
    ours, theirs = m.build(), mbd.load(tmp_path / "own.json")
    assert all(map(np.array_equal, jax.tree.leaves(ours), jax.tree.leaves(theirs)))
    result = tmp_path / "own.npz"
    done = CliRunner().invoke(
        app,
        [
            "simulate",
            str(tmp_path / "own.json"),
            "--t-end",
            "0.01",
            "--h",
            "1e-3",
            "--out",
            str(result),
        ],
    )
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["animate", str(result), "--out", str(tmp_path / "own.gif")])
    assert done.exit_code == 0, done.output


def test_an_own_integrator_is_of_its_order():
    system, state = mbd.load("four_bar")
    truth = mbd.simulate(system, state, h=1e-3, steps=200, integrator=mbd.GeneralizedAlpha()).r[-1]
    errors = []
    for steps in (50, 100):
        sol = mbd.simulate(system, state, h=0.2 / steps, steps=steps, integrator=SymplecticEuler())
        errors.append(np.max(np.abs(np.asarray(sol.r[-1] - truth))))
        assert np.max(np.abs(sol.violation(system).position)) < 1e-12
    assert 1.7 < errors[0] / errors[1] < 2.3


def test_an_own_format_is_read_and_written(tmp_path):
    mbd.register_format(".masses", read=read_table, write=write_table)
    path = tmp_path / "fall.masses"
    path.write_text("stone 2.0 0 0 10\nfeather 0.1 1 0 10\n")
    sol = mbd.simulate(*mbd.load(path), h=1e-2, steps=10, integrator=mbd.GeneralizedAlpha())
    np.testing.assert_allclose(sol.r[-1, :, 2], 10 - 0.5 * G * 0.01, atol=1e-12)
    mbd.save(mbd.load_mechanism(path), tmp_path / "again.masses")
    assert mbd.load_mechanism(tmp_path / "again.masses").bodies.keys() == {"stone", "feather"}
    path.write_text("stone two 0 0 10\n")
    with pytest.raises(ValueError, match="fall.masses.*two"):
        mbd.load(path)
    with pytest.raises(ValueError, match="no format to write"):
        mbd.save(bead(), tmp_path / "bead.unknown")
