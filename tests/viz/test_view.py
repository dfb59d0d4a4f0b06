"""Views: what a page and a binary glTF hold, what they refuse, and what a browser makes of them."""

import base64
import gzip
import html
import io
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import jaxmbd as mbd
from browser import browser, find
from jaxmbd import viz
from jaxmbd.viz import ffmpeg
from jaxmbd.viz.data import picture
from jaxmbd.viz.scene import scene

# One worker makes the motions, and starts one browser at a time.
pytestmark = pytest.mark.xdist_group("view")

HERE = Path(__file__).parent
NAME = '<script>alert("1")</script> & </script>'  # a body's
SINGLE = 1e-6  # numbers of a view are in single precision


def unpacked(page, part):
    """A packed part of a page."""
    text = re.search(f'<script type="text/plain" id="{part}">([^<]*)</script>', page).group(1)
    return gzip.decompress(base64.b64decode(text))


def film_of(view):
    return json.loads(unpacked(view.html, "film"))


def numbers(text, shape=(-1,), kind="<f4"):
    return np.frombuffer(base64.b64decode(text), kind).reshape(shape)


def opened(glb):
    """The JSON text of a binary glTF and its numbers by accessor."""
    magic, version, size = struct.unpack_from("<III", glb)
    assert (magic, version, size) == (0x46546C67, 2, len(glb))
    (length,) = struct.unpack_from("<I", glb, 12)
    document = json.loads(glb[20 : 20 + length])
    block = glb[28 + length :]

    def array(k):
        accessor = document["accessors"][k]
        view = document["bufferViews"][accessor["bufferView"]]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
        kind = {5126: "<f4", 5123: "<u2", 5125: "<u4"}[accessor["componentType"]]
        count = accessor["count"] * width
        values = np.frombuffer(block, kind, count, view["byteOffset"])
        return values.reshape(-1, width)

    return document, array


def tumbling():
    """Two bodies that fly and turn, a spring, a link, a slide: a motion that nobody computed."""
    m = mbd.Mechanism("tumbling")
    box = m.add_body(NAME, shape=mbd.Box((0.5, 0.3, 0.2), mass=1.0), r=(0, 0, 0.5))
    ball = m.add_body("ball", shape=mbd.Sphere(0.2, mass=1.0), r=(1, 0, 0.5))
    m.add(mbd.Distance("link", box, ball, point_i=(0.25, 0, 0.5), point_j=(0.8, 0, 0.5)))
    m.add(mbd.Translational("slide", m.ground, ball, point=(1, 0, 0.5), axis=(1, 0, 0)))
    m.add(
        mbd.SpringDamper(
            "spring", m.ground, ball, point_i=(1, 0, 1.5), point_j=(1, 0, 0.7), stiffness=1.0
        )
    )
    system, _ = m.build()
    rng, rows = np.random.default_rng(7), 31
    t = np.linspace(0.25, 1.75, rows)
    r = np.stack(
        [
            np.stack([0.4 * np.sin(t), 0.2 * t, 0.5 + 0.1 * t], 1),
            np.stack([1 + 0.3 * t, 0 * t, 0.5 + 0 * t], 1),
        ],
        1,
    )
    A = Rotation.from_rotvec(np.outer(t, [2.0, -1.0, 3.0])).as_matrix()
    A = np.stack([A, np.broadcast_to(np.eye(3), A.shape)], axis=1)
    zero = jnp.zeros((rows, 2, 3))
    v = jnp.asarray(rng.normal(size=(rows, 2, 3)))
    return mbd.Solution(
        jnp.asarray(t), jnp.asarray(r), jnp.asarray(A), v, zero, zero, zero,
        jnp.zeros((rows, system.nc)), jnp.zeros(rows, int), mbd.RESULTS.successful,
        {}, None, system,
    )  # fmt: skip


@pytest.fixture(scope="module")
def motion():
    return tumbling()


@pytest.fixture(scope="module")
def swing():
    """Ten seconds of a four-bar, with its reactions."""
    system, state = mbd.load("four_bar")
    sol = mbd.simulate(system, state, t_end=10.0, h=0.01)
    return sol, mbd.view(sol, plots=["pin_crank.angle", "four_bar.energy"], show=["reactions"])


# --- binary glTF ---


