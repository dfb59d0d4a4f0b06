"""State-space reduction: a crank-rocker whose crank turns over and over, against the equation of
motion of its crank angle; all formulations, chosen steps, drivers, derivatives.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from helpers import name_of, slope

pytestmark = pytest.mark.xdist_group("independent_coordinates")  # programs are shared

GROUND, CRANK, COUPLER, ROCKER, G = 2.0, 0.5, 1.8, 1.5, 9.81
SPEED, END = 7.0, 1.2  # more than a turn of the crank; the rocker goes to and fro


def corners(angle):
    """Ends of crank, coupler and rocker by the intersection of two circles."""
    a = CRANK * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    d = jnp.array([GROUND, 0.0])
    apart = d - a
    length = jnp.sqrt(apart @ apart)
    along = (COUPLER**2 - ROCKER**2 + length**2) / (2.0 * length)
    across = jnp.sqrt(COUPLER**2 - along**2)
    e = apart / length
    b = a + along * e + across * jnp.stack([-e[1], e[0]])
    return a, b, d


def rods(angle):
    """Mass, radius of gyration squared, center and direction of the three rods."""
    a, b, d = corners(angle)
    zero = jnp.zeros(2)
    for start, end in ((zero, a), (a, b), (d, b)):
        size = jnp.sqrt(jnp.sum((end - start) ** 2))
        yield size, size**2 / 12.0, 0.5 * (start + end), (end - start) / size  # 1 kg/m


def kinetic(angle):
    """Twice the kinetic energy at an angular velocity of one."""
    moved = jax.jacfwd(lambda x: [(r, e) for _, _, r, e in rods(x)])(angle)
    each = zip(rods(angle), moved, strict=True)
    return sum(m * (dr @ dr) + m * k2 * (de @ de) for (m, k2, _, _), (dr, de) in each)


def potential(angle):
    return sum(m * G * r[1] for m, _, r, _ in rods(angle))


@pytest.fixture(scope="module")
def reference():
    """The crank angle at the end, by SciPy."""
    inertia, slope_of, force = map(jax.jit, (kinetic, jax.grad(kinetic), jax.grad(potential)))

    def rate(_, y):
        x, w = y
        return [w, float((-0.5 * slope_of(x) * w**2 - force(x)) / inertia(x))]

    found = solve_ivp(rate, (0.0, END), [0.3, SPEED], "DOP853", rtol=1e-12, atol=1e-12)
    assert found.y[0, -1] > 2 * np.pi
    return found.y[0, -1]


def crank_rocker(gravity=G, driver=None):
    with jax.ensure_compile_time_eval():
        a, b, d = (np.append(x, 0.0) for x in corners(0.3))
    m = mbd.Mechanism("crank-rocker", gravity=(0.0, -gravity, 0.0))
    for name, start, end in (("crank", 0 * a, a), ("coupler", a, b), ("rocker", d, b)):
        size = np.linalg.norm(end - start)
        e = (end - start) / size
        A = np.stack([e, [-e[1], e[0], 0.0], [0.0, 0.0, 1.0]], axis=1)
        inertia = size**3 / 12.0 * np.array([1e-3, 1.0, 1.0])
        m.add_body(name, mass=size, inertia=np.diag(inertia), r=0.5 * (start + end), A=A)
    # Four parallel hinges: three rows more than needed.
    for name, i, j, point in (
        ("pin", "ground", "crank", 0 * a),
        ("knee", "crank", "coupler", a),
        ("joint", "coupler", "rocker", b),
        ("pivot", "ground", "rocker", d),
    ):
        m.add(mbd.Revolute(name, i, j, point=point, axis=(0.0, 0.0, 1.0)))
    if driver is not None:
        m.add(mbd.RotationDriver("motor", "ground", "crank", axis=(0.0, 0.0, 1.0), angle=driver))
        return m.build()
    system, state = m.build()
    return system, mbd.set_joints(system, state, {"pin": {"angle": 0.0, "rate": SPEED}})


@pytest.mark.parametrize("formulation", [mbd.RA(), mbd.RP(), mbd.REps()], ids=name_of)
def test_it_is_the_equation_of_the_crank_angle_at_the_order_of_the_method(reference, formulation):
    system, state = crank_rocker()
    hs, errors = (0.005, 0.0025), []
    for h in hs:
        sol = mbd.simulate(
            system,
            state,
            t_end=END,
            h=h,
            formulation=formulation,
            integrator=mbd.IndependentCoordinates("rk4"),
        )
        assert sol.result == mbd.RESULTS.successful
        # At every row, without stabilization.
        assert float(jnp.max(sol.violation().position)) < 1e-12
        assert float(jnp.max(sol.violation().velocity)) < 1e-12 * 10 * SPEED
        errors.append(abs(float(sol.joint("pin").angle[-1]) + 0.3 - reference))
    assert abs(slope(hs, errors) - 4.0) < 0.3, errors
    assert errors[-1] < 1e-7


def test_it_is_what_index_three_comes_to(reference):
    """Generalized-α, of second order, and the reduced system meet."""
    system, state = crank_rocker()
    run = lambda h, method: mbd.simulate(system, state, t_end=0.5, h=h, integrator=method)  # noqa: E731
    reduced = run(0.002, mbd.IndependentCoordinates("rk5"))
    hs = (0.002, 0.001)
    apart = [
        float(jnp.max(jnp.abs(run(h, mbd.GeneralizedAlpha()).r[-1] - reduced.r[-1]))) for h in hs
    ]
    assert abs(slope(hs, apart) - 2.0) < 0.1, apart
    forces = [
        sol.reactions()["knee"].force[-1] for sol in (reduced, run(0.001, mbd.GeneralizedAlpha()))
    ]
    np.testing.assert_allclose(*forces, rtol=1e-3)


def test_steps_are_chosen_for_a_tolerance(reference):
    system, state = crank_rocker()
    sol = mbd.simulate(
        system,
        state,
        save_at=jnp.array([0.0, 0.5 * END, END]),
        step=mbd.Adaptive(1e-9, max_steps=512),
        integrator=mbd.IndependentCoordinates("rk5"),
    )
    assert sol.result == mbd.RESULTS.successful
    assert abs(float(sol.joint("pin").angle[-1]) + 0.3 - reference) < 1e-7  # some hundred steps
    # A row between two steps is interpolated, the last one ends a step.
    assert float(jnp.max(sol.violation().position[-1])) < 1e-14


def test_a_driver_moves_the_plane_along():
    """No freedom is left: the pose is that of the crank's angle, by geometry."""
    system, state = crank_rocker(driver=lambda t: 4.0 * t + 3.0 * t**2)
    sol = mbd.simulate(
        system, state, t_end=0.6, h=0.02, integrator=mbd.IndependentCoordinates("heun")
    )
    b = corners(0.3 + 4.0 * 0.6 + 3.0 * 0.36)[1]
    rocker = 0.5 * (np.asarray(b) + [GROUND, 0.0])
    np.testing.assert_allclose(sol.r[-1, 2, :2], rocker, atol=1e-12)


