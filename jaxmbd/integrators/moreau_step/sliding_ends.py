"""Friction that stops within a step."""

import jax.numpy as jnp
from jaxtyping import Bool, Float

from ...complementarity import Laws
from ...rotations.types import Array, Scalar

# Beside a square, so that its root has a derivative at zero.
TINY = 1e-60


def spent_before_the_stop(
    laws: Laws, v: Float[Array, " w"], last: Float[Array, " w"], slid: Bool[Array, " c"]
) -> Float[Array, " w"]:
    """Parts of the bounds on friction that are taken before sliding ends within the step, (w,).

    The velocity is linear in time until then: from v now to what the last step's normal forces
    make of it at the end of the step. A velocity that would turn round stops where it is zero.
    """
    contacts, dry = laws.rows.by_contact, laws.rows.of_dry

    def of_slip(a: Array) -> Array:
        return jnp.concatenate([a[contacts[:, 1:]], jnp.stack([a[dry], 0.0 * a[dry]], axis=1)])

    slid = jnp.concatenate([slid[: laws.contacts], slid[laws.contacts + laws.stops :]])
    now = jnp.where(slid[:, None], of_slip(v), 0.0)
    speed = jnp.sqrt(jnp.sum(now**2, axis=1) + TINY)
    bounds = jnp.concatenate([laws.friction * last[contacts[:, 0]], laws.bounds(last)])
    sliding = jnp.where(slid[:, None], -(bounds / speed)[:, None] * now, of_slip(last))
    force = last.at[contacts[:, 1:]].set(sliding[: laws.contacts])
    force = force.at[dry].set(sliding[laws.contacts :, 0])
    later = of_slip(laws.matrix @ force + laws.free)
    turns = slid & (jnp.sum(now * later, axis=1) < 0.0)
    lost = jnp.where(turns, jnp.sum(now * (now - later), axis=1), 1.0)
    taken = jnp.where(turns[:, None], -(speed / lost)[:, None] * now, 0.0)
    spent = jnp.zeros_like(v).at[contacts[:, 1:]].set(taken[: laws.contacts])
    return spent.at[dry].set(taken[laws.contacts :, 0])


def lead_of_the_stop(laws: Laws, P: Float[Array, " w"], h: Scalar) -> Float[Array, " w"]:
    """What friction that stopped within the step adds to displacements, in impulses times
    time, (w,): the part before acts from the beginning on, the rest from the stop on.
    """
    contacts, last = laws.rows.by_contact, laws.rows.of_dry
    parts = laws.spent[contacts[:, 1:]]
    part = jnp.sqrt(jnp.sum(parts**2, axis=1) + TINY)
    before = (laws.friction * P[contacts[:, 0]])[:, None] * parts
    lead = 0.5 * h * (before - part[:, None] * P[contacts[:, 1:]])
    dry = 0.5 * h * (laws.bounds(P) * laws.spent[last] - jnp.abs(laws.spent[last]) * P[last])
    return jnp.zeros_like(P).at[contacts[:, 1:]].set(lead).at[last].set(dry)
