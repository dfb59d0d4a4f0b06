"""Rotation-matrix elements: both eliminations against rA, the paper's double pendulum against
minimal coordinates."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from experiments.reference_solutions import bar_pendulum, spherical_chain
from helpers import central_difference, random_state, rotation, run_at, slope, top_reference, vec
from jaxmbd.equations.index1 import dynamic_accelerations
from jaxmbd.formulations.rotation_elements import Elements

pytestmark = pytest.mark.xdist_group("rotation_elements")  # programs are shared
ELIMINATIONS = ("two_step", "one_shot")


def all_joints(rng):
    """A chain through every joint of the paper's formulation, its last body on a link."""
    m = mbd.Mechanism("joints", gravity=(1.0, 2.0, -9.0))
    for k in range(6):
        inertia = np.diag([2.0, 2.5, 3.0]) + 0.1 * np.ones((3, 3))
        m.add_body(f"b{k}", mass=1.0 + 0.3 * k, inertia=inertia, r=(0.7 * k, 0.2 * k, 0.0))
    x, y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    m.add(mbd.Spherical("S", m.ground, "b0", point=vec(rng)))
    m.add(mbd.Revolute("R", "b0", "b1", point=vec(rng), axis=vec(rng)))
    m.add(mbd.Universal("U", "b1", "b2", point=vec(rng), axis_i=x, axis_j=y))
    m.add(mbd.Translational("P", "b2", "b3", point=vec(rng), axis=vec(rng)))
    m.add(mbd.Cylindrical("C", "b3", "b4", point=vec(rng), axis=vec(rng)))
    m.add(mbd.Distance("D", "b4", "b5", point_i=vec(rng), point_j=vec(rng)))
    m.add(
        mbd.SpringDamper(
            "s", "b0", "b3", point_i=vec(rng), point_j=vec(rng), stiffness=40.0, damping=3.0
        )
    )
    return m.build()[0]


def elements_of(formulation, state, reference):
    """Coordinates and velocities of a state, counted from another pose than its own."""
    R = jnp.einsum("bij,bkj->bik", state.A, reference.A)
    q = Elements(state.r - jnp.einsum("bij,bj->bi", R, reference.r), R, reference)
    return q, jax.vmap(formulation.rates)(q, state.v, state.omega)


def test_both_eliminations_and_rotation_matrices_agree_on_random_spatial_states(rng):
    system = all_joints(rng)
    t = jnp.zeros(())

    def by(formulation, state, reference):
        q, u = elements_of(formulation, state, reference)
        a, lam = dynamic_accelerations(formulation, system, q, u, t)
        return jax.vmap(formulation.physical_accelerations)(q, u, a), lam

    each = {
        name: jax.jit(functools.partial(by, mbd.RotationElements(name))) for name in ELIMINATIONS
    }
    for _ in range(5):
        # Far from assembled: the linear problem is the same in all formulations wherever R is a
        # rotation.
        state = random_state(rng, 6)
        other = mbd.Pose(vec(rng, (6, 3)), jnp.stack([rotation(rng) for _ in range(6)]))
        (two, lam_two), (one, lam_one) = (each[name](state, other) for name in ELIMINATIONS)
        scale = jnp.max(jnp.abs(lam_one))
        assert float(jnp.max(jnp.abs(lam_two - lam_one)) / scale) < 1e-11
        for x, y in zip(two, one, strict=True):
            assert float(jnp.max(jnp.abs(x - y)) / jnp.max(jnp.abs(y))) < 1e-11
        ra = mbd.accelerations(system, state, t)
        np.testing.assert_allclose(two[0], ra.a, atol=1e-9 * float(jnp.max(jnp.abs(ra.a))))
        np.testing.assert_allclose(two[1], ra.alpha, atol=1e-9 * float(jnp.max(jnp.abs(ra.alpha))))
        np.testing.assert_allclose(
            system.to_natural(lam_two[: system.nc]), ra.lam, atol=1e-9 * float(scale)
        )


@pytest.mark.parametrize("elimination", ELIMINATIONS)
def test_redundant_joints_get_multipliers_of_minimum_norm(elimination):
    system, state = mbd.load("four_bar")
    state, _ = mbd.assemble(system, state)
    f = mbd.RotationElements(elimination)
    q, u = f.from_state(state)
    _, lam = jax.jit(lambda q, u: dynamic_accelerations(f, system, q, u, jnp.zeros(())))(q, u)
    expected = mbd.accelerations(system, state).lam
    # Both regularize with sqrt(eps), which leaves the norm that far from least.
    np.testing.assert_allclose(
        system.to_natural(lam[: system.nc]), expected, atol=1e-6 * np.max(np.abs(expected))
    )


# --- the paper's double pendulum -----------------------------------------------------------------