def test_derivatives_are_those_of_the_program():
    def end(g):
        system, state = crank_rocker(g)
        sol = mbd.simulate(
            system, state, t_end=0.2, h=0.01, integrator=mbd.IndependentCoordinates()
        )
        return sol.r[-1, 2, 0]

    both = jax.jit(jax.value_and_grad(end))
    h = 1e-4
    difference = (both(G + h)[0] - both(G - h)[0]) / (2.0 * h)
    # A difference of numbers of 1 has 1e-16 / h of rounding.
    np.testing.assert_allclose(both(G)[1], difference, atol=1e-11)


def test_rows_at_velocity_level_are_refused_by_name():
    m = mbd.Mechanism("skate")
    m.add_body("skate", mass=1.0, inertia=np.eye(3))
    m.add(mbd.Planar("ice", "ground", "skate", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.KnifeEdge("blade", "ground", "skate", point=(0, 0, 0), axis=(1, 0, 0)))
    with pytest.raises(ValueError, match=r"'blade' binds velocities: use MuntheKaas"):
        mbd.simulate(*m.build(), steps=1, h=1e-3, integrator=mbd.IndependentCoordinates())


def test_a_tableau_that_there_is_not():
    with pytest.raises(ValueError, match="tableau must be one of"):
        mbd.IndependentCoordinates("rk45")