def test_nodes_move_as_the_bodies_do(motion):
    document, array = opened(viz.view(motion, forces=False).glb)
    (animation,) = document["animations"]
    found = {}
    for channel in animation["channels"]:
        sampler = animation["samplers"][channel["sampler"]]
        np.testing.assert_allclose(
            array(sampler["input"])[:, 0], motion.t - motion.t[0], atol=SINGLE
        )
        found[channel["target"]["node"], channel["target"]["path"]] = array(sampler["output"])
    for b in (0, 1):
        np.testing.assert_allclose(found[b, "translation"], motion.r[:, b], atol=SINGLE)
    A = Rotation.from_quat(found[0, "rotation"]).as_matrix()
    np.testing.assert_allclose(A, motion.A[:, 0], atol=SINGLE)
    assert (1, "rotation") not in found  # it stays
    # The link goes from its point on the box to that on the ball.
    kinds = [node.get("extras", {}).get("kind") for node in document["nodes"]]
    link = kinds.index("link")
    r, A = np.asarray(motion.r), np.asarray(motion.A)
    start = r[:, 0] + A[:, 0] @ [0.25, 0.0, 0.0]
    end = r[:, 1] + np.array([-0.2, 0.0, 0.0])
    np.testing.assert_allclose(found[link, "translation"], start, atol=SINGLE)
    tip = Rotation.from_quat(found[link, "rotation"]).apply([0.0, 0.0, 1.0])
    np.testing.assert_allclose(start + tip * found[link, "scale"][:, 2:], end, atol=3 * SINGLE)


def test_up_is_y_whatever_gravity_says():
    for gravity, up in (((0, 0, -9.8), 2), ((0, -9.8, 0), 1), ((-9.8, 0, 0), 0), ((0, 0, 0), 2)):
        m = mbd.Mechanism("stone", gravity=gravity)
        m.add_body("stone", mass=1.0, inertia=(0.1, 0.1, 0.1))
        document, _ = opened(mbd.view(m).glb)
        turn = Rotation.from_quat(document["nodes"][-1]["rotation"])
        np.testing.assert_allclose(turn.apply(np.eye(3)[up]), [0, 1, 0], atol=1e-12)


def test_a_mechanism_is_shown_before_it_is_simulated():
    view = mbd.view("slider_crank")
    document, _ = opened(view.glb)
    assert "animations" not in document
    assert {"crank", "rod", "slider"} <= {n["name"] for n in document["nodes"]}
    assert film_of(view)["reactions"] == []


def test_events_are_marks_on_the_time(tmp_path):
    m = mbd.Mechanism("door", gravity=(0, 0, 0))
    m.add_body("leaf", shape=mbd.Box((0.9, 0.04, 2.0), mass=25.0), r=(0.45, 0, 0))
    m.add(mbd.Revolute("hinge", m.ground, "leaf", point=(0, 0, 0), axis=(0, 0, 1)))
    system, state = m.build()
    state = mbd.set_joints(system, state, {"hinge": {"angle": 1.0, "rate": -2.0}})
    half = mbd.Event("half", "hinge.angle < 0.5")
    sol = mbd.simulate(system, state, h=1e-2, t_end=0.6, events=[half])
    for view in (mbd.view(sol), _written(sol, tmp_path / "motion.npz")):
        ((t, text),) = film_of(view)["captions"]
        # Of second order, at h = 10 ms.
        assert t == pytest.approx(0.25, abs=1e-4) and text == f"half: t = {t:.6g} s"
        assert '<span id="marks">' in view.html


def _written(solution, path):
    solution.to_npz(path)
    return mbd.view(path)


def test_freedoms_are_swept_on_request(motion):
    view = mbd.view("four_bar", sweep=True)
    film = film_of(view)
    (caption,) = film["captions"]
    assert caption[1].startswith("1 of 1: pin_")
    t = numbers(film["t"], kind="<f8")
    assert np.all(np.diff(t) > 0.0) and t[0] == 0.0 and 1.9 < t[-1] < 2.0
    document, _ = opened(view.glb)
    assert "animations" in document
    with pytest.raises(ValueError, match="sweep=True needs a mechanism"):
        viz.view(motion, sweep=True)


def test_a_joint_whose_bodies_do_not_meet_has_a_red_line():
    m = mbd.Mechanism("broken")
    m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    system, state = m.build()
    r = np.asarray(state.r)[None] + [[[0.0, 0.0, 0.0]], [[0.3, 0.0, 0.4]]]
    A = np.broadcast_to(np.eye(3), (2, 1, 3, 3))
    nodes = scene(viz.viewer.still(system, r, A, (0.0, 1.0))).nodes
    (gap,) = (node for node in nodes if node.kind == "gap")
    np.testing.assert_allclose(gap.motion[2], [0.0, 0.5], atol=1e-8)
    whole = scene(viz.viewer.still(system, r[:1], A[:1])).nodes
    assert all(node.kind != "gap" for node in whole)


