"""What to say to a name that is not known, and dictionaries that say it."""

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar

import jax


def unknown(what: str, plural: str, name: object, known: Iterable[str]) -> str:
    """A sentence that a name is not known, with the nearest ones."""
    names = list(known)
    meant = " or ".join(map(repr, nearest(name, names)))
    meant = f"did you mean {meant}? The" if meant else "the"
    return f"there is no {what} {name!r}; {meant} {plural} are {', '.join(names) or 'none'}"


def nearest(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """The known names most like one that is not known, three at most."""
    # Capital letters are the most frequent slip.
    lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(str(name).lower(), list(lower), n=3, cutoff=cutoff)
    return [lower[x] for x in near]


class UnknownNameError(KeyError):
    """A dictionary has no entry of this name; the message names the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


@jax.tree_util.register_pytree_with_keys_class
class ByName(dict):
    """A dictionary by the names of joints, which says what the names are; a pytree.

    Raises:
        UnknownNameError: There is no such name.
    """

    what: ClassVar[str] = "joint"

    def __missing__(self, name: object) -> Any:
        raise UnknownNameError(unknown(self.what, f"{self.what}s", name, self))

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        """Entries in the order of the names, as those of a plain dictionary."""
        names = tuple(sorted(self))
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Iterable[object]) -> "ByName":
        """From names and values."""
        return cls(zip(names, values, strict=True))


@jax.tree_util.register_pytree_with_keys_class
class ElementsByName(ByName):
    """The same by the names of force elements."""

    what: ClassVar[str] = "force element"


@jax.tree_util.register_pytree_with_keys_class
class ContactsByName(ByName):
    """The same by the names of contacts."""

    what: ClassVar[str] = "contact"
