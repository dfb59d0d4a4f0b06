"""Descriptions: joints leave the freedoms they should, and bad input is refused by name."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations import rows as equations

P, AXIS = (0.3, -0.2, 0.5), (1.0, 2.0, -0.5)
NORMAL = (2.0, -1.0, 0.0)  # perpendicular to AXIS
JOINTS = [
    (mbd.Spherical, {"point": P}, 3),
    (mbd.Revolute, {"point": P, "axis": AXIS}, 1),
    (mbd.Universal, {"point": P, "axis_i": AXIS, "axis_j": NORMAL}, 2),
    (mbd.Cylindrical, {"point": P, "axis": AXIS}, 2),
    (mbd.Translational, {"point": P, "axis": AXIS}, 1),
    (mbd.Planar, {"point": P, "axis": AXIS}, 3),
    (mbd.Fixed, {"point": P}, 0),
    (mbd.Distance, {"point_i": P, "point_j": (1.0, 1.0, 1.0)}, 5),
    (mbd.PointOnLine, {"point": P, "axis": AXIS}, 4),
]


def one_body(**kw) -> mbd.Mechanism:
    m = mbd.Mechanism("one")
    m.add_body(
        "b", mass=2.0, inertia=(1.0, 1.2, 1.5), r=(0.1, 0.2, 0.3), euler=(0.3, 1.0, -0.4), **kw
    )
    return m


@pytest.mark.parametrize(
    ("joint", "data", "freedoms"), JOINTS, ids=lambda x: getattr(x, "__name__", None)
)
@pytest.mark.parametrize("ground_first", [True, False])
def test_a_joint_leaves_its_freedoms_and_closes_as_described(joint, data, freedoms, ground_first):
    m = one_body()
    pair = (m.ground, "b") if ground_first else ("b", m.ground)
    m.add(joint("j", *pair, **data))
    system, state = m.build()
    _, report = mbd.assemble(system, state)
    assert float(report.violation_before) < 1e-14
    assert mbd.mobility(system, state).freedoms == freedoms


@pytest.mark.parametrize(
    ("joint", "data", "move"),
    [
        (mbd.Revolute, {"point": P, "axis": AXIS}, ("turn", AXIS)),
        (mbd.Cylindrical, {"point": P, "axis": AXIS}, ("turn and slide", AXIS)),
        (mbd.Translational, {"point": P, "axis": AXIS}, ("slide", AXIS)),
        (mbd.PointOnLine, {"point": P, "axis": AXIS}, ("turn and slide", AXIS)),
        (mbd.Planar, {"point": P, "axis": AXIS}, ("turn", AXIS)),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_joint_allows_the_finite_motion_it_is_named_for(joint, data, move):
    from jaxmbd.rotations import so3

    kind, axis = move
    n = jnp.array(axis) / np.linalg.norm(axis)
    m = one_body()
    m.add(joint("j", m.ground, "b", **data))
    system, state = m.build()
    turn = so3.exp(0.8 * n) if "turn" in kind else jnp.eye(3)
    shift = 0.4 * n if "slide" in kind else jnp.zeros(3)
    p = jnp.array(P)
    moved = mbd.Pose((p + turn @ (state.r[0] - p) + shift)[None], (turn @ state.A[0])[None])
    np.testing.assert_allclose(equations.phi(mbd.RA(), system, moved), 0, atol=1e-14)


def test_shapes_have_the_textbook_inertias():
    np.testing.assert_allclose(mbd.Box((1, 2, 3), mass=12.0).inertia, np.diag([13.0, 10.0, 5.0]))
    np.testing.assert_allclose(mbd.Rod(2.0, mass=3.0, axis="y").inertia, np.diag([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(
        mbd.Cylinder(2.0, 3.0, mass=12.0).inertia, np.diag([21.0, 21.0, 24.0])
    )
    np.testing.assert_allclose(
        mbd.HollowCylinder(1.0, 2.0, 3.0, mass=12.0, axis="x").inertia, np.diag([30.0, 24, 24])
    )
    np.testing.assert_allclose(mbd.Sphere(2.0, mass=5.0).inertia, np.diag([8.0, 8.0, 8.0]))
    # Cone, R = H = 1: about the tip 3/20 m (R² + 4 H²), less m (3/4)² to the center.
    np.testing.assert_allclose(
        mbd.Cone(1.0, 1.0, mass=1.0).inertia, np.diag([0.75 - 0.5625] * 2 + [0.3])
    )
    np.testing.assert_allclose(mbd.Cylinder(1.0, 2.0, density=3.0).mass, 6 * np.pi)
    # A capsule is a cylinder and two half balls; without length, a ball.
    capsule = mbd.Capsule(1.0, 2.0, density=3.0)
    np.testing.assert_allclose(capsule.mass, 6 * np.pi + 4 * np.pi)
    half, arm = 2 * np.pi, 1.0 + 3 / 8  # of a half ball: its mass, its center from the middle
    own = half * (0.4 - (3 / 8) ** 2)  # its moment about an axis across through its center
    across = 6 * np.pi * (3 + 4) / 12 + 2 * (own + half * arm**2)
    np.testing.assert_allclose(capsule.inertia, np.diag([across, across, 3 * np.pi + 1.6 * np.pi]))
    thick = mbd.Capsule(2.0, 1e-12, mass=5.0, axis="x")
    np.testing.assert_allclose(thick.inertia, mbd.Sphere(2.0, mass=5.0).inertia)
    # A regular tetrahedron of edge a: m a²/20 about every axis, volume a³/(6 sqrt 2); a² = 8 here.
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    solid = mbd.Tetrahedron(corners, density=3.0)
    np.testing.assert_allclose(solid.mass, 8.0)
    np.testing.assert_allclose(solid.inertia, 3.2 * np.eye(3), atol=1e-14)
    # Integrals over the unit simplex, x² to 1/60 and x y to 1/120, less the mass center's part.
    corner = mbd.Tetrahedron(np.eye(4, 3) - 0.25, mass=6.0)
    expected = np.diag([0.45, 0.45, 0.45]) + 0.075 * (1 - np.eye(3))
    np.testing.assert_allclose(corner.inertia, expected, atol=1e-14)
    with pytest.raises(ValueError, match="Tetrahedron: give corners from the mass center"):
        mbd.Tetrahedron(np.eye(4, 3), mass=1.0)
    with pytest.raises(ValueError, match="Tetrahedron: the four corners lie in a plane"):
        mbd.Tetrahedron([(1, 1, 0), (-1, 1, 0), (1, -1, 0), (-1, -1, 0)], mass=1.0)


def test_a_composite_of_halves_is_the_whole():
    half = mbd.Box((1.0, 0.5, 0.2), density=10.0)
    both = mbd.Composite([half, half], [(0.5, 1, 1), (1.5, 1, 1)])
    whole = mbd.Box((2.0, 0.5, 0.2), density=10.0)
    np.testing.assert_allclose(both.inertia, whole.inertia, rtol=1e-14)
    np.testing.assert_allclose(both.center, (1, 1, 1))
    np.testing.assert_allclose(both.mass, whole.mass)


def test_numbers_of_primitives_are_those_of_table_7():
    counts = {
        "single_pendulum": (3, 3, 0, 0),
        "four_link": (12, 6, 0, 0),
        "slider_crank": (6, 7, 4, 1),
    }
    for name, (cd, dp1, dp2, d) in counts.items():
        system, _ = mbd.load(name)
        found = {type(s.primitive).__name__: len(s) for s in system.constraints}
        assert found == {k: n for k, n in {"CD": cd, "DP1": dp1, "DP2": dp2, "D": d}.items() if n}


def test_packaged_masses_and_energies_are_the_published_ones():
    system, _ = mbd.load("single_pendulum")
    np.testing.assert_allclose(system.mass, [78.0], rtol=1e-12)
    np.testing.assert_allclose(
        jnp.diagonal(system.inertia[0]), [0.0325, 104.01625, 104.01625], rtol=1e-12
    )
    system, state = mbd.load("heavy_top")
    kinetic = (
        0.5 * 21.6 * jnp.sum(state.v**2) + 0.5 * state.omega[0] @ system.inertia[0] @ state.omega[0]
    )
    np.testing.assert_allclose(kinetic, 13972.399, rtol=1e-7)  # Mueller, Terze: 13.97 kJ


def test_a_nearly_orthonormal_matrix_is_projected():
    A = np.eye(3) + 1e-3 * np.arange(9).reshape(3, 3) / 9
    m = mbd.Mechanism("m")
    b = m.add_body("b", mass=1.0, inertia=(1.0, 1.0, 1.0), A=A)
    np.testing.assert_allclose(b.A.T @ b.A, np.eye(3), atol=1e-15)


def bad(**kw):
    data = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0), **kw}
    return lambda m: m.add_body("c", **data)


def joint(kind, *args, **kw):
    return lambda m: m.add(kind("j", *args, **kw))


REFUSED = {
    "mass": (bad(mass=-1.0), "body 'c': mass must be positive"),
    "zero mass": (bad(mass=0.0), "body 'c': mass must be positive"),
    "nan": (bad(r=(0, np.nan, 0)), "body 'c': r: contains NaN"),
    "length": (bad(v=(0, 1)), r"body 'c': v: expected an array of shape \(3,\)"),
    "not numbers": (bad(r="abc"), "body 'c': r: not an array of numbers"),
    "asymmetric": (bad(inertia=np.eye(3) + np.eye(3, k=1)), "inertia: not symmetric"),
    "negative": (bad(inertia=(1.0, 1.0, -0.5)), "negative principal moment"),
    "triangle": (bad(inertia=(1.0, 1.0, 3.0)), "triangle inequality"),
    "not a rotation": (bad(A=2 * np.eye(3)), "body 'c': A is not a rotation matrix"),
    "reflection": (bad(A=np.diag([1.0, 1.0, -1.0])), "not a rotation matrix"),
    "quaternion": (bad(quaternion=(0, 0, 0, 0)), "zero quaternion"),
    "two orientations": (bad(quaternion=(1, 0, 0, 0), A=np.eye(3)), "only one of"),
    "inertia missing": (bad(inertia=None), "body 'c': give both mass and inertia"),
    "name taken": (
        lambda m: m.add_body("b", mass=1.0, inertia=(1, 1, 1)),
        "body 'b': the name is taken",
    ),
    "ground": (lambda m: m.add_body("ground"), "use another name"),
    "zero axis": (
        joint(mbd.Revolute, "ground", "b", point=P, axis=(0, 0, 0)),
        "joint 'j': axis: the zero vector",
    ),
    "unknown body": (
        joint(mbd.Spherical, "ground", "bb", point=P),
        "'j': unknown body 'bb'; the bodies are ground, b",
    ),
    "itself": (joint(mbd.Spherical, "b", "b", point=P), "joint 'j': connects body 'b' with itself"),
    "grounds": (
        joint(mbd.Spherical, "ground", "ground", point=P),
        "joint 'j': both bodies are the ground",
    ),
    "universal": (
        joint(mbd.Universal, "ground", "b", point=P, axis_i=AXIS, axis_j=AXIS),
        "must be perpendicular",
    ),
    "distance": (
        joint(mbd.Distance, "ground", "b", point_i=P, point_j=P),
        "length must be positive",
    ),
    "driver": (
        joint(mbd.RotationDriver, "ground", "b", axis=AXIS, angle=1.0),
        "must be a function of time",
    ),
    "primitive": (
        joint(mbd.Constraint, "ground", "b", primitives=[mbd.DP1((0, 0, 0), (1, 0, 0))]),
        r"constraint 'j', primitive 1 \(DP1\): a_i_bar: the zero vector",
    ),
    "frame": (
        lambda m: m.add(mbd.Torque("t", "b", torque=(0, 0, 1), frame="world")),
        "frame must be",
    ),
    "friction": (lambda m: m.add(mbd.ViscousFriction("f", "hinge")), "unknown joint 'hinge'"),
    "spring": (
        lambda m: m.add(mbd.SpringDamper("s", "ground", "b", point_i=P, point_j=P, stiffness=1.0)),
        "force 's': its points coincide",
    ),
    "user force": (
        lambda m: (
            m.add(mbd.UserForce("u", ["b"], lambda p, w, t: (jnp.zeros(3), jnp.zeros(3))))
            and simulate(m)
        ),
        r"must return forces and torques of shape \(1, 3\) each",
    ),
}


def simulate(m):
    system, state = m.build()
    return mbd.simulate(system, state, steps=1, h=1e-3)


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name(case):
    action, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        action(one_body())


def test_other_objects_and_empty_mechanisms_are_refused():
    with pytest.raises(TypeError):
        one_body().add("revolute")
    with pytest.raises(ValueError, match="has no bodies"):
        mbd.Mechanism("empty").build()


def test_a_redundant_driver_is_refused_by_name():
    m = mbd.load_mechanism("single_pendulum")
    m.add(
        mbd.RotationDriver("second motor", "ground", "bar", axis=(1, 0, 0), angle=lambda t: 0.3 * t)
    )
    system, state = m.build()
    with pytest.raises(
        ValueError, match="driver 'second motor' is redundant or in conflict.*'motor'"
    ):
        mbd.simulate(system, state, steps=1, h=1e-3)


def test_a_mechanism_that_cannot_close_names_the_open_joint_and_the_gap():
    m = mbd.Mechanism("gap")
    m.add_body("link", mass=1.0, inertia=(1.0, 1.0, 1.0))
    m.add(mbd.Spherical("left", m.ground, "link", point=(0, 0, 0)))
    # A ball two meters from the first on the ground, but one meter from it on the link.
    rows = [mbd.CD(np.eye(3)[k], (2.0, 0, 0), (1.0, 0, 0)) for k in range(3)]
    m.add(mbd.Constraint("right", m.ground, "link", primitives=rows))
    system, state = m.build()
    with pytest.raises(mbd.AssemblyError, match="cannot be assembled.*'(left|right)' by [0-9.]+"):
        mbd.simulate(system, state, steps=1, h=1e-3)


def test_single_precision_is_warned_about_once_and_runs(tmp_path):
    code = f"""