def validator():
    return HERE / "node_modules" / "gltf-validator"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not validator().exists(), reason="gltf-validator is not installed: npm install in tests/viz"
)
def test_the_khronos_validator_has_nothing_to_say(motion, swing, tmp_path):
    paths = []
    for name in (
        "slider_crank",
        "planetary_gear",
        "cam_follower",
        "stewart_platform_legs",
        "bennett",
    ):
        paths.append(tmp_path / f"{name}.glb")
        mbd.view(name, out=paths[-1])
    views = {"tumbling": viz.view(motion, forces=False), "swing": swing[1]}
    for name, view in views.items():
        paths.append(view.save(tmp_path / f"{name}.glb"))
    command = ["node", "validate.mjs", *map(str, paths)]
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert set(found) == set(map(str, paths))
    for path, issues in found.items():
        assert issues["messages"] == [], path


# --- the page ---


def test_a_page_is_small_and_names_no_other_place(swing):
    page = swing[1].html
    assert len(page) <= 1.5e6
    assert not re.search(r'(src|href)="(?!data:)', page)
    code = unpacked(page, "three").decode()
    assert code == (Path(viz.__file__).parent / "assets" / "three.bundle.js").read_text("utf-8")


def test_names_cannot_act_as_html(motion):
    view = viz.view(motion, forces=False)
    assert "alert(" not in view.html
    assert NAME in [body["name"] for body in film_of(view)["bodies"]]


def test_a_notebook_shows_the_page_in_a_frame(motion):
    view = viz.view(motion, forces=False)
    shown = re.search(r'<iframe srcdoc="([^"]*)"', view._repr_html_()).group(1)
    assert html.unescape(shown) == view.html


def test_quantities_are_those_of_the_solution(swing):
    sol, view = swing
    film = film_of(view)
    t = numbers(film["t"], kind="<f8")
    rows = np.searchsorted(np.asarray(sol.t), t)
    np.testing.assert_allclose(sol.t[rows], t)
    assert len(t) == 601 and t[-1] == sol.t[-1]
    known = {(q["owner"], q["name"]): q for q in film["quantities"]}

    def values(*key):
        return numbers(known[key]["values"], (len(t), len(known[key]["components"])))

    angle = np.asarray(sol.joint("pin_crank").angle)[rows]
    np.testing.assert_allclose(values("pin_crank", "angle")[:, 0], angle, rtol=SINGLE, atol=SINGLE)
    energy = np.asarray(sol.energy().total)[rows]
    scale = SINGLE * np.max(np.abs(energy))
    np.testing.assert_allclose(values("four_bar", "energy")[:, 2], energy, rtol=SINGLE, atol=scale)
    force = np.asarray(sol.reactions()["pin_rocker"].force)[rows]
    np.testing.assert_allclose(
        values("pin_rocker", "reaction force"), force, rtol=SINGLE, atol=1e-4
    )
    (arrow,) = (x for x in film["reactions"] if x["joint"] == "pin_rocker")
    np.testing.assert_allclose(numbers(arrow["force"], (-1, 3)), force, rtol=SINGLE, atol=1e-4)
    assert [film["quantities"][k]["name"] for k in film["plots"]] == ["angle", "energy"]


@pytest.mark.parametrize("rigid", [True, False], ids=["rigid", "giving way"])
def test_stops_and_tendons_show_what_holds_the_weight(rigid):
    """Two flaps that have come to rest on their stops, with a tendon between them."""
    m = mbd.Mechanism("flaps")
    for k, z in enumerate((0.0, 0.2)):
        m.add_body(f"flap{k}", shape=mbd.Box((0.3, 0.04, 0.04), mass=0.5), r=(0.15, 0.0, z))
        m.add(mbd.Revolute(f"pin{k}", "ground", f"flap{k}", point=(0.0, 0.0, z), axis=(0, 1, 0)))
        soft = {} if rigid else {"stiffness": 50.0, "damping": 1.0}
        m.add(mbd.JointLimit(f"stop{k}", f"pin{k}", upper=0.5, **soft))
    pulls = {"coefficients": [1.0, -0.5], "stiffness": 1.0, "damping": 0.1}
    m.add(mbd.FixedTendon("tendon", ["pin0", "pin1"], **pulls))
    system, state = m.build()
    integrator = mbd.Moreau() if rigid else mbd.GeneralizedAlpha(rho_inf=0.5)
    sol = mbd.simulate(system, state, h=2e-3, t_end=3.0, integrator=integrator)
    film = film_of(mbd.view(sol, show=["efforts"]))
    torques = {}
    for x in film["efforts"]:
        assert x["kind"] == "moment" and x["point"] == [-0.15, 0.0, 0.0]
        torques[x["name"], x["of"]] = numbers(x["vector"], (-1, 3))[-1]
    assert set(torques) == {("tendon", 0), ("tendon", 1), ("stop0", 0), ("stop1", 1)}
    for k in (0, 1):
        weight = 0.5 * 9.81 * 0.15 * np.cos(sol.joint(f"pin{k}").angle[-1])
        # Along +y, gravity turns a flap down; what holds it is all that is drawn.
        held = torques["tendon", k] + torques[f"stop{k}", k]
        np.testing.assert_allclose(held, [0.0, -float(weight), 0.0], atol=1e-4)


