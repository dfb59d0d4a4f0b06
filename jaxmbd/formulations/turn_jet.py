"""The rotation matrix with its derivatives by the coordinates of rotation."""

import equinox as eqx
from jaxtyping import Array, Float


class TurnJet(eqx.Module):
    """First and second derivatives of A by n coordinates.

    Attributes:
        first: ∂A/∂q_k, (..., 3, 3, n).
        second: ∂²A/∂q_k ∂q_l, (..., 3, 3, n, n).
    """

    first: Float[Array, "*nb 3 3 n"]
    second: Float[Array, "*nb 3 3 n n"]
