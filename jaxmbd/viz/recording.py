"""Pictures and films of a view, drawn by a browser."""

import base64
import math
import operator
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..files import check_writable, placed
from . import ffmpeg
from .browser import Browser, browser

ENDINGS = (".png", *ffmpeg.ENDINGS)
MOST_FRAMES = 20_000
_LARGEST = 4096  # pixels of an edge
_MOST_FPS, _MOST_GIF_FPS = 120, 50  # a GIF counts in 1/100 s, and viewers slow down less than two
_QUALITY = 0.94  # of the pictures that a film is made of


def record(
    page: str,
    path: Path,
    *,
    size: tuple[int, int],
    fps: int,
    at: float | None,
    progress: bool,
) -> None:
    """Write a picture (.png) or a film of a page, see `View.save`."""
    size = _check(path, size, fps, at)
    check_writable(path, "view")
    if path.suffix.lower() in ffmpeg.ENDINGS:
        ffmpeg.program(path)  # refused before any work
    with tempfile.TemporaryDirectory() as folder, browser() as shown:
        file = Path(folder) / "view.html"
        file.write_text(page, encoding="utf-8")
        shown.open(f"{file.as_uri()}#film", *size)
        if shown.run("document.body.classList.contains('failed')"):
            reason = shown.run("document.getElementById('trouble').textContent")
            raise RuntimeError(f"the browser could not draw the view: {reason}")
        shown.run(f"view.pose({size[0]}, {size[1]})")
        first, last, speed = shown.run("[view.film.t[0], view.film.t.at(-1), view.speed]")
        if path.suffix.lower() == ".png":
            with placed(path, "view") as target:
                target.write_bytes(_picture(shown, first if at is None else at, "image/png"))
            return
        if last <= first:
            raise ValueError(
                f"nothing moves in this view, so that {path.suffix} would be no film: write .png, "
                "simulate first, or ask for sweep=True"
            )
        times, kind = _times(first, last, speed, fps), ffmpeg.kind_of(path)
        with placed(path, "view") as target, ffmpeg.film(target, fps) as film:
            for t in tqdm(times, desc=path.name, disable=not progress, leave=False, unit="frame"):
                film.write(_picture(shown, float(t), kind))


def _check(path: Path, size: tuple[int, int], fps: int, at: float | None) -> tuple[int, int]:
    """Refuse what no picture can have; the size that a film has, whose edges are even."""
    if len(size) != 2 or not all(16 <= operator.index(n) <= _LARGEST for n in size):
        raise ValueError(f"size must be two numbers of pixels, 16 to {_LARGEST}, not {size}")
    if path.suffix.lower() == ".png":
        return operator.index(size[0]), operator.index(size[1])
    if at is not None:
        raise ValueError("at= is the instant of a picture, .png; a film shows the whole motion")
    most = _MOST_GIF_FPS if path.suffix.lower() == ".gif" else _MOST_FPS
    if not 1 <= operator.index(fps) <= most:
        raise ValueError(f"fps must be a whole number from 1 to {most}, not {fps}")
    return size[0] // 2 * 2, size[1] // 2 * 2


def _times(first: float, last: float, speed: float, fps: int) -> np.ndarray:
    """The instants of the frames."""
    seconds = (last - first) / speed
    if seconds * fps >= MOST_FRAMES:
        raise ValueError(
            f"the film would have {seconds * fps + 1:.6g} frames, and {MOST_FRAMES} are the most: "
            "raise speed or lower fps"
        )
    return np.linspace(first, last, max(math.ceil(seconds * fps), 1) + 1)


def _picture(shown: Browser, t: float, kind: str) -> bytes:
    return base64.b64decode(shown.run(f"view.image({t!r}, {kind!r}, {_QUALITY})"))