def test_a_result_file_is_drawn_as_the_solution(motion, tmp_path):
    motion.to_npz(tmp_path / "motion.npz")
    assert mbd.view(tmp_path / "motion.npz").glb == viz.view(motion, forces=False).glb


def test_a_result_file_has_its_forces_where_its_system_is_given(swing, tmp_path):
    sol, view = swing
    sol.to_npz(tmp_path / "swing.npz")
    film = film_of(mbd.view(tmp_path / "swing.npz", sol.system))
    known = film_of(view)
    assert film["reactions"] == known["reactions"]
    assert film["quantities"] == known["quantities"]
    with pytest.raises(ValueError, match="give the system it was made with"):
        mbd.view(tmp_path / "swing.npz", mbd.load("slider_crank")[0])


def test_outlines_of_joints_survive_a_file(tmp_path):
    """Reading left them out, and gears became dots."""
    system, state = mbd.load("planetary_gear")
    one = state.r[None]
    zero = jnp.zeros_like(one)
    sol = mbd.Solution(
        jnp.zeros(1), one, state.A[None], zero, zero, zero, zero,
        jnp.zeros((1, system.nc)), jnp.zeros(1, int), mbd.RESULTS.successful, {}, None, system,
    )  # fmt: skip
    sol.to_npz(tmp_path / "gears.npz")
    known = picture(sol).drawing["connections"]
    assert picture(tmp_path / "gears.npz").drawing["connections"] == known
    assert any(c["outline_i"] for c in known)


def test_contact_forces_are_those_that_change_the_momentum(tmp_path):
    m = mbd.Mechanism("toss", gravity=(0, 0, -9.81))
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=2.0), r=(0, 0, 0.1), v=(1, 0.5, 0))
    m.add(mbd.Contact("floor", ball, m.ground, friction=0.3))
    sol = mbd.simulate(*m.build(), h=0.01, steps=40)
    places = sol.contact_places()["floor"]
    expected = 2.0 * (np.asarray(sol.a[1:, 0]) + np.array([0, 0, 9.81]))
    np.testing.assert_allclose(places.forces[1:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(
        places.points[:, 0], np.asarray(sol.r[:, 0]) - [0, 0, 0.1], atol=1e-12
    )
    film = film_of(mbd.view(sol))
    sol.to_npz(tmp_path / "toss.npz")
    assert film_of(mbd.view(tmp_path / "toss.npz", sol.system))["contacts"] == film["contacts"]
    (contact,) = film["contacts"]
    states = numbers(contact["state"], (-1, 1), "u1")
    np.testing.assert_array_equal(
        states, np.asarray(places.state)[np.linspace(0, 40, len(states)).round().astype(int)]
    )
    figure = viz.snapshot(sol, k=3)
    colored = [x for x in figure.axes[0].lines if x.get_color() == "tab:red"]
    (dot,) = (x for x in colored if x.get_marker() == "o" and np.size(x.get_data_3d()[0]) == 1)
    np.testing.assert_allclose(np.stack(dot.get_data_3d(), 1), places.points[3], atol=1e-12)
    assert places.state[3, 0] == 2
    assert film["planes"][0]["normal"] == [0.0, 0.0, 1.0]
    assert film["floor"] == pytest.approx(0.0, abs=1e-12)


def batch_of(motion, count, fails=None):
    """The same motion, lifted by member."""
    batch = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * count), motion)
    lift = np.zeros(batch.r.shape)
    lift[..., 2] = 0.1 * np.arange(count)[:, None, None]
    r = batch.r + lift
    if fails is not None:
        r = r.at[fails, 10:].set(jnp.nan)
    return eqx.tree_at(lambda x: x.r, batch, r)


