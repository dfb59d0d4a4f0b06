"""Everyday mistakes, each with the sentence that it gets; run as a program, it prints what really
happens, as JSON.

It runs in a process of its own, because the suite checks every annotated call, which would answer
first.
"""

import json
import math
import re
import sys
import traceback

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd


def mechanism(**driver):
    m = mbd.Mechanism("arm")
    m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, 0, 1)))
    if driver:
        m.add(mbd.RotationDriver("motor", m.ground, "arm", axis=(0, 0, 1), **driver))
    return m


def built():
    return mechanism().build()


def force(function):
    mechanism().add(mbd.UserForce("push", ["arm"], function))


def simulate(*args, **kwargs):
    return mbd.simulate(*(args or built()), **({"h": 1e-3, "steps": 2} | kwargs))


EARLY = []  # a mechanism described before double precision was switched on


def bodies_before_double_precision():
    EARLY[0].build()


def swapped():
    system, state = built()
    simulate(state, system)


def other_state():
    system, state = built()
    simulate(
        system,
        mbd.State(*(jnp.concatenate([x, x]) for x in (state.r, state.A, state.v, state.omega))),
    )


def changed_state(**fields):
    system, state = built()
    simulate(
        system, mbd.State(*(fields.get(k, getattr(state, k)) for k in ("r", "A", "v", "omega")))
    )


def many_rows():
    system, state = built()
    simulate(system, jax.tree.map(lambda x: jnp.stack([x, x]), state))