T_END, STEPS = 5.0, (1e-2, 5e-3, 2.5e-3)


@pytest.fixture(scope="module")
def runs():
    """Saved every tenth of a second, by one program."""
    return {h: run_saved(h) for h in STEPS}


def run_saved(h, integrator=None, t_end=T_END, case=None, every=10):
    system, state = case or mbd.load("bar_pendulum")
    integrator = integrator or mbd.RungeKutta()
    n = round(t_end / h)
    return system, mbd.simulate(
        system,
        state,
        h=h,
        steps=n,
        save_every=every,
        formulation=mbd.RotationElements(),
        integrator=integrator,
    )


def angles(sol):
    A = np.asarray(sol.A)
    return np.arctan2(A[:, :, 1, 0], A[:, :, 0, 0])


def orthogonality(sol):
    A = np.asarray(sol.A)
    return np.max(np.abs(np.einsum("tbji,tbjk->tbik", A, A) - np.eye(3)))


def test_the_double_pendulum_follows_its_minimal_coordinates_at_fourth_order(runs):
    errors = []
    for h in STEPS:
        _, sol = runs[h]
        errors.append(np.max(np.abs(angles(sol) - bar_pendulum(np.asarray(sol.t)))[-1]))
    assert errors[-1] <= 1e-6, errors
    # The slope of the two finer steps: at 10 ms the fifth power is still a third of the error.
    assert abs(slope(STEPS[1:], errors[1:]) - 4.0) < 0.15, errors


def test_multipliers_of_the_start_are_the_forces_of_minimal_coordinates(runs):
    # From rest M (φ̈, ψ̈) = weights gives the bars' accelerations, and these the forces of the
    # joints.
    system, sol = runs[STEPS[-1]]
    m, length, g, (p, q) = 0.108, 0.2, 9.81, (np.pi / 9, np.pi / 18)
    C, ml2 = m * (length**2 + 0.02**2) / 12, m * length**2
    c = 0.5 * ml2 * np.cos(p - q)
    M, load = (
        np.array([[C + 1.25 * ml2, c], [c, C + 0.25 * ml2]]),
        -m * g * length * np.sin([p, q]) * [1.5, 0.5],
    )
    ddp, ddq = np.linalg.solve(M, load)
    across = lambda a: np.array([-np.sin(a), np.cos(a), 0.0])  # noqa: E731
    hinge = length * ddp * across(p)
    weight = np.array([m * g, 0.0, 0.0])
    on_2 = m * (hinge + 0.5 * length * ddq * across(q)) - weight
    on_1 = m * 0.5 * hinge - weight + on_2
    forces = sol.reactions(system)
    np.testing.assert_allclose(forces["H"].force[0], on_2, atol=1e-11)
    np.testing.assert_allclose(forces["O"].force[0], on_1, atol=1e-11)


def test_ball_joints_hold_to_rounding_at_every_step_and_orthogonality_at_fourth_order(runs):
    gaps = []
    for h in STEPS:
        system, sol = runs[h]
        assert float(jnp.max(jnp.abs(sol.violation(system).position))) <= 1e-12
        gaps.append(orthogonality(sol))
    assert abs(slope(STEPS, gaps) - 4.0) < 0.3, gaps


def test_projection_restores_orthogonality_and_keeps_the_order(runs):
    errors = []
    for h in STEPS[:2]:
        system, sol = run_saved(h, mbd.RungeKutta(projection=True), t_end=1.0)
        assert orthogonality(sol) < 1e-13
        assert float(jnp.max(jnp.abs(sol.violation(system).velocity))) < 1e-11
        errors.append(np.max(np.abs(angles(sol) - bar_pendulum(np.asarray(sol.t)))[-1]))
    assert slope(STEPS[:2], errors) > 3.7, errors


def test_frozen_multipliers_are_of_first_order():
    hs, errors = (1e-3, 5e-4), []
    for h in hs:
        _, sol = run_saved(h, mbd.RungeKutta(multipliers="frozen"), t_end=0.5)
        errors.append(np.max(np.abs(angles(sol) - bar_pendulum(np.asarray(sol.t)))))
    assert abs(slope(hs, errors) - 1.0) < 0.15, errors


# --- spatial motion ------------------------------------------------------------------------------


def spinning_top(mass=2.0):
    s = jnp.array([0.3, -0.1, 0.4])
    m = mbd.Mechanism("top", gravity=(2.0, -1.0, -9.0))
    omega = jnp.array([3.0, -2.0, 6.0])
    m.add_body(
        "body", mass=mass, inertia=(0.05, 0.07, 0.04), r=s, omega=omega, v=jnp.cross(omega, s)
    )
    m.add(mbd.Spherical("pivot", m.ground, "body", point=(0, 0, 0)))
    return m.build()