def test_others_of_a_batch_are_ghosts_beside_one(motion):
    document, array = opened(mbd.view(batch_of(motion, 4, fails=3), member=1, forces=False).glb)
    (animation,) = document["animations"]
    kinds = [node.get("extras", {}).get("kind") for node in document["nodes"]]
    places = [k for k, kind in enumerate(kinds) if kind == "ghost"]
    assert len(places) == 3 * 2  # three others of two bodies
    found = {}
    for channel in animation["channels"]:
        sampler = animation["samplers"][channel["sampler"]]
        found[channel["target"]["node"], channel["target"]["path"]] = array(sampler["output"])
    z = [found[k, "translation"][:, 2] for k in places]
    lifts = (0.0, 0.2, 0.3)  # of members 0, 2 and 3
    for k, lift in enumerate(lifts[:2]):
        np.testing.assert_allclose(z[2 * k], motion.r[:, 0, 2] + lift, atol=2 * SINGLE)
    held = np.minimum(np.arange(31), 9)  # where it failed it stays
    np.testing.assert_allclose(z[4], np.asarray(motion.r)[held, 0, 2] + 0.3, atol=2 * SINGLE)


def test_frames_and_sensors_are_where_they_are_described(tmp_path):
    m = mbd.load_mechanism("four_bar")
    m.add(mbd.Frame("probe", "coupler", point=(2.0, 0.0, 2.2)))
    m.add(mbd.IMU("imu", "rocker", point=(3.8, 0.0, 1.2)))
    m.add(mbd.DistanceSensor("laser", "ground", "coupler", point_i=(2.0, 0.0, -0.5)))
    system, state = m.build()
    sol = mbd.simulate(system, state, h=5e-3, steps=4)
    sol.to_npz(tmp_path / "run.npz")
    for source in (sol, tmp_path / "run.npz"):
        document, array = opened(mbd.view(source, forces=False).glb)
        frames = {
            node["name"]: (k, node)
            for k, node in enumerate(document["nodes"])
            if node.get("extras", {}).get("kind") == "frame"
        }
        assert set(frames) == {"probe", "imu", "laser"}
        # A frame is carried by its body; what it measures from, in the body, is what is drawn.
        r = np.asarray(state.r)
        for name, body, point in (("probe", 1, (2, 0, 2.2)), ("imu", 2, (3.8, 0, 1.2))):
            carrier = document["nodes"][body]
            assert frames[name][0] in carrier["children"]
            local = np.asarray(state.A)[body].T @ (np.array(point) - r[body])
            np.testing.assert_allclose(frames[name][1]["translation"], local, atol=3e-3)
        (animation,) = document["animations"]
        moves = [x for x in animation["channels"] if x["target"]["node"] == frames["laser"][0]]
        lengths = [x for x in moves if x["target"]["path"] == "scale"]
        found = array(animation["samplers"][lengths[0]["sampler"]]["output"])[:, 2]
        np.testing.assert_allclose(found, sol.sensor("laser").distance, rtol=1e-5)


def test_plots_are_known_by_the_names_of_tables(swing):
    sol, _ = swing
    names = ["pin_crank.reaction_force.x", "crank.r.z", "coupler.omega.y", "energy.total"]
    film = film_of(mbd.view(sol, plots=names))
    found = [film["quantities"][k] for k in film["plots"]]
    assert [f"{q['owner']}.{q['name']}" for q in found] == [
        "pin_crank.reaction force",
        "crank.position",
        "coupler.angular velocity, body frame",
        "four_bar.energy",
    ]


