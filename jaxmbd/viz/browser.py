"""A Chromium without a window, driven through its debugging pipe: JSON texts that end with a zero.

No package is needed for this, and nothing listens on a network.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_FLAGS = (
    "--headless --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --hide-scrollbars --force-device-scale-factor=1 --remote-debugging-pipe"
).split()

READY = "window.view || document.body.classList.contains('failed')"


def find() -> str | None:
    """The path of a Chromium, Chrome or Edge that can be driven, or None."""
    if sys.platform == "win32":
        return None  # processes there inherit no numbered pipes
    found = (path for name in NAMES if (path := shutil.which(name)))
    return next(found, None) or next((path for path in _MAC if os.access(path, os.X_OK)), None)


class Browser:
    """One page. `events` holds what it reported."""

    def __init__(self, to_browser: int, from_browser: int):
        self._write, self._read = to_browser, from_browser
        self._rest, self._count, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, timeout: float = 60.0, **params: Any) -> dict[str, Any]:
        """What a method of the DevTools protocol returns."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self._next(until, method)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self, until: float, what: str) -> dict[str, Any]:
        blocks = [self._rest]
        while b"\0" not in blocks[-1]:
            if not select.select([self._read], [], [], max(until - time.monotonic(), 0.0))[0]:
                raise TimeoutError(f"the browser did not answer {what}")
            block = os.read(self._read, 2**20)
            if not block:
                raise RuntimeError(f"the browser ended before it answered {what}")
            blocks.append(block)
        text, _, self._rest = b"".join(blocks).partition(b"\0")
        return json.loads(text)

    def open(self, url: str, width: int, height: int, ready: str = READY) -> None:
        """Open a page and wait until it is ready: its view is there, or has failed."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url=url)
        self.wait(ready)

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until a condition holds in the page."""
        until = time.monotonic() + seconds
        while not self.run(f"Boolean(document.body) && Boolean({condition})"):
            if time.monotonic() > until:
                raise TimeoutError(f"not so after {seconds} s: {condition}")
            time.sleep(0.05)

    def run(self, expression: str, timeout: float = 60.0) -> Any:
        """The value of an expression in the page."""
        found = self.ask(
            "Runtime.evaluate",
            timeout,
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "?"))
        return found["result"].get("value")


@contextlib.contextmanager
def browser(page: type[Browser] = Browser) -> Generator[Browser, None, None]:
    """A browser with a profile of its own, which ends with the block.

    Raises:
        FileNotFoundError: There is none; the message says what to do.
    """
    program = find()
    if program is None:
        raise FileNotFoundError(
            f"pictures of a view are drawn by a browser, and none of {', '.join(NAMES)} is on the "
            "path: install one, or save the page as .html and press its buttons PNG and REC"
        )
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    # It reads from descriptor 3 and writes to 4.
    shell = f'exec 8<&{in_read} 9>&{out_write}; exec "$0" "$@" 3<&8 4>&9 8<&- 9>&-'
    flags = list(_FLAGS)
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # it has none for the superuser, and refuses to start
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = ["bash", "-c", shell, program, *flags, f"--user-data-dir={profile}"]
        log = open(Path(profile) / "log", "wb")  # noqa: SIM115
        process = subprocess.Popen(
            command, pass_fds=(in_read, out_write), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        os.close(in_read)
        os.close(out_write)
        try:
            yield page(in_write, out_read)
        finally:
            os.close(in_write)
            os.close(out_read)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            log.close()
