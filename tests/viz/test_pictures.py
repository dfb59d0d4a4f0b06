import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import viz


@pytest.fixture(scope="module")
def motion():
    system, state = mbd.load("slider_crank")
    return mbd.kinematics(system, state, np.arange(0, 21) * 0.05), system


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


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
