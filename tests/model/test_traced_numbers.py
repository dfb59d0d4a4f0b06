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
from jax.core import Tracer

import jaxmbd as mbd
from jaxmbd.equations import laws, rows
from jaxmbd.model.elements import AbstractElement, kinds
from jaxmbd.model.state import Twist

X, Y, Z, ZERO = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
END = (1.0, 0.0, 0.0)
TURN = (0.0, 2 * np.pi)


def mechanism():
    """Two equal balls on the x axis, with a revolute and a prismatic joint to the ground."""
    m = mbd.Mechanism("of traced numbers")
    for k, name in enumerate("ab"):
        m.add_body(name, shape=mbd.Sphere(0.1, mass=1.0), r=(0.5 + k, 0.0, 0.0))
    m.add(mbd.Revolute("pin", "ground", "a", point=ZERO, axis=Y))
    m.add(mbd.Translational("slide", "ground", "b", point=ZERO, axis=X))
    return m


def three(w):
    return lambda t: jnp.stack([w * t, 0.1 * t, w * t**2])


def circle(w):
    return lambda s: w * jnp.stack([jnp.cos(s), jnp.sin(s), jnp.zeros_like(s)])


def of_bodies(kind, **fields):
    """Between the ground and body b; fields are functions of the traced number, or fixed."""
    return lambda w: kind(
        "part", "ground", "b", **{k: f(w) if callable(f) else f for k, f in fields.items()}
    )


def of_joint(kind, joint="pin", **fields):
    return lambda w: kind("part", joint, **{k: f(w) for k, f in fields.items()})


def point(w):
    return jnp.stack([0.0 * w, 0.0 * w, 0.1 * w])


def along_x(w):
    return jnp.stack([w, 0.1 * w, 0.0 * w])


def along_y(w):
    return jnp.stack([0.1 * w, w, 0.0 * w])


def along_z(w):
    return jnp.stack([0.0 * w, 0.1 * w, w])


def number(w):
    return w


def small(w):
    return 0.5 * w


def function(w):
    return lambda t: w * t


def pair(w):
    return jnp.stack([w, 2.0 * w])


def push(w):
    return lambda pose, twist, t: (-w * twist.v, 0.0 * twist.v)