def test_a_spatial_top_follows_eulers_equations_at_fourth_order():
    system, state = spinning_top()
    s, J = np.array([0.3, -0.1, 0.4]), np.diag([0.05, 0.07, 0.04])
    J_pivot = J + 2.0 * (s @ s * np.eye(3) - np.outer(s, s))
    A, omega = top_reference(
        J_pivot, 2.0, s, np.array([2.0, -1.0, -9.0]), np.array([3.0, -2.0, 6.0]), 1.0
    )
    hs, errors = (1e-2, 5e-3), []
    for h in hs:
        n = round(1 / h)
        f = mbd.RotationElements()
        sol = run_at(system, state, h, n, f, pieces=n // 50, integrator=mbd.RungeKutta())
        errors.append(np.max(np.abs(sol.A[-1, 0] - A)))
        assert float(jnp.max(jnp.abs(sol.omega[-1, 0] - omega))) < 100 * errors[-1]
    assert slope(hs, errors) > 3.7, errors


def test_a_spinning_chain_follows_kanes_equations_and_keeps_its_joints():
    omega = np.array([[3.0, -1.0, 2.0], [-2.0, 4.0, 1.0]])
    J = np.diag([0.002, 0.006, 0.007])
    m = mbd.Mechanism("chain")
    v = np.cross(omega[0], [0.1, 0, 0])
    m.add_body("one", mass=0.5, inertia=J, r=(0.1, 0, 0), omega=omega[0], v=v)
    m.add_body(
        "two",
        mass=0.5,
        inertia=J,
        r=(0.3, 0, 0),
        omega=omega[1],
        v=2 * v + np.cross(omega[1], [0.1, 0, 0]),
    )
    m.add(mbd.Spherical("O", m.ground, "one", point=(0, 0, 0)))
    m.add(mbd.Spherical("H", "one", "two", point=(0.2, 0, 0)))
    system, state = m.build()
    half, whole = np.array([[0.1, 0, 0]] * 2), np.array([[0.2, 0, 0]] * 2)
    reference = spherical_chain([0.5] * 2, [J] * 2, half, whole, [np.eye(3)] * 2, omega, 0.5)
    hs, errors = (4e-3, 2e-3), []
    for h in hs:
        _, sol = run_saved(h, t_end=0.5, case=(system, state), every=25)
        errors.append(np.max(np.abs(np.asarray(sol.r[-1]) - reference[0])))
        assert float(jnp.max(jnp.abs(sol.violation(system).position))) <= 1e-12
    assert slope(hs, errors) > 3.7, errors
    assert errors[-1] < 1e-7, errors


@pytest.mark.parametrize("name", ["four_bar", "slider_crank"])
def test_redundant_and_driven_loops_move_as_in_rotation_matrices(name):
    system, state = mbd.load(name)
    f, method = mbd.RotationElements(), mbd.RungeKutta(projection=True)
    sol = mbd.simulate(system, state, h=1e-3, steps=100, formulation=f, integrator=method)
    other = mbd.simulate(
        system, state, h=1e-3, steps=100, integrator=mbd.MuntheKaas(stabilization="projection")
    )
    np.testing.assert_allclose(sol.r, other.r, atol=1e-9)
    # Multipliers of repeating rows are of minimum norm up to the square root of rounding.
    np.testing.assert_allclose(sol.lam, other.lam, atol=1e-7 * float(jnp.max(jnp.abs(other.lam))))


def test_rigidity_multipliers_of_a_free_body_are_its_spin():
    m = mbd.Mechanism("free", gravity=(0, 0, 0))
    m.add_body(
        "body", mass=1.0, inertia=(0.05, 0.07, 0.09), r=(0.3, 0.1, -0.2), omega=(3.0, -2.0, 1.0)
    )
    system, state = m.build()
    f = mbd.RotationElements()
    sol = run_at(system, state, 2e-3, 500, f, pieces=10, integrator=mbd.RungeKutta())
    rigidity = np.asarray(sol.stats["rigidity"])[:, 0]
    assert np.linalg.eigvalsh(rigidity).max() < 0.0
    # Λ K⁻¹ + K⁻¹ Λ = -2 ṘᵀṘ, times K from the right: the trace of Λ is -2 of the kinetic energy,
    # which is constant.
    np.testing.assert_allclose(
        np.trace(rigidity, axis1=1, axis2=2), -2.0 * 0.5 * (0.45 + 0.28 + 0.09), rtol=1e-8
    )
    angular = np.asarray(sol.momentum(system).angular)
    np.testing.assert_allclose(angular, np.broadcast_to(angular[0], angular.shape), atol=1e-9)


def test_the_multipliers_of_a_hanging_bar_are_its_weight_and_its_stress():
    m = mbd.Mechanism("hanging", gravity=(9.81, 0, 0))
    m.add_body("bar", shape=mbd.Box((0.2, 0.02, 0.01), mass=0.108), r=(0.1, 0, 0))
    m.add(mbd.Spherical("O", m.ground, "bar", point=(0, 0, 0)))
    system, state = m.build()
    sol = mbd.simulate(
        system,
        state,
        steps=1,
        h=1e-3,
        formulation=mbd.RotationElements(),
        integrator=mbd.RungeKutta(),
    )
    weight = 0.108 * 9.81
    # Eq. 12 at rest: X = 0 and Y + Λ = 0, where Y is the weight times its lever.
    np.testing.assert_allclose(
        sol.stats["rigidity"][0, 0], np.diag([-weight * 0.1, 0, 0]), atol=1e-12
    )
    np.testing.assert_allclose(sol.reactions(system)["O"].force[0], [-weight, 0, 0], atol=1e-12)


@pytest.mark.essential
def test_gradients_and_batches_go_through_the_elimination():
    def end(mass):
        system, state = spinning_top(mass)
        f = mbd.RotationElements()
        sol = mbd.simulate(
            system,
            state,
            steps=20,
            h=5e-3,
            formulation=f,
            integrator=mbd.RungeKutta(),
            save_every=20,
        )
        return jnp.sum(sol.r[-1, 0] * jnp.array([1.0, 2.0, 3.0])) + jnp.sum(
            sol.stats["rigidity"][-1]
        )

    value, gradient = jax.jit(jax.value_and_grad(end))(2.0)
    masses = jnp.array([2.0 - 1e-5, 2.0, 2.0 + 1e-5])
    batch = jax.jit(jax.vmap(end))(masses)
    np.testing.assert_allclose(batch[1], value, rtol=1e-13)
    expected = central_difference(lambda k: batch[1 + round(k)], 0, 1) / 1e-5
    np.testing.assert_allclose(
        gradient, expected, rtol=1e-7
    )  # differences carry 1e-16 / 1e-5 of rounding


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["rod", "disc"])
def test_a_body_without_extent_is_refused_with_the_cure(shape):
    m = mbd.Mechanism("thin")
    if shape == "rod":
        m.add_body("thin one", shape=mbd.Rod(1.0, mass=1.0))
    else:
        m.add_body("thin one", mass=1.0, inertia=(0.25, 0.25, 0.5))
    system, state = m.build()
    with pytest.raises(ValueError, match=r"'thin one'.*needs a thickness.*mbd\.Cylinder.*mbd\.RA"):
        mbd.simulate(
            system,
            state,
            steps=1,
            h=1e-3,
            formulation=mbd.RotationElements(),
            integrator=mbd.RungeKutta(),
        )


