"""Contact impulses that are not unique: those of least norm among the ones with the same effect."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..linalg.dense import DenseFactors
from ..linalg.linear_solve import linear_solve
from ..rotations.types import Scalar
from ..xla.lazy_cond import anywhere

# Beside the largest entry of G: impulses whose effect is smaller count as having none. Each of the
# applications takes this part of all others away.
_NONE, _TIMES = 1e-9, 3


def without_bracing(
    G: Float[Array, "w w"],
    P: Float[Array, " w"],
    friction: Float[Array, " n"],
    sticks: Bool[Array, " n"],
    found: Bool[Array, ""],
) -> Float[Array, " w"]:
    """The impulses without what those of sticking contacts brace each other by, (3 n,) [N·s].

    Where bodies are wedged, opposite impulses of contacts that stick, Δ with G Δ = 0, change no
    velocity, and Coulomb's law leaves them open. The least norm is taken, as for the multipliers
    of redundant joints, as far as all impulses stay within their cones of friction.

    Args:
        G: What unit impulses add to the velocities.
        P: Impulses that satisfy the laws, by contact along the normal first [N·s].
        friction: μ of every contact [-].
        sticks: Contacts that press and do not slide.
        found: Whether P was found anew. Where impulses of bodies at rest are those of the step
            before, they are of least norm already; their derivatives need not be.
    """
    return _least_norm(G, P, friction, sticks, found)


@jax.custom_jvp
def _least_norm(G: Array, P: Array, friction: Array, sticks: Array, found: Array) -> Array:
    def least(P: Array) -> Array:
        return _without_null_space(G, P, friction, sticks)

    return jax.lax.cond(anywhere(found), least, lambda P: P, P)


@_least_norm.defjvp
def _(
    primals: tuple[Array, ...], tangents: tuple[Array | np.ndarray, ...]
) -> tuple[Float[Array, " w"], Float[Array, " w"]]:
    G, P, friction, sticks, _ = primals

    def least(G: Array, P: Array, friction: Array) -> Array:
        return _without_null_space(G, P, friction, sticks)

    return jax.jvp(least, (G, P, friction), tuple(tangents[:3]))


def _without_null_space(
    G: Float[Array, "w w"],
    P: Float[Array, " w"],
    friction: Float[Array, " n"],
    sticks: Bool[Array, " n"],
) -> Float[Array, " w"]:
    rows = jnp.repeat(sticks, 3)
    both = rows[:, None] & rows[None, :]
    size = jnp.max(jnp.where(both, jnp.abs(G), 0.0), initial=0.0)
    unit = _NONE * jnp.where(size > 0.0, size, 1.0)
    eye = np.eye(P.size, dtype=P.dtype)
    # The others have the rows of the identity: nothing of them is open.
    small = jnp.where(both, G / unit, 0.0) + eye
    factors = DenseFactors.of(small)
    rest = jnp.where(rows, P, 0.0)
    for _ in range(_TIMES):
        rest = linear_solve(lambda x: small @ x, factors, rest)
    change = -rest.reshape(-1, 3)
    part = _within_cones(P.reshape(-1, 3), change, friction, sticks)
    return (P.reshape(-1, 3) + part * change).reshape(-1)


def _within_cones(
    P: Float[Array, "n 3"],
    change: Float[Array, "n 3"],
    friction: Float[Array, " n"],
    sticks: Bool[Array, " n"],
) -> Scalar:
    """The largest part of the change, at most 1, with which all impulses stay in their cones."""
    mu = friction**2
    normal, dn = P[:, 0], change[:, 0]
    a = jnp.sum(change[:, 1:] ** 2, axis=1) - mu * dn**2
    b = jnp.sum(P[:, 1:] * change[:, 1:], axis=1) - mu * normal * dn
    c = jnp.minimum(jnp.sum(P[:, 1:] ** 2, axis=1) - mu * normal**2, 0.0)
    leaves = sticks & (a + 2.0 * b + c > 0.0)
    root = jnp.sqrt(jnp.where(leaves, jnp.maximum(b**2 - a * c, 0.0), 1.0) + 1e-60)
    below = b + root
    of_disc = jnp.where(leaves & (below > 0.0), -c / jnp.where(below > 0.0, below, 1.0), 1.0)
    lifts = sticks & (normal + dn < 0.0)
    of_normal = jnp.where(lifts, normal / jnp.where(lifts, -dn, 1.0), 1.0)
    return jnp.clip(jnp.min(jnp.minimum(of_disc, of_normal), initial=1.0), 0.0, 1.0)
