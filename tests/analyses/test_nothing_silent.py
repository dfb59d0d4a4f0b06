"""A number that may be wrong is told, also inside `jit`: drivers half a turn off, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import CompilationCounter, ImpatientBar
from jaxmbd.analyses.running import chunked_run as host_loop
from jaxmbd.analyses.running.failure import raise_failure
from jaxmbd.analyses.running.initial_state import blown_up
from jaxmbd.integrators import Motion


class Angle(eqx.Module):
    """Several functions of time in one structure, so that one program serves them all."""

    constant: float = 0.0
    linear: float = 0.0
    quartic: float = 0.0
    jump: float = 0.0
    at: float = 0.0
    wave: float = 0.0
    frequency: float = 0.0

    def __call__(self, t):
        smooth = (
            self.constant
            + self.linear * t
            + self.quartic * t**4
            + self.wave * jnp.sin(self.frequency * t)
        )
        return smooth + self.jump * jnp.sign(t - self.at)


class Turn(eqx.Module):
    """A rotation about an axis askew."""

    angle: Angle

    def __call__(self, t):
        return self.angle(t) * jnp.array([0.6, 0.0, 0.8])


def rotor(angle, driver="RotationDriver"):
    m = mbd.Mechanism("rotor")
    m.add_body("wheel", mass=1.0, inertia=(0.1, 0.2, 0.25), r=(0.3, 0, 0))
    if driver == "RotationDriver":
        m.add(mbd.Revolute("pin", m.ground, "wheel", point=(0, 0, 0), axis=(0, 0, 1)))
        m.add(mbd.RotationDriver("motor", m.ground, "wheel", axis=(0, 0, 1), angle=angle))
    else:
        still = jnp.zeros(3)
        m.add(
            mbd.PoseDriver(
                "motor", m.ground, "wheel", displacement=lambda t: still + t, rotation=Turn(angle)
            )
        )
    return m.build()


def name(result) -> str:
    return mbd.results.export.result_name(result)


@eqx.filter_jit
def moved(angle, ts, driver):
    system, state = rotor(angle, driver)
    sol = mbd.kinematics(system, state, ts)
    return sol.result, sol.A


@eqx.filter_jit
def simulated(angle, h, driver):
    system, state = rotor(angle, driver)
    sol = mbd.simulate(system, state, h=h, steps=10, integrator=mbd.GeneralizedAlpha())
    return sol.result, sol.A, sol.t


DRIVERS = ["RotationDriver", "PoseDriver"]
ANGLES = {
    "starts beyond a quarter turn": Angle(constant=2.0, linear=1.0),
    "starts at half a turn": Angle(constant=3.0, linear=-0.5),
    "jumps": Angle(constant=1.5, jump=1.5, at=0.0055),
    "jumps on from its start": Angle(constant=1.5, jump=1.5, at=0.0005),
    "runs ahead of the instants": Angle(quartic=2e8),
    "swings between instants": Angle(wave=3.0, frequency=2000.0),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("case", ANGLES)
def test_a_driven_rotation_is_at_its_angle_or_the_result_says_that_it_is_not(case, driver):
    """Inside `jit`, where nothing can be refused: never another branch with the result
    `successful`."""
    angle = jax.tree.map(jnp.asarray, ANGLES[case])
    ts = 1e-3 * jnp.arange(11.0)
    axis = np.array([0.6, 0, 0.8]) if driver == "PoseDriver" else np.array([0.0, 0, 1])
    results = {}
    for analysis, (result, A) in {
        "kinematics": moved(angle, ts, driver),
        "simulate": simulated(angle, jnp.asarray(1e-3), driver)[:2],
    }.items():
        results[analysis] = name(result)
        good = np.isfinite(np.asarray(A)).all(axis=(1, 2, 3))
        assert good.all() == (results[analysis] == "successful")
        for k in np.flatnonzero(good):
            wanted = mbd.rotations.so3.exp(jnp.asarray(axis * float(angle(ts[k]))))
            np.testing.assert_allclose(A[k, 0], wanted, atol=1e-8)
    if "starts" in case and "its" not in case:
        assert set(results.values()) == {"wrong_branch"}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_may_turn_any_number_of_times(driver):
    result, A = moved(
        jax.tree.map(jnp.asarray, Angle(linear=1400.0)), 1e-3 * jnp.arange(11.0), driver
    )
    assert name(result) == "successful"
    axis = np.array([0.6, 0, 0.8]) if driver == "PoseDriver" else np.array([0.0, 0, 1])
    np.testing.assert_allclose(A[-1, 0], mbd.rotations.so3.exp(jnp.asarray(14.0 * axis)), atol=1e-9)


def test_a_driver_half_a_turn_off_during_a_run_is_an_error_with_its_rows():
    system, state = rotor(jax.tree.map(jnp.asarray, ANGLES["jumps"]))
    with pytest.raises(
        mbd.SimulationError, match="half a turn from its prescribed angle"
    ) as caught:
        mbd.simulate(system, state, h=1e-3, steps=10)
    assert int(np.sum(np.isfinite(caught.value.solution.r[:, 0, 0]))) == 6


def free_body(mass=1.0, A=None, t0=0.0):
    m = mbd.Mechanism("stone")
    m.add_body("stone", mass=mass, inertia=mass * jnp.array([0.1, 0.1, 0.15]), omega=(1, 2, 3))
    system, state = m.build()
    if A is not None:
        state = eqx.tree_at(lambda s: s.A, state, A)
    return mbd.simulate(system, state, h=1e-3, steps=2, t0=t0)


def test_impossible_numbers_inside_jit_are_told_by_the_result():
    run = eqx.filter_jit(free_body)
    good, one = jnp.eye(3)[None], jnp.asarray(1.0)
    assert name(run(one, good, 0.0 * one).result) == "successful"
    for wrong in (
        (-5.0 * one, good, 0.0 * one),
        (one, 2.0 * good, 0.0 * one),
        (one, -good, 0.0 * one),
        (one, good, jnp.nan * one),
        (jnp.nan * one, good, 0.0 * one),
    ):
        sol = run(*wrong)
        assert name(sol.result) == "invalid_input" and np.isnan(sol.r).all()


class Load(eqx.Module):
    """A force that ends at an instant: the root of a number that becomes negative."""

    end: float

    def __call__(self, t):
        return jnp.sqrt(self.end - t) * jnp.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("end", [-1.0, 5.5e-3])
def test_a_force_that_is_not_a_number_is_named_with_its_body_and_instant(end):
    m = mbd.Mechanism("pair")
    for body in ("left", "right"):
        m.add_body(body, mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.PointForce("steady", "left", force=(1.0, 0, 0)))
    m.add(mbd.PointForce("fading", "right", force=Load(jnp.asarray(end))))
    system, state = m.build()
    instant = "0 s" if end < 0 else "0.006 s"
    with pytest.raises(
        mbd.SimulationError, match=f"Force 'fading' on 'right' is NaN or infinite at t = {instant}"
    ) as e:
        mbd.simulate(system, state, h=1e-3, steps=10)
    assert "rank" not in str(e.value) and "steady" not in str(e.value)
    assert int(np.isfinite(e.value.solution.r[:, 0, 0]).sum()) == (0 if end < 0 else 6)


def test_a_motion_that_is_not_a_number_is_named_with_its_joint():
    system, state = rotor(lambda t: jnp.where(t < 5.5e-3, t, jnp.nan))
    with pytest.raises(
        mbd.SimulationError, match=r"motion of 'motor' \(angle\) is NaN or infinite at t = 0.006 s"
    ):
        mbd.simulate(system, state, h=1e-3, steps=10)


def test_nothing_compiles_again_for_another_step_end_or_number_of_rows():
    system, state = rotor(Angle(linear=jnp.asarray(1.0)))
    options = {"integrator": mbd.GeneralizedAlpha()}
    mbd.simulate(system, state, h=1e-3, t_end=0.01, **options)
    with CompilationCounter() as counter:
        mbd.simulate(system, state, h=5e-4, t_end=0.01, **options)
        mbd.simulate(system, state, h=1e-3, t_end=0.2, save_every=5, **options)
        mbd.simulate(system, state, h=1e-4, steps=3000, **options)
    assert counter.programs == 0


def test_an_interrupted_run_keeps_its_rows_and_says_so(monkeypatch):
    monkeypatch.setattr(host_loop, "tqdm", ImpatientBar)
    system, state = rotor(Angle(linear=jnp.asarray(1.0)))
    sol = mbd.simulate(
        system, state, h=1e-3, steps=5000, progress=True, integrator=mbd.GeneralizedAlpha()
    )
    assert name(sol.result) == "interrupted" and 1 < len(sol.t) < 5001 and np.isfinite(sol.r).all()
    sol = mbd.kinematics(system, state, np.arange(5000) * 1e-3, progress=True)
    assert name(sol.result) == "interrupted" and 1 < len(sol.t) < 5000 and np.isfinite(sol.r).all()


def test_a_motion_that_blows_up_is_no_success():
    # A spring of 1e9 N/m on a rod of 2 kg wants steps of 1e-5 s; at 0.1 s the rod made 9e9 rad.
    m = mbd.Mechanism("stiff")
    rod = m.add_body("rod", shape=mbd.Box((1, 0.06, 0.06), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    ends = {"point_i": (1, 0, 1), "point_j": (1, 0, 0)}
    m.add(mbd.SpringDamper("s", "ground", "rod", **ends, stiffness=1e9, free_length=0.5))
    sol = mbd.simulate(*m.build(), h=0.1, steps=5, throw=False)
    assert sol.result == mbd.RESULTS.unstable
    with pytest.raises(mbd.SimulationError, match=r"blown up.*reduce the step size.*'rod'"):
        raise_failure(sol.system, sol)


@pytest.mark.parametrize(
    ("spins", "v", "expected"),
    [
        ((1e6, 1e6), 0.0, False),  # however fast, at a constant rate
        ((0.0, 90.0), 0.0, False),
        ((0.0, 110.0), 0.0, True),
        ((0.0, 0.0), 0.9e9, False),
        ((0.0, 0.0), 1.1e9, True),
    ],
)
def test_a_motion_has_blown_up_where_a_step_changes_the_next_one_beyond_sense(spins, v, expected):
    m = mbd.Mechanism("ball")
    m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0))
    system, state = m.build()
    h, formulation = jnp.array(0.01), mbd.RA()

    def motion(turns, v):
        u = jnp.array([[v, 0, 0, 0, 0, turns * 2 * np.pi]]) / h
        return Motion(state.pose, u, jnp.zeros((1, 6)), jnp.zeros(0))

    before, after = motion(spins[0], 0.0), motion(spins[1], v * system.length)
    assert bool(blown_up(system, formulation, before, after, h)) == expected
