"""The program ffmpeg, which makes films of pictures."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

# One palette for the whole film, of the colors that change.
_GIF = (
    "split[a][b];[a]palettegen=max_colors=96:stats_mode=diff[p];"
    "[b][p]paletteuse=dither=none:diff_mode=rectangle"
)
_WRITERS = {
    ".mp4": "-c:v libx264 -preset veryfast -crf 20 -pix_fmt yuv420p -movflags +faststart".split(),
    ".webm": (
        "-c:v libvpx-vp9 -crf 34 -b:v 0 -pix_fmt yuv420p -deadline good -cpu-used 4 -row-mt 1"
    ).split(),
    ".gif": ["-filter_complex", _GIF, "-loop", "0"],
}
ENDINGS = tuple(_WRITERS)


def find() -> str | None:
    """The program: on the path, or that of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is None:
        try:
            import imageio_ffmpeg  # pyright: ignore[reportMissingImports]

            found = imageio_ffmpeg.get_ffmpeg_exe()
        except (ImportError, RuntimeError):  # not installed, or without the program
            return None
    return found


def kind_of(path: Path) -> str:
    """What kind of pictures a film is made of: a GIF stores the noise of others."""
    return "image/png" if path.suffix.lower() == ".gif" else "image/jpeg"


def program(path: Path) -> str:
    """The program, for a film of that name.

    Raises:
        FileNotFoundError: There is none.
    """
    found = find()
    if found is None:
        raise FileNotFoundError(
            f"writing {path.suffix} needs ffmpeg, which is not on the path: "
            "pip install imageio-ffmpeg"
        )
    return found


@contextlib.contextmanager
def film(path: Path, fps: float) -> Generator[IO[bytes], None, None]:
    """A film of pictures of `kind_of`, one after another, that are written to what is yielded.

    Raises:
        FileNotFoundError: There is no ffmpeg.
        RuntimeError: It failed; the message has its last words.
    """
    codec = {"image/png": "png", "image/jpeg": "mjpeg"}[kind_of(path)]
    command = [program(path), *"-y -loglevel error -f image2pipe -framerate".split(), f"{fps:g}"]
    command += ["-c:v", codec, "-i", "-", *_WRITERS[path.suffix.lower()], str(path)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        assert process.stdin is not None
        try:
            yield process.stdin
            process.stdin.close()
            ended = process.wait()
        except BrokenPipeError:
            ended = process.wait()
        finally:
            process.kill()
            process.wait()
        if ended:
            log.seek(0)
            words = log.read().decode(errors="replace").strip()
            raise RuntimeError(f"ffmpeg could not write {path.name!r}: {words[-400:]}")
