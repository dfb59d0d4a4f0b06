"""Operations that kernels write out, because XLA would call a library for them or does not know
them.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

from .indexing import SUMS, TAKE, summed, taken
from .jaxprs import Array, Atom, Written, compiled_sum, shaped

# A library multiplies matrices faster from so many products of numbers on, unless they are thin.
_PRODUCTS, _THIN = 4_000, 6
_SUMS = 4_000  # numbers, from which a sum may be given to a library
_NUMBERS = frozenset(
    np.dtype(name)
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)


def rewritten(eqn: JaxprEqn) -> Written | None:
    """How an operation is written here that libraries would take over, or that is of this package;
    None where it stays.
    """
    name, params = eqn.primitive.name, eqn.params
    if not eqn.effects and all(is_empty(v) for v in eqn.outvars):
        # With jaxlib 0.10.1 and 0.12.0.1, not with 0.8.0, a part of an empty part can end the
        # translation of a function, on one CPU of all later ones too, before its calls of LAPACK,
        # which XLA then does not find (`tests/xla/test_upstream_defects.py`).
        return lambda *_: [empty_array(v) for v in eqn.outvars]
    if name == "dot_general" and _compiled(eqn):
        return lambda x, y: [_product(eqn, x, y)]
    if name == TAKE:
        return lambda x: [taken(x, **params)]
    if name == SUMS:
        return lambda x: [summed(x, **params)]
    if name == "reduce_sum" and math.prod(shape_of(eqn.invars[0])) > _SUMS:
        return lambda x: [compiled_sum(x, params["axes"])]
    return None


def _product(eqn: JaxprEqn, x: Array, y: Array) -> Array:
    """A product of matrices as a sum, which libraries do not take over."""
    out = shaped(eqn.outvars[0])
    contracted, batch = eqn.params["dimension_numbers"]
    factors = []
    free = [
        [k for k in range(jnp.ndim(z)) if k not in (*contracted[o], *batch[o])]
        for o, z in enumerate((x, y))
    ]
    nb, n = len(batch[0]), out.ndim
    shape = (*out.shape, *(jnp.shape(x)[k] for k in contracted[0]))
    starts = nb, nb + len(free[0])
    for o, z in enumerate((x, y)):
        order = (*batch[o], *free[o], *contracted[o])
        at = range(starts[o], starts[o] + len(free[o]))
        places = (*range(nb), *at, *range(n, len(shape)))
        z = lax.transpose(lax.convert_element_type(z, out.dtype), order)
        factors.append(lax.broadcast_in_dim(z, shape, places))
    products, axes = factors[0] * factors[1], tuple(range(n, len(shape)))
    small = products.size <= _SUMS
    return jnp.sum(products, axis=axes) if small else compiled_sum(products, axes)


def _compiled(eqn: JaxprEqn) -> bool:
    """Whether a product takes less time written out than in a library."""
    if not all(holds_numbers(v) for v in (*eqn.invars, *eqn.outvars)):
        return False
    contracted, batch = eqn.params["dimension_numbers"]
    x, y = (shape_of(v) for v in eqn.invars)
    pairs, depth = math.prod(x[k] for k in batch[0]), math.prod(x[k] for k in contracted[0])
    if 0 in (*x, *y):
        return True
    height, width = (math.prod(z) // (pairs * depth) for z in (x, y))
    if depth <= _THIN and min(height, width) <= _THIN:
        return True
    return pairs * depth * height * width <= _PRODUCTS


def shape_of(v: Atom) -> tuple[int, ...]:
    """Shape of the array that a variable or literal stands for."""
    return shaped(v).shape


def is_empty(v: Atom) -> bool:
    """Whether it stands for an array without elements."""
    return holds_numbers(v) and 0 in shape_of(v)


def dtype_of(v: Atom) -> np.dtype:
    """Type of its numbers."""
    return shaped(v).dtype


def empty_array(v: Atom) -> np.ndarray:
    """An array of its shape, which is empty."""
    return np.zeros(shape_of(v), shaped(v).dtype)


def holds_numbers(v: Atom) -> bool:
    """Whether it stands for an array of numbers rather than a key or a token."""
    return getattr(v.aval, "dtype", None) in _NUMBERS
