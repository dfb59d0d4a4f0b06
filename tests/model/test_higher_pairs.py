"""Cams, curves and surfaces against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.outcomes import RESULTS

X, Y, Z, ORIGIN = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
ECCENTRICITY, RADIUS, ROLLER, SPEED = 0.02, 0.05, 0.01, 20.0


def circle(s):
    """An eccentric circle in the plane y = 0."""
    return jnp.array([ECCENTRICITY + RADIUS * jnp.cos(s), 0.0, RADIUS * jnp.sin(s)])


def lift(kind):
    """Height of the follower's point as a function of the angle of the cam."""
    if kind == "flat":
        return lambda angle: ECCENTRICITY * jnp.sin(angle) + RADIUS
    reach = RADIUS + (ROLLER if kind == "roller" else 0.0)
    return lambda angle: (
        ECCENTRICITY * jnp.sin(angle) + jnp.sqrt(reach**2 - (ECCENTRICITY * jnp.cos(angle)) ** 2)
    )


def cam(kind, *, curve=circle, driven=True, closed=True):
    m = mbd.Mechanism("cam")
    height = float(lift(kind)(0.0))
    body = m.add_body("cam", mass=1.0, inertia=(1e-3, 1e-3, 1e-3))
    follower = m.add_body("follower", mass=0.5, inertia=(1e-3,) * 3, r=(0.0, 0.0, height + 0.1))
    m.add(mbd.Revolute("shaft", m.ground, body, point=ORIGIN, axis=Y))
    m.add(mbd.Translational("guide", m.ground, follower, point=(0, 0, height + 0.1), axis=Z))
    if driven:
        m.add(mbd.RotationDriver("motor", m.ground, body, axis=(0, -1, 0), angle="20*t"))
    options = {"roller": {"radius": ROLLER}, "knife": {}, "flat": {"face": X}}[kind]
    m.add(
        mbd.Cam(
            "profile",
            body,
            follower,
            curve=curve,
            axis=Y,
            closed=closed,
            point=(0.0, 0.0, height),
            **options,
        )
    )
    m.add(
        mbd.SpringDamper(
            "spring",
            m.ground,
            follower,
            point_i=(0.0, 0.0, height + 0.3),
            point_j=(0.0, 0.0, height + 0.1),
            stiffness=2000.0,
            free_length=0.3,
        )
    )
    return m, height


@pytest.mark.essential
@pytest.mark.parametrize("kind", ["roller", "knife", "flat"])
def test_a_cam_lifts_and_presses_as_its_closed_form(kind):
    m, height = cam(kind)
    system, state = m.build()
    t = np.linspace(0.0, 0.5, 41)
    sol = mbd.kinematics(system, state, t)
    law = lambda t: lift(kind)(SPEED * t)  # noqa: E731
    z, a = jax.vmap(law)(t), jax.vmap(jax.grad(jax.grad(law)))(t)
    assert np.max(np.abs(sol.r[:, 1, 2] - 0.1 - z)) < 1e-12
    assert np.max(np.abs(sol.a[:, 1, 2] - a)) < 1e-9 * np.max(np.abs(a))
    # Along the guide: m a = N cos β - m g - spring; β between the normal and the guide.
    spring = 2000.0 * (0.3 - (0.2 + height - z))
    pressed = 0.5 * a + 0.5 * 9.81 + spring
    if kind != "flat":
        reach = RADIUS + (ROLLER if kind == "roller" else 0.0)
        pressed = pressed * reach / np.sqrt(reach**2 - (ECCENTRICITY * np.cos(SPEED * t)) ** 2)
    force = sol.normal_forces()["profile"]
    assert np.max(np.abs(force - pressed)) < 1e-9 * np.max(pressed)


