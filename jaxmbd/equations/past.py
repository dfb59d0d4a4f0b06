"""What the last steps of a smooth motion say about the next one: where to start its iteration, and
how well the frozen matrix contracts.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..roots import anyone
from ..rotations.types import Scalar

# Steps after which the contraction is observed again, by a second correction.
_OBSERVED = 16
# An observed contraction may grow by this factor until then, and none counts as better than this:
# the remaining error is that factor times a correction which itself must then be small.
_MARGIN, _LEAST = 10.0, 1e-3
# What Newton's method assumes of a matrix that it knows nothing about.
UNKNOWN = 0.5


class Past(eqx.Module):
    """Unknowns of earlier steps and the contraction of their iterations.

    Attributes:
        x: Unknowns of the last step but one and of that before it, (2, n).
        known: How many of them continue smoothly to the last step.
        scale: ∂q/∂a of the step that they belong to.
        contraction: The last observed.
        age: Steps since it was to be observed.
    """

    x: Float[Array, "2 n"]
    known: Int[Array, ""]
    scale: Scalar
    contraction: Scalar
    age: Int[Array, ""]

    @staticmethod
    def none(a: Float[Array, "nb d"], lam: Float[Array, " m"]) -> "Past":
        """Before the first step."""
        zero, one = jnp.zeros((), int), jnp.ones((), a.dtype)
        return Past(jnp.zeros((2, a.size + lam.size), a.dtype), zero, one, one, zero)

    def guess(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The unknowns of the next step, extrapolated from those of the last, x, and before."""
        before, earlier = self.x
        second = jnp.where(self.known > 1, x - 2.0 * before + earlier, 0.0)
        return x + jnp.where(self.known > 0, x - before, 0.0) + second

    def valid(self, scale: Scalar, moved: Bool[Array, ""] | bool) -> "Past":
        """Nothing where the next step has another size, or coordinates moved to other charts."""
        same = (scale == self.scale) & ~jnp.asarray(moved)
        known = jnp.where(same, self.known, 0)
        return Past(self.x, known, scale, jnp.where(same, self.contraction, 1.0), self.age)

    def trusted(self) -> tuple[Scalar, Bool[Array, ""]]:
        """The contraction to assume in the next step, and whether that is to observe it."""
        observe = anyone(self.age >= _OBSERVED)
        assumed = jnp.clip(_MARGIN * self.contraction, _LEAST, UNKNOWN)
        return jnp.where(observe, UNKNOWN, assumed), observe

    def after(self, x, guess, new, size, contraction: Scalar, observe) -> "Past":
        """The past of the step after the next, whose unknowns are `new`.

        Where the motion is not smooth, extrapolation is worse than none: it begins anew.
        """
        smooth = size(new - guess) <= 0.5 * size(new - x)
        known = jnp.where(self.known == 0, 1, jnp.where(smooth, jnp.minimum(self.known + 1, 2), 0))
        observed = jnp.where(jnp.isfinite(contraction), contraction, self.contraction)
        age = jnp.where(observe, 0, self.age + 1)
        return Past(jnp.stack([x, self.x[0]]), known, self.scale, observed, age)