import warnings, jaxmbd as mbd, numpy as np
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    mbd.load("double_pendulum"); system, state = mbd.load("double_pendulum")
assert sum("double precision is off" in str(w.message) for w in seen) == 1, seen
sol = mbd.simulate(system, state, steps=100, h=1e-3)
assert sol.r.dtype == np.float32
assert np.max(np.abs(sol.violation(system).position)) < 2e-5
sol.to_npz({str(tmp_path / "single.npz")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    exact = mbd.simulate(*mbd.load("double_pendulum"), steps=100, h=1e-3)
    with np.load(tmp_path / "single.npz") as file:
        np.testing.assert_allclose(file["r"], exact.r, atol=1e-4)


def test_a_taken_name_is_refused_with_the_plural_of_its_kind():
    m = mbd.Mechanism("m")
    m.add_body("a")
    with pytest.raises(ValueError, match="names of bodies are unique"):
        m.add_body("a")


def test_building_a_long_chain_leaves_no_long_stack_to_jax(monkeypatch):
    # JAX compiles a concatenation for every length, in a time that grew with the square of the
    # number of bodies.
    lengths = []
    stack = jnp.stack
    monkeypatch.setattr(
        jnp,
        "stack",
        lambda arrays, *a, **kw: lengths.append(len(arrays)) or stack(arrays, *a, **kw),
    )
    system, _ = mbd.load("n_pendulum:40")
    assert system.nb == 40 and max(lengths, default=0) < 10
