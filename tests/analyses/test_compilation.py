"""Names, shapes and numbers never compile a program again."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from helpers import CompilationCounter


def angle(t):
    return 0.5 * t


def hinge(name="one", body="rod", pin="pin", shape=None, mass=1.0):
    m = mbd.Mechanism(name)
    m.add_body(body, mass=mass, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0), shape=shape)
    m.add(mbd.Revolute(pin, m.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.Actuator(f"motor of {name}", pin))
    return m


def analyses(m):
    """All of them on one mechanism; the ends of the motions."""
    system, state = m.build()
    driven = mbd.Mechanism(m.name)
    driven.bodies, driven.constraints, driven.forces = (
        dict(m.bodies),
        dict(m.constraints),
        dict(m.forces),
    )
    driven.ground = m.ground
    (body,), (motor,) = m.bodies, m.forces
    driven.add(mbd.RotationDriver(f"driver of {body}", "ground", body, axis=(0, 1, 0), angle=angle))
    pair = driven.build()
    with CompilationCounter() as counter:
        ends = [
            mbd.simulate(system, state, h=1e-3, steps=5).r[-1],
            mbd.simulate_adaptive(system, state, [0.0, 0.01], max_steps=64).r[-1],
            mbd.linearize(system, state).A,
            mbd.accelerations(system, state).a,
            mbd.kinematics(*pair, [0.0, 0.1]).r[-1],
            *mbd.inverse_dynamics(*pair, [0.0, 0.1], actuators=[motor]).efforts.values(),
            *mbd.inverse_dynamics(*pair, [0.0, 0.1]).efforts.values(),
        ]
        mbd.mobility(system, state)
    return counter.every, ends


def test_names_shapes_and_numbers_compile_nothing():
    first, ends = analyses(hinge())
    assert first > 0  # the counter counts
    names = {"name": "two [x]", "body": "stick", "pin": "axle"}
    for other in (
        hinge(**names),
        hinge(shape=mbd.Box((1, 0.1, 0.2), mass=3.0)),
        hinge(mass=jnp.asarray(2.0)),
    ):
        again, new = analyses(other)
        assert again == 0
    np.testing.assert_array_equal(ends[2], analyses(hinge(**names))[1][2])


def test_errors_and_reports_keep_their_names():
    system, state = hinge("named", "stick", "axle").build()
    sol = mbd.simulate(system, state, h=1e-3, steps=2)
    assert set(sol.reactions(system)) == {"axle"} and system.bodies == ("stick",)
    found = mbd.linearize(system, state)
    assert found.coordinates == ("stick.theta.y",) and found.inputs[0].name == "motor of named"
