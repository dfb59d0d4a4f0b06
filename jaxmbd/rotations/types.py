"""Array types used in signatures; shapes are checked in the tests only."""

from jaxtyping import Array, Float

Scalar = Float[Array, ""]
Vec3 = Float[Array, "3"]
Vec4 = Float[Array, "4"]
Mat3 = Float[Array, "3 3"]
