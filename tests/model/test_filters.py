"""Linear filters in joints, against SciPy and matrix exponentials."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal
from scipy.linalg import expm

import jaxmbd as mbd

INERTIA = 0.02  # of the disc [kg·m²]
# Of orders one to three; the last has a direct part.
MODELS = {
    "lag": ([3.0], [0.05, 1.0]),
    "resonance": ([4.0, 100.0], [0.5, 2.0, 200.0]),
    "lead and lag": ([0.2, 3.0, 9.0, 80.0], [0.1, 2.0, 30.0, 100.0]),
}


def disc(*elements, rate=0.0):
    """A disc on a pin along z, without gravity."""
    m = mbd.Mechanism("disc", gravity=(0, 0, 0))
    inertia = (INERTIA, INERTIA, INERTIA)
    body = m.add_body("disc", mass=1.0, inertia=inertia, omega=(0, 0, rate))
    m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0), axis=(0, 0, 1)))
    for element in elements:
        m.add(element)
    return m


def run(m, seconds, steps, integrator=None, **options):
    integrator = mbd.GeneralizedAlpha() if integrator is None else integrator
    return mbd.simulate(
        *m.build(), h=seconds / steps, steps=steps, integrator=integrator, **options
    )


def state_space(model):
    """The same filter in SciPy's own realization."""
    A, B, C, D = signal.tf2ss(*model)
    return {"A": A, "B": B[:, 0], "C": C[0], "D": D[0, 0]}


