"""Pictures: what they show, what they refuse, and that names and sizes do not break them."""

import sys
import time
import types
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import viz
from jaxmbd.results.export import drawing
from jaxmbd.results.figures import label, thinned
from jaxmbd.viz.animation import _frames


@pytest.fixture(scope="module")
def motion():
    system, state = mbd.load("slider_crank")
    return mbd.kinematics(system, state, np.arange(0, 21) * 0.05), system


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def resting(system, state, rows=3, t_end=1.0):
    """A motion that nobody has computed: the described pose, drifting along x."""
    nb, nc = system.nb, system.nc
    t = jnp.linspace(0.0, t_end, rows)
    zero = jnp.zeros((rows, nb, 3))
    return mbd.Solution(
        t=t,
        r=state.r[None] + t[:, None, None] * jnp.array([1.0, 0.0, 0.0])[None, None, :],
        A=jnp.broadcast_to(state.A, (rows, nb, 3, 3)),
        v=zero,
        omega=zero,
        a=zero,
        alpha=zero,
        multipliers=jnp.zeros((rows, nc)),
        iterations=jnp.zeros(rows, int),
        result=mbd.RESULTS.successful,
        stats={},
    )


def many(nb, nc=0, rows=50):
    """A motion of many bodies, without a system."""
    zero = jnp.zeros((rows, nb, 3))
    eye = jnp.broadcast_to(jnp.eye(3), (rows, nb, 3, 3))
    lam = jnp.asarray(np.random.default_rng(5).normal(size=(rows, nc)))
    t, iterations = jnp.linspace(0.0, 1.0, rows), jnp.zeros(rows, int)
    return mbd.Solution(
        t, zero, eye, zero, zero, zero, zero, lam, iterations, mbd.RESULTS.successful, {}
    )


def crane():
    m = mbd.Mechanism("crane")
    boom = m.add_body("boom", shape=mbd.Cylinder(0.1, 4.0, density=2700, axis="x"), r=(2, 0, 0))
    load = m.add_body("load", shape=mbd.Sphere(0.3, mass=50), r=(4, 0, -2))
    m.add(
        mbd.Universal("mast", m.ground, boom, point=(0, 0, 0), axis_i=(0, 0, 1), axis_j=(0, 1, 0))
    )
    m.add(mbd.Distance("rope", boom, load, point_i=(4, 0, 0), point_j=(4, 0, -1.7)))
    m.add(
        mbd.SpringDamper(
            "stay", m.ground, boom, point_i=(0, 0, 2), point_j=(3, 0, 0), stiffness=2e4
        )
    )
    return m.build()


def segments(figure):
    """The lines of a picture in three dimensions, as arrays (n, 3)."""
    return [np.stack(line.get_data_3d(), 1) for line in figure.axes[0].lines]


def is_drawn(figure, *points):
    return any(
        len(s) == len(points) and np.allclose(s, points, atol=1e-9) for s in segments(figure)
    )


# --- plots ---


