"""Sensors against closed forms, against what a motion itself says, and against filters in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

G = 9.81


def _pendulum(*sensors):
    """A rod of a metre on a pin, which begins level, with a tip load cell."""
    m = mbd.Mechanism("pendulum")
    rod = m.add_body("rod", shape=mbd.Rod(1.0, mass=2.0), r=(0.5, 0.0, 0.0))
    tip = m.add_body("tip", shape=mbd.Sphere(0.05, mass=0.5), r=(1.0, 0.0, 0.0))
    m.add(mbd.Revolute("pin", "ground", rod, point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)))
    m.add(mbd.Fixed("cell", rod, tip, point=(1.0, 0.0, 0.0)))
    m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque")))
    for sensor in sensors:
        m.add(sensor)
    return m


def _free(m, steps=400):
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-3, steps=steps, inputs={"torque": 0.0})
    return system, sol


def test_an_accelerometer_feels_what_holds_it_and_a_gyroscope_turns():
    """In the rotating frame: centripetal ω² l along the rod, tangential α l, and gravity. The
    method's accelerations hold the pin to about h² times their own second derivative, 200 m/s⁴.
    """
    turned = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    _, sol = _free(
        _pendulum(
            mbd.IMU("imu", "rod", point=(0.8, 0.0, 0.0)),
            mbd.IMU("turned", "rod", point=(0.8, 0.0, 0.0), A=turned),
        )
    )
    read = sol.sensor("imu")
    angle, rate, alpha = (np.asarray(sol[f"pin.{x}"]) for x in ("angle", "rate", "acceleration"))
    # Turning by the angle about y takes x to -z.
    along = -0.8 * rate**2 - G * np.sin(angle)
    across = -0.8 * alpha + G * np.cos(angle)
    expected = np.stack([along, 0.0 * angle, across], axis=1)
    np.testing.assert_allclose(read.acceleration, expected, atol=2e-4)
    np.testing.assert_allclose(read.angular_velocity[:, 1], rate, atol=1e-12)
    np.testing.assert_allclose(
        sol.sensor("turned").acceleration, np.asarray(read.acceleration) @ turned, atol=1e-12
    )
    np.testing.assert_array_equal(sol["imu.acceleration.z"], read.acceleration[:, 2])


def test_a_sensor_at_rest_reads_gravity_upwards_and_free_fall_nothing():
    m = mbd.Mechanism("two")
    m.add_body("falls", shape=mbd.Sphere(0.1, mass=1.0))
    m.add(mbd.IMU("on_ground", "ground"))
    m.add(mbd.IMU("falling", "falls"))
    sol = mbd.simulate(*m.build(), h=1e-2, steps=3)
    np.testing.assert_allclose(sol.sensor("on_ground").acceleration[-1], [0.0, 0.0, G])
    np.testing.assert_allclose(sol.sensor("falling").acceleration[-1], 0.0, atol=1e-12)


def test_a_load_cell_reads_what_moves_the_tip():
    """Newton's law of the tip, in the tip's axes: m (a - g)."""
    _, sol = _free(_pendulum(mbd.ForceTorque("load", "cell"), mbd.IMU("imu", "tip")))
    read = sol.sensor("load")
    np.testing.assert_allclose(read.force, 0.5 * sol.sensor("imu").acceleration, atol=1e-8)
    # Euler's law of a ball about its center: J α.
    J = 0.4 * 0.5 * 0.05**2
    np.testing.assert_allclose(read.torque[:, 1], J * sol["pin.acceleration"], atol=1e-9)


def test_distance_is_that_of_the_points():
    m = _pendulum(mbd.DistanceSensor("range", "ground", "tip", point_i=(0.0, 0.0, 1.0)))
    _, sol = _free(m)
    d = np.asarray(sol.r[:, 1]) - [0.0, 0.0, 1.0]
    np.testing.assert_allclose(sol.sensor("range").distance, np.linalg.norm(d, axis=1))


def test_an_encoder_counts_whole_steps():
    step = 2 * np.pi / 1000
    _, sol = _free(_pendulum(mbd.Encoder("count", "pin", resolution=step, bias=0.1, gain=1.01)))
    read = np.asarray(sol.sensor("count").angle)
    np.testing.assert_allclose(read / step, np.round(read / step), atol=1e-9)
    true = 1.01 * np.asarray(sol["pin.angle"]) + 0.1
    assert np.max(np.abs(read - true)) <= 0.5 * step + 1e-12
    assert np.max(np.abs(read - true)) > 0.4 * step


def test_samples_are_held_and_late():
    m = _pendulum(mbd.Encoder("late", "pin", period=0.01, delay=0.0035))
    _, sol = _free(m)
    t, angle = np.asarray(sol.t), np.asarray(sol["pin.angle"])
    sampled = np.floor(t / 0.01 + 1e-9) * 0.01 - 0.0035
    expected = np.interp(sampled, t, angle)
    np.testing.assert_allclose(sol.sensor("late").angle, expected, atol=1e-12)
    # A table shows the instant, which has no past.
    np.testing.assert_allclose(sol["late.angle"], angle)


def test_noise_has_its_density_and_comes_from_the_key_alone():
    """4000 samples of standard deviation density / √period: the estimate is good to 3 / √8000."""
    density, period = 1e-3, 1e-3
    m = _pendulum(mbd.Encoder("noisy", "pin", noise_density=density, period=period))
    system, sol = _free(m, steps=4000)
    key = jax.random.key(3)
    noise = np.asarray(sol.sensor("noisy", key=key).angle - sol.sensor("noisy").angle)
    np.testing.assert_allclose(np.std(noise), density / np.sqrt(period), rtol=3.4e-2)
    np.testing.assert_array_equal(
        sol.sensor("noisy", key=key).angle, sol.sensor("noisy", system, key=key).angle
    )
    assert np.any(sol.sensor("noisy", key=jax.random.key(4)).angle != noise)


class _Damping(mbd.Controller):
    observes = ("gyro.angular_velocity.y", "late.angle")
    commands = ("torque",)
    gain: jax.Array

    def __call__(self, memory, seen, t):
        return memory, -self.gain * (seen[0] + seen[1])


class _Tape(mbd.Controller):
    """Commands what it sees, so that the inputs of the solution are the tape."""

    observes = ("late.angle",)
    commands = ("torque",)

    def __call__(self, memory, seen, t):
        return memory, 1e-9 * seen


def test_a_controller_sees_readings_with_their_delay_and_noise():
    """What it saw is what the sensor says of the motion afterwards, sample by sample."""
    m = _pendulum(
        mbd.Encoder("late", "pin", period=0.004, delay=0.0035, noise_density=1e-4, bias=0.2)
    )
    system, state = m.build()
    key = jax.random.key(11)
    sol = mbd.simulate(system, state, h=1e-3, steps=60, controller=_Tape(period=2), key=key)
    after = np.asarray(sol.rows(slice(0, None, 2)).sensor("late", key=key).angle)
    seen = 1e9 * np.asarray(sol.inputs[1::2, 0, 0])
    np.testing.assert_allclose(seen, after[: seen.size], atol=1e-10)


def test_steps_of_a_caller_sense_as_simulate_does():
    m = _pendulum(
        mbd.IMU("gyro", "rod", bias=(0, 0, 0, 0, 0.01, 0)), mbd.Encoder("late", "pin", delay=0.002)
    )
    system, state = m.build()
    controller = _Damping(gain=jnp.array(0.3))
    sol = mbd.simulate(system, state, h=1e-3, steps=20, controller=controller)
    carry = mbd.start(system, state, h=1e-3, controller=controller)
    for _ in range(20):
        carry = mbd.step(system, carry, controller=controller)
    np.testing.assert_allclose(carry.state.r, sol.r[-1], rtol=0.0, atol=1e-13)


def test_gradients_by_errors_of_a_sensor():
    """Bias, gain and delay, in the loop, against central differences; both are of smooth numbers,
    where steps of the delay cross no sample."""

    def last(numbers):
        bias, gain, delay = numbers
        m = _pendulum(
            mbd.IMU("gyro", "rod"),
            mbd.Encoder("late", "pin", bias=bias, gain=gain, delay=delay),
        )
        controller = _Damping(gain=jnp.array(0.3), longest_sensor_delay=0.01)
        sol = mbd.simulate(*m.build(), h=1e-3, steps=40, controller=controller)
        return sol["pin.angle"][-1]

    at = jnp.array([0.1, 1.1, 0.0033])
    compiled = jax.jit(last)
    found = jax.jit(jax.grad(last))(at)
    for k, step in enumerate((1e-4, 1e-4, 1e-4)):
        d = jnp.zeros(3).at[k].set(step)
        slope = (compiled(at + d) - compiled(at - d)) / (2 * step)
        np.testing.assert_allclose(found[k], slope, rtol=1e-6)


def test_a_known_delay_needs_no_bound_inside_jit():
    system, state = _pendulum(mbd.Encoder("late", "pin", delay=0.002, period=0.004)).build()

    @jax.jit
    def run(bias):
        biased = eqx.tree_at(lambda s: s.sensors[0].bias, system, bias)
        return mbd.simulate(biased, state, h=1e-3, steps=4, controller=_Tape()).r

    np.testing.assert_allclose(
        run(jnp.zeros(1)), mbd.simulate(system, state, h=1e-3, steps=4, controller=_Tape()).r
    )


def test_sensors_in_files_and_among_values(tmp_path):
    m = _pendulum(
        mbd.IMU("imu", "rod", bias=(0, 0, 0, 1e-3, 0, 0), noise_density=1e-4, period=0.01),
        mbd.Encoder("count", "pin", resolution=0.01),
        mbd.ForceTorque("load", "cell", gain=1.02),
        mbd.DistanceSensor("range", "ground", "tip", delay=0.01),
    )
    mbd.save(m, tmp_path / "m.json")
    again = mbd.load_mechanism(tmp_path / "m.json")
    a, b = (x.build()[0].sensors for x in (m, again))
    assert eqx.tree_equal(a, b)
    changed = m.with_values({"sensors.count.resolution": 0.02}).build()[0]
    assert float(changed.sensors[1].measured.resolution) == 0.02
    assert "4 sensors" in repr(m)
    assert mbd.quantities(changed)["imu.angular_velocity.x"] == "rad/s"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.Encoder("x", "pin", noise_density=1.0), "noise needs a period"),
        (lambda: mbd.Encoder("x", "cell"), "has no angle or displacement"),
        (lambda: mbd.Encoder("x", "pin", coordinate="displacement"), "has no displacement"),
        (lambda: mbd.Encoder("x", "pin", delay=-1.0), "delay must not be negative"),
        (lambda: mbd.IMU("x", "rod", bias=(1.0, 2.0)), "sensor 'x': bias"),
        (lambda: mbd.IMU("x", "nobody"), "unknown body 'nobody'"),
        (lambda: mbd.ForceTorque("x", "nothing"), "unknown joint 'nothing'"),
    ],
)
def test_sensors_that_make_no_sense_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        _pendulum(make())


def test_names_of_sensors_and_keys_without_a_reader_are_refused():
    system, sol = _free(_pendulum(mbd.Encoder("count", "pin")), steps=2)
    with pytest.raises(ValueError, match="did you mean 'count'"):
        sol.sensor("cuont")
    with pytest.raises(ValueError, match="there is no controller"):
        mbd.simulate(
            system,
            sol.at(0),
            h=1e-3,
            steps=1,
            inputs={"torque": 0.0},
            key=jax.random.key(0),
        )
    with pytest.raises(ValueError, match="the name is taken; names of sensors"):
        _pendulum(mbd.Encoder("a", "pin"), mbd.Encoder("a", "pin"))


def test_a_traced_delay_needs_a_bound_and_stays_below_it():
    def run(delay, **bound):
        system, state = _pendulum(mbd.Encoder("late", "pin", delay=delay)).build()
        controller = _Tape(**bound)
        return mbd.simulate(system, state, h=1e-3, steps=4, controller=controller)

    with pytest.raises(ValueError, match="a controller takes it as longest_sensor_delay"):
        jax.jit(lambda d: run(d).result)(0.1)
    with pytest.raises(ValueError, match="exceed longest_sensor_delay=0.01"):
        run(0.1, longest_sensor_delay=0.01)
    results = jax.jit(jax.vmap(lambda d: run(d, longest_sensor_delay=0.01).result))
    good, late = results(jnp.array([0.003, 0.1])) == mbd.RESULTS.successful
    assert good and not late
