"""The parameters of a fit: values of a mechanism by path, as functions of unrestricted
coordinates.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..analyses import breaks_redundancy
from ..model.mechanism import Mechanism
from .transforms import AbstractTransform, Values

Paths = str | tuple[str, ...]
Point = Float[Array | np.ndarray, " n"]  # coordinates of all that a fit estimates
Key = TypeVar("Key", bound=Paths)  # a mapping is invariant in its keys


class Parameters:
    """Parameters with their restrictions; those that a tuple of paths ties are one.

    Attributes:
        described: Paths of each parameter, and its restriction.
        start: Coordinates of the first guesses, (p,).
    """

    def __init__(self, mechanism: Mechanism, parameters: Mapping[Key, AbstractTransform]):
        self.described = _described(mechanism, parameters)
        _refuse_broken_loops(mechanism, self.paths)
        known, coordinates = mechanism.values(), {}
        for paths, transform in self.described:
            try:
                coordinates[paths[0]] = transform.inverse(known[paths[0]])
            except ValueError as error:
                raise ValueError(f"fit: {paths[0]}: {error}") from None
        numbers, self._rest = eqx.partition(coordinates, eqx.is_inexact_array)
        start, self._unravel = ravel_pytree(numbers)
        self.start = np.asarray(start)

    @property
    def size(self) -> int:
        """How many coordinates."""
        return self.start.size

    @property
    def paths(self) -> list[str]:
        """Paths of all values, tied ones too."""
        return [path for paths, _ in self.described for path in paths]

    def values(self, z: Float[Array, " p"]) -> dict[str, Any]:
        """Values by path."""
        coordinates = eqx.combine(self._unravel(z), self._rest)
        return {
            path: transform(coordinates[paths[0]])
            for paths, transform in self.described
            for path in paths
        }

    def once(self, values: Values) -> dict[str, Any]:
        """The float arrays of values, tied ones once."""
        first = {paths[0]: values[paths[0]] for paths, _ in self.described}
        return eqx.filter(first, eqx.is_inexact_array)

    def by_path(self, numbers: np.ndarray, values: Values) -> dict[str, Any]:
        """Numbers in the order of `once`, by path and in the shapes of the values."""
        flat, unravel = ravel_pytree(self.once(values))
        first = unravel(jnp.asarray(numbers, flat.dtype))
        return {path: first[paths[0]] for paths, _ in self.described for path in paths}

    def names(self) -> list[str]:
        """A name for every number of `once`."""
        return _labels(self.once(self.values(jnp.asarray(self.start))))

    def names_of_coordinates(self) -> list[str]:
        """A name for every coordinate."""
        return _labels(self._unravel(jnp.asarray(self.start)))

    def at_bounds(self, values: Values) -> list[str]:
        """Which numbers are at a bound of their restriction, and at which."""
        found = []
        for paths, transform in self.described:
            for side, bound, at in transform.bounds_met(values[paths[0]]):
                for index in np.argwhere(at):
                    label = paths[0] + (f"[{', '.join(map(str, index))}]" if len(index) else "")
                    which = np.broadcast_to(bound, at.shape)[tuple(index)]
                    found.append(f"{label} is at its {side} bound, {which:g}")
        return found


def _described(
    mechanism: Mechanism, parameters: Mapping[Key, AbstractTransform]
) -> list[tuple[tuple[str, ...], AbstractTransform]]:
    """Parameters with all their paths, checked."""
    known = mechanism.values()
    described, seen = [], set()
    for key, transform in parameters.items():
        paths = (key,) if isinstance(key, str) else tuple(key)
        for path in paths:
            if path in seen:
                raise ValueError(f"fit: {path} is given twice")
            seen.add(path)
            if path not in known:
                mechanism.with_values({path: 0.0})  # names the nearest path
                raise ValueError(
                    f"fit: {path} has no value to start from; give the mechanism a first guess"
                )
            if not np.array_equal(np.asarray(known[path]), np.asarray(known[paths[0]])):
                raise ValueError(
                    f"fit: {path} is tied to {paths[0]}, but the first guesses differ: "
                    f"{known[path]} and {known[paths[0]]}"
                )
        described.append((paths, transform))
    return described


def _refuse_broken_loops(mechanism: Mechanism, paths: list[str]) -> None:
    broken = breaks_redundancy(
        mechanism, [p for p in paths if p.startswith("joints.") or p.endswith(".r")]
    )
    if broken:
        raise ValueError(
            f"fit: {', '.join(broken)} cannot be fitted alone: a change locks or opens a loop of "
            "redundant joints. Free the loop (Spherical or Cylindrical in place of a Revolute), or "
            "fit numbers that keep its geometry"
        )


def _labels(tree: Values) -> list[str]:
    """A name for every number of a dictionary by path."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        label = path[0].key + "".join(str(p) for p in path[1:])
        found += [
            label + (f"[{', '.join(map(str, k))}]" if k else "") for k in np.ndindex(leaf.shape)
        ]
    return found
