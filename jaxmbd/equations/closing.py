"""Whether a step does what it says: constraints are looked at where it has ended.

An iteration believes its factors. Where those are inaccurate, by a pivot or a library, corrections
can be small without leading to a root; what was found is then no motion of the mechanism.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..formulations import AbstractFormulation
from ..formulations.base import Coordinates
from ..model.system import System
from ..rotations.types import Scalar
from .rows import phi, row_sizes

# Times its tolerance, by which a step may leave constraints open: a row sees errors in positions
# and rotations of two bodies, by arms of several lengths of the mechanism. In single precision,
# whose tolerance is 50 units in the last place, a correction leaves less.
_BELIEVED, _BELIEVED_SINGLE = 100.0, 10.0


def violation(formulation: AbstractFormulation, system: System, q: Coordinates) -> Scalar:
    """The largest violation of constraints at position level, in parts of the system's length;
    `system` is at the instant.
    """
    sizes = row_sizes(formulation, system)
    return jnp.max(jnp.abs(phi(formulation, system, q)) / sizes, initial=0.0)


def closes(
    formulation: AbstractFormulation, system: System, q: Coordinates, tolerance: Scalar | float
) -> Bool[Array, ""]:
    """Whether constraints hold as closely as a step says that left errors in positions up to the
    tolerance, relative to the system's length, and rounding.
    """
    kind = jnp.finfo(system.dtype)
    times = _BELIEVED if kind.bits > 32 else _BELIEVED_SINGLE
    most = times * jnp.maximum(tolerance, float(kind.eps) ** 0.75)
    return violation(formulation, system, q) <= most
