"""Array types used in signatures; shapes are checked in the tests only.

Numbers of a description that are known stay NumPy arrays until a system is built from them, so that
a description compiles nothing; traced ones, and all numbers of a system, are JAX arrays.
"""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from jax import Array
else:
    Array = jax.Array | np.ndarray | np.generic

Scalar = Float[Array, ""]
Vec3 = Float[Array, "3"]
Vec4 = Float[Array, "4"]
Mat3 = Float[Array, "3 3"]


# NumPy as the maker of arrays that stand where a checker expects those of JAX.
host: Any = np


def library_of(*values: Any) -> Any:
    """NumPy where all values are known to it, else `jax.numpy`, which has the same functions."""
    return np if all(isinstance(x, np.ndarray | np.generic) for x in values) else jax.numpy