# Every kind of element, with all its numbers and functions by one that is traced; built, never run.
ELEMENTS = {
    "Actuator": of_joint(mbd.Actuator, control=function),
    "Armature": of_joint(mbd.Armature, inertia=number),
    "Belt": of_bodies(mbd.Belt, axis_i=along_y, point_i=point, radius_i=small, radius_j=number),
    "Cam": of_bodies(mbd.Cam, curve=circle, axis=Z, point=lambda w: (2.0 * w, 0.0, 0.0)),
    "Clearance": of_bodies(
        mbd.Clearance, play=small, radius=small, point=point, friction=small, restitution=small
    ),
    "Constraint": lambda w: mbd.Constraint(
        "part", "ground", "b", primitives=[mbd.CD(along_x(w), point(w), point(w), function(w))]
    ),
    "Contact": lambda w: mbd.Contact(
        "part", "b", "ground", point=point(w), normal=along_z(w), friction=w, restitution=w
    ),
    "CoulombFriction": of_joint(mbd.CoulombFriction, bound=number, friction=small, radius=small),
    "Coupler": lambda w: mbd.Coupler("part", "pin", "slide", coefficients=pair(w)),
    "CurveContact": of_bodies(
        mbd.CurveContact, point=point, curve=circle, axis=Z, radius=small, friction=small
    ),
    "CurveOnCurve": of_bodies(mbd.CurveOnCurve, curve=circle, curve_j=circle, axis=Z, closed=True),
    "Cylindrical": of_bodies(mbd.Cylindrical, point=point, axis=along_x),
    "Distance": of_bodies(mbd.Distance, point_i=point, point_j=END, length=function),
    "DistanceDriver": of_bodies(mbd.DistanceDriver, point_i=point, point_j=END, length=function),
    "Fixed": of_bodies(mbd.Fixed, point=point),
    "Frame": lambda w: mbd.Frame("part", "b", point=point(w)),
    "FixedTendon": lambda w: mbd.FixedTendon(
        "part", ["pin", "slide"], coefficients=pair(w), control=function(w), gain=w, stiffness=w
    ),
    "Gear": of_bodies(mbd.Gear, axis_i=along_y, point_i=point, ratio=number),
    "JointLimit": of_joint(mbd.JointLimit, lower=lambda w: -w, upper=number, restitution=small),
    "JointSpring": of_joint(mbd.JointSpring, stiffness=number, damping=number, reference=number),
    "KnifeEdge": of_bodies(mbd.KnifeEdge, point=point, axis=along_x),
    "LinearCoupling": lambda w: mbd.LinearCoupling(
        "part", ["pin", "slide"], coefficients=pair(w), length=w
    ),
    "NoSlip": of_bodies(mbd.NoSlip, axis=Y, radius_i=small, radius_j=small, point_i=point),
    "Planar": of_bodies(mbd.Planar, point=point, axis=along_x),
    "PointForce": lambda w: mbd.PointForce("part", "b", force=three(w), point=point(w)),
    "PointOnCurve": of_bodies(
        mbd.PointOnCurve, curve=circle, axis=Z, point=point, offset=small, span=TURN
    ),
    "PointOnLine": of_bodies(mbd.PointOnLine, point=point, axis=along_x),
    "PointOnSurface": of_bodies(
        mbd.PointOnSurface, point=point, surface=lambda w: lambda p: p[2] - w * p[0], offset=small
    ),
    "PoseDriver": of_bodies(mbd.PoseDriver, displacement=three, rotation=three, point=point),
    "RackAndPinion": of_bodies(mbd.RackAndPinion, axis=along_y, along=X, radius=number),
    "Revolute": of_bodies(mbd.Revolute, point=point, axis=along_x),
    "RollingDisc": of_bodies(
        mbd.RollingDisc, point=lambda w: (0.0, 0.0, -w), axis=Y, radius=number, tyre_radius=small
    ),
    "RollingSphere": of_bodies(mbd.RollingSphere, point=lambda w: (0.0, 0.0, -w), radius=number),
    "RotationDriver": of_bodies(mbd.RotationDriver, axis=along_y, angle=function),
    "Screw": of_bodies(mbd.Screw, point=point, axis=along_x, lead=number),
    "Servo": of_joint(mbd.Servo, control=function, gain=number, stiffness=number, damping=number),
    "Spherical": of_bodies(mbd.Spherical, point=point),
    "SpringDamper": of_bodies(
        mbd.SpringDamper, point_i=point, point_j=END, stiffness=number, actuator=function
    ),
    "Torque": lambda w: mbd.Torque("part", "b", torque=three(w), frame="body"),
    "TorsionalSpringDamper": of_bodies(
        mbd.TorsionalSpringDamper, axis=X, stiffness=number, free_angle=number, actuator=function
    ),
    "TranslationDriver": of_bodies(mbd.TranslationDriver, axis=along_x, displacement=function),
    "Translational": of_bodies(mbd.Translational, point=point, axis=along_x),
    "Universal": of_bodies(mbd.Universal, point=point, axis_i=Y, axis_j=Z),
    "UserForce": lambda w: mbd.UserForce("part", ["b"], push(w)),
    "ViscousFriction": of_joint(mbd.ViscousFriction, rotational=number),
}


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
    assert own == {*ELEMENTS, "Beam", "RigidElement"}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_traced_number_of_an_element_is_no_secret_of_it(kind):
    def build(w):
        m = mechanism()
        m.add(ELEMENTS[kind](w))
        return m.build()

    assert_nothing_is_hidden(build)


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