@pytest.mark.parametrize("name", ["rA", "rp", "reps"])
def test_a_free_cam_turns_as_in_minimal_coordinates(name):
    # One degree of freedom, the angle: (J + m l'²) φ̈ + m l' l'' φ̇² = -(m g + spring) l'
    m, height = cam("roller", driven=False)
    system, state = m.build()
    formulation = {"rA": mbd.RA(), "rp": mbd.RP(), "reps": mbd.REps()}[name]
    # The method of fourth order takes rotation matrices only; the other's errors fall by its order.
    method, steps = (mbd.MuntheKaas(), (200,)) if name == "rA" else (mbd.BDF2(), (100, 200))
    law = lift("roller")
    l1, l2 = jax.grad(law), jax.grad(jax.grad(law))

    def rate(x, t):
        phi, w = x
        spring = 2000.0 * (0.3 - (0.2 + height - law(phi)))
        torque = -(0.5 * 9.81 + spring) * l1(phi) - 0.5 * l1(phi) * l2(phi) * w**2
        return jnp.stack([w, torque / (1e-3 + 0.5 * l1(phi) ** 2)])

    from jax.experimental.ode import odeint

    t = jnp.linspace(0.0, 0.05, 101)
    exact = odeint(rate, jnp.zeros(2), t, rtol=1e-12, atol=1e-12)[:, 0]
    assert abs(float(exact[-1])) > 0.1
    errors = []
    for n in steps:
        sol = mbd.simulate(
            system, state, h=0.05 / n, steps=n, formulation=formulation, integrator=method
        )
        angle = -np.asarray(sol.joint("shaft").angle)[:: n // 100]
        errors.append(np.max(np.abs(angle - exact)))
    assert errors[-1] < (1e-8 if name == "rA" else 0.3 * errors[0])


def test_a_spline_follows_its_circle():
    angles = 2.0 * np.pi * np.arange(48) / 48
    points = np.stack([np.asarray(circle(s)) for s in angles])
    m, _ = cam("roller", curve=points)
    sol = mbd.kinematics(*m.build(), np.linspace(0.0, 0.3, 31))
    exact = lift("roller")(SPEED * np.asarray(sol.t))
    # A cubic spline through points at spacing 2π/48 on a radius of 0.05: h⁴/384 of it.
    assert np.max(np.abs(sol.r[:, 1, 2] - 0.1 - exact)) < 0.05 * (2 * np.pi / 48) ** 4 / 384 * 2


def bead(*, end=2.0, closed=False):
    m = mbd.Mechanism("bead")
    body = m.add_body("bead", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0.0, 0.25))
    m.add(
        mbd.PointOnCurve(
            "wire",
            m.ground,
            body,
            curve=["t", "0", "t**2"],
            closed=closed,
            span=(-1.0, end),
            axis=Y,
            point=(0.5, 0.0, 0.25),
            hold_axially=True,
        )
    )
    return m


def test_a_bead_on_a_wire_keeps_its_energy_and_its_path():
    system, state = bead().build()
    assert mbd.mobility(system, state).freedoms == 4
    sol = mbd.simulate(system, state, t_end=2.0, h=2e-3, integrator=mbd.MuntheKaas())
    x, y, z = np.asarray(sol.r[:, 0]).T
    # The method lets positions drift at its order.
    assert np.max(np.abs(z - x**2)) < 1e-8 and np.max(np.abs(y)) < 1e-12
    assert np.min(x) < -0.49
    energy = sol.energy().total
    assert np.max(np.abs(energy - energy[0])) < 1e-7


def test_the_end_of_a_curve_is_told():
    m = bead(end=0.6)
    system, state = m.build()
    state = mbd.State(state.r, state.A, jnp.array([[2.0, 0.0, 2.0]]), state.omega)
    with pytest.raises(mbd.SimulationError, match=r"passed the end of its curve.*'wire'") as error:
        mbd.simulate(system, state, t_end=1.0, h=1e-2)
    kept = error.value.solution
    assert kept.result == RESULTS.wrong_branch
    last = int(kept.stats["completed_steps"])
    assert 0.5 < float(kept.r[last, 0, 0]) <= 0.6


