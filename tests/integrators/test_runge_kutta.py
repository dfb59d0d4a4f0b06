"""Explicit Runge-Kutta in vector-space coordinates: orders, the pair of Dormand and Prince,
refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import name_of, run_at, slope, top_reference

pytestmark = pytest.mark.xdist_group("runge_kutta")  # fixtures and programs are shared

OMEGA, CENTER, J = (
    np.array([3.0, -2.0, 6.0]),
    np.array([0.3, -0.1, 0.4]),
    np.diag([0.05, 0.07, 0.04]),
)
GRAVITY = np.array([2.0, -1.0, -9.0])


@pytest.fixture(scope="module")
def top():
    m = mbd.Mechanism("top", gravity=GRAVITY)
    m.add_body("body", mass=2.0, inertia=J, r=CENTER, omega=OMEGA, v=np.cross(OMEGA, CENTER))
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    return m.build()


@pytest.fixture(scope="module")
def reference():
    J_pivot = J + 2.0 * (CENTER @ CENTER * np.eye(3) - np.outer(CENTER, CENTER))
    return top_reference(J_pivot, 2.0, CENTER, GRAVITY, OMEGA, 0.5)


@pytest.mark.parametrize(
    ("formulation", "tableau", "order"),
    [
        (mbd.RP(), "rk4", 4),
        (mbd.REps(), "rk4", 4),
        (mbd.Directors(), "rk4", 4),
        (mbd.Directors(), "euler", 1),
        (mbd.Directors(), "heun", 2),
        (mbd.Directors(), "rk3", 3),
    ],
    ids=lambda x: x if isinstance(x, (str, int)) else name_of(x),
)
def test_every_vector_space_takes_every_tableau_at_its_order(
    top, reference, formulation, tableau, order
):
    system, state = top
    hs, errors = {1: (2e-4, 1e-4), 2: (2e-3, 1e-3)}.get(order, (5e-3, 2.5e-3)), []
    for h in hs:
        n = round(0.5 / h)
        sol = run_at(
            system, state, h, n, formulation, pieces=n // 100, integrator=mbd.RungeKutta(tableau)
        )
        errors.append(np.max(np.abs(sol.A[-1, 0] - reference[0])))
    assert abs(slope(hs, errors) - order) < 0.25, errors


def test_the_embedded_pair_chooses_steps_in_rotation_elements(top, reference):
    system, state = top
    f, method = mbd.RotationElements(), mbd.RungeKutta("rk5")
    sol = mbd.simulate(
        system,
        state,
        save_at=jnp.array([0.0, 0.2, 0.5]),
        step=mbd.Adaptive(1e-9, max_steps=512),
        formulation=f,
        integrator=method,
    )
    assert np.max(np.abs(sol.A[-1, 0] - reference[0])) < 1e-7  # some hundred steps of 1e-9
    assert sol.stats["rigidity"].shape == (3, 1, 3, 3)


def test_rotation_matrices_are_refused_with_the_cure(top):
    with pytest.raises(ValueError, match=r"rA are no vector space: use MuntheKaas"):
        mbd.simulate(*top, steps=1, h=1e-3, integrator=mbd.RungeKutta())


def test_frozen_multipliers_are_refused_without_a_regular_mass_matrix(top):
    with pytest.raises(ValueError, match="regular mass matrix, which rp does not have"):
        mbd.simulate(
            *top,
            steps=1,
            h=1e-3,
            formulation=mbd.RP(),
            integrator=mbd.RungeKutta(multipliers="frozen"),
        )


@pytest.mark.parametrize("what", [{"tableau": "rk6"}, {"multipliers": "never"}])
def test_unknown_choices_are_refused(what):
    with pytest.raises(ValueError, match="must be one of"):
        mbd.RungeKutta(**what)
