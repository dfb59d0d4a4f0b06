"""Efforts that an analysis found beside a motion, among the numbers of its run."""

import re
from collections.abc import Iterable, Iterator

_KEY = re.compile(r"effort of (.*) \[([^\[\]]*)\]", re.DOTALL)


def effort_key(name: str, unit: str) -> str:
    """By which `Solution.stats` has the effort of a driver or actuator."""
    return f"effort of {name} [{unit}]"


def efforts_in(stats: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Keys of efforts with their names and units."""
    for key in stats:
        found = _KEY.fullmatch(key)
        if found:
            yield key, found[1], found[2]
