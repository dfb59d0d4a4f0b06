"""Inverse kinematics within limits: closed forms, other searches, and loops that stay closed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import jaxmbd as mbd
from jaxmbd.library.stewart import anchors

LENGTHS = np.array([0.5, 0.4, 0.3])
BENT = (0.3, 0.4, 0.2)


def chain(lengths=LENGTHS):
    """Links in a plane, each on a hinge, and a frame at the end."""
    m, x, before = mbd.Mechanism("arm"), 0.0 * jnp.asarray(lengths[0]), "ground"
    for k, length in enumerate(lengths):
        middle = jnp.stack([x + 0.5 * length, 0.0 * x, 0.0 * x])
        m.add_body(f"link{k}", mass=1.0, inertia=(0.1,) * 3, r=middle)
        at = jnp.stack([x, 0.0 * x, 0.0 * x])
        m.add(mbd.Revolute(f"j{k}", before, f"link{k}", point=at, axis=(0, 0, 1)))
        x, before = x + length, f"link{k}"
    m.add(mbd.Frame("tool", before, point=jnp.stack([x, 0.0 * x, 0.0 * x])))
    return m.build()


def bent(lengths=LENGTHS):
    system, state = chain(lengths)
    return system, mbd.set_joints(system, state, {f"j{k}": a for k, a in enumerate(BENT)})


def angles(found, system):
    return np.array([found.value(f"j{k}.angle", system) for k in range(3)])


def two_links(reach, a, b):
    """Angles of a two-link arm whose end is at a point, elbow up: the cosine rule."""
    x, y = reach
    elbow = np.arccos((x**2 + y**2 - a**2 - b**2) / (2.0 * a * b))
    return np.arctan2(y, x) - np.arctan2(b * np.sin(elbow), a + b * np.cos(elbow)), elbow


@pytest.mark.essential
def test_an_arm_of_two_links_stands_as_the_cosine_rule_says():
    system, state = chain(LENGTHS[:2])
    state = mbd.set_joints(system, state, {"j1": 0.5})
    found = mbd.place(system, {"tool.r": (0.5, 0.3, 0.0)}, start=state)
    first, second = two_links((0.5, 0.3), 0.5, 0.4)
    np.testing.assert_allclose(found.value("j0.angle", system), first, atol=1e-13)
    np.testing.assert_allclose(found.value("j1.angle", system), second, atol=1e-13)
    assert float(found.misses["tool.r"]) < 1e-13 and bool(found.settled)
    assert "goals met" in repr(found)


def away(x, wanted=None):
    """Half the squared distance of the chain from where it starts, all bodies alike, as the
    documentation defines it.
    """

    def bodies(q):
        at, turn, poses = np.zeros(2), 0.0, []
        for angle, length in zip(q, LENGTHS, strict=True):
            turn += angle
            along = np.array([np.cos(turn), np.sin(turn)])
            poses.append((at + 0.5 * length * along, turn))
            at = at + length * along
        return poses, at

    (here, tip), (there, _) = bodies(x), bodies(BENT)
    if wanted is not None:
        return tip - wanted
    length = float(chain()[0].length)
    return 0.5 * sum(
        np.sum((a - b) ** 2) / length**2 + 2.0 * (1.0 - np.cos(p - q))
        for (a, p), (b, q) in zip(here, there, strict=True)
    )


@pytest.mark.parametrize("lower, upper", [(None, None), (-0.2, 0.9)], ids=["free", "limited"])
def test_of_a_redundant_arm_the_closest_pose_is_found(lower, upper):
    """As SLSQP finds it in joint coordinates, to the digits that it has."""
    system, state = bent()
    target = np.array([0.6, 0.5])
    limits = {} if upper is None else {"j1.angle": (lower, upper)}
    found = mbd.place(system, {"tool.r": (*target, 0.0)}, start=state, limits=limits)
    bounds = [(None, None), (lower, upper), (None, None)]
    tip = {"type": "eq", "fun": lambda x: away(x, target)}
    settings = {"ftol": 1e-15, "maxiter": 500}
    best = minimize(away, BENT, constraints=[tip], bounds=bounds, options=settings)
    np.testing.assert_allclose(angles(found, system), best.x, atol=3e-6)
    assert float(found.misses["tool.r"]) < 1e-14
    if upper is not None:
        assert int(found.at_limits["j1.angle"]) == 1
        np.testing.assert_allclose(found.value("j1.angle", system), upper, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_derivatives_by_a_length_and_a_target_are_those_of_differences(mode):
    system, state = bent()

    def poses(p):
        other, _ = chain(jnp.stack([jnp.asarray(0.5), p[0], jnp.asarray(0.3)]))
        goals = {"tool.r": jnp.stack([p[1], jnp.asarray(0.5), jnp.asarray(0.0)])}
        limits = {"j1.angle": (-0.2, p[2])}
        # The start is close to every length.
        return mbd.place(other, goals, start=state, limits=limits, throw=False).state.r

    p, h = jnp.array([0.4, 0.6, 0.9]), 1e-5
    found = jax.jit(mode(poses))(p)
    steps = [h * jnp.eye(3)[k] for k in range(3)]
    of = jax.jit(poses)
    differences = jnp.stack([(of(p + d) - of(p - d)) / (2.0 * h) for d in steps], axis=-1)
    np.testing.assert_allclose(found, differences, atol=1e-8)


@pytest.mark.slow
def test_a_thousand_targets_in_one_batch():
    """All within reach, with the chain closed to rounding."""
    system, state = bent()
    radius = np.random.default_rng(1).uniform(0.15, 1.15, 1000)
    turn = np.random.default_rng(2).uniform(-np.pi, np.pi, 1000)
    targets = np.stack([radius * np.cos(turn), radius * np.sin(turn), 0.0 * turn], axis=1)

    def one(target):
        return mbd.place(system, {"tool.r": target}, start=state, throw=False)

    found = jax.jit(jax.vmap(one))(targets)
    met = np.asarray(found.result._value) == int(mbd.RESULTS.successful._value)
    assert met.all()
    tool = found.state.r[:, 2] + 0.15 * found.state.A[:, 2, :, 0]
    np.testing.assert_allclose(tool, targets, atol=1e-13)


def test_what_cannot_be_reached_is_told_and_the_closest_is_found():
    system, state = bent()
    target = np.array([1.6, 0.5, 0.0])
    with pytest.raises(mbd.PlacementError, match="tool.r misses by 0.476 m") as raised:
        mbd.place(system, {"tool.r": target}, start=state)
    closest = raised.value.placement
    # The arm is stretched towards the target, up to the thousandth that the start counts.
    reach = np.sum(LENGTHS)
    np.testing.assert_allclose(closest.misses["tool.r"], np.linalg.norm(target) - reach, atol=1e-5)
    along = target[:2] / np.linalg.norm(target)
    np.testing.assert_allclose(closest.state.A[:, :2, 0], [along] * 3, atol=2e-3)
    assert bool(closest.result == mbd.RESULTS.goals_not_met)
    with pytest.raises(mbd.PlacementError, match="limits in force: j1.angle at its upper"):
        limits = {"j1.angle": (-0.1, 0.1), "j2.angle": (-0.1, 0.1)}
        mbd.place(system, {"tool.r": (0.6, 0.5, 0.0)}, start=state, limits=limits)


def test_goals_with_weights_are_traded():
    """Between two targets of one frame the weighted mean, where the arm reaches it."""
    system, state = bent()
    a, b = np.array([0.6, 0.5, 0.0]), np.array([0.7, 0.3, 0.0])
    goals = {"tool.r": a, "other": lambda pose: _tip(pose) - b}
    # Of positions in parts of the length, of a function as it is.
    weights = {"tool.r": 3.0, "other": float(system.length) ** -2}
    found = mbd.place(system, goals, start=state, weights=weights, regularize=1e-10)
    np.testing.assert_allclose(_tip(found.state.pose), (3.0 * a + b) / 4.0, atol=1e-8)
    assert "off by" in repr(found)


def _tip(pose):
    return pose.r[2] + 0.15 * pose.A[2, :, 0]


def test_several_starts_and_the_best_of_them():
    """Elbow up or down: the closer one to its own start wins."""
    system, state = chain(LENGTHS[:2])
    up = mbd.set_joints(system, state, {"j0": 0.5, "j1": -1.0})
    down = mbd.set_joints(system, state, {"j0": -0.3, "j1": 1.2})
    _, elbow = two_links((0.5, 0.3), 0.5, 0.4)
    goal = {"tool.r": (0.5, 0.3, 0.0)}
    alone = [mbd.place(system, goal, start=x) for x in (up, down)]
    np.testing.assert_allclose(
        [float(x.value("j1.angle", system)) for x in alone], [-elbow, elbow], atol=1e-12
    )
    best = mbd.place(system, goal, start=[up, down])
    closer = min(alone, key=lambda x: float(x.cost))
    np.testing.assert_allclose(best.state.r, closer.state.r, atol=1e-12)


def test_a_stewart_platform_goes_where_its_legs_say():
    """Lengths of legs are distances of anchors, in closed form."""
    system, state = mbd.load("stewart_platform_legs")
    A = mbd.rotations.so3.exp(jnp.array([0.2, -0.1, 0.3]))
    r = np.array([0.05, -0.03, 0.68])
    found = mbd.place(system, {"platform.r": r, "platform.A": A}, start=state)
    base, platform = anchors()
    wanted = np.linalg.norm(r + platform @ np.asarray(A).T - base, axis=1)
    legs = [name for name in mbd.quantities(system) if name.endswith(".length")]
    lengths = [float(found.value(name, system)) for name in legs]
    np.testing.assert_allclose(lengths, wanted, rtol=1e-12)
    assert float(found.misses["platform.r"]) < 1e-13
    assert float(found.misses["platform.A"]) < 1e-13


def six_axes():
    """An arm of six hinges: waist, shoulder, elbow, and a wrist whose axes meet."""
    m = mbd.Mechanism("six axes")
    points = [(0, 0, 0.2), (0, 0, 0.4), (0.5, 0, 0.4), (0.7, 0, 0.4), (0.9, 0, 0.4), (0.95, 0, 0.4)]
    axes = [(0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0)]
    before = "ground"
    for k, (point, axis) in enumerate(zip(points, axes, strict=True)):
        m.add_body(f"b{k}", mass=1.0, inertia=(0.01,) * 3, r=point)
        m.add(mbd.Revolute(f"j{k}", before, f"b{k}", point=point, axis=axis))
        before = f"b{k}"
    m.add(mbd.Frame("tool", before, point=(1.05, 0, 0.4)))
    return m.build()


@pytest.mark.slow
def test_six_axes_within_limits_reach_what_a_pose_within_them_reaches():
    system, state = six_axes()
    limits = {f"j{k}.angle": (-a, a) for k, a in enumerate((2.8, 1.8, 2.5, 3.0, 2.0, 3.1))}
    draw = np.random.default_rng(3)

    def drawn(share):
        angles = {name.removesuffix(".angle"): b for name, (_, b) in limits.items()}
        known = {k: float(draw.uniform(-share, share) * b) for k, b in angles.items()}
        return known, mbd.set_joints(system, state, known)

    starts = [drawn(0.7)[1] for _ in range(12)]
    for _ in range(5):
        known, there = drawn(0.7)
        frame = mbd.place(system, {f"{k}.angle": x for k, x in known.items()}, start=starts[0])
        np.testing.assert_allclose(frame.state.r, there.r, atol=1e-12)  # set_joints is a case of it
        A, r = there.A[5], there.r[5] + there.A[5] @ jnp.array([0.1, 0.0, 0.0])
        found = mbd.place(system, {"tool.r": r, "tool.A": A}, start=starts, limits=limits)
        assert float(found.misses["tool.r"]) < 1e-12 and float(found.misses["tool.A"]) < 1e-12
        for name, (lower, upper) in limits.items():
            assert lower - 1e-12 <= float(found.value(name, system)) <= upper + 1e-12


def excavator():
    """Boom, stick and bucket, each moved by a cylinder; the bucket over a four-bar."""
    m = mbd.Mechanism("excavator")
    m.add_body("boom", mass=800.0, inertia=(50.0, 900.0, 900.0), r=(2.0, 0, 2.5))
    m.add_body("stick", mass=400.0, inertia=(20.0, 200.0, 200.0), r=(5.0, 0, 2.5))
    m.add_body("bucket", mass=300.0, inertia=(40.0, 40.0, 40.0), r=(6.5, 0, 2.2))
    m.add_body("rocker", mass=30.0, inertia=(1.0, 1.0, 1.0), r=(6.0, 0, 2.8))
    m.add_body("link", mass=30.0, inertia=(1.0, 1.0, 1.0), r=(6.4, 0, 2.85))
    y = (0, 1, 0)
    m.add(mbd.Revolute("foot", "ground", "boom", point=(0.0, 0, 1.5), axis=y))
    m.add(mbd.Revolute("elbow", "boom", "stick", point=(4.0, 0, 3.0), axis=y))
    m.add(mbd.Revolute("tip", "stick", "bucket", point=(6.3, 0, 2.5), axis=y))
    m.add(mbd.Revolute("rock", "stick", "rocker", point=(5.9, 0, 2.5), axis=y))
    m.add(mbd.Revolute("pin", "rocker", "link", point=(6.1, 0, 3.0), axis=y))
    m.add(mbd.Revolute("ear", "link", "bucket", point=(6.6, 0, 2.8), axis=y))
    ends = {
        "boom": ((0.6, 0, 1.0), "ground", (2.2, 0, 2.4)),
        "stick": ((2.0, 0, 3.2), "boom", (3.8, 0, 3.6)),
    }
    for name, (p, body, q) in ends.items():
        m.add(mbd.SpringDamper(f"{name} cylinder", body, name, point_i=p, point_j=q, stiffness=1.0))
    cylinder = {"point_i": (4.3, 0, 3.3), "point_j": (6.1, 0, 3.0)}
    m.add(mbd.SpringDamper("bucket cylinder", "stick", "rocker", stiffness=1.0, **cylinder))
    m.add(mbd.Frame("edge", "bucket", point=(6.8, 0, 1.4)))
    return m.build()


def test_an_excavator_digs_at_a_point_with_its_bucket_at_an_angle():
    """A loop in the arm; its cylinders stay within their strokes."""
    system, state = excavator()
    goals = {"edge.r": (5.5, 0.0, 0.2), "bucket.x": (np.cos(0.4), 0.0, -np.sin(0.4))}
    strokes = {"boom cylinder.length": (1.5, 2.4), "stick cylinder.length": (1.2, 2.3),
               "bucket cylinder.length": (1.2, 2.2)}  # fmt: skip
    found = mbd.place(system, goals, start=state, limits=strokes)
    assert all(float(miss) < 1e-11 for miss in found.misses.values())
    for name, (lower, upper) in strokes.items():
        assert lower - 1e-9 <= float(found.value(name, system)) <= upper + 1e-9
    _, report = mbd.assemble(system, found.state)
    assert float(report.violation_before) < 1e-12


def test_two_arms_hold_one_object():
    """A closed loop through the object: both hands stay on it, and it goes where it shall."""
    m = mbd.Mechanism("two arms")
    z = (0, 0, 1)
    for side, x in (("left", -0.5), ("right", 0.5)):
        m.add_body(f"{side} upper", mass=1.0, inertia=(0.1,) * 3, r=(x, 0.2, 0))
        m.add_body(f"{side} lower", mass=1.0, inertia=(0.1,) * 3, r=(0.75 * x, 0.5, 0))
        m.add(mbd.Revolute(f"{side} shoulder", "ground", f"{side} upper", point=(x, 0, 0), axis=z))
        elbow = (x, 0.4, 0)
        m.add(mbd.Revolute(f"{side} elbow", f"{side} upper", f"{side} lower", point=elbow, axis=z))
    m.add_body("box", mass=1.0, inertia=(0.1,) * 3, r=(0, 0.6, 0))
    for side, x in (("left", -0.2), ("right", 0.2)):
        m.add(mbd.Revolute(f"{side} hand", f"{side} lower", "box", point=(x, 0.6, 0), axis=z))
    system, state = m.build()
    turned = mbd.rotations.so3.exp(jnp.array([0.0, 0.0, 0.3]))
    found = mbd.place(system, {"box.r": (0.1, 0.55, 0.0), "box.A": turned}, start=state)
    assert float(found.misses["box.r"]) < 1e-13 and float(found.misses["box.A"]) < 1e-13
    # Both arms as the cosine rule has them.
    for side, x in (("left", -0.5), ("right", 0.5)):
        hand = np.array([0.1, 0.55]) + np.asarray(turned)[:2, 0] * 0.4 * x
        upper = np.asarray(found.state.A[system.bodies.index(f"{side} upper")])
        elbow = np.array([x, 0.0]) + upper[:2, 1] * 0.4
        lower = np.hypot(0.6 * x, 0.2)
        np.testing.assert_allclose(np.linalg.norm(hand - elbow), lower, atol=1e-13)


def test_a_tool_points_where_it_shall_even_from_the_opposite_direction():
    system, state = six_axes()
    found = mbd.place(system, {"tool.x": (-1.0, 0.0, 0.0)}, start=state)
    np.testing.assert_allclose(found.state.A[5, :, 0], [-1.0, 0.0, 0.0], atol=1e-10)


@pytest.mark.slow
def test_a_path_is_followed_from_pose_to_pose():
    system, state = bent()
    turn = np.linspace(0.0, 2.0 * np.pi, 41)
    path = np.stack([0.7 + 0.2 * np.cos(turn), 0.3 + 0.2 * np.sin(turn), 0.0 * turn], axis=1)
    found = mbd.follow(system, {"tool.r": path}, start=state)
    tool = found.state.r[:, 2] + 0.15 * found.state.A[:, 2, :, 0]
    np.testing.assert_allclose(tool, path, atol=1e-13)
    bends = np.asarray(found.value("j1.angle", system))
    assert np.max(np.abs(np.diff(bends))) < 0.2  # no jump to another branch
    path[20] = [2.0, 0.0, 0.0]
    with pytest.raises(mbd.PlacementError, match="follow: .* pose 20: .*tool.r misses by 0.8 m"):
        mbd.follow(system, {"tool.r": path}, start=state)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"goals": {"tol.r": (0, 0, 0)}}, "goal 'tol.r': .* did you mean 'tool.r'"),
        ({"goals": {"j1.rate": 1.0}}, "rad/s, and a pose determines"),
        ({"goals": {"iterations": 1.0}}, "an input, a count"),
        ({"goals": {"stops.gap": 0.1}}, "of a rigid law"),
        ({"goals": {"tool.r": (0, 0)}}, "expected an array of shape"),
        ({"goals": {"tool.A": np.ones((3, 3))}}, "needs a rotation matrix"),
        ({"goals": {"tool.x": (0, 0, 0)}}, "needs a direction"),
        ({"weights": {"tool": 1.0}}, "weights: there is no goal 'tool'"),
        ({"weights": {"tool.r": -1.0}}, "the weight must be positive"),
        ({"limits": {"j1.angle": (2.0, 1.0)}}, "the lower bound 2 must be below"),
        ({"limits": {"j9.angle": (0.0, 1.0)}}, "limit of 'j9.angle'"),
        ({"regularize": 0.0}, "regularize must be positive"),
        ({"start": []}, "at least one state"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change, said):
    m = mbd.Mechanism("arm")
    m.add_body("link1", mass=1.0, inertia=(0.1,) * 3)
    m.add(mbd.Revolute("j1", "ground", "link1", point=(0, 0, 0), axis=(0, 0, 1)))
    m.add(mbd.JointLimit("stops", "j1", upper=1.0))
    m.add(mbd.Frame("tool", "link1"))
    system, state = m.build()
    given = {"goals": {"tool.r": (0.6, 0.5, 0.0)}, "start": state} | change
    with pytest.raises(ValueError, match=said):
        mbd.place(system, given.pop("goals"), **given)


@pytest.mark.slow
def test_single_precision_places_to_its_own_digits():
    with jax.enable_x64(False), pytest.warns(UserWarning, match="double precision is off"):
        system, state = bent()
        limits = {"j1.angle": (-0.2, 0.9)}
        found = mbd.place(system, {"tool.r": (0.6, 0.5, 0.0)}, start=state, limits=limits)
        assert found.state.r.dtype == jnp.float32
        targets = np.asarray([[0.6, 0.5, 0.0], [-0.3, 0.4, 0.0], [0.2, -0.7, 0.0]], np.float32)
        one = jax.vmap(lambda p: mbd.place(system, {"tool.r": p}, start=state, throw=False))
        batch = jax.jit(one)(targets)
    system, state = bent()
    exact = mbd.place(system, {"tool.r": (0.6, 0.5, 0.0)}, start=state, limits=limits)
    np.testing.assert_allclose(found.state.r, exact.state.r, atol=2e-3)
    tool = batch.state.r[:, 2] + 0.15 * batch.state.A[:, 2, :, 0]
    np.testing.assert_allclose(tool, targets, atol=3e-4)  # as `place` claims in this precision
