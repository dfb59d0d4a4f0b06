"""SE(3) and SO(3)xR3: how bodies move on the configuration group that each of them has.

Velocities on the group are (v, ω̄), with v in the body frame on SE(3) and global otherwise.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.state import Pose
from ..model.system import System
from ..rotations import se3, so3
from ..rotations.types import Mat3

GROUPS = ("SE3", "SO3xR3", "mixed")


def screws_of(group: str, system: System) -> np.ndarray:
    """Which bodies move on SE(3), (nb,); in the mixed group those that are joined to the ground."""
    if group != "mixed":
        return np.full(system.nb, group == "SE3")
    grounded = {b for c in system.connections for b in (c.i, c.j) if system.nb in (c.i, c.j)}
    return np.array([b in grounded for b in range(system.nb)])


Moved = TypeVar("Moved", Pose, Array)


def _choose(
    screws: np.ndarray, on_se3: Callable[[], Moved], on_product: Callable[[], Moved]
) -> Moved:
    """Results body by body; a group that no body moves on is not computed."""
    if screws.all():
        return on_se3()
    if not screws.any():
        return on_product()

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(screws.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, on_se3(), on_product())


def moved(screws: np.ndarray, q: Pose, xi: Float[Array, "nb 6"]) -> Pose:
    """Poses times the exponentials of increments."""

    def screw(q: Pose, xi: Float[Array, "6"]) -> Pose:
        return Pose(*se3.compose(q.r, q.A, *se3.exp(xi)))

    def product(q: Pose, xi: Float[Array, "6"]) -> Pose:
        return Pose(q.r + xi[:3], q.A @ so3.exp(xi[3:]))

    return _choose(screws, lambda: jax.vmap(screw)(q, xi), lambda: jax.vmap(product)(q, xi))


def dexp_inverse(
    screws: np.ndarray, xi: Float[Array, "nb 6"], V: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """The rates of increments that give these velocities."""

    def product(xi: Float[Array, "6"], V: Float[Array, "6"]) -> Float[Array, "6"]:
        return jnp.concatenate([V[:3], so3.inverse_right_jacobian(xi[3:]) @ V[3:]])

    return _choose(
        screws,
        lambda: jax.vmap(lambda x, v: se3.inverse_right_jacobian(x) @ v)(xi, V),
        lambda: jax.vmap(product)(xi, V),
    )


def to_group(screws: np.ndarray, q: Pose, u: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """(v, ω̄) with v in the body frame on SE(3)."""
    return _choose(
        screws, lambda: u.at[:, :3].set(jnp.einsum("bji,bj->bi", q.A, u[:, :3])), lambda: u
    )


def from_group(screws: np.ndarray, q: Pose, V: Float[Array, "nb 6"]) -> Float[Array, "nb 6"]:
    """(v, ω̄) with v global, of velocities on the group."""
    return _choose(
        screws, lambda: V.at[:, :3].set(jnp.einsum("bij,bj->bi", q.A, V[:, :3])), lambda: V
    )


def rate_in_group(
    screws: np.ndarray, q: Pose, u: Float[Array, "nb 6"], acc: Float[Array, "nb 6"]
) -> Float[Array, "nb 6"]:
    """V̇ from (r̈, ω̄̇): on SE(3), d/dt Aᵀ v = Aᵀ r̈ - ω̄ × Aᵀ v."""

    def screw(A: Mat3, u: Float[Array, "6"], acc: Float[Array, "6"]) -> Float[Array, "6"]:
        return jnp.concatenate([A.T @ acc[:3] - so3.cross(u[3:], A.T @ u[:3]), acc[3:]])

    return _choose(screws, lambda: jax.vmap(screw)(q.A, u, acc), lambda: acc)
