"""Nothing depends on the unit of length: a mechanism of micrometers, or of thousands of kilometers,
is assembled, counted, placed and moved as one of meters is."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.analyses.running.start_checks import refuse_open

LENGTHS = (1e-6, 1e-3, 1e3, 1e6)
ROUNDING = 1e-11
X, Y, Z = np.eye(3)


def chain(L, tilt=0.0):
    """Three bodies on hinges of no particular direction; the second one turned out of its hinges by
    `tilt`."""
    rng = np.random.default_rng(1)
    m = mbd.Mechanism("chain", gravity=(0, 0, -9.81 * L))
    last, at = m.ground, np.zeros(3)
    for k in range(3):
        q, axis, step = rng.normal(size=4), rng.normal(size=3), L * rng.normal(size=3)
        q, axis = q / np.linalg.norm(q), axis / np.linalg.norm(axis)
        inertia = np.full(3, 0.1 * L * L)
        body = m.add_body(f"b{k}", mass=1.0, inertia=inertia, r=at + step / 2, quaternion=q)
        m.add(mbd.Revolute(f"j{k}", last, body, point=at, axis=axis))
        last, at = body, at + step
    system, state = m.build()
    turn = mbd.rotations.so3.exp(jnp.asarray(tilt * Z))
    A = jnp.stack([turn @ A if k == 1 else A for k, A in enumerate(state.A)])
    return system, mbd.State(state.r, A, state.v, state.omega)


def press(L, off=0.0, driven=False):
    """A crank, a link of given length, a slide and a pinion that rolls on it, beside a second crank
    with a rod on hinges that repeat each other; drawn `off` lengths out of place. Every kind of
    row."""
    m = mbd.Mechanism("press", gravity=(0, 0, -9.81 * L))
    s = {"mass": 1.0, "inertia": np.array([0.1, 0.2, 0.15]) * L**2}
    crank = m.add_body("crank", r=np.array([0.5, 0, off]) * L, omega=-0.3 * Y, **s)
    slide = m.add_body("slide", r=np.array([2.6, 0, 0.3]) * L, **s)
    pinion = m.add_body("pinion", r=np.array([2.6, 0, 0.8]) * L, **s)
    rod = m.add_body("rod", r=np.array([1.5, 0.4 + off, 0]) * L, **s)
    rocker = m.add_body("rocker", r=np.array([2.0, 0.4, -0.5]) * L, **s)
    m.add(mbd.Revolute("main", m.ground, crank, point=np.zeros(3), axis=Y))
    ends = {"point_i": np.array([1.0, 0, 0]) * L, "point_j": np.array([2.6, 0, 0.3]) * L}
    m.add(mbd.Distance("link", crank, slide, length=(1.63 + off) * L, **ends))
    m.add(mbd.Translational("guide", m.ground, slide, point=np.array([2.6, 0, 0.3]) * L, axis=X))
    m.add(mbd.Revolute("shaft", m.ground, pinion, point=np.array([2.6, 0, 0.8]) * L, axis=Y))
    m.add(mbd.RackAndPinion("teeth", slide, pinion, axis=Y, along=X, radius=0.5 * L))
    m.add(mbd.Revolute("a", crank, rod, point=np.array([1.0, 0.2, 0]) * L, axis=Y))
    m.add(mbd.Revolute("b", rod, rocker, point=np.array([2.0, 0.4, 0]) * L, axis=Y))
    m.add(mbd.Revolute("c", m.ground, rocker, point=np.array([2.0, 0.4, -1.0]) * L, axis=Y))
    if driven:
        m.add(mbd.RotationDriver("motor", m.ground, crank, axis=Y, angle="-0.3*t"))
    return m.build()


def parallelogram(L, h):
    """Links of one length that a motor turns through the pose in which all of them are in line,
    which the third step of size h lands on. Hinges repeat each other there and elsewhere."""
    start, rate = 3 * 2.0 * h, 2.0
    along = np.array([np.cos(start), 0, np.sin(start)]) * L
    across = rate * np.array([np.sin(start), 0, -np.cos(start)]) * L
    c, s = np.cos(start), np.sin(start)
    turned = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
    rod = {"mass": 1.0, "inertia": np.array([1e-3, 1 / 12, 1 / 12]) * L**2}
    rocker = {**rod, "A": turned, "v": across / 2, "omega": rate * Y}
    m = mbd.Mechanism("parallelogram", gravity=(0, 0, -9.81 * L))
    left = m.add_body("left", r=along / 2, **rocker)
    right = m.add_body("right", r=X * L + along / 2, **rocker)
    coupler = m.add_body("coupler", r=X * L / 2 + along, v=across, **rod)
    m.add(mbd.Revolute("a", m.ground, left, point=0 * X, axis=Y))
    m.add(mbd.Revolute("b", left, coupler, point=along, axis=Y))
    m.add(mbd.Revolute("c", coupler, right, point=X * L + along, axis=Y))
    m.add(mbd.Revolute("d", m.ground, right, point=X * L, axis=Y))
    m.add(mbd.RotationDriver("motor", m.ground, left, axis=Y, angle=f"{rate!r}*t"))
    return m.build()


def alike(small, large, L):
    """Whether two states are the same but for the unit of length."""
    pairs = [(x, y) for k in ("r", "v") for x, y in [(getattr(small, k) / L, getattr(large, k))]]
    pairs += [(getattr(small, k), getattr(large, k)) for k in ("A", "omega")]
    return max(float(np.max(np.abs(x - y))) for x, y in pairs)


@pytest.mark.essential
def test_a_mechanism_of_any_size_is_assembled_in_as_many_steps():
    for described in (chain, press):
        reference = {}
        for L in (1.0, *LENGTHS):
            for off in (0.0, 1e-6, 0.03):
                system, state = described(L, off)
                new, report = mbd.assemble(system, state)
                assert bool(report.closed), (described.__name__, L, off)
                assert np.max(np.abs(report.shares)) < 1e-14
                found = reference.setdefault(off, (new, int(report.iterations)))
                assert int(report.iterations) == found[1]
                assert alike(new, found[0], L) < ROUNDING


@pytest.mark.filterwarnings("ignore::jaxmbd.DescriptionWarning")  # a million meters are meant
def test_the_joint_that_is_most_open_is_named_first_at_any_size():
    """A hinge that a tenth of a radian keeps open, beside one open by a hundredth of the length."""
    for L in (1.0, 1e-6, 1e6):
        m = mbd.Mechanism("rigid")
        body = m.add_body("b", mass=1.0, inertia=np.full(3, L * L), r=L * X)
        rows = [mbd.CD(axis, np.zeros(3), -1.01 * L * X) for axis in np.eye(3)]
        m.add(mbd.Constraint("ball", m.ground, body, primitives=rows))
        m.add(mbd.Constraint("square", m.ground, body, primitives=[mbd.DP1(X, Y)]))
        m.add(mbd.Constraint("tilted", m.ground, body, primitives=[mbd.DP1(X, Y, 0.1)]))
        system, state = m.build()
        state, report = mbd.assemble(system, state)
        with pytest.raises(mbd.AssemblyError, match=r"open are joint '(square|tilted)'"):
            refuse_open(system, report, 0.0)


@pytest.mark.essential
def test_freedoms_and_redundant_joints_are_counted_alike_at_any_size():
    wanted = None
    for L in (1.0, *LENGTHS):
        found = mbd.mobility(*press(L))
        assert (found.freedoms, found.redundant_rows) == (1, 3)
        condition = wanted = found.condition if wanted is None else wanted
        np.testing.assert_allclose(found.condition, condition, rtol=1e-6)


@pytest.mark.essential
def test_a_driven_mechanism_of_any_size_has_the_same_motion_and_forces():
    ts = np.linspace(0.0, 0.5, 6)
    wanted = None
    for L in (1.0, *LENGTHS):
        sol = mbd.kinematics(*press(L, driven=True), ts)
        loads = sol.reactions()
        now = [sol.r / L, sol.A, sol.v / L, sol.omega, sol.a / L, sol.alpha]
        # Masses are the same and accelerations go with the length.
        now += [x for f in loads.values() for x in (f.force / L, f.moment / L**2)]
        wanted = now if wanted is None else wanted
        for x, y in zip(now, wanted, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-9 * max(1.0, float(np.max(np.abs(y)))))


def test_joints_are_set_alike_at_any_size():
    wanted = None
    for L in (1.0, *LENGTHS):
        system, state = press(L)
        placed = mbd.set_joints(system, state, {"main": {"angle": 0.2, "rate": 1.5}})
        wanted = placed if wanted is None else wanted
        assert alike(placed, wanted, L) < ROUNDING


@pytest.mark.essential
@pytest.mark.filterwarnings("ignore::jaxmbd.SingularPoseWarning")  # the pose is passed on purpose
@pytest.mark.filterwarnings("ignore::jaxmbd.DescriptionWarning")  # as are the sizes
@pytest.mark.parametrize("keep_factors", [False, True])
def test_steps_take_the_same_decisions_at_any_size(keep_factors):
    """By powers of two, so that rounding is the same: loops that repeat rows, and land on a pose
    where multipliers are not determined."""
    h = 4e-3
    method = mbd.GeneralizedAlpha(newton=mbd.Newton(keep_factors=keep_factors))
    wanted = None
    for L in (1.0, 2.0**-10, 2.0**10, 2.0**-20):
        sol = mbd.simulate(*parallelogram(L, h), h=h, steps=40, integrator=method)
        forces = np.concatenate([f.force / L for f in sol.reactions().values()])
        decided = np.asarray(sol.iterations), int(sol.stats["undetermined_steps"]), forces
        wanted = decided if wanted is None else wanted
        np.testing.assert_array_equal(decided[0], wanted[0])
        assert decided[1] == wanted[1]
        np.testing.assert_allclose(decided[2], wanted[2], atol=1e-6 * np.max(np.abs(wanted[2])))
