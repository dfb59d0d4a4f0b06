"""Rows, links between Jacobians, Newton matrices: every formulation against automatic
differentiation of the whole."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import ALL_FORMULATIONS, FORMULATIONS, ROUNDOFF, VARIANTS, name_of, random_state, vec
from jaxmbd.equations import rows as equations
from jaxmbd.equations.index3 import Index3Step, StepData
from jaxmbd.equations.motion import StepEnd, StepScales, step_matrices
from jaxmbd.equations.rows import dense_rows
from jaxmbd.formulations import RA, RP
from jaxmbd.linalg.saddle import apart
from jaxmbd.rotations import euler_parameters as ep
from jaxmbd.rotations import so3


def all_primitives(rng) -> mbd.Mechanism:
    """Two bodies and the ground, every primitive, springs and dampers that couple, full
    inertias."""
    m = mbd.Mechanism("all")
    a = rng.normal(size=(2, 3, 3))
    inertia = [np.eye(3) * 3 + 0.2 * (x + x.T) for x in a]
    b1 = m.add_body("b1", mass=1.3, inertia=inertia[0])
    b2 = m.add_body("b2", mass=2.1, inertia=inertia[1])
    v = lambda: vec(rng)  # noqa: E731
    rows = [
        mbd.DP1(v(), v(), 0.3),
        mbd.DP2(v(), v(), v(), 0.1),
        mbd.D(v(), v(), 2.0),
        mbd.CD(v(), v(), v(), 0.5),
    ]
    m.add(mbd.Constraint("pair", b1, b2, primitives=rows))
    m.add(mbd.Constraint("to ground", b2, m.ground, primitives=rows))
    m.add(mbd.Constraint("from ground", m.ground, b1, primitives=rows[:2]))
    m.add(
        mbd.SpringDamper(
            "s", b1, b2, point_i=v(), point_j=v(), stiffness=40.0, damping=3.0, free_length=0.4
        )
    )
    m.add(mbd.TorsionalSpringDamper("ts", b1, m.ground, axis=v(), stiffness=5.0, damping=0.7))
    m.add(mbd.PointForce("push", b2, force=(1.0, 2.0, 3.0), point=v(), frame="body"))
    m.add(
        mbd.UserForce(
            "drag", [b1], lambda p, w, t: (-0.3 * w.v, -0.2 * w.omega * jnp.sum(w.omega**2))
        )
    )
    return m


@pytest.fixture
def case(rng):
    system, _ = all_primitives(rng).build()
    return system, random_state(rng, 2)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_state_round_trip(formulation, rng):
    state = random_state(rng, 4)
    back = formulation.to_state(*formulation.from_state(state))
    for name in ("r", "A", "v", "omega"):
        np.testing.assert_allclose(getattr(back, name), getattr(state, name), atol=1e-13)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_accelerations_round_trip(formulation, rng):
    q, u = formulation.from_state(random_state(rng, 3))
    a, alpha = jnp.array(rng.normal(size=(2, 3, 3)))
    coordinates = jax.vmap(formulation.accelerations)(q, u, a, alpha)
    back = jax.vmap(formulation.physical_accelerations)(q, u, coordinates)
    np.testing.assert_allclose(back[0], a, atol=1e-13)
    np.testing.assert_allclose(back[1], alpha, atol=1e-12)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_generalized_force_is_the_transpose_of_twist(formulation, rng):
    q, u = formulation.from_state(random_state(rng, 1))
    q, u = jax.tree.map(lambda x: x[0], (q, u))
    force, torque = vec(rng), vec(rng)
    twist = formulation.twist(q, u)
    power = force @ twist.v + torque @ twist.omega
    np.testing.assert_allclose(formulation.generalized(q, force, torque) @ u, power, atol=1e-13)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_rows_are_the_derivative_of_all_constraints(formulation, case):
    system, state = case
    q, _ = formulation.from_state(state)
    zero = jnp.zeros((2, formulation.size))
    by_ad = jax.jit(
        jax.jacfwd(
            lambda d: equations.phi(formulation, system, jax.vmap(formulation.retract)(q, d))
        )
    )(zero)
    rows = jax.jit(lambda q: dense_rows(formulation, system, q))(q)
    np.testing.assert_allclose(rows, by_ad.reshape(rows.shape), atol=ROUNDOFF)


def test_the_three_jacobians_are_linked(case):
    """Φ_eps = Π B and Π = 1/2 Φ_p Gᵀ."""
    system, state = case
    q = {f.name: f.from_state(state)[0] for f in FORMULATIONS}
    rows = {
        f.name: jax.jit(lambda q, f=f: equations.rows(f, system, q))(q[f.name])[: system.nc]
        for f in FORMULATIONS
    }
    B = np.concatenate(
        [
            [mbd.REps()._B(jax.tree.map(lambda x, b=b: x[b], q["reps"])) for b in range(2)],
            np.eye(3)[None],
        ]
    )
    G = np.concatenate(
        [[ep.G(q["rp"][b, 3:]) for b in range(2)], ep.G(jnp.array([1.0, 0, 0, 0]))[None]]
    )
    bodies = system.row_bodies
    moving = bodies < 2
    pi = np.asarray(rows["rA"][..., 3:])
    by_eps = np.einsum("mka,mkab->mkb", pi, B[bodies])
    by_p = 0.5 * np.einsum("mkp,mkap->mka", np.asarray(rows["rp"][..., 3:]), G[bodies])
    np.testing.assert_allclose(
        np.asarray(rows["reps"][..., 3:])[moving], by_eps[moving], atol=ROUNDOFF
    )
    np.testing.assert_allclose(by_p[moving], pi[moving], atol=ROUNDOFF)


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_gamma_is_minus_the_second_derivative_along_the_coordinates(formulation, case):
    system, state = case
    q, u = formulation.from_state(state)
    value = lambda s: equations.phi(formulation, system, jax.vmap(formulation.retract)(q, s * u))  # noqa: E731
    by_ad = -jax.jit(jax.jacfwd(jax.jacfwd(value)))(jnp.zeros(()))
    np.testing.assert_allclose(
        jax.jit(lambda q, u: equations.gamma(formulation, system, q, u))(q, u), by_ad, atol=ROUNDOFF
    )


@pytest.mark.parametrize("make", [RA, RP, mbd.REps], ids=lambda make: make.name)
def test_rows_by_hand_equal_automatic_ones(make, case, rng):
    """Rows, γ and what reactions vary by, off the unit sphere of Euler parameters too."""
    system, state = case
    q, u = make().from_state(state)
    if make is RP:
        q = q + 0.1 * jnp.array(rng.normal(size=q.shape))
    lam = jnp.array(rng.normal(size=len(equations.row_bodies(make(), system))))

    @jax.jit
    def found(q, u):
        def of(rows):
            f = make(rows=rows)
            varied = equations.row_variations(f, system, q, lam)
            own, others = apart(varied, system.nb, f.size)
            blocks = sum(scattered(c.padded(f.size), c.bodies) for c in others)
            blocks += scattered(own[:, None, :, None, :], [(b,) for b in range(system.nb)])
            return equations.rows(f, system, q), equations.gamma(f, system, q, u), blocks

        def scattered(blocks, bodies):
            whole = jnp.zeros((system.nb + 1, q_size, system.nb + 1, q_size))
            for block, k in zip(blocks, np.array(bodies), strict=True):
                whole = whole.at[k[:, None], :, k[None, :], :].add(jnp.moveaxis(block, 2, 1))
            return whole[: system.nb, :, : system.nb]

        q_size = make.size
        return of("paper"), of("automatic")

    for by_hand, automatic in zip(*found(q, u), strict=True):
        np.testing.assert_allclose(by_hand, automatic, rtol=0, atol=1e-12 * np.abs(automatic).max())


@pytest.mark.parametrize("h", [0.1, 1e-2])
@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_exact_newton_matrix_is_the_derivative_of_the_residual(formulation, case, rng, h):
    system, state = case
    q, u = formulation.from_state(state)
    t = jnp.array(0.3)
    args = StepData(system.at(t), q, u, h * u, t, StepScales(jnp.array(h), jnp.array(h**2)))
    step = Index3Step(formulation, "auto", "position", 8)
    x = jnp.array(rng.normal(size=u.size + len(equations.row_bodies(formulation, system))))
    by_ad = jax.jit(jax.jacfwd(lambda x: step.residual(x, args)))(x)
    scale = np.max(np.abs(by_ad))
    # The matrix of a mechanism that may be redundant is regularized; here the equations alone are
    # compared.
    matrix = jax.jit(
        lambda x: eqx.tree_at(
            lambda m: m.regularization, step.matrix(x, args, exact=True), None
        ).dense()
    )(x)
    np.testing.assert_allclose(matrix, by_ad, atol=ROUNDOFF * scale)


@pytest.mark.parametrize("formulation", [RA(), RP()], ids=name_of)
def test_a_matrix_nearby_lacks_what_reactions_vary_by_between_bodies(formulation, case, rng):
    system, state = case
    q, u = formulation.from_state(state)
    t, h = jnp.array(0.3), 1e-2
    lam = jnp.array(rng.normal(size=len(equations.row_bodies(formulation, system))))
    a, scales = jnp.array(rng.normal(size=u.shape)), StepScales(jnp.array(h), jnp.array(h**2))
    made = jax.jit(
        lambda lam: [
            m.dense()
            for m in step_matrices(
                formulation, system.at(t), StepEnd(q, u, a, lam, t), scales, h * u, exact=True
            )
        ]
    )
    exact, nearby = made(lam)
    missing = np.array(exact - nearby)
    n, d = u.size, u.shape[1]
    assert np.abs(missing[:n, :n]).max() > 0.0
    assert not missing[n:].any()
    assert not missing[:n, n:].any()
    own = np.kron(np.eye(system.nb), np.ones((d, d))) > 0.0
    np.testing.assert_allclose(missing[:n, :n][own], 0.0, atol=ROUNDOFF)
    # Without reactions there is nothing to vary.
    np.testing.assert_allclose(*made(0.0 * lam), atol=ROUNDOFF)


def test_forces_in_ball_joints_vary_with_one_body_each(rng):
    """CD rows: a force of a fixed direction, whose moment turns with the body that it acts on."""
    system, state = mbd.load("spherical_double_pendulum")
    q, u = RA().from_state(state)
    t, h = jnp.zeros(()), jnp.array(1e-2)
    lam = jnp.array(rng.normal(size=system.nc))
    scales, end = StepScales(h, h**2), StepEnd(q, u, 0.0 * u, lam, t)
    exact, nearby = step_matrices(RA(), system.at(t), end, scales, h * u, exact=True)
    np.testing.assert_array_equal(exact.dense(), nearby.dense())
    unloaded = end._replace(lam=0.0 * lam)
    none, _ = step_matrices(RA(), system.at(t), unloaded, scales, h * u, exact=True)
    assert np.abs(exact.dense() - none.dense()).max() > 1e-6


@pytest.mark.parametrize("formulation", [*ALL_FORMULATIONS, *VARIANTS], ids=name_of)
def test_quasi_newton_matrix_approaches_the_exact_one_as_h_squared(formulation, rng):
    m = mbd.Mechanism("free of forces", gravity=(0, 0, 0))
    b1 = m.add_body("b1", mass=1.0, inertia=(2.0, 3.0, 4.0))
    m.add(mbd.Constraint("c", b1, m.ground, primitives=[mbd.DP2(vec(rng), vec(rng), vec(rng))]))
    system, _ = m.build()
    q, u = formulation.from_state(random_state(rng, 1))
    step = Index3Step(formulation, "auto", "position", 8)
    x = jnp.array(rng.normal(size=u.size + len(equations.row_bodies(formulation, system))))
    gaps = []
    for h in (1e-2, 1e-3):
        args = StepData(
            system, q, u, h * u, jnp.array(0.0), StepScales(jnp.array(h), jnp.array(h**2))
        )

        def matrices(x, args=args):
            return [step.matrix(x, args, exact=e).dense() for e in (True, False)]

        exact, quasi = jax.jit(matrices)(x)
        gaps.append(np.max(np.abs(exact - quasi)[: u.size, : u.size]))
    assert gaps[1] < gaps[0] * 0.02  # second order in the bodies' block


def test_charts_keep_euler_angles_away_from_their_singularity(rng):
    reps = mbd.REps()
    for _ in range(200):
        q, _ = reps.from_state(random_state(rng, 1))
        assert abs(np.cos(q.x[0, 4])) <= 1 / np.sqrt(3) + 1e-12


def test_a_chart_switch_changes_coordinates_but_not_the_motion(rng):
    reps = mbd.REps()
    state = random_state(rng, 2)
    q, u = reps.from_state(state)
    # Force the worst chart: body 0's third chart axis within three degrees of global z.
    A = np.asarray(so3.exp(jnp.array([0.05, 0.0, 0.7])))
    pose = mbd.Pose(state.r[0], jnp.array(A))
    bad = reps._in_chart(pose, jnp.eye(3))
    u_bad = reps.rates(bad, state.v[0], state.omega[0])
    a_bad = reps.accelerations(bad, u_bad, jnp.array([1.0, 2, 3]), jnp.array([4.0, 5, 6]))
    q, u, a = jax.tree.map(lambda x: x[None], (bad, u_bad, a_bad))
    q2, u2, a2 = reps.rechart(q, u, a)
    assert abs(np.cos(q.x[0, 4])) > 0.99 and abs(np.cos(q2.x[0, 4])) < 0.6
    before, after = reps.to_state(q, u), reps.to_state(q2, u2)
    for name in ("r", "A", "v", "omega"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=1e-12)
    np.testing.assert_allclose(
        jax.vmap(reps.physical_accelerations)(q2, u2, a2)[1][0], [4, 5, 6], atol=1e-10
    )


def test_in_a_batch_charts_switch_as_they_do_alone(rng):
    """Of three members one has to switch, and derivatives go through."""
    reps = mbd.REps()
    A = jnp.stack([so3.exp(jnp.array([tilt, 0.0, 0.7])) for tilt in (1.2, 0.05, 2.0)])
    u, a = (jnp.asarray(rng.normal(size=(3, 1, 6))) for _ in range(2))
    directions = [jnp.asarray(rng.normal(size=(3, 1, 6))) for _ in range(3)]

    def switched(A, x, u, a):
        q = reps._in_chart(mbd.Pose(jnp.zeros(3), A), jnp.eye(3))
        q = jax.tree.map(lambda x: x[None], q)
        return reps.rechart(type(q)(q.x + x, q.chart), u, a)

    def with_derivative(A, u, a, dx, du, da):
        return jax.jvp(lambda *args: switched(A, *args), (jnp.zeros((1, 6)), u, a), (dx, du, da))

    args = (A, u, a, *directions)
    together = jax.vmap(with_derivative)(*args)
    assert not np.allclose(together[0][0].chart[1], np.eye(3))
    np.testing.assert_array_equal(together[0][0].chart[0, 0], np.eye(3))
    for k in range(3):
        alone = with_derivative(*(x[k] for x in args))
        for x, y in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-12, atol=1e-12)


def test_the_quasi_matrix_knows_how_rotations_move(rng, case):
    system, state = case
    q, u = mbd.RA().from_state(state)
    h, t = jnp.array(0.1), jnp.array(0.0)
    args = StepData(system.at(t), q, u, h * u, t, StepScales(h, h**2))
    x = jnp.array(rng.normal(size=u.size + system.nc))

    def left_rows(tangent, exact):
        step = Index3Step(mbd.RA(), "auto", "position", 8, tangent)
        return jax.jit(lambda x: step.matrix(x, args, exact=exact).left)(x)

    exact = left_rows(True, True)
    np.testing.assert_allclose(left_rows(True, False), exact, atol=ROUNDOFF)
    assert np.max(np.abs(left_rows(False, False) - exact)) > 1e-2


def test_both_forms_of_the_inertia_forces_differ_along_the_euler_parameters(rng):
    state = random_state(rng, 1)
    inertia = jnp.diag(jnp.array([2.0, 3.0, 4.0]))
    none = jnp.zeros(3)
    by_form = []
    for form in ("newton_euler", "lagrange"):
        formulation = mbd.RP(inertia_forces=form)
        q, u = jax.tree.map(lambda x: x[0], formulation.from_state(state))
        a = formulation.accelerations(q, u, none, jnp.array([0.3, -0.7, 0.2]))
        by_form.append(formulation.body_balance(jnp.ones(()), inertia, q, u, a, none, none))
    gap, p = (by_form[1] - by_form[0])[3:], q[3:]
    assert jnp.linalg.norm(gap) > 1.0
    np.testing.assert_allclose(gap, (gap @ p) * p, atol=1e-12 * jnp.linalg.norm(gap))


@pytest.mark.parametrize(
    "formulation",
    [
        pytest.param(v, marks=() if isinstance(v, mbd.RP) else pytest.mark.slow, id=name_of(v))
        for v in VARIANTS
    ],
)
def test_options_of_a_formulation_do_not_change_the_motion(formulation):
    """A spatial chain of which one body spins at 77 rad/s."""
    system, state = mbd.load("spherical_double_pendulum")
    options = {"h": 1e-3, "steps": 50, "save_every": 50, "integrator": mbd.GeneralizedAlpha()}
    plain = mbd.simulate(system, state, formulation=type(formulation)(), **options)
    other = mbd.simulate(system, state, formulation=formulation, **options)
    same = getattr(formulation, "inertia_forces", "newton_euler") == "newton_euler"
    # Both forms of the inertia forces belong to methods of second order with errors of their own.
    bound = 1e-9 if same else 1e-3
    for name in ("r", "A", "omega"):
        gap = np.max(np.abs(getattr(plain, name) - getattr(other, name)))
        assert gap < bound * np.max(np.abs(getattr(plain, name)))


@pytest.mark.parametrize("make", [mbd.RA, mbd.RP, mbd.REps])
def test_unknown_options_are_refused(make):
    with pytest.raises(ValueError, match="rows must be 'closed'.* 'automatic'"):
        make(rows="by hand")


def test_an_unknown_form_of_inertia_forces_is_refused():
    with pytest.raises(ValueError, match="inertia_forces must be"):
        mbd.RP(inertia_forces="hamilton")
