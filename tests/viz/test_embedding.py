"""Views on pages of the manual: a film, and behind its link the view itself."""

import shutil
import sys
from pathlib import Path

import pytest

from browser import browser, find

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
from embedding import embedded, prepare

pytestmark = [
    pytest.mark.xdist_group("view"),
    pytest.mark.skipif(find() is None, reason="Chromium is not installed"),
]


def test_a_film_becomes_the_view_and_a_film_again(tmp_path):
    static = tmp_path / "_static"
    (static / "gallery").mkdir(parents=True)
    for name in (
        "views.js",
        "views.css",
        *(f"gallery/four_bar.{x}" for x in ("webm", "jpg", "html")),
    ):
        shutil.copyfile(DOCS / "_static" / name, static / name)
    prepare(static)
    shown = embedded("four_bar", "Four-bar", "_static").split("\n", 1)[1].rsplit("```", 1)[0]
    page = tmp_path / "page.html"
    page.write_text(f"<script src='_static/views.js'></script><body>{shown}</body>")
    with browser() as chromium:
        chromium.open(page.as_uri(), 800, 600, ready="document.querySelector('video')")
        chromium.wait("document.querySelector('video').currentTime > 0.1")  # it plays as it is seen
        chromium.run("document.querySelector('figcaption a').click()")
        chromium.wait("document.querySelector('iframe')")
        assert chromium.run("document.querySelector('iframe').src").endswith("four_bar.html#light")
        chromium.run("document.querySelector('figcaption a').click()")
        chromium.wait("document.querySelector('video') && !document.querySelector('iframe')")
        assert chromium.troubles == []
    with browser() as chromium:  # the view by itself, as the frame shows it
        chromium.open((static / "gallery" / "four_bar.html").as_uri() + "#dark", 600, 400)
        assert chromium.run("view.film.name") == "four_bar"
        assert chromium.run("document.documentElement.dataset.theme") == "dark"
        assert chromium.troubles == []