def test_an_unknown_elimination_is_refused():
    with pytest.raises(ValueError, match="elimination must be one of"):
        mbd.RotationElements("three_step")


def test_only_the_sum_of_the_eigenvalues_of_a_free_bodys_multipliers_is_constant():
    """Of Λ in R̈ K = R Λ with K = ∫ x xᵀ dm: symmetric, with the trace -2 T (T the kinetic energy of
    rotation). The paper's introduction has every eigenvalue constant; for a tumbling body of three
    different moments they are not."""
    m = mbd.Mechanism("free", gravity=(0, 0, 0))
    J = np.array([1.0, 2.0, 2.5])
    m.add_body("body", mass=1.0, inertia=tuple(J), omega=(0.3, 2.0, 0.1))
    method = {"formulation": mbd.RotationElements(), "integrator": mbd.RungeKutta()}
    sol = mbd.simulate(*m.build(), h=2e-3, t_end=4.0, save_every=100, **method)
    omega, alpha = np.asarray(sol.omega[:, 0]), np.asarray(sol.alpha[:, 0])

    def tilde(a):
        return np.cross(a, np.eye(3)).T  # its columns are a x e_k

    K = np.diag(0.5 * np.sum(J) - J)
    turning = np.array([tilde(a) + tilde(w) @ tilde(w) for w, a in zip(omega, alpha, strict=True)])
    Lam = turning @ K
    np.testing.assert_allclose(Lam, np.swapaxes(Lam, 1, 2), atol=1e-7)
    values = np.linalg.eigvalsh(0.5 * (Lam + np.swapaxes(Lam, 1, 2)))
    twice = np.einsum("ti,i,ti->t", omega, J, omega)
    np.testing.assert_allclose(values.sum(axis=1), -twice, rtol=1e-7)
    np.testing.assert_allclose(twice, twice[0], rtol=1e-7)
    assert np.ptp(values, axis=0).max() > 0.1 * abs(values).max()
