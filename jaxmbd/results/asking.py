"""How columns are asked for by name."""

import re
from collections.abc import Collection

from ..model.names import nearest

# Shorter names of the same numbers, taken wherever a name is asked for.
_SHORT = (
    (".force.", ".reaction_force."),
    (".moment.", ".reaction_moment."),
    (".normal_force", ".force.normal"),
)


def full_name(name: str, known: Collection[str]) -> str:
    """The name in tables of a quantity that may be asked for by a shorter one: "pin.force.x" of a
    joint is "pin.reaction_force.x", "foot.normal_force" of a contact is "foot.force.normal".
    """
    return next((x for x in _spellings(name) if x in known), name)


def _spellings(name: str) -> list[str]:
    """A name as it is asked for, then in full."""
    return [name, *(name.replace(short, full) for short, full in _SHORT)]


def fitting(asked: str, names: list[str]) -> list[str]:
    """The names that one fits, in which * stands for any text.

    Raises:
        ValueError: None does; the message lists the nearest.
    """
    for spelling in _spellings(asked):
        pattern = re.compile(".*".join(map(re.escape, spelling.split("*"))), re.DOTALL)
        found = [name for name in names if pattern.fullmatch(name)]
        if found:
            return found
    near = nearest(asked, names, cutoff=0.4) or names[:8]
    raise ValueError(f"there is no column {asked!r}; did you mean {', '.join(near)}?")
