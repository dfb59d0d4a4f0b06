"""Rows that may be switched off: zeros in the place of their values, coefficients and multipliers.

A row of zeros is what the regularization of redundant rows makes a multiplier of zero from, so that
nothing else needs to know.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..model.system import System


def on_rows(system: System) -> Bool[Array, " m"] | None:
    """Whether each row of joints acts, (nc,); None where all always do."""
    stacks = system.constraints
    if all(stack.primitive.switch is None for stack in stacks):
        return None
    parts = []
    for stack in stacks:
        switch = stack.primitive.switch
        parts.append(jnp.ones(len(stack), bool) if switch is None else switch.on)
    return jnp.concatenate(parts)


def acting(system: System, values: Float[Array, "m *s"]) -> Array:
    """Numbers of all rows, (m, ...), normalizations last: zeros of those that are switched off."""
    on = on_rows(system)
    if on is None:
        return values
    on = jnp.pad(on, (0, values.shape[0] - on.shape[0]), constant_values=True)
    return jnp.where(on.reshape(-1, *[1] * (values.ndim - 1)), values, jnp.zeros_like(values))