@pytest.mark.parametrize("kind", ["transfer function", "state space"])
@pytest.mark.parametrize("name", MODELS)
def test_a_filter_answers_a_command_as_scipy_says(name, kind):
    model, seconds = MODELS[name], 0.5
    command = "sin(12*t) + 0.3"
    if kind == "transfer function":
        numerator, denominator = model
        made = mbd.TransferFunction(
            "filter", "pin", numerator=numerator, denominator=denominator, command=command
        )
    else:
        made = mbd.StateSpace("filter", "pin", command=command, **state_space(model))
    t = np.linspace(0.0, seconds, 20_001)  # linear between its points: errors of 1e-8
    _, exact, _ = signal.lsim(signal.TransferFunction(*model), np.sin(12.0 * t) + 0.3, t)
    errors = []
    for steps in (100, 200):
        found = run(disc(made), seconds, steps)["filter.torque"]
        errors.append(np.max(np.abs(np.asarray(found) - exact[:: 20_000 // steps])))
    assert errors[1] < 5e-3 * np.max(np.abs(exact))
    assert np.log2(errors[0] / errors[1]) > 1.7


def closed_loop(model, source, target, seconds):
    """The angle and the rate of the disc under a filter of its error, from a matrix exponential."""
    A, B, C, D = signal.tf2ss(*model)
    n = len(A)
    fed = np.array([1.0, 0.0] if source == "coordinate" else [0.0, 1.0])
    whole = np.zeros((n + 3, n + 3))  # x, its rate, z and one
    whole[0, 1] = 1.0
    whole[1] = np.concatenate([-D[0, 0] * fed, C[0], [D[0, 0] * target]]) / INERTIA
    whole[2:-1] = np.concatenate([-B * fed, A, B * target], axis=1)
    start = np.zeros(n + 3)
    start[1], start[-1] = 0.5, 1.0
    return (expm(seconds * whole) @ start)[:2]


LOOPS = {
    "coordinate": ([0.4, 3.0, 8.0], [0.01, 1.0, 0.0]),  # a PID with a filtered derivative
    "rate": ([1.0, 5.0], [1.0, 0.0]),  # a PI of the rate
}


@pytest.mark.parametrize("source", LOOPS)
def test_a_filter_closes_the_loop_as_a_matrix_exponential_says(source):
    (numerator, denominator), seconds = LOOPS[source], 0.4
    made = mbd.TransferFunction(
        *("filter", "pin"),
        numerator=numerator,
        denominator=denominator,
        command=0.7,
        source=source,
    )
    exact, errors = closed_loop(LOOPS[source], source, 0.7, seconds), []
    for steps in (200, 400):
        sol = run(disc(made, rate=0.5), seconds, steps)
        found = [sol["pin.angle"][-1], sol["pin.rate"][-1]]
        errors.append(np.abs(np.array(found) - exact))
    assert np.all(errors[1] < 1e-3) and np.all(np.log2(errors[0] / errors[1]) > 1.7), errors


@pytest.mark.parametrize(
    "integrator",
    [mbd.ImplicitEuler(), mbd.BDF2(), mbd.GeneralizedAlpha(), mbd.Moreau()],
    ids=lambda x: type(x).__name__,
)
def test_a_filter_much_faster_than_the_step_stays_stable(integrator):
    """A time constant of a hundredth of the step: the torque is the command, and the angle follows
    as J ẍ = sin(5 t) does."""
    made = mbd.TransferFunction(
        "filter", "pin", numerator=[1.0], denominator=[1e-5, 1.0], command="sin(5*t)"
    )
    sol = run(disc(made), 0.5, 500, integrator)
    t = np.asarray(sol.t)
    rate = (1.0 - np.cos(5.0 * t)) / 5.0 / INERTIA
    # Of first order with implicit Euler: half a step of the torque.
    bound = 2e-3 if isinstance(integrator, mbd.ImplicitEuler) else 1e-4
    np.testing.assert_allclose(sol["pin.rate"], rate, rtol=0, atol=bound * np.max(rate))
    assert np.all(np.isfinite(np.asarray(sol.element_states)))


def test_a_filter_keeps_its_limit_and_begins_with_its_states():
    made = mbd.TransferFunction(
        *("filter", "pin"), numerator=[1.0], denominator=[0.1, 1.0], initial=[0.3], effort_limit=2.0
    )
    # G = 10/(s + 10): the state decays, and the effort is ten times that, within the limit.
    sol = run(disc(made), 0.4, 400, mbd.MuntheKaas())
    z = 0.3 * np.exp(-10.0 * np.asarray(sol.t))
    np.testing.assert_allclose(sol["filter.z1"], z, rtol=1e-9)
    np.testing.assert_allclose(sol["filter.torque"], np.minimum(10.0 * z, 2.0), rtol=1e-9)


def test_filters_stack_by_the_number_of_their_states():
    m = disc()
    for k, denominator in enumerate(([0.1, 1.0], [0.2, 1.0], [0.1, 1.0, 3.0])):
        m.add(mbd.TransferFunction(f"f{k}", "pin", numerator=[1.0 + k], denominator=denominator))
    system, state = m.build()
    assert [stack.names for stack in system.forces] == [("f0", "f1"), ("f2",)]
    assert state.element_states.shape == (4,)
    assert {"f0.z1", "f2.z1", "f2.z2"} <= set(mbd.quantities(system))


def test_an_equilibrium_finds_the_state_of_a_filter():
    """A pendulum that a filter of its angle holds, of stiffness G(0) = 6."""
    m = mbd.Mechanism("held")
    rod = m.add_body("rod", mass=1.0, inertia=(0.01, 0.01, 0.01), r=(0, 0, -0.5))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    made = {"numerator": [2.0, 6.0], "denominator": [0.1, 1.0], "source": "coordinate"}
    m.add(mbd.TransferFunction("filter", "pin", command=0.5, **made))
    angle = float(mbd.equilibrium(*m.build()).motion["pin.angle"][0])
    assert abs(6.0 * (0.5 - angle) - 0.5 * 9.81 * np.sin(angle)) < 1e-9
    # An integrator rests at any value.
    pid = mbd.TransferFunction("filter", "pin", numerator=[2.0, 6.0], denominator=[1.0, 0.0])
    with pytest.raises(ValueError, match="'filter' rest at any value"):
        mbd.equilibrium(*disc(pid).build())


def test_a_gradient_by_coefficients_of_a_filter_is_that_of_the_matrix_exponential():
    seconds, at = 0.2, np.array([0.4, 3.0, 8.0, 0.02])

    def end(values):
        made = mbd.TransferFunction(
            *("filter", "pin"),
            numerator=[values[0], values[1], values[2]],
            denominator=[values[3], 1.0, 0.0],
            command=0.7,
            source="coordinate",
        )
        sol = mbd.simulate(
            *disc(made, rate=0.5).build(), h=5e-4, steps=400, integrator=mbd.MuntheKaas()
        )
        return sol["pin.angle"][-1]

    found = jax.jit(jax.grad(end))(jnp.asarray(at))

    def exact(values):
        model = (list(values[:3]), [values[3], 1.0, 0.0])
        return closed_loop(model, "coordinate", 0.7, seconds)[0]

    for k, value in enumerate(at):
        step = np.eye(4)[k] * 1e-4 * value
        slope = (exact(at + step) - exact(at - step)) / (2e-4 * value)
        # A fourth-order method at a thirtieth of the shortest time; differences of 1e-8 of a value.
        np.testing.assert_allclose(found[k], slope, rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"numerator": [1.0, 2.0, 3.0], "denominator": [1.0, 2.0]}, "add a pole"),
        ({"numerator": [1.0], "denominator": [0.0, 1.0]}, "denominator must not begin with zero"),
        ({"numerator": [1.0], "denominator": [2.0]}, "not 0; a gain without states is a Servo"),
        ({"numerator": 1.0, "denominator": [1.0] * 8}, "1 to 6 states, not 7"),
        ({"numerator": [], "denominator": [1.0, 1.0]}, "numerator: expected a number"),
        ({"numerator": 1.0, "denominator": [1.0, 1.0], "source": "error"}, "source must be one of"),
        (
            {"numerator": 1.0, "denominator": [1.0, 1.0], "initial": [1.0, 2.0]},
            r"initial: expected an array of shape \(1,\)",
        ),
    ],
)
def test_filters_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=f"'filter'.*{message}"):
        disc(mbd.TransferFunction("filter", "pin", **fields))


def test_filters_are_saved_and_loaded(tmp_path):
    model = MODELS["lead and lag"]
    m = disc(
        mbd.TransferFunction("tf", "pin", numerator=model[0], denominator=model[1], command="t"),
        mbd.StateSpace("ss", "pin", source="rate", command=mbd.Input("w"), **state_space(model)),
    )
    mbd.save(m, tmp_path / "filters.json")
    ours, theirs = m.build(), mbd.load(tmp_path / "filters.json")
    assert all(map(np.array_equal, jax.tree.leaves(ours), jax.tree.leaves(theirs)))
