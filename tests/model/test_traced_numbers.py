"""Numbers that are traced when a mechanism is built: every element shows them to JAX, whatever they
are given by, so that simulations have values and derivatives in `jit`, `grad` and `vmap`."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_element import ELEMENTS, END, ZERO, Y, Z, circle, function, mechanism, push, three
from jax.core import Tracer

import jaxmbd as mbd
from jaxmbd.analyses.running.checks import valid_numbers
from jaxmbd.equations import laws, rows
from jaxmbd.model.elements import AbstractElement, kinds
from jaxmbd.model.given import Kind, specs
from jaxmbd.model.laws.base import AbstractLawDescription
from jaxmbd.model.sensors import AbstractSensor
from jaxmbd.model.state import Twist


def values(system, state, t):
    """What elements say of a state: constraints and their right sides, loads, energy, gaps and
    numbers of laws."""
    formulation = mbd.RA()
    now, f_dot, f_ddot = system.jet(t)
    q = formulation.coordinates(state.pose)
    pose = formulation.with_ground(q)
    zero = jnp.zeros((1, 3))
    twist = Twist(*(jnp.concatenate([x, zero]) for x in (state.v, state.omega)))
    return (
        (rows.phi(formulation, now, q), f_dot, f_ddot),
        rows.gamma(formulation, now, q, jnp.zeros((system.nb, 6))),
        system.wrenches(pose, twist, t),
        system.potential(pose),
        laws.gaps(formulation, system, q),
        [stack.each(lambda law: (law.bounces(), law.frictions())) for stack in system.laws],
    )


def assert_nothing_is_hidden(build):
    """That whatever is traced in a system that `build(w)` makes is among its leaves, as derivative
    rules and loops of this package take them for all of it."""

    def traced(w):
        system, state = build(w)
        leaves, tree = jax.tree.flatten(system)
        assert all(eqx.is_array(leaf) for leaf in leaves)
        assert any(isinstance(leaf, Tracer) for leaf in leaves)
        closed = jax.make_jaxpr(lambda leaves, *args: values(tree.unflatten(leaves), *args))(
            leaves, state, 0.1
        )
        assert not [x for x in closed.consts if isinstance(x, Tracer)]
        return w

    jax.eval_shape(traced, 1.0)


def test_the_table_has_every_kind_of_element():
    own = {
        name
        for name, kind in kinds(AbstractElement).items()
        if kind.__module__.startswith("jaxmbd.")
    }
    table = {type(element(1.0)).__name__ for element in ELEMENTS.values()}
    assert own == {*table, "Beam", "RigidElement"}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_traced_number_of_an_element_is_no_secret_of_it(kind):
    def build(w):
        m = mechanism()
        m.add(ELEMENTS[kind](w))
        return m.build()

    assert_nothing_is_hidden(build)


def numbers_of(kind):
    """Fields of an element of the table that hold one number, but those of laws that only rigid
    ones have, or only those that give way."""
    part = ELEMENTS[kind](1.0)
    soft = getattr(part, "gives_way", False)
    others = ("restitution",) if soft else ("damping", "exponent", "slip_speed")
    left_out = others if isinstance(part, AbstractLawDescription) else ()
    declared = specs(type(part)).items()
    return [
        f
        for f, (spec, _) in declared
        if spec.kind is Kind.NUMBER and getattr(part, f) is not None and f not in left_out
    ]


SENSORS = [kind for kind in ELEMENTS if isinstance(ELEMENTS[kind](1.0), AbstractSensor)]


@pytest.mark.parametrize("kind", [k for k in ELEMENTS if numbers_of(k) and k not in SENSORS])
def test_a_number_that_is_refused_outside_jit_is_a_code_inside_and_no_other_is(kind):
    part, fields = ELEMENTS[kind](1.0), numbers_of(kind)
    numbers = (np.nan, np.inf, -1.0, -1e-300, 0.0, 3.0)

    def build(field, x):
        m = mechanism()
        m.add(dataclasses.replace(part, **{field: x}))
        return m.build()

    def accepted(field, x):
        try:
            build(field, x)
        except ValueError:
            return False
        return True

    @jax.jit
    @jax.vmap
    def valid(x):
        return {field: valid_numbers(*build(field, x), jnp.zeros(())) for field in fields}

    outside = {field: [accepted(field, x) for x in numbers] for field in fields}
    inside = {field: found.tolist() for field, found in valid(jnp.array(numbers)).items()}
    assert inside == outside
    assert not any(found[0] for found in outside.values())  # NaN


@pytest.mark.parametrize("kind", SENSORS)
def test_an_impossible_number_of_a_sensor_makes_its_readings_nan(kind):
    """Sensors act on no motion, so a motion does not fail for one."""
    fields = numbers_of(kind)
    part = ELEMENTS[kind](1.0)

    @jax.jit
    def read(field_values):
        m = mechanism()
        m.add(dataclasses.replace(part, **field_values))
        sol = mbd.simulate(*m.build(), h=1e-3, steps=1)
        readings = sol.sensor("part").outputs
        return jnp.concatenate([x.value.reshape(-1) for x in readings]), sol.result

    good = {field: 0.1 for field in fields}
    assert np.all(np.isfinite(read(good)[0]))
    for field in fields:
        readings, result = read(good | {field: -0.1})
        assert np.all(np.isnan(readings))
        assert result == mbd.RESULTS.successful


def test_numbers_of_bodies_shapes_and_sections_are_checked_inside_jit_too():
    def body(**fields):
        m = mbd.Mechanism("b")
        m.add_body("b", **{"mass": 1.0, "inertia": (1.0, 1.0, 1.0)} | fields)
        return m.build()

    def beam(**fields):
        m = mbd.Mechanism("beam")
        section = mbd.Section.tube(
            **{"radius": 0.1, "inner_radius": 0.05, "E": 1e9, "rho": 1.0} | fields
        )
        m.add_beam("rod", [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], section=section, elements=1)
        return m.build()

    cases = {
        "mass": lambda x: body(mass=x),
        "triangle inequality": lambda x: body(inertia=(1.0, 1.0, 1.0 + x)),
        "negative moment": lambda x: body(inertia=(1.0, 1.0, x)),
        "position": lambda x: body(r=(x, 0.0, 0.0)),
        "quaternion": lambda x: body(quaternion=(x, 0.0, 0.0, 0.0)),
        "orientation": lambda x: body(A=((x, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))),
        "radius": lambda x: body(mass=None, inertia=None, shape=mbd.Sphere(x, density=1.0)),
        "bore": lambda x: body(
            mass=None, inertia=None, shape=mbd.HollowCylinder(x, 2.0, 1.0, mass=1.0)
        ),
        "section": lambda x: beam(radius=x),
        "wall": lambda x: beam(inner_radius=0.05 * x),
        "modulus": lambda x: beam(E=x),
        "nu": lambda x: beam(nu=0.3 * x),
    }
    found = alike_inside_and_outside_jit(cases, (np.nan, np.inf, -1.0, 0.0, 1.0, 3.0))
    assert all(accepted[4] for accepted in found.values())


def alike_inside_and_outside_jit(cases, numbers):
    """Which numbers each function that builds a system accepts; asserts that those are the ones
    with which it is valid where they are traced."""

    def accepted(build, x):
        try:
            build(x)
        except ValueError:
            return False
        return True

    @jax.jit
    @jax.vmap
    def valid(x):
        return {name: valid_numbers(*build(x), jnp.zeros(())) for name, build in cases.items()}

    outside = {name: [accepted(build, x) for x in numbers] for name, build in cases.items()}
    inside = {name: found.tolist() for name, found in valid(jnp.array(numbers)).items()}
    assert inside == outside
    return outside


def test_points_and_axes_that_contradict_each_other_are_told_inside_jit_too():
    def element(kind, **fields):
        m = mechanism()
        m.add(kind("part", "a", "b", **fields))
        return m.build()

    def belt(axis_j, point_j):
        return element(
            mbd.Belt,
            axis_i=Z,
            axis_j=axis_j,
            point_i=ZERO,
            point_j=point_j,
            radius_i=0.1,
            radius_j=0.2,
        )

    def gears(axis_j, point_j, ratio=-0.5, point_i=ZERO):
        return element(
            mbd.Gear, axis_i=Z, axis_j=axis_j, point_i=point_i, point_j=point_j, ratio=ratio
        )

    def coupling(x):
        m = mechanism()
        m.add(mbd.Coupler("part", "pin", "slide", coefficients=(1.0, x)))
        return m.build()

    def beam(points, y_axis=None):
        m = mbd.Mechanism("beam")
        section = mbd.Section.circle(0.01, E=1e9, rho=1e3)
        m.add_beam("rod", points, section=section, elements=2, y_axis=y_axis)
        return m.build()

    outline = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0))
    cam = {"axis": Z, "point": (1.0, 0.0, 0.0)}
    # Each accepts one of the numbers and refuses the other.
    cases = {
        "belt, axes": lambda x: belt((x, 0.0, 1.0), END),
        "belt, one axis": lambda x: belt(Z, (1.0 - x, 0.0, 1.0)),
        "gears on one shaft": lambda x: gears(Z, (1.0 - x, 0.0, 1.0)),
        "internal gear": lambda x: gears(Z, END, ratio=1.0 - 0.5 * x),
        "bevel gears, axes": lambda x: gears(END, (0.5, x, 0.0), point_i=Z),
        "coupling": coupling,
        "beam, y axis": lambda x: beam([ZERO, END], y_axis=(1.0, x, 0.0)),
        "beam, bent": lambda x: beam([ZERO, END, (2.0 - 2.4 * x, 0.1, 0.0)]),
        "spring": lambda x: element(
            mbd.SpringDamper, stiffness=1.0, point_i=ZERO, point_j=(x, 0.0, 0.0)
        ),
        "flat follower": lambda x: element(
            mbd.Cam, curve=circle(1.0), radius=x, face=(0.0, 1.0, 0.0), **cam
        ),
        "corner": lambda x: element(mbd.Cam, curve=(*outline, (x, 0.0, 0.0)), **cam),
    }
    found = alike_inside_and_outside_jit(cases, (0.0, 1.0))
    assert not {name for name, accepted in found.items() if sorted(accepted) != [False, True]}


def test_a_number_of_a_law_that_is_changed_later_is_checked_too():
    m = mechanism()
    m.add(mbd.Contact("part", "b", "ground", normal=(0.0, 0.0, 1.0), friction=0.3))
    system, state = m.build()

    def valid(friction):
        changed = eqx.tree_at(lambda s: s.laws[0].law.friction, system, friction[None])
        return valid_numbers(changed, state, jnp.zeros(()))

    assert jax.jit(jax.vmap(valid))(jnp.array([0.3, -0.5, jnp.nan])).tolist() == [
        True,
        False,
        False,
    ]


class Scaled(eqx.Module):
    """A module whose number is a leaf."""

    rate: jax.Array

    def __call__(self, t):
        return self.rate * t


class Wrapped(eqx.Module):
    """A module that holds a function beside a number of its own, the latter no array."""

    inner: Callable
    own: float = 2.0

    def __call__(self, t):
        return self.own * self.inner(t)


class Static(eqx.Module):
    """A module in which no leaf shows the function."""

    inner: Callable = eqx.field(static=True)

    def __call__(self, t):
        return self.inner(t)


class Plain:
    """No module at all."""

    def __init__(self, rate):
        self.rate = rate

    def angle(self, t):
        return self.rate * t

    __call__ = angle


def with_own_rule(w):
    @jax.custom_jvp
    def motion(w, t):
        return w * t

    motion.defjvp(lambda at, dots: (at[0] * at[1], dots[0] * at[1] + at[0] * dots[1]))
    return functools.partial(motion, w)


FORMS = {
    "lambda": function,
    "default argument": lambda w: lambda t, w=w: w * t,
    "partial": lambda w: functools.partial(lambda w, t: w * t, w),
    "partial that JAX knows": lambda w: jax.tree_util.Partial(lambda w, t: w * t, w),
    "method": lambda w: Plain(w).angle,
    "object": Plain,
    "module": lambda w: Scaled(w),
    "method of a module": lambda w: Scaled(w).__call__,
    "module with a function": lambda w: Wrapped(function(w)),
    "module in modules": lambda w: Wrapped(Wrapped(function(w))),
    "module with a static function": lambda w: Static(function(w)),
    "compiled": lambda w: jax.jit(function(w)),
    "own derivative": with_own_rule,
    "samples": lambda w: mbd.Sampled(np.arange(5.0), w * jnp.arange(5.0)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_traced_number_is_no_secret_of_any_form_of_function(form):
    def build(w):
        motion = FORMS[form](w)
        m = mechanism()
        m.add(mbd.RotationDriver("turn", "ground", "a", axis=Y, angle=motion))
        m.add(mbd.DistanceDriver("reach", "ground", "b", point_i=ZERO, point_j=END, length=motion))
        m.add(mbd.Actuator("motor", "slide", control=motion))
        return m.build()

    assert_nothing_is_hidden(build)


class Drag(eqx.Module):
    """A force of the state: a module with a number, and a function beside it."""

    inner: Callable
    own: float = 2.0

    def __call__(self, pose, twist, t):
        force, torque = self.inner(pose, twist, t)
        return self.own * force, torque


@pytest.mark.parametrize("wrapped", [lambda f: f, Drag, lambda f: Drag(Drag(f))])
def test_a_traced_number_is_no_secret_of_a_force_of_the_state(wrapped):
    def build(w):
        m = mechanism()
        m.add(mbd.UserForce("push", ["b"], wrapped(push(w))))
        return m.build()

    assert_nothing_is_hidden(build)


def test_a_force_of_the_state_that_is_a_module_stays_as_it_is():
    m = mechanism()
    m.add(mbd.UserForce("push", ["b"], Drag(push(1.0))))
    assert [x.shape for x in jax.tree.leaves(m.build()[0].forces)] == [(1,)]


def test_rows_that_share_a_function_share_its_program():
    def traced(w):
        m = mechanism()
        m.add(mbd.PoseDriver("hold", "ground", "b", displacement=three(w), rotation=three(w)))
        system, _ = m.build()
        # Three rows of position are one block, and so are three of turning.
        assert [len(d.rows) for stack in system.constraints for d in stack.driven] == [3, 3]
        return w

    jax.eval_shape(traced, 1.0)


def test_traced_numbers_of_bodies_beams_and_gravity_are_no_secrets():
    def build(w):
        m = mbd.Mechanism("beam", gravity=(0.0, 0.0, -w))
        b = m.add_body("b", mass=w, inertia=(w, w, w), r=(w, 0.0, 0.0), omega=(0.0, w, 0.0))
        section = mbd.Section.rectangle(0.1 * w, 0.1, E=1e9 * w, rho=1000.0)
        beam = m.add_beam(
            "rod", points=[(0.0, 0.0, 0.0), (0.0, w, 0.0)], section=section, elements=1
        )
        m.add(mbd.Fixed("clamp", beam.first, b, point=ZERO))
        return m.build()

    assert_nothing_is_hidden(build)


@pytest.mark.essential
def test_motions_by_a_traced_number_have_their_closed_form_in_jit_grad_and_vmap():
    h, steps = 0.1, 2

    def place(w):
        m = mbd.Mechanism("driven")
        m.add_body("c", shape=mbd.Sphere(0.1, mass=1.0))
        m.add(mbd.PoseDriver("pose", "ground", "c", displacement=three(w), rotation=three(w)))
        r = mbd.simulate(*m.build(), h=h, steps=steps).r[-1, 0]
        return r[0] + r[2]

    t, w = h * steps, np.array([0.5, 1.0])
    value, derivative = jax.jit(jax.vmap(jax.value_and_grad(place)))(w)
    np.testing.assert_allclose(value, w * (t + t**2), atol=1e-9)
    np.testing.assert_allclose(derivative, t + t**2, atol=1e-9)


@pytest.mark.slow  # what is hidden is found above, without compiling
def test_forces_by_a_traced_number_have_right_derivatives_in_a_batch():
    def end(w):
        m = mechanism()
        for kind in ("Actuator", "PointForce", "SpringDamper", "Torque", "UserForce"):
            m.add(dataclasses.replace(ELEMENTS[kind](w), name=kind))
        sol = mbd.simulate(*m.build(), h=0.05, steps=4)
        return sol.v[-1, 0, 2] + sol.v[-1, 1, 0]

    step = 1e-3
    value, derivative = jax.jit(jax.vmap(jax.value_and_grad(end)))(
        jnp.array([1.0 - step, 1.0, 1.0 + step])
    )
    # Differences err by step² and by rounding over the step.
    np.testing.assert_allclose(derivative[1], (value[2] - value[0]) / (2 * step), rtol=1e-5)
