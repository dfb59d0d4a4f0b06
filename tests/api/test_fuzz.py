"""Arguments of the public functions and of the command line, mutated: our own errors and nothing
else.

Numbers never recompile, so that the few calls that make sense share one program. Model files and
result files are mutated in `tests/io`.
"""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

import jaxmbd as mbd
import jaxmbd.cli as cli

pytestmark = [pytest.mark.filterwarnings("always"), pytest.mark.xdist_group("fuzz")]
quick = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

ODD = [
    None,
    0,
    -1,
    True,
    math.nan,
    math.inf,
    -math.inf,
    "1e-3",
    b"1",
    [],
    [1e-3],
    {},
    1 + 0j,
    10**400,
    1e-320,
    object(),
]
odd = st.sampled_from(ODD)
# Those that make sense are small: at most 50 steps.
STEP, END, COUNT = (
    st.sampled_from(x) | odd
    for x in ([1e-3, 0.01, 1e-12], [0.01, 0.02, 1e300], [1, 10, 10.0, 2.5, 10**15])
)

# The suite checks annotated calls before the package can answer; users do not have that check.
OUR_ERRORS = (ValueError, TypeError, mbd.SimulationError, TypeCheckError)
JAX_WORDS = ("Tracer", "jaxlib", "XLA", "dtype=object", "not a valid JAX type", "unhashable")


def plain(error: BaseException) -> None:
    assert isinstance(error, OUR_ERRORS), repr(error)
    if not isinstance(error, TypeCheckError):
        assert str(error) and not any(word in str(error) for word in JAX_WORDS), repr(error)


@pytest.fixture(scope="module")
def arm():
    m = mbd.Mechanism("arm")
    m.add_body("rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    return m.build()


@settings(quick, max_examples=150)
@given(
    h=STEP,
    t_end=END | st.none(),
    steps=COUNT | st.none(),
    save_every=COUNT,
    t0=st.sampled_from([0.0, 0.5]) | odd,
)
def test_simulate_takes_or_refuses_any_numbers(arm, h, t_end, steps, save_every, t0):
    try:
        sol = mbd.simulate(*arm, h=h, t_end=t_end, steps=steps, save_every=save_every, t0=t0)
    except Exception as error:
        plain(error)
    else:
        assert np.isfinite(sol.r).all() and bool(sol.result == mbd.RESULTS.successful)


VECTOR = st.lists(st.floats(-2, 2), min_size=3, max_size=3) | odd | st.lists(odd, max_size=4)


@settings(quick, max_examples=150)
@given(
    name=st.text(max_size=5) | odd,
    mass=st.floats(-1, 5) | odd,
    inertia=VECTOR,
    r=VECTOR,
    euler=VECTOR,
    v=VECTOR,
    point=VECTOR,
    axis=VECTOR,
    angle=st.sampled_from([lambda t: t, lambda t: "x", lambda: 0, lambda t: [t, t], math.sin])
    | odd,
)
def test_descriptions_take_or_refuse_anything(name, mass, inertia, r, euler, v, point, axis, angle):
    m = mbd.Mechanism("any")
    m.add_body("base", mass=1.0, inertia=(1, 1, 1))
    for add in (
        lambda: m.add_body(name, mass=mass, inertia=inertia, r=r, euler=euler, v=v),
        lambda: m.add(mbd.Revolute("pin", m.ground, "base", point=point, axis=axis)),
        lambda: m.add(mbd.RotationDriver("motor", m.ground, "base", axis=axis, angle=angle)),
        lambda: m.add(
            mbd.SpringDamper("spring", name, "base", point_i=r, point_j=point, stiffness=mass)
        ),
        lambda: m.add(mbd.PointForce("load", "base", force=axis, point=point)),
    ):
        try:
            add()
        except Exception as error:
            plain(error)
    system, state = m.build()
    assert np.isfinite(state.r).all() and np.isfinite(system.mass).all()


TEXT = st.sampled_from(
    ["0", "-1", "nan", "inf", "1e-3", "0.01", "1e30", "x", "", "[/]", "1e-320", "5", "\u0663"]
)
OPTIONS = {
    "simulate": ("--t-end", "--h", "--save-every", "--rho-inf", "--newton-tolerance"),
    "kinematics": ("--t-end", "--h"),
    "plot": ("--quantity", "--body"),
    "animate": ("--fps", "--speed"),
}
OUTS = st.sampled_from(
    ["o.npz", "o.csv", "o.png", "o.txt", "folder", "no/o.npz", "", "[/x].npz", "o", "."]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz")
    pair = {"body_i": "ground", "body_j": "rod"}
    model = {
        "format": "jaxmbd-1",
        "name": "arm",
        "bodies": [{"name": "rod", "mass": 1.0, "inertia": [0.01, 0.1, 0.1], "r": [0.7, 0, 0]}],
        "joints": [
            {"type": "Revolute", "name": "pin", **pair, "point": [0, 0, 0], "axis": [0, 1, 0]}
        ],
    }
    (path / "arm.json").write_text(json.dumps(model))
    (path / "folder").mkdir()
    eye = np.broadcast_to(np.eye(3), (3, 1, 3, 3))
    vectors = {name: np.zeros((3, 1, 3)) for name in ("r", "v", "omega", "a", "alpha")}
    instants = np.linspace(0, 0.02, 3)
    np.savez(
        path / "r.npz",
        t=instants,
        A=eye,
        lam=np.zeros((3, 0)),
        iterations=np.zeros(3, int),
        **vectors,
    )
    return path


@settings(quick, max_examples=120)
@given(data=st.data())
def test_the_command_line_takes_or_refuses_any_arguments(folder, monkeypatch, capsys, data):
    monkeypatch.chdir(folder)
    command = data.draw(st.sampled_from(sorted(OPTIONS)))
    source = data.draw(
        st.sampled_from(["arm.json", "r.npz", "nothing", "folder", "four_bar:3", "\0"])
    )
    args = [command, source, "--out", data.draw(OUTS)]
    for option in data.draw(st.lists(st.sampled_from(OPTIONS[command]), unique=True)):
        args += [option, data.draw(TEXT)]
    if command == "simulate" and "--t-end" not in args:
        args += ["--t-end", "0.01"]
    monkeypatch.setattr(sys, "argv", ["jaxmbd", *args])
    before = {path for path in folder.rglob("*")}
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = stop.code or 0
    text = capsys.readouterr()
    assert code in (0, 1, 2) and "Traceback" not in text.err
    new = {path for path in folder.rglob("*")} - before
    assert (code == 0) == bool(new) or (code == 0 and (folder / args[3]).exists()), (
        args,
        code,
        new,
    )
    assert not list(folder.rglob("*.partial"))
    for path in new:
        path.unlink()
