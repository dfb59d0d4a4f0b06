"""BDF2, the groups of the implicit methods and their velocity projection: second order in spatial
rotation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import FORMULATIONS, name_of, run_at, slope, top_reference

STEPS = np.array([1e-3, 5e-4, 2.5e-4])
FULL_INERTIA = np.array([[0.5, 0.08, -0.05], [0.08, 0.7, 0.06], [-0.05, 0.06, 0.4]])
CASES = [(mbd.BDF2(), f) for f in FORMULATIONS] + [
    (mbd.BDF2(group="SE3"), mbd.RA()),
    (mbd.GeneralizedAlpha(group="SE3"), mbd.RA()),
    (mbd.GeneralizedAlpha(velocity_projection=True), mbd.RA()),
]


@pytest.mark.parametrize(
    ("method", "formulation"),
    CASES,
    ids=lambda x: (
        name_of(x)
        if hasattr(x, "normalizations")
        else f"{x.name}-{x.group}-{x.velocity_projection}"
    ),
)
def test_a_fast_top_with_full_inertia_turns_as_eulers_equations_say(method, formulation):
    s, mass, omega = np.array([0.1, 0.05, 0.4]), 2.0, np.array([1.0, -2.0, 25.0])
    m = mbd.Mechanism("top")
    m.add_body("body", mass=mass, inertia=FULL_INERTIA, r=s, omega=omega, v=np.cross(omega, s))
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    J_pivot = FULL_INERTIA + mass * (s @ s * np.eye(3) - np.outer(s, s))
    A, rate = top_reference(J_pivot, mass, s, np.array([0, 0, -9.81]), omega, 0.25)
    system, state = m.build()
    errors = {"A": [], "omega": []}
    for h in STEPS:
        n = round(0.25 / h)
        sol = run_at(system, state, h, n, formulation, pieces=n // 250, integrator=method)
        errors["A"].append(np.linalg.norm(sol.A[-1, 0] - A))
        errors["omega"].append(np.linalg.norm(sol.omega[-1, 0] - rate))
        violation = sol.violation(system)
        assert np.max(np.abs(violation.position)) < 1e-12
        assert int(np.max(sol.iterations)) <= 4 * 250
        if method.group == "SE3":  # the motions about the pivot are a subgroup, velocities and all
            assert np.max(np.abs(violation.velocity)) < 1e-10
        if method.velocity_projection:
            assert np.max(np.abs(violation.velocity)) < 1e-12
    for name, error in errors.items():
        assert abs(slope(STEPS, error) - 2.0) < 0.1, (name, error)


@pytest.mark.parametrize("method", [mbd.BDF2, mbd.GeneralizedAlpha, mbd.ImplicitEuler])
def test_projected_velocities_follow_drivers(method):
    system, state = mbd.load("slider_crank")
    integrator = method(velocity_projection=True)
    sol = mbd.simulate(system, state, h=1e-3, steps=50, integrator=integrator)
    truth = mbd.kinematics(system, state, sol.t)
    np.testing.assert_allclose(sol.v, truth.v, atol=1e-11)
    np.testing.assert_allclose(sol.omega, truth.omega, atol=1e-11)
    assert np.max(np.abs(sol.violation().velocity)) < 1e-11


@pytest.mark.parametrize("method", [mbd.BDF2, mbd.GeneralizedAlpha])
def test_projected_velocities_satisfy_the_constraints_and_keep_the_order(method):
    system, state = mbd.load("bennett")  # a redundant spatial loop
    # Newton's default stops once positions are right to about 2e-12 m, and repeated rows agree no
    # better than that.
    tight = method(velocity_projection=True, newton=mbd.Newton(1e-14))
    ends, steps = [], (4e-3, 2e-3, 1e-3)
    for h in steps:
        n = round(1.0 / h)
        sol = run_at(system, state, h, n, mbd.RA(), pieces=n // 250, integrator=tight)
        violation = sol.violation(system)
        assert np.max(np.abs(violation.position)) < 1e-12
        assert np.max(np.abs(violation.velocity)) < 1e-12
        ends.append(np.asarray(sol.r[-1]))
    # Differences of three runs, each step half the one before, shrink by four.
    ratio = np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1] - ends[2])
    assert abs(np.log2(ratio) - 2.0) < 0.2


def test_unknown_groups_and_formulations_are_refused():
    with pytest.raises(ValueError, match="group must be one of"):
        mbd.BDF2(group="SE(3)")
    system, state = mbd.load("four_bar")
    with pytest.raises(ValueError, match="use the formulation rA, not rp"):
        mbd.simulate(
            system, state, h=1e-3, steps=1, formulation=mbd.RP(), integrator=mbd.BDF2(group="SE3")
        )


def test_gradients_and_batches_go_through_steps_on_se3():
    system, state = mbd.load("double_pendulum")
    exact = mbd.BDF2(group="SE3", newton=mbd.Newton(1e-14, exact=True))

    def height(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * jnp.stack([1.0, factor]))
        return mbd.simulate(heavier, state, h=5e-3, steps=40, save_every=40, integrator=exact).r[
            -1, 1, 2
        ]

    gradient = jax.jit(jax.grad(height))(1.3)
    step = 1e-4
    f = jax.jit(jax.vmap(height))(1.3 + step * jnp.array([-2.0, -1.0, 1.0, 2.0]))
    np.testing.assert_allclose(
        gradient, (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step), rtol=1e-7
    )
