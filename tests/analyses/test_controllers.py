"""Sampled controllers: hold, delay, memory; against the z-transform and differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import jaxmbd as mbd

H, PERIOD = 0.01, 4


class PD(mbd.Controller):
    observes = ("rail.displacement", "rail.speed")
    commands = ("u",)
    gains: jax.Array

    def __call__(self, memory, seen, t):
        return memory, -self.gains @ seen


class PID(mbd.Controller):
    """With the integral of the error as its memory, and the time of the last sample."""

    observes = ("rail.displacement", "rail.speed")
    commands = ("u",)
    gains: jax.Array

    def start(self):
        return {"integral": 0.0, "last": 0.0}

    def __call__(self, memory, seen, t):
        integral = memory["integral"] + (t - memory["last"]) * seen[0]
        force = -self.gains @ jnp.append(seen, integral)
        return {"integral": integral, "last": t}, force


def cart(extra=None):
    """A double integrator, 0.2 m from its goal."""
    m = mbd.Mechanism("cart")
    body = m.add_body("cart", shape=mbd.Box((0.3, 0.1, 0.1), mass=2.0))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=mbd.Input("u", unit="N")))
    if extra is not None:
        m.add(mbd.Actuator("wind", "rail", control=extra))
    system, state = m.build()
    return system, mbd.set_joints(system, state, {"rail": 0.2})


def samples(gains, delay, count):
    """Displacements at the samples, by the exact response to commands that are held and late by a
    part of a period."""
    period = PERIOD * H
    rate = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    late, soon = (expm(rate * period * part) for part in (delay, 1.0 - delay))
    x, before, found = np.array([0.2, 0.0]), 0.0, []
    for _ in range(count):
        found.append(x[0])
        command = -gains @ x
        for response, force in ((late, before), (soon, command)):
            x = (response @ np.append(x, force))[:2]
        before = command
    return np.array(found)


@pytest.mark.parametrize("integrator", [mbd.GeneralizedAlpha(), mbd.Moreau()])
@pytest.mark.parametrize("delay", [0.0, 0.5, 1.0])
def test_hold_and_delay_are_those_of_the_z_transform(integrator, delay):
    system, state = cart()
    gains = np.array([30.0, 12.0])
    controller = PD(jnp.asarray(gains), period=PERIOD, delay=delay)
    sol = mbd.simulate(system, state, h=H, steps=200, controller=controller, integrator=integrator)
    found = np.asarray(sol["rail.displacement"])[::PERIOD]
    np.testing.assert_allclose(found, samples(gains, delay, 51), rtol=0, atol=1e-12)
    # Held over the period, from its arrival on.
    u = np.asarray(sol["u"])[1:].reshape(-1, PERIOD)
    arrives = int(round(delay * PERIOD)) % PERIOD
    assert np.all(np.ptp(u[1:, arrives:], axis=1) == 0.0)
    assert np.all(sol.iterations[1:] > 0) or integrator.name == "moreau"


def test_steps_with_a_controller_are_a_run_with_it_and_memory_goes_along():
    system, state = cart()
    controller = PID(jnp.array([30.0, 12.0, 20.0]), period=PERIOD, delay=0.5)
    sol = mbd.simulate(system, state, h=H, steps=60, save_every=3, controller=controller)
    carry = mbd.start(system, state, h=H, controller=controller)
    step = eqx.filter_jit(lambda c, k: mbd.step(system, c, controller=controller, steps=k))
    carry = step(step(carry, 22), 38)
    np.testing.assert_allclose(carry.state.r, sol.r[-1], rtol=0, atol=1e-14)
    x = np.asarray(
        mbd.simulate(system, state, h=H, steps=60, controller=controller)["rail.displacement"]
    )
    # The integral as the samples make it: the first adds nothing.
    seen = x[:60:PERIOD]
    wanted = np.sum(seen[1:]) * PERIOD * H
    np.testing.assert_allclose(carry.control.memory["integral"], wanted, rtol=0, atol=1e-13)


def test_gradients_by_gains_and_delay_are_differences():
    system, state = cart()
    finer = 5

    def end(numbers):
        controller = PD(numbers[:2], period=finer * PERIOD, delay=numbers[2])
        steps = 10 * finer * PERIOD
        return mbd.simulate(system, state, h=H / finer, steps=steps, controller=controller).r[
            -1, 0, 0
        ]

    numbers = np.array([30.0, 12.0, 0.31])
    found = jax.jit(jax.grad(end))(jnp.asarray(numbers))

    def exact(numbers):
        return samples(numbers[:2], numbers[2], 11)[-1]  # the end of ten periods

    steps = 1e-5 * np.eye(3)
    wanted = [(exact(numbers + d) - exact(numbers - d)) / 2e-5 for d in steps]
    # A command that arrives within a step acts over it in proportion: right to second order in the
    # step, and to first order in what depends on the arrival.
    np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-3)
    np.testing.assert_allclose(found[2], wanted[2], rtol=2e-2)
    whole = jnp.array([30.0, 12.0, 0.25])  # of 20 steps: arrives at the end of one
    found = jax.jit(jax.grad(end))(whole)[:2]
    wanted = [(exact(whole + d) - exact(whole - d)) / 2e-5 for d in steps[:2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)


def test_other_inputs_stay_with_the_caller_and_batches_keep_their_own_memory():
    system, state = cart(mbd.Input("wind"))
    controller = PD(jnp.array([30.0, 12.0]), period=PERIOD)
    with pytest.raises(ValueError, match=r"no value is given for the input 'wind'"):
        mbd.simulate(system, state, h=H, steps=10, controller=controller)
    # A constant wind moves the rest by its force over the stiffness.
    sol = mbd.simulate(
        system,
        state,
        h=H,
        steps=600,
        controller=controller,
        inputs={"wind": lambda t: 3.0 + 0.0 * t},
    )
    np.testing.assert_allclose(sol["rail.displacement"][-1], 0.1, rtol=0, atol=1e-5)

    @jax.jit
    @jax.vmap
    def run(stiffness):
        controller = PD(jnp.stack([stiffness, jnp.full_like(stiffness, 12.0)]), period=PERIOD)
        carry = mbd.start(system, state, h=H, inputs={"wind": 0.0}, controller=controller)
        carry = mbd.step(system, carry, {"wind": 0.0}, controller=controller, steps=40)
        return carry.state.r[0, 0]

    found = run(jnp.array([10.0, 30.0, 50.0]))
    wanted = [samples(np.array([k, 12.0]), 0.0, 11)[-1] for k in (10.0, 30.0, 50.0)]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_controllers_that_do_not_fit_are_refused_by_name():
    system, state = cart()
    gains = jnp.ones(2)
    run = {"h": H, "steps": 8}
    with pytest.raises(ValueError, match=r"PD: period must be a positive number"):
        PD(gains, period=0)
    with pytest.raises(ValueError, match=r"delay must lie between 0 and longest_delay=1.*not 1.5"):
        PD(gains, delay=1.5)
    with pytest.raises(TypeError):
        mbd.simulate(system, state, controller=lambda seen: seen, **run)

    class Blind(PD):
        observes = ("rail.displacment",)

    class Mute(PD):
        commands = ("v",)

    class Wide(PD):
        def __call__(self, memory, seen, t):
            return memory, seen

    with pytest.raises(ValueError, match=r"did you mean 'rail.displacement'"):
        mbd.simulate(system, state, controller=Blind(gains), **run)
    with pytest.raises(ValueError, match=r"Mute: there is no input 'v'"):
        mbd.simulate(system, state, controller=Mute(gains), **run)
    with pytest.raises(ValueError, match=r"returns 2 number\(s\) for its commands u, which take 1"):
        mbd.simulate(system, state, controller=Wide(gains), **run)
    carry = mbd.start(system, state, h=H, inputs={"u": 0.0})
    with pytest.raises(ValueError, match=r"give the controller to mbd.start as well"):
        mbd.step(system, carry, controller=PD(gains))


def test_a_run_with_a_controller_tells_its_rows_and_keeps_them_when_interrupted(capsys):
    """And the number of its steps is no part of its program."""
    system, state = cart()
    controller = PD(jnp.array([30.0, 12.0]), period=PERIOD)
    run = dict(h=H, controller=controller, save_every=2)
    whole = mbd.simulate(system, state, steps=200, **run)
    seen = []
    told = mbd.simulate(
        system, state, steps=200, progress=True, on_chunk=lambda s: seen.append(len(s.t)), **run
    )
    assert "200" in capsys.readouterr().err
    assert len(seen) > 20 and seen[-1] == 101 and seen == sorted(seen)
    np.testing.assert_array_equal(np.asarray(told.r), np.asarray(whole.r))
    assert int(told.stats["completed_steps"]) == 200

    def stop(sol):
        if len(sol.t) > 30:
            raise KeyboardInterrupt

    part = mbd.simulate(system, state, steps=200, progress=True, on_chunk=stop, throw=False, **run)
    assert part.result == mbd.RESULTS.interrupted and 30 < len(part.t) < 101
    np.testing.assert_array_equal(np.asarray(part.r), np.asarray(whole.r)[: len(part.t)])

    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda s: mbd.simulate(system, s, steps=4, progress=True, **run).r)(state)


def test_a_failed_run_with_a_controller_keeps_what_it_computed():
    system, state = cart()

    class Fails(PD):
        def __call__(self, memory, seen, t):
            return memory, jnp.where(t > 0.5, jnp.nan, -self.gains @ seen)

    sol = mbd.simulate(
        system,
        state,
        h=H,
        steps=100,
        controller=Fails(jnp.array([30.0, 12.0]), period=PERIOD),
        throw=False,
    )
    done = int(sol.stats["completed_steps"])
    assert sol.result != mbd.RESULTS.successful and 48 <= done <= 52
    assert np.all(np.isfinite(sol.r[: done + 1])) and np.all(np.isnan(sol.r[done + 1 :]))
