"""The browser that draws pictures of views, and what tests ask about its page."""

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

from jaxmbd.viz import browser as driver

find = driver.find


class Browser(driver.Browser):
    """One page."""

    def screenshot(self, path: str | Path) -> None:
        Path(path).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    @property
    def troubles(self) -> list[str]:
        """Errors and warnings of the console, and exceptions."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] != "log":
                found.append(f"{params['type']}: {params['args']}")
            if event.get("method") == "Log.entryAdded":
                found.append(f"{params['entry']['level']}: {params['entry']['text']}")
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    with driver.browser(Browser) as page:
        yield page