CASES = {
    # events
    "a number for an event": (
        lambda: mbd.Event("a", 3.0),
        "Event 'a': when must be the name of a quantity, such as 'pin.angle > 0.3'",
    ),
    "one event for a list": (
        lambda: simulate(events=mbd.Event("a", "pin.angle")),
        r"events must be a list, events=\[mbd.Event",
    ),
    "a number for until": (
        lambda: simulate(until=3.0),
        "until must be an event or its text, such as 'pin.angle > 0.3', not 3.0",
    ),
    # functions
    "math.sin in a driver": (
        lambda: mechanism(angle=lambda t: math.sin(t)),
        "driver 'motor': angle: .*jnp.sin",
    ),
    "numpy.sin in a driver": (
        lambda: mechanism(angle=lambda t: np.sin(np.asarray(t))),
        "driver 'motor': angle: .*jax.numpy",
    ),
    "if in a driver": (
        lambda: mechanism(angle=lambda t: t if t < 1 else 1.0),
        r"motor.*jnp.where\(t < 1",
    ),
    "a driver that returns a vector": (
        lambda: mechanism(angle=lambda t: jnp.ones(3)),
        "must return a number, but .*shape",
    ),
    "a driver that returns nothing": (
        lambda: mechanism(angle=lambda t: None),
        "driver 'motor': angle",
    ),
    "a driver that is a number": (
        lambda: mechanism(angle=3.0),
        "must be a function of time, not 3.0",
    ),
    "a driver that fails": (
        lambda: mechanism(angle=lambda t: {}[1]),
        "motor.*failed with KeyError",
    ),
    "if in a user force": (
        lambda: force(lambda p, v, t: (p.r, p.r) if p.r[0, 0] > 0 else (v.v, v.v)),
        "force 'push': .*jnp.where",
    ),
    "a user force of wrong shape": (
        lambda: force(lambda p, v, t: (jnp.zeros(3), jnp.zeros(3))),
        r"force 'push': .*shape \(1, 3\) each, but returned \(3,\)",
    ),
    "a user force that returns one array": (
        lambda: force(lambda p, v, t: p.r),
        "forces and torques of shape",
    ),
    "a user force with other arguments": (
        lambda: force(lambda pose: pose.r),
        "force 'push': .*TypeError",
    ),
    "math in a torque": (
        lambda: mechanism().add(mbd.Torque("load", "arm", torque=lambda t: [math.sin(t), 0, 0])),
        "force 'load': torque: .*jnp.sin",
    ),
    # JAX
    "traced steps": (
        lambda: jax.jit(lambda n: simulate(steps=n).r)(5),
        "steps is traced.*static_argnames='steps'",
    ),
    "jit of simulate": (
        lambda: jax.jit(mbd.simulate)(*built(), h=1e-3, steps=2),
        "steps is traced",
    ),
    "jit of simulate with t_end": (
        lambda: jax.jit(mbd.simulate)(*built(), h=1e-3, t_end=1.0),
        "with a traced h, t_end or t0 give steps=",
    ),
    "progress inside jit": (
        lambda: jax.jit(lambda h: simulate(h=h, progress=True).r)(1e-3),
        "progress and on_chunk work on the host",
    ),
    "mobility inside jit": (
        lambda: jax.jit(lambda t: mbd.mobility(*built(), t=t).rank)(0.0),
        "mobility counts with concrete values",
    ),
    # choices
    "a formulation by name": (
        lambda: simulate(formulation="rp"),
        r"mbd.RP\(\), not the string 'rp'",
    ),
    "a formulation without parentheses": (
        lambda: simulate(formulation=mbd.RP),
        r"write formulation=mbd.RP\(\)",
    ),
    "an integrator by name": (lambda: simulate(integrator="bdf2"), "not the string 'bdf2'"),
    "an integrator without parentheses": (
        lambda: simulate(integrator=mbd.BDF2),
        r"write integrator=mbd.BDF2\(\)",
    ),
    "a formulation as integrator": (
        lambda: simulate(integrator=mbd.RA()),
        "integrator must be an object",
    ),
    # arguments
    "swapped arguments": (swapped, "system and state are swapped"),
    "a mechanism that is not built": (lambda: simulate(mechanism(), None), "build it first"),
    "the pair of build as one argument": (
        lambda: simulate(built(), None),
        "write system, state = ",
    ),
    "the pair of build and nothing else": (
        lambda: mbd.simulate(built(), h=1e-3, steps=2),
        r"write system, state = mechanism.build\(\) and simulate\(system, state, ...\)",
    ),
    "the pair of build before other arguments": (
        lambda: mbd.kinematics(built(), [0.0, 1.0]),
        "kinematics: the first argument is a pair",
    ),
    "a mechanism and nothing else": (
        lambda: mbd.linearize(mechanism()),
        "linearize: 'arm' is a mechanism; build it first",
    ),
    "a system without its state": (
        lambda: mbd.equilibrium(built()[0]),
        "equilibrium: the state is missing",
    ),
    "a state of another mechanism": (other_state, "the state has 2 bodies, the system 1"),
    "all rows of a solution as a state": (many_rows, "holds 2 rows; give one of them"),
    "a solution as a state": (lambda: simulate(built()[0], eqx.Module()), "must be a State"),
    "an orientation that is no rotation": (
        lambda: changed_state(A=2.0 * jnp.eye(3)[None]),
        "'arm' is not a rotation matrix",
    ),
    "a reflection": (lambda: changed_state(A=-jnp.eye(3)[None]), "'arm' is not a rotation matrix"),
    "NaN in a state": (
        lambda: changed_state(v=jnp.full((1, 3), jnp.nan)),
        "state.v of body 'arm' contains NaN",
    ),
    "both t_end and steps": (lambda: simulate(t_end=1.0), "give either t_end or steps"),
    "steps that are not whole": (
        lambda: simulate(steps=10.7),
        "steps must be a whole number of at least 1, not 10.7",
    ),
    "saving a system": (lambda: mbd.save(built()[0], "m.json"), "needs a Mechanism .*not a System"),
    "no steps": (lambda: simulate(steps=0), "steps must be a whole number"),
    "a negative step": (lambda: simulate(h=-1e-3), "must be positive, not -0.001"),
    "a step that is text": (lambda: simulate(h="1e-3"), "h must be a number"),
    "an initial time that is NaN": (lambda: simulate(t0=math.nan), "t0 must be a finite time"),
    "an end before the start": (
        lambda: simulate(steps=None, t_end=-1.0),
        "must lie after the initial time",
    ),
    "too many rows for the memory": (
        lambda: simulate(steps=10**12),
        "GB are free; save fewer rows",
    ),
    "more steps than a life has": (lambda: simulate(steps=10**15, save_every=10**15), "take weeks"),
    "more steps than can be counted": (
        lambda: simulate(steps=None, t_end=1e14, h=1e-6),
        "takes 1.0e.20 steps",
    ),
    "save_every that does not divide": (
        lambda: simulate(steps=10, save_every=3),
        "must divide the number of steps",
    ),
    "times that do not increase": (
        lambda: mbd.kinematics(*mechanism(angle=lambda t: t).build(), [0.0, 1.0, 0.5]),
        "finite and increasing",
    ),
    "times that are text": (
        lambda: mbd.kinematics(*mechanism(angle=lambda t: t).build(), "now"),
        "array of times",
    ),
    "kinematics with a freedom left": (
        lambda: mbd.kinematics(*built(), [0.0]),
        "has at least 1 left",
    ),
    "a row that is not there": (lambda: simulate().at(1000), "there is no row 1000"),
    # descriptions
    "bodies before double precision": (
        bodies_before_double_precision,
        "another precision.*enable_x64",
    ),
    "a mass that is a truth value": (
        lambda: mbd.Mechanism("m").add_body("b", mass=True, inertia=(1, 1, 1)),
        "body 'b': mass: not an array of numbers: True",
    ),
    "gravity of wrong shape": (
        lambda: setattr(mechanism(), "gravity", -9.81),
        r"gravity: expected an array of shape \(3,\)",
    ),
    "a force along a hinge": (
        lambda: mechanism().add(mbd.Actuator("motor", "pin", action="force")),
        "a force does nothing in joint 'pin'.*action='torque'",
    ),
    "a step size beside chosen steps": (
        lambda: mbd.simulate(*built(), h=1e-3, step=mbd.Adaptive(), save_at=[0.0, 1.0]),
        "h belongs to fixed steps",
    ),
    "chosen steps without times": (
        lambda: mbd.simulate(*built(), step=mbd.Adaptive()),
        "needs save_at",
    ),
    "neither step size nor chosen steps": (
        lambda: mbd.simulate(*built(), t_end=1.0),
        "give the step size h",
    ),
    "a linear solver that there is not": (
        lambda: mbd.simulate(*built(), h=1e-3, steps=1, linear_solver="lu"),
        "linear_solver must be one of",
    ),
    "a joint coordinate that there is not": (
        lambda: mbd.set_joints(*built(), {"pin": {"displacement": 1.0}}),
        "has no 'displacement'; it has angle, rate",
    ),
    "a limit that is no pair": (
        lambda: mbd.place(
            built()[0], {"pin.angle": 0.1}, start=built()[1], limits={"pin.angle": 1.0}
        ),
        "needs two bounds",
    ),
    "goals that are no mapping": (
        lambda: mbd.place(built()[0], [("pin.angle", 0.1)], start=built()[1]),
        "goals must be a mapping",
    ),
    "a name that is taken": (lambda: mechanism().add_body("arm"), "names of bodies are unique"),
}
# IndexError and TypeError are Python's own words for what these are.
ALLOWED = {"ValueError", "TypeError", "IndexError"}


def outcome(case) -> dict:
    try:
        case()
    except Exception as error:
        return {
            "type": type(error).__name__,
            "message": str(error),
            "trace": "".join(traceback.format_exception(error)),
        }
    return {"type": "nothing", "message": "", "trace": ""}


if __name__ == "__main__":
    EARLY.append(mechanism())
    mbd.enable_x64()
    json.dump({name: outcome(case) for name, (case, _) in CASES.items()}, sys.stdout)


def check(name: str, found: dict) -> None:
    """Our sentence first, and JAX's trace not at all."""
    assert found["type"] in ALLOWED, found["trace"]
    assert re.search(CASES[name][1], found["message"], re.DOTALL), found["message"]
    assert found["message"].count("\n") <= 1 and "jax.errors" not in found["trace"]
