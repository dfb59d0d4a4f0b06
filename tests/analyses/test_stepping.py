"""Steps that a caller takes: the same numbers as one run, inputs held exactly, carries that can be
saved; against closed forms and SciPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import jaxmbd as mbd
from jaxmbd import library
from jaxmbd.outcomes import RESULTS
from jaxmbd.xla.descriptions import describe, rebuild, with_slots

H = 0.01
COMBINATIONS = {
    "generalized_alpha rA": (mbd.GeneralizedAlpha(), mbd.RA()),
    "generalized_alpha rp": (mbd.GeneralizedAlpha(), mbd.RP()),
    "bdf2 r-epsilon": (mbd.BDF2(), mbd.REps()),
    "implicit_euler rotation elements": (mbd.ImplicitEuler(), mbd.RotationElements()),
    "munthe_kaas rA": (mbd.MuntheKaas(), mbd.RA()),
    "runge_kutta rp": (mbd.RungeKutta(), mbd.RP()),
    "energy_momentum directors": (mbd.EnergyMomentum(), mbd.Directors()),
    "moreau rA": (mbd.Moreau(), mbd.RA()),
}


def arm(control, joints=2):
    """A pendulum of rods with a motor in its first joint."""
    m = mbd.Mechanism("arm")
    before = m.ground
    for k in range(joints):
        rod = m.add_body(f"rod {k}", shape=mbd.Box((1.0, 0.1, 0.1), mass=2.0), r=(0.5 + k, 0, 0))
        m.add(mbd.Revolute(f"pin {k}", before, rod, point=(float(k), 0, 0), axis=(0, 1, 0)))
        before = rod
    m.add(mbd.Actuator("motor", "pin 0", control=control))
    return m.build()


def cart(control, mass=2.0):
    """A double integrator."""
    m = mbd.Mechanism("cart")
    body = m.add_body("cart", shape=mbd.Box((0.3, 0.1, 0.1), mass=mass))
    m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(mbd.Actuator("push", "rail", control=control))
    return m.build()


def stepped(system, carry, values):
    """The carry after steps with these values of the input "u", and all positions and velocities on
    the way."""

    names = [f"{b}.{f}.{x}" for b in system.bodies for f in ("r", "v", "omega") for x in "xyz"]

    def one(carry, u):
        carry = mbd.step(system, carry, {"u": u})
        return carry, mbd.observe(system, carry, names)

    return jax.lax.scan(one, carry, jnp.asarray(values))


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_scan_of_steps_is_a_run(name, rng):
    integrator, formulation = COMBINATIONS[name]
    options = {"h": H, "integrator": integrator, "formulation": formulation}
    system, state = arm(mbd.Input("u"))
    u = rng.normal(size=100)
    sol = mbd.simulate(system, state, steps=100, inputs={"u": u}, **options)
    carry = mbd.start(system, state, inputs={"u": u[0]}, **options)
    carry, found = jax.jit(lambda carry: stepped(system, carry, u))(carry)
    wanted = np.concatenate([sol.r[1:], sol.v[1:], sol.omega[1:]], axis=2).reshape(100, -1)
    # Two programs of the same operations, which XLA may put together differently.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * (1.0 + np.max(np.abs(wanted))))
    assert carry.result == RESULTS.successful and int(carry.steps) == 100
    assert float(carry.t) == float(sol.t[-1])


def test_contacts_step_as_they_run():
    m = mbd.Mechanism("ball")
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.3), v=(1.0, 0, 0))
    m.add(mbd.Contact("floor", ball, m.ground, friction=0.3, restitution=0.5))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=H, steps=100)
    carry = mbd.start(system, state, h=H)
    carry = mbd.step(system, mbd.step(system, carry, steps=60), steps=40)
    np.testing.assert_allclose(carry.state.r, sol.r[-1], rtol=0, atol=1e-13)
    np.testing.assert_allclose(carry.state.omega, sol.omega[-1], rtol=0, atol=1e-12)
    gap = mbd.observe(system, carry, "floor.gap")
    np.testing.assert_allclose(gap, sol["floor.gap"][-1], rtol=0, atol=1e-13)


def test_a_carry_that_was_saved_goes_on_bit_for_bit(tmp_path):
    system, state = mbd.load("four_bar")
    step = jax.jit(lambda carry: mbd.step(system, carry, steps=20))
    begun = mbd.start(system, state, h=H)
    half = step(begun)
    eqx.tree_serialise_leaves(tmp_path / "carry.eqx", half)
    read = eqx.tree_deserialise_leaves(tmp_path / "carry.eqx", begun)
    for one, two in zip(jax.tree.leaves(step(half)), jax.tree.leaves(step(read)), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(two))


@pytest.mark.parametrize("name", [n for n in COMBINATIONS if "euler" not in n])
def test_a_force_that_is_held_moves_a_cart_exactly(name, rng):
    """The samples of a double integrator, also where the force changes from step to step."""
    integrator, formulation = COMBINATIONS[name]
    options = {"h": H, "integrator": integrator, "formulation": formulation}
    system, state = cart(mbd.Input("u"))
    u = rng.normal(size=40)
    sol = mbd.simulate(system, state, steps=40, inputs={"u": u}, **options)
    x, v, found = 0.0, 0.0, []
    for force in u:
        x, v = x + H * v + 0.25 * H**2 * force, v + 0.5 * H * force
        found.append((x, v))
    x, v = np.transpose(found)
    np.testing.assert_allclose(sol["rail.displacement"][1:], x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(sol["rail.speed"][1:], v, rtol=0, atol=1e-13)


def test_a_digital_controller_with_hold_and_delay_follows_its_z_transform():
    """A PD controller that acts every fourth step, on what it saw a period before."""
    system, state = cart(mbd.Input("u"))
    state = mbd.set_joints(system, state, {"rail": 0.2})
    gains, every, count = jnp.array([30.0, 12.0]), 4, 50
    period = every * H

    def one(carry, _):
        motion, u = carry
        seen = mbd.observe(system, motion, ["rail.displacement", "rail.speed"])
        motion = mbd.step(system, motion, {"u": u}, steps=every)
        return (motion, -gains @ seen), seen

    begun = mbd.start(system, state, h=H, inputs={"u": 0.0})
    _, seen = jax.jit(lambda c: jax.lax.scan(one, (c, 0.0 * gains[0]), None, count))(begun)
    # x⁺ = F x + G u, u⁺ = -K x: with the sampled matrices of a double integrator.
    plant = expm(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]) * period)
    loop = np.zeros((3, 3))
    loop[:2] = plant[:2]
    loop[2, :2] = -np.asarray(gains)
    x = np.array([0.2, 0.0, 0.0])
    wanted = []
    for _ in range(count):
        wanted.append(x[:2])
        x = loop @ x
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-10)
    # The poles, of the sequence alone.
    y = np.asarray(seen)[:, 0]
    found = np.linalg.lstsq(np.stack([y[2:-1], y[1:-2], y[:-3]], axis=1), y[3:], rcond=None)[0]
    poles = np.sort_complex(np.roots([1.0, *-found]))
    np.testing.assert_allclose(poles, np.sort_complex(np.linalg.eigvals(loop)), atol=1e-8)


def test_a_function_of_time_is_an_input_as_it_is_a_number():
    system, state = arm(mbd.Input("u"))
    own, start = arm(lambda t: 5.0 * jnp.sin(3.0 * t))
    for integrator in (mbd.GeneralizedAlpha(), mbd.MuntheKaas()):
        options = {"h": H, "steps": 50, "integrator": integrator}
        given = mbd.simulate(
            system, state, inputs={"u": lambda t: 5.0 * jnp.sin(3.0 * t)}, **options
        )
        wanted = mbd.simulate(own, start, **options)
        np.testing.assert_allclose(given.r, wanted.r, rtol=0, atol=1e-13)
        np.testing.assert_allclose(
            given["motor.torque"], 5.0 * np.sin(3.0 * np.asarray(given.t)), rtol=0, atol=1e-13
        )
    text = mbd.simulate(system, state, h=H, steps=50, inputs={"u": "5*sin(3*t)"})
    np.testing.assert_allclose(
        text.r, mbd.simulate(own, start, h=H, steps=50).r, rtol=0, atol=1e-13
    )


def test_a_driver_follows_an_input_with_its_rate_and_acceleration():
    def crank(angle):
        m = mbd.Mechanism("crank")
        body = m.add_body("crank", shape=mbd.Box((0.3, 0.1, 0.1), mass=2.0), r=(0.15, 0, 0))
        m.add(mbd.Revolute("pin", m.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
        m.add(mbd.RotationDriver("motor", m.ground, body, axis=(0, 1, 0), angle=angle))
        return m.build()

    system, state = crank(mbd.Input("turn"))
    t = H * np.arange(1, 101)
    turn = (np.sin(t), np.cos(t), -np.sin(t))
    own = mbd.simulate(*crank(jnp.sin), h=H, steps=100)
    for given in (turn, jnp.sin):
        sol = mbd.simulate(system, state, h=H, steps=100, inputs={"turn": given})
        np.testing.assert_allclose(sol["pin.angle"][1:], np.sin(t), rtol=0, atol=1e-13)
        # The start knows no third derivative of arrays; what follows from that decays.
        moments = (x.reactions()["motor"].moment[50:] for x in (sol, own))
        np.testing.assert_allclose(*moments, rtol=0, atol=1e-5)
        assert float(np.max(np.abs(sol.violation().position))) < 1e-12
    with pytest.raises(ValueError, match=r"'turn' drives a joint: give a tuple of its value, rate"):
        mbd.start(system, state, h=H, inputs={"turn": 0.0})


def test_gradients_by_every_input_are_those_of_an_independent_integration(rng):
    system, state = arm(mbd.Input("u"), joints=1)
    u = 5.0 * rng.normal(size=20)

    def one(carry, u):
        return mbd.step(system, carry, {"u": u}, steps=50), None

    def reached(u):
        carry = mbd.start(system, state, h=H / 50, inputs={"u": u[0]})
        return jax.lax.scan(one, carry, u)[0].state.r[0, 2]

    inertia = 2.0 * (1.0 + 0.01) / 12.0 + 2.0 * 0.25

    def truth(u):
        y = np.zeros(2)
        for torque in u:
            y = solve_ivp(
                lambda t, y, torque=torque: [
                    y[1],
                    (torque + 2.0 * 9.81 * 0.5 * np.cos(y[0])) / inertia,
                ],
                (0.0, H),
                y,
                rtol=1e-12,
                atol=1e-13,
            ).y[:, -1]
        return -0.5 * np.sin(y[0])

    found = jax.jit(jax.grad(reached))(jnp.asarray(u))
    step = 1e-3
    wanted = [(truth(u + step * e) - truth(u - step * e)) / (2.0 * step) for e in np.eye(20)]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.max(np.abs(wanted)))


def test_a_failed_element_of_a_batch_stays_where_it_was():
    system, state = arm(mbd.Input("u"))
    begun = mbd.start(system, state, h=H, inputs={"u": 0.0})
    torques = jnp.array([0.0, jnp.nan, 1.0])

    @jax.jit
    @jax.vmap
    def run(u):
        first = mbd.step(system, begun, {"u": 0.0}, steps=5)
        return first, mbd.step(system, first, {"u": u}, steps=5)

    first, last = run(torques)
    assert [bool(x) for x in last.result == RESULTS.successful] == [True, False, True]
    assert np.asarray(last.steps).tolist() == [10, 5, 10]
    np.testing.assert_array_equal(last.state.r[1], first.state.r[1])
    assert np.all(np.isfinite(last.state.r))


def test_names_and_shapes_of_inputs_are_checked():
    system, state = arm(mbd.Input("u"))
    options = {"h": H, "steps": 10}
    with pytest.raises(ValueError, match=r"no value is given for the input 'u'"):
        mbd.simulate(system, state, **options)
    with pytest.raises(ValueError, match=r"there is no input 'w'.*the inputs are u"):
        mbd.simulate(system, state, inputs={"w": np.zeros(10)}, **options)
    with pytest.raises(ValueError, match=r"input 'u': expected an array of shape \(10,\)"):
        mbd.simulate(system, state, inputs={"u": np.zeros(9)}, **options)
    with pytest.raises(ValueError, match=r"returns shape \(2,\)"):
        mbd.simulate(system, state, inputs={"u": lambda t: jnp.zeros(2)}, **options)
    with pytest.raises(ValueError, match=r"equilibrium\(system.with_inputs\(\{'u'"):
        mbd.equilibrium(system, state)
    with pytest.raises(ValueError, match=r"of size None in one element and of size 2"):
        m = mbd.Mechanism("two sizes")
        body = m.add_body("b", shape=mbd.Sphere(0.1, mass=1.0))
        m.add(mbd.Translational("rail", m.ground, body, point=(0, 0, 0), axis=(1, 0, 0)))
        m.add(mbd.Actuator("one", "rail", control=mbd.Input("u")))
        m.add(mbd.Actuator("two", "rail", control=Summed(mbd.Input("u", 2))))
        m.build()
    carry = mbd.start(system, state, h=H, inputs={"u": 0.0})
    with pytest.raises(TypeError):
        mbd.step(system, state, {"u": 0.0})
    with pytest.raises(ValueError, match=r"of a motion of 2 bodies.*'four_bar' has 3"):
        mbd.step(mbd.load("four_bar")[0], carry)
    with pytest.raises(ValueError, match=r"step size h must be positive, not -1"):
        mbd.start(system, state, h=-1, inputs={"u": 0.0})
    assert repr(carry) == "Carry: t = 0 s after 0 steps; generalized_alpha, rA"
    held = mbd.simulate(system, state, inputs={"u": 2.0}, **options)
    np.testing.assert_array_equal(held["motor.torque"], 2.0)
    with pytest.raises(ValueError, match=r"steps must be a positive integer"):
        mbd.step(system, carry, {"u": 0.0}, steps=0)
    with pytest.raises(ValueError, match=r"did you mean 'pin 0.angle'"):
        mbd.observe(system, carry, "pin 0.angel")


class Summed(eqx.Module):
    """The sum of the numbers of a motion."""

    of: mbd.Input

    def __call__(self, t):
        return jnp.sum(self.of(t))


def test_inputs_are_shared_have_several_numbers_and_hold_still_for_other_analyses():
    m = mbd.Mechanism("hung", gravity=(0, 0, 0))
    body = m.add_body("b", shape=mbd.Sphere(0.1, mass=1.0))
    m.add(mbd.SpringDamper("spring", m.ground, body, point_i=(0, 0, 1), point_j=(0, 0, 0),
                           stiffness=100.0, free_length=1.0))  # fmt: skip
    m.add(mbd.PointForce("wind", body, point=(0, 0, 0), force=mbd.Input("wind", 3, "N")))
    m.add(mbd.PointForce("more", body, point=(0, 0, 0), force=mbd.Input("wind", 3, "N")))
    system, state = m.build()
    wind = np.array([0.0, 0.0, -1.0])
    sol = mbd.simulate(system, state, h=H, steps=10, inputs={"wind": np.tile(wind, (10, 1))})
    np.testing.assert_allclose(sol.a[0, 0], 2.0 * wind, rtol=0, atol=1e-12)
    assert mbd.quantities(system)["wind[2]"] == "N"
    np.testing.assert_array_equal(sol["wind[2]"], -1.0)
    found = mbd.equilibrium(system.with_inputs({"wind": wind}), state)
    # Two newtons extend the spring of 100 N/m.
    np.testing.assert_allclose(found.state.r[0, 2], -0.02, rtol=0, atol=1e-9)


def test_quantities_are_what_the_methods_of_a_solution_return():
    m = mbd.load_mechanism("slider_crank_free")
    m.add(mbd.Frame("tool", next(iter(m.bodies)), point=(0, 0, 0)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=1e-3, steps=20)
    carry = mbd.step(system, mbd.start(system, state, h=1e-3), steps=20)
    names = list(mbd.quantities(system))
    last = mbd.observe(system, carry, names)
    body, joint = system.bodies[0], system.connections[0].name
    wanted = {
        f"{body}.r.x": sol.r[:, 0, 0],
        f"{body}.omega.z": sol.omega[:, 0, 2],
        "tool.a.z": sol.frame("tool").a[:, 2],
        f"{joint}.reaction_force.x": sol.reactions()[joint].force[:, 0],
        "energy.total": sol.energy().total,
    }
    for name, values in wanted.items():
        np.testing.assert_array_equal(sol[name], values)
    for name, value in zip(names, np.asarray(last), strict=True):
        if name != "iterations":
            whole = np.asarray(sol[name])
            # Forces feel the rounding of positions by 1/h².
            close = 1e-8 * (1.0 + np.max(np.abs(whole)))
            np.testing.assert_allclose(value, whole[-1], rtol=0, atol=close, err_msg=name)


def test_shorter_names_of_reactions_and_of_contact_forces_are_taken(tmp_path):
    m = mbd.Mechanism("lying")
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.1))
    m.add(mbd.Contact("foot", ball, m.ground, friction=0.5))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=H, steps=2, integrator=mbd.Moreau())
    # The floor bears the weight.
    np.testing.assert_allclose(sol["foot.normal_force"][1:], 9.81, rtol=1e-9)
    np.testing.assert_array_equal(sol["foot.normal_force"], sol["foot.force.normal"])
    system, state = mbd.load_mechanism("single_pendulum").build()
    sol = mbd.simulate(system, state, h=H, steps=2)
    joint = system.connections[0].name
    moments = sol.reactions()[joint].moment
    np.testing.assert_array_equal(sol[f"{joint}.moment.z"], moments[:, 2])
    np.testing.assert_array_equal(sol[f"{joint}.force.x"], sol.reactions()[joint].force[:, 0])
    sol.to_csv(tmp_path / "table.csv", columns=[f"{joint}.force.*"])
    header = (tmp_path / "table.csv").read_text().splitlines()[0].split(",")
    assert header == ["t [s]", *(f"{joint}.reaction_force.{axis} [N]" for axis in "xyz")]
    mbd.Measurements(sol.t, {f"{joint}.force.x": np.zeros(3)}).check(system)


def quantities_by_method(sol, system):
    """Every quantity of bodies, joints, elements and energies, by the method that gives it."""
    found = {f"energy.{x}": getattr(sol.energy(), x) for x in ("kinetic", "potential", "total")}
    for b, body in enumerate(system.bodies):
        for field in ("r", "v", "omega", "a", "alpha"):
            for k, axis in enumerate("xyz"):
                found[f"{body}.{field}.{axis}"] = getattr(sol, field)[:, b, k]
        for i, j in np.ndindex(3, 3):
            found[f"{body}.A{i + 1}{j + 1}"] = sol.A[:, b, i, j]
    for joint, reaction in sol.reactions().items():
        for k, axis in enumerate("xyz"):
            found[f"{joint}.reaction_force.{axis}"] = reaction.force[:, k]
            found[f"{joint}.reaction_moment.{axis}"] = reaction.moment[:, k]
    for c in system.connections:
        if c.angle is not None or c.element.has_displacement:
            motion = sol.joint(c.name)
            for field in (
                "angle",
                "rate",
                "acceleration",
                "displacement",
                "speed",
                "displacement_acceleration",
            ):
                if getattr(motion, field) is not None:
                    found[f"{c.name}.{field}"] = getattr(motion, field)
    for name, row in zip(system.row_names, np.asarray(sol.lam).T, strict=True):
        found[f"lam[{name}]"] = row
    for name, element in sol.elements().items():
        for output in element.outputs:
            places = list(np.ndindex(output.value.shape[1:]))
            for place in places:
                entry = "".join(f"[{k}]" for k in place)
                if output.components:
                    entry = entry[: entry.rindex("[")] + "." + output.components[place[-1]]
                found[f"{name}.{output.name}{entry}"] = output.value[:, *place]
    return found | {"iterations": sol.iterations}


@pytest.mark.parametrize("name", library.names())
def test_every_quantity_of_a_packaged_mechanism_is_what_its_method_gives(name):
    system, state = mbd.load_mechanism(name).build()
    sol = mbd.simulate(system, state, h=1e-3, steps=3)
    by_method = quantities_by_method(sol, system)
    for quantity in mbd.quantities(system):
        # A name that two things have begins with the kind of thing.
        value = by_method.get(quantity, by_method.get(quantity.partition(".")[2]))
        assert value is not None, quantity
        np.testing.assert_array_equal(sol[quantity], value, err_msg=quantity)


def test_programs_of_mechanisms_with_inputs_can_be_kept():
    system, state = arm(mbd.Input("u"))
    carry = mbd.start(system, state, h=H, inputs={"u": 0.0})
    for tree in (system.unnamed(), carry):
        arrays = [x for x in jax.tree.leaves(tree) if eqx.is_array(x)]
        again = rebuild(describe(with_slots(tree)), arrays)
        assert jax.tree.structure(again) == jax.tree.structure(tree)
