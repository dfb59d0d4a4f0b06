"""When impacts act within a step, and on what."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..equations.laws import LawRows
from ..indexing import take
from ..rotations.types import Array, Scalar
from .sliding_ends import TINY


def parting(
    rows: LawRows, normal: np.ndarray, a: Float[Array, "nb d"], closed: Bool[Array, " c"]
) -> Float[Array, " c"]:
    """The largest acceleration of a gap if one of its bodies were held, where something touches
    one of them; zero elsewhere, (c,).
    """
    blocks, bodies = rows.blocks[normal], rows.bodies[normal]
    ground = a.shape[0]
    borne = jnp.zeros(ground + 1, bool).at[bodies].max(closed[:, None])
    borne = jnp.any(borne[bodies] & (bodies < ground), axis=1)
    a = jnp.concatenate([a, jnp.zeros((1, a.shape[1]), a.dtype)])
    each = jnp.abs(jnp.sum(blocks * take(a, bodies), axis=2))
    return jnp.where(borne, jnp.max(each, axis=1, initial=0.0), 0.0)


def acting_for(
    G: Float[Array, "w w"],
    P: Float[Array, " w"],
    normal: np.ndarray,
    active: Bool[Array, " c"],
    strikes: Bool[Array, " c"],
    impact: Float[Array, " c"],
    touching: int,
    h: Scalar,
) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
    """For how much of the step impulses act on positions, (c,) [s], and which ones no impact makes.

    A force that lasts counts for half the step, and an impulse from its impact on. Places that an
    impact reaches through bodies pass it on at that time: with other times their gaps would be off
    by what it moves within a step. Among several impacts the impulses decide.
    """
    n = touching
    if n > 1:

        def of_impacts(_) -> tuple[Array, Array]:
            reached = _reached(G, normal[:n], active[:n])
            pushes = jnp.where(
                active[:n] & strikes[:n], jnp.maximum(P[normal[:n]], 0.0) + TINY, 0.0
            )
            share = jax.lax.stop_gradient(reached * pushes[None, :])
            total = jnp.sum(share, axis=1)
            passed = (share @ impact[:n]) / jnp.where(total > 0.0, total, 1.0)
            return jnp.where(total > 0.0, h - passed, 0.5 * h), total > 0.0

        def of_none(_) -> tuple[Array, Array]:
            return jnp.full_like(impact[:n], 0.5 * h), jnp.zeros(n, bool)

        # What rests costs no powers of a matrix.
        some = jnp.any(active[:n] & strikes[:n])
        lasting, struck = jax.lax.cond(some, of_impacts, of_none, None)
        lasting = jnp.concatenate([lasting, jnp.full(impact.shape[0] - n, 0.5 * h)])
        struck = jnp.concatenate([struck, jnp.full(impact.shape[0] - n, jnp.any(struck))])
    else:
        lasting = jnp.full_like(impact, 0.5 * h)
        struck = jnp.full(impact.shape, jnp.any(strikes & active))
    return jnp.where(strikes, h - impact, lasting), ~strikes & ~struck


def at_once_if_deep(
    weight: Float[Array, " c"],
    G: Float[Array, "w w"],
    P: Float[Array, " w"],
    normal: np.ndarray,
    active: Bool[Array, " c"],
    strikes: Bool[Array, " c"],
    impact: Float[Array, " c"],
    room: Float[Array, " c"],
    touching: int,
    h: Scalar,
    depth: Scalar,
) -> Float[Array, " c"]:
    """The weights of `acting_for`, (c,) [s], or those of impacts that come together where these
    would leave a place deeper than `depth`.

    What an early impact turns may run into a place that is struck late in the step and has little
    of it left to act. With the first time of all that reach each other, no gap ends below zero.
    """
    n = touching
    if n < 2:
        return weight

    def checked(weight: Array) -> Array:
        shares = jnp.repeat(
            weight, np.diff(np.append(normal, P.shape[0])), total_repeat_length=P.size
        )
        later = room[:n] + (G @ (shares * P))[normal[:n]]
        acts = strikes[:n] & active[:n] & (P[normal[:n]] > 0.0)
        reached = _reached(G, normal[:n], active[:n]) > 0.0
        met = reached & acts[None, :]
        first = jnp.min(jnp.where(met, impact[None, :n], h), axis=1)
        deep = jnp.any(reached & (active[:n] & (later < -depth))[None, :], axis=1)
        together = deep & active[:n] & jnp.any(met, axis=1)
        return jnp.concatenate([jnp.where(together, h - first, weight[:n]), weight[n:]])

    return jax.lax.cond(jnp.any(active[:n] & strikes[:n]), checked, lambda w: w, weight)


def _reached(
    G: Float[Array, "w w"], normal: np.ndarray, held: Bool[Array, " n"]
) -> Float[Array, "n n"]:
    """One where an impulse at a place reaches another, through bodies and held places."""
    size = jnp.sqrt(jnp.diagonal(G)[normal])
    coupled = jnp.abs(G[normal[:, None], normal[None, :]]) > 1e-9 * size[:, None] * size[None, :]
    reached = (coupled & held[:, None] & held[None, :]).astype(G.dtype)
    for _ in range(int(np.ceil(np.log2(normal.size)))):
        reached = jnp.minimum(reached @ reached, 1.0)
    return reached
