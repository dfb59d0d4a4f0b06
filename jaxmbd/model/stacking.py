"""Stack equal things: modules of one structure become one module with a leading axis.

Program size then does not grow with the number of joints, springs or motors, and one `vmap`
evaluates them all.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import PyTree

from .validation import is_concrete


class AbstractKnown(eqx.Module):
    """A part of an element that must be known after stacking too, inside a trace as well, where
    stacked arrays are traced.
    """

    @abc.abstractmethod
    def stacked(self, each: Sequence[PyTree]) -> Any:
        """This part of a stack, from those of its members."""


def _signature(item: PyTree) -> tuple:
    arrays, static = eqx.partition(item, _is_numbers)
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays))
    leaves, structure = jax.tree.flatten(static)
    return shapes, leaves, structure, jax.tree.structure(arrays)


def group_alike(items: Sequence[PyTree]) -> list[tuple[tuple[int, ...], Any]]:
    """Group items of equal structure; each group is the items' positions and the items stacked
    along axis 0.
    """
    groups: list[tuple[tuple, list[int]]] = []
    for k, item in enumerate(items):
        signature = _signature(item)
        for other, members in groups:
            if signature == other:
                members.append(k)
                break
        else:
            groups.append((signature, [k]))
    return [(tuple(members), stack([items[k] for k in members])) for _, members in groups]


def stack(items: Sequence[PyTree]) -> Any:
    """Stack the arrays of items of equal structure along a new leading axis."""
    arrays, static = zip(*(eqx.partition(item, _is_numbers) for item in items), strict=True)
    stacked = jax.tree.map(stack_arrays, *arrays)

    def known(x: object, *each: Any) -> Any:
        return x.stacked(each) if isinstance(x, AbstractKnown) else x

    whole = eqx.combine(stacked, static[0])
    return jax.tree.map(known, whole, *items, is_leaf=lambda x: isinstance(x, AbstractKnown))


def stack_arrays(*leaves):
    """Stack arrays of one shape; known ones by NumPy, because JAX would compile a program for every
    length.
    """
    if is_concrete(leaves):
        return jax.device_put(np.stack([np.asarray(x) for x in leaves]))
    return jnp.stack(leaves)


def asarrays(item: PyTree, dtype: DTypeLike) -> Any:
    """Turn the numeric leaves of a description (Python numbers, lists, arrays) into arrays of one
    dtype, of NumPy where they are known.
    """

    def asarray(x):
        if not eqx.is_array_like(x):
            return x
        return np.asarray(x, dtype) if is_concrete(x) else jnp.asarray(x, dtype)

    return jax.tree.map(asarray, item)


def on_device(tree: PyTree) -> Any:
    """The tree with its NumPy arrays as JAX arrays."""
    return jax.tree.map(
        lambda x: jax.device_put(x) if isinstance(x, np.ndarray | np.generic) else x, tree
    )


def _is_numbers(x: object) -> bool:
    return eqx.is_array(x) or isinstance(x, np.ndarray | np.generic)


def each(stacked: PyTree, function: Callable, *args, count: int | None = None) -> Any:
    """`function(member, *args of that member)` for all members of a stack, with a leading axis of
    members.

    `count` is their number; needed where neither the members nor the arguments hold an array.
    """
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(stacked)):
        return eqx.filter_vmap(function)(stacked, *args)
    if args:
        return eqx.filter_vmap(lambda *a: function(stacked, *a))(*args)
    # A motion without arrays (a plain function, an expression) has nothing to map over.
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), function(stacked))