def test_plot_draws_every_body_and_quantity(motion, tmp_path):
    figure = viz.plot(*motion, quantities=("r", "omega", "lam"), out=tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000
    titles = [ax.get_title() for ax in figure.axes]
    assert {"crank", "rod", "slider"} <= set(titles)
    x = next(ax for ax in figure.axes if ax.get_title() == "slider").lines[0]
    np.testing.assert_allclose(x.get_ydata(), motion[0].r[:, 2, 0])


def test_plot_refuses_unknown_names(motion):
    with pytest.raises(ValueError, match="unknown quantity 'speed'; known are"):
        viz.plot(*motion, quantities=("speed",))
    with pytest.raises(ValueError, match="unknown body 'rods'; the bodies are crank, rod, slider"):
        viz.plot(*motion, bodies=("rods",))
    with pytest.raises(ValueError, match="unknown quantity .none."):
        viz.plot(*motion, quantities=())


def test_titles_stay_above_the_first_row_that_has_bodies(motion):
    figure = viz.plot(*motion, quantities=("lam", "r"), bodies=("rod", "slider"))
    assert [ax.get_title() for ax in figure.axes] == ["", "", "rod", "slider"]


def test_plot_of_200_bodies_draws_the_first_8_and_says_so():
    """It made a column of 3.6 inches for each."""
    with pytest.warns(
        UserWarning,
        match="'result' has 200 bodies; drawn are the first 8: name others with bodies=",
    ):
        figure = viz.plot(many(200), quantities=("r",))
    assert len(figure.axes) == 8 and "first 8 of 200 bodies" in figure.get_suptitle()
    assert len(viz.plot(many(200), quantities="r", bodies=("body199", "body9")).axes) == 2
    with pytest.raises(ValueError, match="40 bodies at most, not 41"):
        viz.plot(many(200), bodies=[f"body{k}" for k in range(41)])
    with pytest.raises(ValueError, match="the bodies are body0, .*body11 and 188 more"):
        viz.plot(many(200), bodies=("boody",))


def test_plot_of_hundreds_of_multipliers_is_quick_and_has_no_legend(tmp_path):
    solution = many(3, nc=600, rows=400)
    start = time.thread_time()  # minutes, if every curve got an entry in a legend
    figure = viz.plot(solution, quantities=("lam",), out=tmp_path / "lam.png")
    assert time.thread_time() - start < 20.0
    assert len(figure.axes) == 1 and figure.axes[0].get_legend() is None
    assert len(figure.axes[0].lines) == 600


def test_a_long_line_isthinned_without_losing_a_peak():
    t = np.linspace(0.0, 1.0, 100_000)
    y = np.sin(20 * t)
    y[[31, 77_777]] = 9.0, -9.0
    thin_t, thin_y = thinned(t, y)
    assert len(thin_t) <= 2000 and (thin_t[0], thin_t[-1]) == (0.0, 1.0)
    assert (thin_y.max(), thin_y.min()) == (9.0, -9.0) and np.all(np.diff(thin_t) > 0)
    np.testing.assert_array_equal(thinned(t[:2000], y[:2000]), (t[:2000], y[:2000]))


# --- what a picture shows ---


def test_a_distance_is_a_link_between_its_own_points():
    """Body i had an arm to where the far end was at the start, and there was no link."""
    system, state = crane()
    rope = system.connections[1]
    np.testing.assert_allclose(rope.s_i_bar, (2, 0, 0))
    np.testing.assert_allclose(rope.s_j_bar, (0, 0, 0.3), atol=1e-15)
    figure = viz.snapshot(resting(system, state), system, k=0)
    assert is_drawn(figure, (4, 0, 0), (4, 0, -1.7))
    assert is_drawn(figure, (2, 0, 0), (0, 0, 0), (2, 0, 0), (4, 0, 0))  # the boom's arms
    assert not any(np.allclose(s[-1], (4, 0, -1.7)) and len(s) == 4 for s in segments(figure))
    low, high = figure.axes[0].get_zlim()
    assert low < -2.3 and high > 2.0  # the sphere's lowest and the spring's highest point


def test_a_distance_driver_and_a_free_distance_are_links_too():
    m = mbd.Mechanism("winch")
    m.add_body("load", mass=2.0, inertia=(0.1, 0.2, 0.25), r=(1, 0, -1))
    m.add_body("buoy", mass=2.0, inertia=(0.1, 0.2, 0.25), r=(3, 0, -1))
    ends = {"point_i": (0, 0, 0.5), "point_j": (1, 0, -0.8)}
    m.add(mbd.DistanceDriver("rope", m.ground, "load", length=lambda t: 2.0 - t, **ends))
    free = mbd.D(jnp.array([0.5, 0.0, 0.0]), jnp.array([0.0, 0.0, 0.1]), jnp.array(4.0))
    m.add(mbd.Constraint("free", "load", "buoy", primitives=[free]))
    system, state = m.build()
    np.testing.assert_allclose(system.connections[0].s_i_bar, (0, 0, 0.5))
    figure = viz.snapshot(resting(system, state), system, k=0)
    assert is_drawn(figure, (0, 0, 0.5), (1, 0, -0.8))
    assert is_drawn(figure, (1.5, 0, -1), (3, 0, -0.9))


def test_joints_show_their_axes():
    """A revolute was a dot."""
    m = mbd.Mechanism("arm")
    m.add_body("arm", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, 2, 0)))
    system, state = m.build()
    figure = viz.snapshot(resting(system, state), system, k=0)
    edge = np.ptp(figure.axes[0].get_xlim())
    assert is_drawn(figure, (0, -0.07 * edge, 0), (0, 0.07 * edge, 0))
    system, state = crane()
    mast = system.connections[0]
    np.testing.assert_allclose((mast.axis_i_bar, mast.axis_j_bar), ((0, 0, 1), (0, 1, 0)))