def test_a_curve_on_a_curve_is_two_circles():
    # A disc of radius 0.2 slides round one of radius 0.5: its center stays at 0.7.
    m = mbd.Mechanism("discs")
    body = m.add_body(
        "disc", mass=1.0, inertia=(0.1,) * 3, r=(0.7 * np.sin(0.3), 0.0, 0.7 * np.cos(0.3))
    )
    m.add(mbd.Planar("plane", m.ground, body, point=ORIGIN, axis=Y))
    center = np.asarray(body.r)
    m.add(
        mbd.CurveOnCurve(
            "rims",
            m.ground,
            body,
            curve=lambda s: jnp.array([0.5 * jnp.cos(s), 0.0, 0.5 * jnp.sin(s)]),
            curve_j=lambda s: center + jnp.array([0.2 * jnp.cos(s), 0.0, 0.2 * jnp.sin(s)]),
            closed_j=True,
            axis=Y,
        )
    )
    system, state = m.build()
    sol = mbd.simulate(system, state, t_end=0.3, h=2e-3, integrator=mbd.MuntheKaas())
    assert np.max(np.abs(np.linalg.norm(sol.r[:, 0], axis=1) - 0.7)) < 1e-9
    # It slides off where gravity no longer presses: N = m (g cos φ - v²/r).
    force = sol.normal_forces()["rims"]
    phi = np.arctan2(sol.r[:, 0, 0], sol.r[:, 0, 2])
    expected = 9.81 * np.cos(phi) - np.sum(sol.v[:, 0] ** 2, axis=1) / 0.7
    assert np.max(np.abs(force - expected)) < 1e-6 * 9.81


def test_a_point_on_a_sphere_is_a_pendulum():
    def run(add):
        m = mbd.Mechanism("pendulum")
        start = np.array([0.6, 0.0, -0.8])
        body = m.add_body("bob", mass=1.0, inertia=(0.1,) * 3, r=start, v=(0.0, 1.0, 0.0))
        m.add(add(m, body, start))
        return mbd.simulate(*m.build(), t_end=1.0, h=5e-3)

    surface = run(
        lambda m, b, p: mbd.PointOnSurface(
            "bowl", m.ground, b, point=p, surface=lambda x: 1.0 - x @ x
        )
    )
    link = run(lambda m, b, p: mbd.Distance("rod", m.ground, b, point_i=ORIGIN, point_j=p))
    assert np.max(np.abs(surface.r - link.r)) < 1e-9
    assert np.all(surface.normal_forces()["bowl"] > 0.0)


def test_a_profile_has_derivatives():
    def last(size):
        m, _ = cam("roller", curve=lambda s: size * circle(s))
        state, _ = mbd.assemble(*m.build(), t=0.02)
        return state.r[1, 2]

    def closed(size):
        angle, reach = 0.4, size * RADIUS + ROLLER
        across = size * ECCENTRICITY * jnp.cos(angle)
        return 0.1 + size * ECCENTRICITY * jnp.sin(angle) + jnp.sqrt(reach**2 - across**2)

    value, slope = jax.value_and_grad(last)(1.0)
    assert np.isclose(value, closed(1.0), rtol=1e-12)
    assert np.isclose(slope, jax.grad(closed)(1.0), rtol=1e-8)


def test_files_hold_curves(tmp_path):
    for m in (bead(), cam("knife", curve=np.array([circle(s) for s in np.arange(6.0)]))[0]):
        mbd.save(m, tmp_path / "m.json")
        again, _ = mbd.load(tmp_path / "m.json")
        system, _ = m.build()
        assert all(
            np.array_equal(a, b)
            for a, b in zip(
                jax.tree.leaves(system.constraints), jax.tree.leaves(again.constraints), strict=True
            )
        )


@pytest.mark.parametrize(
    ("curve", "closed", "message"),
    [
        ([[0, 0, 0], [1, 0, 0]], True, "at least 3 points.*closed=False"),
        ([[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]], True, "points 1 and 2 coincide"),
        (lambda s: jnp.array([jnp.abs(s - 3.0), 0.0, s]), True, "corner at 3"),
        (lambda s: jnp.array([(s - 3.0) ** 3, 0.0, (s - 3.0) ** 2]), True, "stands still|corner"),
        (lambda s: s, True, "curve"),
    ],
)
def test_curves_that_are_not_smooth_are_refused(curve, closed, message):
    with pytest.raises(ValueError, match=f"'profile'.*{message}"):
        cam("roller", curve=curve, closed=closed)
