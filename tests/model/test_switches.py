"""Joints and forces that may be switched off: against mechanisms that never had them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd


def chain(active=None, *, locked=True, kind="lock"):
    """Two links that fall, with a brake in the knee and a spring in the air."""
    m = mbd.Mechanism("two links")
    for k, name in enumerate(("thigh", "shank")):
        m.add_body(name, shape=mbd.Box((1.0, 0.1, 0.1), mass=2.0), r=(0.5 + k, 0.0, 0.0))
    m.add(mbd.Revolute("hip", m.ground, "thigh", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Revolute("knee", "thigh", "shank", point=(1, 0, 0), axis=(0, 1, 0)))
    if not locked:
        return m
    if kind == "lock":
        m.add(mbd.Lock("brake", "knee", active=active))
    elif kind == "weld":
        m.add(mbd.Fixed("brake", "thigh", "shank", point=(1, 0, 0), active=active))
    else:
        spring = {"stiffness": 80.0, "damping": 1.0, "free_length": 0.5}
        m.add(
            mbd.SpringDamper(
                "brake",
                m.ground,
                "shank",
                point_i=(2, 0, 1),
                point_j=(2, 0, 0),
                **spring,
                active=active,
            )
        )
    return m


def fall(mechanism, **options):
    system, state = mechanism.build()
    return mbd.simulate(system, state, h=2e-3, steps=100, **options)


METHODS = {
    "alpha": {},
    "alpha rp": {"formulation": mbd.RP()},
    "bdf2 reps": {"formulation": mbd.REps(), "integrator": mbd.BDF2()},
    "rk5": {"integrator": mbd.MuntheKaas(tableau="rk5")},
    "rk4 rotation elements": {
        "formulation": mbd.RotationElements(),
        "integrator": mbd.RungeKutta(),
    },
}


CASES = [(kind, method) for kind in ("lock", "weld", "spring") for method in METHODS]
QUICK = [("lock", "alpha"), ("weld", "alpha"), ("spring", "alpha")]


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        pytest.param(*case, marks=pytest.mark.essential if case in QUICK else pytest.mark.slow)
        for case in CASES
    ],
)
def test_what_is_off_is_not_there_and_what_is_on_is(kind, method):
    options = METHODS[method]
    without = fall(chain(locked=False), **options)
    off = fall(chain(False, kind=kind), **options)
    # The same equations to rounding, which a swing of 0.2 s does not amplify.
    np.testing.assert_allclose(off.r, without.r, atol=1e-12)
    # Newton's method stops at positions of 1e-12 m, at h = 2 ms 3e-7 m/s² of an acceleration.
    np.testing.assert_allclose(off.a, without.a, atol=2e-6)
    always = fall(chain(None, kind=kind), **options)
    on = fall(chain(False, kind=kind), inputs={"brake.active": 1.0}, **options)
    np.testing.assert_allclose(on.r, always.r, atol=1e-12)
    if kind == "spring":
        np.testing.assert_array_equal(off.element("brake").force, 0.0)
        np.testing.assert_array_equal(off.element("brake").power, 0.0)
        np.testing.assert_allclose(off.energy().potential, without.energy().potential, atol=1e-12)
        np.testing.assert_allclose(
            on.element("brake").force, always.element("brake").force, atol=1e-9
        )
    else:
        np.testing.assert_array_equal(off.lam[:, 10:], 0.0)
        np.testing.assert_array_equal(off.reactions()["brake"].moment, 0.0)
        assert float(jnp.max(jnp.abs(on["knee.angle"]))) < 1e-12
        # Forces of redundant rows, those of the weld beside the hinge, are of least norm in both.
        np.testing.assert_allclose(
            on.reactions()["hip"].force, always.reactions()["hip"].force, atol=1e-7
        )
    assert int(off.stats["undetermined_steps"]) == 0


def test_analyses_see_what_is_switched():
    system, state = chain(False).build()
    assert mbd.mobility(system, state).freedoms == 2
    assert mbd.mobility(system, state).redundant_joints == ()
    assert mbd.mobility(system.with_inputs({"brake.active": 1.0}), state).freedoms == 1
    # A link of one piece, held at its hip: the inertia of both about it.
    stiff = system.with_inputs({"brake.active": 1.0})
    found = mbd.accelerations(stiff, state).alpha[:, 1]
    inertia = 4.0 * 2.0**2 / 3.0 + 2 * 2.0 * 0.1**2 / 12.0
    np.testing.assert_allclose(found, 4.0 * 9.81 * 1.0 / inertia, rtol=1e-10)


@pytest.mark.essential
def test_a_driver_that_is_off_prescribes_nothing():
    m = chain(locked=False)
    for k, name in enumerate(("slow", "fast")):
        rate = k + 1.0
        m.add(
            mbd.RotationDriver(
                name,
                m.ground,
                "thigh",
                axis=(0, 1, 0),
                angle=lambda t, w=rate: w * t,
                active=name == "fast",
            )
        )
    system, state = m.build()
    sol = mbd.simulate(system, state, h=2e-3, steps=50)
    np.testing.assert_allclose(sol["hip.rate"][1:], 2.0, rtol=1e-6)
    assert mbd.mobility(system, state).redundant_drivers == ()


def test_derivatives_do_not_see_what_is_off():
    def height(p):
        m = chain(False, kind="spring").with_values({"forces.brake.stiffness": p})
        system, state = m.build()
        return mbd.simulate(system, state, h=1e-2, steps=10).r[-1, 1, 2]

    assert float(jax.grad(height)(80.0)) == 0.0


@pytest.mark.essential
def test_an_input_switches_several_elements_at_once(tmp_path):
    clutch = mbd.Input("clutch", default=0.0)
    m = chain(clutch)
    m.add(mbd.Lock("hip brake", "hip", active=clutch))
    system, state = m.build()
    assert [x.name for x in system.inputs if x.name == "clutch"] == ["clutch"]
    held = mbd.simulate(system, state, h=1e-2, steps=5, inputs={"clutch": 1.0})
    np.testing.assert_allclose(held.r, np.broadcast_to(state.r, held.r.shape), atol=1e-14)
    assert float(mbd.simulate(system, state, h=1e-2, steps=5).r[-1, 1, 2]) < -1e-3
    # A step as well, whose inputs are those of that step.
    carry = mbd.step(system, mbd.start(system, state, h=1e-2), inputs={"clutch": 1.0})
    np.testing.assert_allclose(carry.state.omega, 0.0, atol=1e-14)
    # And in files.
    mbd.save(m, tmp_path / "model.json")
    again, _ = mbd.load(tmp_path / "model.json")
    assert again.inputs == system.inputs and again.held


@pytest.mark.parametrize(
    "integrator", [mbd.GeneralizedAlpha(), mbd.MuntheKaas(tableau="rk4"), mbd.BDF2()]
)
def test_an_input_that_switches_a_joint_strikes(integrator):
    m = mbd.Mechanism("discs", gravity=(0, 0, 0))
    for k, (name, inertia) in enumerate({"a": 0.3, "b": 0.5}.items()):
        m.add_body(
            name, mass=1.0, inertia=(0.3, 0.3, inertia), r=(0, 0, k), omega=(0, 0, 1.0 + 3.0 * k)
        )
        m.add(mbd.Revolute(f"pin {name}", m.ground, name, point=(0, 0, k), axis=(0, 0, 1)))
    m.add(mbd.Coupler("clutch", "pin a", "pin b", active=False))
    system, state = m.build()
    # Shut for steps 31 to 60, where the second disc is ahead by 3 rad/s times 0.3 s.
    shut = np.zeros(100)
    shut[30:60] = 1.0
    inputs = {"clutch.active": shut, "clutch.offset": 0.9}
    sol = mbd.simulate(system, state, h=1e-2, steps=100, inputs=inputs, integrator=integrator)
    together = (0.3 * 1.0 + 0.5 * 4.0) / 0.8
    np.testing.assert_allclose(sol.omega[:31, :, 2], [[1.0, 4.0]] * 31, rtol=1e-12)
    np.testing.assert_allclose(sol.omega[31:, :, 2], together, rtol=1e-12)
    np.testing.assert_allclose(sol["pin a.angle"][-1], 0.3 + 0.7 * together, rtol=1e-12)


def test_switches_in_files_and_copies(tmp_path):
    for active in (None, True, False):
        mbd.save(chain(active), tmp_path / "model.json")
        loaded = mbd.load_mechanism(tmp_path / "model.json")
        assert loaded.constraints["brake"].active is active
        changed = loaded.with_values({"bodies.thigh.mass": 3.0})
        assert changed.constraints["brake"].active is active


def test_a_function_of_time_switches_nothing():
    system, state = chain(False).build()
    late = {"inputs": {"brake.active": lambda t: jnp.where(t > 0.1, 1.0, 0.0)}}
    for options in ({"h": 1e-2, "steps": 5}, {"step": mbd.Adaptive(), "save_at": [0.0, 0.2]}):
        with pytest.raises(ValueError, match="'brake.active' switches a joint or a force"):
            mbd.simulate(system, state, **options, **late)


def test_methods_of_one_set_of_rows_refuse_them_by_name():
    system, state = chain(False).build()
    with pytest.raises(ValueError, match="EnergyMomentum knows no joints and forces with active="):
        mbd.simulate(
            system,
            state,
            h=1e-2,
            steps=2,
            integrator=mbd.EnergyMomentum(),
            formulation=mbd.Directors(),
        )
    with pytest.raises(TypeError, match="lock 'brake': active must be True, False or an mbd.Input"):
        chain(1.0).build()
    with pytest.raises(ValueError, match="has the default 0.0 in one element and 1.0 in another"):
        m = chain(mbd.Input("x", default=0.0))
        m.add(mbd.Lock("second", "hip", active=mbd.Input("x", default=1.0)))
        m.build()