def test_the_line_of_a_point_on_line_belongs_to_body_i():
    m = mbd.Mechanism("bead")
    m.add_body("bead", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.add(mbd.PointOnLine("wire", m.ground, "bead", point=(0, 0, 0), axis=(1, 0, 0)))
    wire = m.build()[0].connections[0]
    np.testing.assert_allclose((wire.axis_i_bar, wire.axis_j_bar), ((1, 0, 0), (0, 0, 0)))


def outline_of(**body):
    m = mbd.Mechanism("one")
    m.add_body("one", **body)
    return drawing(m.build()[0])["outlines"][0]


def test_a_body_without_shape_is_its_equivalent_cuboid():
    """It was invisible."""
    box = mbd.Box((0.2, 0.5, 0.9), mass=3.0)
    corners = {tuple(np.round(p, 9)) for line in box.outline() for p in line}
    theirs = outline_of(mass=3.0, inertia=box.inertia)
    assert {tuple(np.round(p, 9)) for line in theirs for p in line} == corners
    # In axes of its own.
    A = mbd.rotations.so3.exp(jnp.array([0.3, -0.5, 0.7]))
    turned = outline_of(mass=3.0, inertia=A @ box.inertia @ A.T)
    back = {tuple(np.round(np.abs(A.T @ np.array(p)), 9)) for line in turned for p in line}
    assert back == {(0.1, 0.25, 0.45)}


@pytest.mark.parametrize("inertia", [(0.0, 0.2, 0.2), (1.0, 0.2, 0.2), (1e-300, 1e-300, 1e-300)])
def test_an_odd_inertia_gives_a_flat_cuboid_and_no_nan(inertia):
    lines = outline_of(mass=3.0, inertia=inertia, allow_unphysical_inertia=True)
    assert lines and np.all(np.isfinite(np.concatenate([np.array(line) for line in lines])))


def test_a_body_with_neither_shape_nor_mass_is_three_axes():
    m = mbd.Mechanism("kinematics only")
    m.add_body("frame", r=(1, 2, 3))
    system, state = m.build()
    figure = viz.snapshot(resting(system, state, rows=1), system)
    assert drawing(system)["outlines"] == [[]]
    length = 0.12 * 0.5  # a picture of a point has an edge of 1 m
    assert any(np.any(np.all(np.isclose(s, (1, 2 + length, 3)), axis=1)) for s in segments(figure))
    viz.snapshot(many(2), out=None)  # and so is one of a result without system


# --- animations ---


def test_animation_moves_the_bodies(motion, tmp_path):
    film = viz.animate(*motion, out=tmp_path / "a.gif", fps=10)
    from PIL import Image

    with Image.open(tmp_path / "a.gif") as image:
        frames = []
        for k in range(image.n_frames):
            image.seek(k)
            frames.append(np.asarray(image.convert("L"), float))
    assert len(frames) == 11
    assert np.mean(np.abs(frames[0] - frames[4])) > 0.1  # something moved
    assert "<img" in film.to_jshtml()
    with pytest.raises(ValueError, match="use .gif, .html or .mp4"):
        viz.animate(*motion, out=tmp_path / "a.avi")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fps": 0}, "fps must be a whole number from 1 to 240 for an animation, not 0"),
        ({"fps": -5}, "fps must be .* not -5"),
        ({"fps": 241}, "fps must be .* not 241"),
        ({"fps": 60, "out": "a.gif"}, "fps must be a whole number from 1 to 50 for a .gif, not 60"),
        ({"speed": 0.0}, "speed must be positive and finite, not 0"),
        ({"speed": -1.0}, "speed must be positive and finite, not -1"),
        ({"speed": float("inf")}, "speed must be positive and finite, not inf"),
        ({"speed": float("nan")}, "speed must be positive and finite, not nan"),
        (
            {"speed": 1e-3},
            "would have 25001 frames, and 20000 are the most: raise speed or lower fps",
        ),
        ({"speed": 1e-300}, "would have .* frames"),
        ({"size": 0.0}, "size must be positive and at most 50 inches, not 0"),
        ({"size": float("nan")}, "size must be positive"),
        ({"view": (float("nan"), 0.0)}, "view must be two finite angles"),
        ({"out": "no/such/a.gif"}, "there is no such folder"),
        ({"out": "a"}, "use .gif, .html or .mp4"),
    ],
)
def test_animate_refuses_arguments_out_of_range(motion, arguments, message):
    before = plt.get_fignums()  # other tests of this process may have left theirs open
    with pytest.raises(ValueError, match=message):
        viz.animate(*motion, **arguments)
    assert plt.get_fignums() == before


