"""What the laws did in a step, which the next step and the solution know."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...equations.laws import row_order
from ...model.system import System

OPEN, STICKS, SLIPS = 0, 1, 2


class Impulses(eqx.Module):
    """What the laws did in the last step.

    Attributes:
        lasting_force: What acted at its end and lasts, (w,) [N] or [N·m].
        force: Mean over the step, impacts included, (w,) [N] or [N·m].
        gap: At its end, (c,) [m] or [rad].
        state: Open, sticks or slips, (c,).
        slides: Which places slipped at its end, (c,).
        impact: When the first impact was, from the start of the step on, (c,) [s].
        dropped: Steps so far in which impacts went without their restitution.
        merged: Steps so far with later impacts than they resolve.
        rough: Steps so far whose laws hold to 1e-8 of the largest velocity, not to the tolerance.
        crowded: Whether more places touched than the step solved for.
        lasting: Acceleration by impulses that no impact makes, (nb, d) [velocity coordinates/s].
    """

    lasting_force: Float[Array, " w"]
    force: Float[Array, " w"]
    gap: Float[Array, " c"]
    state: Int[Array, " c"]
    slides: Bool[Array, " c"]
    impact: Float[Array, " c"]
    dropped: Int[Array, ""]
    merged: Int[Array, ""]
    rough: Int[Array, ""]
    crowded: Bool[Array, ""]
    lasting: Float[Array, "nb d"]


def no_impulses(system: System, u: Float[Array, "nb d"]) -> Impulses:
    """The memory before the first step: nothing touches."""
    order = row_order(system)
    zero = jnp.zeros(order.places, system.dtype)
    none = jnp.zeros((), int)
    return Impulses(
        jnp.zeros(order.width, system.dtype),
        jnp.zeros(order.width, system.dtype),
        zero,
        zero.astype(int),
        zero.astype(bool),
        zero,
        none,
        none,
        none,
        jnp.zeros((), bool),
        jnp.zeros_like(u),
    )