def test_stacked_states_are_a_motion(motion):
    shown = film_of(mbd.view(motion.state, motion.system, times=motion.t))
    np.testing.assert_allclose(numbers(shown["t"], kind="<f8"), motion.t)
    one = film_of(mbd.view(motion.at(3), motion.system))
    assert len(numbers(one["t"], kind="<f8")) == 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda sol: mbd.view(sol.state), "a state needs its system"),
        (lambda sol: mbd.view(sol.state, sol.system), "31 states need as many growing times="),
        (
            lambda sol: mbd.view(sol.state, sol.system, times=np.zeros(31)),
            "31 states need as many growing times=",
        ),
    ],
)
def test_states_that_cannot_be_shown(motion, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(motion)


def test_a_member_that_is_not_there_is_refused(motion):
    with pytest.raises(ValueError, match="there is no motion 4: the batch has 4"):
        mbd.view(batch_of(motion, 4), member=4)


def test_a_live_view_shows_the_rows_so_far(monkeypatch):
    shown = []

    class Handle:
        def update(self, view):
            shown.append(view)

    def display(view, *, display_id):
        assert display_id is True
        shown.append(view)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    system, state = mbd.load("n_pendulum:1")
    sol = mbd.simulate(system, state, h=1e-3, t_end=0.5, on_chunk=viz.Live(every=0.0))
    ends = [film_of(view)["time"] for view in shown]
    assert len(shown) > 2 and ends == sorted(ends) and ends[-1] <= float(sol.t[-1])
    assert ends[0] < ends[-1]


def test_everything_is_in_the_picture_and_fills_it(motion):
    stage = scene(picture(motion))
    corners = 0.5 * np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    for k in range(0, 31, 5):
        box = corners * [0.5, 0.3, 0.2] @ np.asarray(motion.A[k, 0]).T + np.asarray(motion.r[k, 0])
        for direction in np.vstack([np.eye(3), -np.eye(3)]):
            most = np.max(stage.outermost @ direction)
            # Many directions are looked along, not all.
            assert np.max(box @ direction) < most + 0.02


def test_refusals(motion, tmp_path):
    cases = [
        ({"out": tmp_path / "a.avi"}, "cannot write a view to 'a.avi'; use one of .html, .glb"),
        ({"plots": ["ball.speed"]}, "no quantity 'ball.speed' to plot; there are ball.position"),
        ({"paths": ["bal"]}, "unknown body 'bal'; the bodies are"),
        ({"show": ["all"]}, "show knows reactions, .* not 'all'"),
        ({"speed": 0.0}, "speed must be positive"),
        ({"theme": "blue"}, "theme must be 'light' or 'dark'"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            viz.view(motion, forces=False, **options)
    with pytest.raises(ValueError, match="neither a file nor a packaged mechanism"):
        mbd.view("four_bars")


def test_what_travels_is_followed(motion):
    stage = scene(picture(motion))
    assert stage.half == stage.reach
    far = mbd.Mechanism("far")
    far.add_body("stone", shape=mbd.Sphere(0.1, mass=1.0))
    system, _ = far.build()
    t = jnp.linspace(0.0, 1.0, 5)
    r = t[:, None, None] * jnp.array([[[20.0, 0.0, 0.0]]])
    zero, eye = jnp.zeros((5, 1, 3)), jnp.broadcast_to(jnp.eye(3), (5, 1, 3, 3))
    sol = mbd.Solution(
        t, r, eye, zero, zero, zero, zero, jnp.zeros((5, 0)), jnp.zeros(5, int),
        mbd.RESULTS.successful, {}, None, system,
    )  # fmt: skip
    stage = scene(picture(sol))
    assert stage.reach > 10.0 and stage.half < 1.0


# --- the browser ---

needs_browser = pytest.mark.skipif(find() is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def page(motion, tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "view.html"
    view = viz.view(motion, forces=False, plots=["ball.velocity"], autoplay=False, out=path)
    with browser() as chromium:
        chromium.open(path.as_uri(), 1000, 640)
        yield chromium, film_of(view), path.as_uri()


@needs_browser
def test_a_page_opens_without_trouble_and_without_a_network(page):
    chromium, _, address = page
    assert chromium.requests == [address]
    assert chromium.troubles == []
    assert chromium.run("document.body.className") == ""


# Everything but one body goes, and that one becomes plain red.
ALONE = """(() => {
  const { stage } = view;
  stage.grid.visible = stage.planes.visible = false;
  stage.renderer.setClearColor(0x000000);
  for (const item of stage.items.values()) for (const node of item.nodes)
    for (const mesh of stage.meshesOf(node)) {
      mesh.visible = item.key === 'body:0';
      if (mesh.visible) mesh.material = new THREE.MeshBasicMaterial({ color: 0xff0000 });
    }
  return [stage.canvas.clientWidth, stage.canvas.clientHeight];
})()"""
PICTURE = "(view.seek({t}), view.stage.render(), view.stage.canvas.toDataURL())"


@needs_browser
def test_pixels_of_a_body_are_where_its_pose_puts_them(page, motion):
    chromium, film, _ = page
    size = chromium.run(ALONE)
    camera = camera_of(chromium, film)
    t = np.asarray(motion.t)
    for k in (0, 7, 15, 30):
        url = chromium.run(PICTURE.format(t=float(t[k])))
        image = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        assert list(image.size) == size
        drawn = Image.fromarray(255 * (np.asarray(image)[..., 0] > 100).astype(np.uint8))
        corners = 0.5 * np.array([(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        world = (
            np.asarray(motion.r[k, 0]) + corners * [0.5, 0.3, 0.2] @ np.asarray(motion.A[k, 0]).T
        )
        points = projected(world, camera, size)
        expected = Image.new("L", size)
        hull = points[ConvexHull(points).vertices]
        ImageDraw.Draw(expected).polygon([tuple(p) for p in hull], fill=255)
        assert np.mean(np.asarray(expected)) > 1.0  # it is in the picture
        # Within 3 pixels of the box, and everything of the box that is not within 3 of its edge.
        wide = np.asarray(expected.filter(ImageFilter.MaxFilter(7)))
        narrow = np.asarray(expected.filter(ImageFilter.MinFilter(7)))
        found = np.asarray(drawn)
        assert not np.any(found > wide)
        assert not np.any(narrow > found)


def camera_of(chromium, film):
    """The page's camera, in the mechanism's own coordinates."""
    there = "(p => p.clone().applyQuaternion(view.stage.turned.clone().invert()).toArray())"
    return film["camera"] | {
        "position": chromium.run(f"{there}(view.stage.camera.position)"),
        "target": chromium.run(f"{there}(view.stage.controls.target)"),
    }


def projected(points, camera, size):
    """Pixels of points, by a pinhole camera."""
    position, target, up = (np.array(camera[x]) for x in ("position", "target", "up"))
    z = (position - target) / np.linalg.norm(position - target)
    x = np.cross(up, z) / np.linalg.norm(np.cross(up, z))
    local = (points - position) @ np.stack([x, np.cross(z, x), z], axis=1)
    focal = 0.5 * size[1] / np.tan(np.radians(0.5 * camera["fov"]))
    return 0.5 * np.array(size) + focal * local[:, :2] * [1.0, -1.0] / -local[:, 2:]


@needs_browser
def test_a_page_plays_scrubs_and_chooses(motion, tmp_path):
    view = viz.view(motion, forces=False, autoplay=False, out=tmp_path / "view.html")
    film = film_of(view)
    with browser() as chromium:
        chromium.open((tmp_path / "view.html").as_uri(), 1000, 640)
        assert chromium.run("view.stage.time") == 0.25
        chromium.run("document.getElementById('play').click()")
        chromium.wait("view.stage.time > 0.3")
        chromium.run("document.getElementById('play').click()")
        stopped = chromium.run("view.stage.time")
        chromium.run(
            "(e => { e.value = 1.0; e.dispatchEvent(new Event('input')); })"
            "(document.getElementById('time'))"
        )
        scrubbed = chromium.run("view.stage.time")
        assert abs(scrubbed - 1.0) < 1e-3 and stopped != scrubbed
        row = 15  # t = 1.0
        size = chromium.run("[view.stage.canvas.clientWidth, view.stage.canvas.clientHeight]")
        chromium.run(f"view.seek({float(motion.t[row])})")
        ((x, y),) = projected(np.asarray(motion.r[row, :1]), camera_of(chromium, film), size)
        for kind in ("mousePressed", "mouseReleased"):
            chromium.ask(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )
        assert chromium.run("view.stage.selected") == "body:0"
        assert chromium.run("document.querySelector('#card h2').textContent") == NAME
        # The path of the point that was clicked starts with its place at the first row.
        chromium.run(
            "[...document.querySelectorAll('#card button')]"
            ".find(b => b.textContent === 'Path of point').click()"
        )
        point = np.array(chromium.run("view.picked"))
        path = np.array(
            chromium.run("[...view.stage.traces[0].past.geometry.attributes.position.array]")
        )
        expected = np.asarray(motion.r[:, 0]) + np.asarray(motion.A[:, 0]) @ point
        np.testing.assert_allclose(path.reshape(-1, 3), expected, atol=1e-5)
        chromium.run("view.setTheme('dark')")
        assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(29, 33, 39)"
        assert chromium.run("view.measure(20)") > 1.0
        assert chromium.troubles == [t for t in chromium.troubles if "ReadPixels" in t]


needs_films = pytest.mark.skipif(
    find() is None or ffmpeg.find() is None, reason="Chromium or ffmpeg is not installed"
)


@needs_browser
def test_a_picture_shows_the_instant_that_was_asked_for(motion, tmp_path):
    view = viz.view(motion, forces=False)
    view.save(tmp_path / "start.png", size=(400, 301))
    view.save(tmp_path / "end.png", size=(400, 301), at=1.75)
    first, last = (np.asarray(Image.open(tmp_path / f"{x}.png")) for x in ("start", "end"))
    assert first.shape[:2] == (301, 400)
    blue = [np.argwhere((x[..., 2] > 150) & (x[..., 0] < 110)).mean(axis=0) for x in (first, last)]
    assert np.linalg.norm(blue[1] - blue[0]) > 10  # the box has moved
    assert sorted(x.name for x in tmp_path.iterdir()) == ["end.png", "start.png"]


@needs_browser
def test_a_picture_has_the_plots_below_the_scene_with_a_cursor_at_its_time(motion, tmp_path):
    view = viz.view(motion, forces=False, plots=["ball.position"], theme="light")
    cursors = []
    for k, t in enumerate((0.5, 1.5)):
        path = tmp_path / f"{k}.png"
        view.save(path, size=(400, 300), at=t)
        plot = np.asarray(Image.open(path).convert("RGB"), int)[238:284]  # below its head
        red = (plot[..., 0] > 150) & (plot[..., 1:].max(axis=-1) < 110)
        assert red.sum() > 100  # the line of x
        dark = (plot.max(axis=-1) < 190).mean(axis=0)  # a hairline
        cursors.append(int(np.argmax(dark)))
        assert dark.max() > 0.7
    # 1 s of the 1.5 s that fill nearly the whole width.
    assert 0.55 * 400 < cursors[1] - cursors[0] < 0.67 * 400


@needs_films
@pytest.mark.parametrize("ending", [".mp4", ".webm", ".gif"])
def test_a_film_has_its_frames_and_plays(motion, tmp_path, ending):
    path = tmp_path / f"film{ending}"
    viz.view(motion, forces=False, speed=2.0).save(path, size=(161, 120), fps=12)
    frames = 10  # 1.5 s at twice the speed, both ends included
    if ending == ".gif":
        with Image.open(path) as film:
            assert film.size == (160, 120) and film.n_frames == frames
        return
    page = tmp_path / "page.html"
    page.write_text(f"<body><video muted src='{path.name}'></video></body>")
    with browser() as chromium:
        chromium.open(page.as_uri(), 400, 300, ready="document.querySelector('video').readyState")
        video = "document.querySelector('video')"
        assert chromium.run(f"[{video}.videoWidth, {video}.videoHeight]") == [160, 120]
        # The program ffmpeg of distributions and the codecs of Chromium both know these.
        chromium.run(f"{video}.play()")
        chromium.wait(f"{video}.ended")
        assert abs(chromium.run(f"{video}.duration") - frames / 12) < 0.1


def test_a_film_needs_a_browser_and_ffmpeg(motion, tmp_path, monkeypatch):
    view = viz.view(motion, forces=False)
    with monkeypatch.context() as alone:
        alone.setattr("jaxmbd.viz.ffmpeg.find", lambda: None)
        with pytest.raises(FileNotFoundError, match="needs ffmpeg.*pip install imageio-ffmpeg"):
            view.save(tmp_path / "film.mp4")
    monkeypatch.setattr("jaxmbd.viz.browser.find", lambda: None)
    with pytest.raises(FileNotFoundError, match="drawn by a browser.*save the page as .html"):
        view.save(tmp_path / "film.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("a.png", {"size": (0, 10)}, "size must be two numbers of pixels"),
        ("a.gif", {"fps": 100}, "fps must be a whole number from 1 to 50"),
        ("a.mp4", {"at": 1.0}, "at= is the instant of a picture"),
        ("a.avi", {}, "use one of .html, .glb, .png, .mp4, .webm, .gif"),
    ],
)
def test_films_that_cannot_be(motion, tmp_path, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        viz.view(motion, forces=False).save(tmp_path / name, **arguments)


@needs_browser
def test_the_record_button_gives_a_film(motion, tmp_path):
    viz.view(motion, forces=False, autoplay=False, speed=5.0, out=tmp_path / "view.html")
    with browser() as chromium:
        chromium.open((tmp_path / "view.html").as_uri(), 400, 300)
        chromium.run("view.download = (blob, ending) => { window.got = [blob.size, ending]; }")
        chromium.run("document.getElementById('record').click()")
        chromium.wait("window.got")
        size, ending = chromium.run("window.got")
        assert size > 1000 and ending == "webm"