def test_a_missing_ffmpeg_is_one_sentence_without_a_warning(motion, tmp_path, monkeypatch):
    """Matplotlib warned of an animation that was deleted without being shown."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="needs ffmpeg, .* pip install imageio-ffmpeg"):
            viz.animate(*motion, out=tmp_path / "a.mp4")
    assert not plt.get_fignums() and not list(tmp_path.iterdir())


def test_an_animation_lasts_as_long_as_the_motion():
    """Rows farther apart than frames were shown for one frame each."""
    t = np.array([0.0, 0.5, 1.0])
    np.testing.assert_array_equal(_frames(t, 8, 1.0), [0, 0, 0, 1, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(_frames(np.linspace(0, 1, 1001), 4, 0.5), np.arange(9) * 125)
    np.testing.assert_array_equal(_frames(np.zeros(1), 25, 1.0), [0])
    with pytest.raises(ValueError, match="times of the result decrease"):
        _frames(np.array([0.0, 1.0, 0.5]), 25, 1.0)


def test_short_and_empty_results_are_drawn_or_refused_in_words(tmp_path):
    system, state = crane()
    one = resting(system, state, rows=1)
    viz.animate(one, system, out=tmp_path / "one.gif")
    viz.animate(one, system, out=tmp_path / "one.html")
    assert (tmp_path / "one.gif").stat().st_size > 1000 and "<img" in (
        tmp_path / "one.html"
    ).read_text()
    viz.plot(one, system, out=tmp_path / "one.png")
    empty = jax.tree.map(lambda x: x[:0] if x.ndim else x, one)
    failed = jax.tree.map(lambda x: x * jnp.nan if x.dtype.kind == "f" else x, one)
    for draw in (viz.animate, viz.snapshot, viz.plot):
        with pytest.raises(ValueError, match="the result holds no rows"):
            draw(empty, system)
        with pytest.raises(ValueError, match="the result holds no finite row"):
            draw(failed, system)
        with pytest.raises(ValueError, match="give the system it was made with"):
            draw(many(3), system)
        with pytest.raises(ValueError, match="is a batch"):
            draw(jax.tree.map(lambda x: jnp.stack([x, x]), one), system)
    huge = resting(system, state, t_end=1e200)
    with pytest.raises(ValueError, match=r"beyond 1e\+100, which cannot be drawn"):
        viz.snapshot(huge, system)
    m = mbd.Mechanism("vast")
    m.add_body("vast", shape=mbd.Box((1e120, 1.0, 1.0), mass=1.0))
    system, state = m.build()
    plt.close("all")
    with pytest.raises(ValueError, match=r"the drawing reaches beyond 1e\+100 m"):
        viz.snapshot(resting(system, state), system)
    assert not plt.get_fignums()


def test_snapshot_refuses_a_row_that_is_not_there():
    system, state = crane()
    sol = resting(system, state, rows=3)
    for k in (3, -4, 10**9):
        with pytest.raises(ValueError, match=rf"there is no row {k}: k goes from -3 to 2"):
            viz.snapshot(sol, system, k=k)
    assert "t = 1.00 s" in viz.snapshot(sol, system, k=-1).texts[0].get_text()


# --- names ---

NAMES = [
    "$\\frac{",
    "$x",
    "_under",
    "a\nb\t\0",
    "[/x]",
    "球🦀",
    "\ud800",
    "%s {0} \\alpha",
    "x" * 300,
    "عربي",
]


def test_names_of_any_characters_do_not_break_pictures(tmp_path):
    """A pair of `$` was read as a formula, and a leading underscore left a body out of the
    legend."""
    for few in (NAMES[:5], NAMES[5:]):
        m = mbd.Mechanism(few[0])
        for k, name in enumerate(few):
            m.add_body(name, mass=1.0, inertia=(1, 1, 1), r=(3 * k, 0, 0))
            m.add(mbd.Spherical(name, m.ground, name, point=(3 * k, 0, 1)))
        system, state = m.build()
        sol = resting(system, state, rows=2)
        sol.to_npz(tmp_path / "r.npz", system)
        viz.plot(tmp_path / "r.npz", quantities=("r", "lam"), out=tmp_path / "p.png")
        viz.plot(tmp_path / "r.npz", quantities=("r",), out=tmp_path / "p.svg")
        viz.snapshot(tmp_path / "r.npz", out=tmp_path / "s.png")
        viz.animate(tmp_path / "r.npz", out=tmp_path / "a.gif", fps=1)
        figure = viz.snapshot(sol, system)
        assert len(figure.legends[0].get_texts()) == 5


def test_labels_are_one_line_without_formulas():
    assert [label(name) for name in NAMES[:5]] == [r"\$\frac{", r"\$x", " _under", "a b  ", "[/x]"]
    assert len(label("x" * 300)) == 40 and label("\ud800") == " "


def test_ffmpeg_of_imageio_is_used_where_none_is_on_the_path(motion, tmp_path, monkeypatch):
    """A stand-in that copies its input, so that the bytes of the frames arrive."""
    program = tmp_path / "bin" / "their-ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/cat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    theirs = types.SimpleNamespace(get_ffmpeg_exe=lambda: str(program))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", theirs)
    viz.animate(*motion, out=tmp_path / "a.mp4", fps=1)
    assert (tmp_path / "a.mp4").stat().st_size > 1000
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.mp4", "bin"]


def test_pictures_replace_no_file_of_another_kind(motion, tmp_path):
    for name, draw in (("m.gif", viz.animate), ("m.png", viz.plot), ("m.html", mbd.view)):
        (tmp_path / name).write_text('{"format": "jaxmbd-1"}')
        with pytest.raises(OSError, match="choose another name"):
            draw(*motion, out=tmp_path / name)
        assert (tmp_path / name).read_text() == '{"format": "jaxmbd-1"}'
