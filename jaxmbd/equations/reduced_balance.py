"""The reduced equations of an energy-momentum step: the balance within the discrete null space."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..formulations import Directors
from ..formulations.directors import mass_block
from ..linalg import dense_solve
from ..model.system import System
from ..rotations.types import Scalar
from . import midpoint
from . import null_space as ns
from .rows import phi, row_bodies
from .spanning_tree import Tree

# Of two rotations, 1 + tr(R₀ᵀR₁); zero at half a turn.
_LEAST_OVERLAP = 1e-3


@dataclass(frozen=True, eq=False)
class Reduced:
    """The reduced scheme's equations in the joint increments u, one for each freedom of the tree.

    Pᵀ (2 M (Δq - h v_n) - h² Q) = 0 on a tree. With loops, P and the closures' rows W = G P split
    this: what lies in the null space of W stays, and the rest of the equations are the closures, W⁺
    Φ = 0.
    """

    tree: Tree
    args: midpoint.StepData
    null_space: str = eqx.field(static=True)

    def maps(self, system: System, q: Float[Array, "nb 12"]) -> ns.TreeMaps:
        if self.null_space == "hand":
            return ns.hand_written(system, self.tree, q)
        return ns.automatic(system, self.tree, q, self.args.q)

    def coordinates(self, u: Float[Array, " n"]) -> Float[Array, "nb 12"]:
        """Coordinates at the end of the step."""
        return ns.moved(self.args.end, self.tree, self.args.q, u)

    def residual(self, u: Float[Array, " n"]) -> Float[Array, " n"]:
        # Towards half a turn of a joint its moments vanish like 1 / (1 + u²/4), a root that is none
        # of the step's.
        turns = jnp.sum(ns.slots(self.tree, u)[:, 3:] ** 2, axis=1)[self.tree.body]
        stretch = jnp.where(self.tree.slot >= 3, 1.0 + 0.25 * turns, 1.0)
        return stretch * self.balance(self.coordinates(u))

    def balance(self, q: Float[Array, "nb 12"]) -> Float[Array, " f"]:
        """What the equations of the freedoms lack at coordinates, closures included."""
        args, tree = self.args, self.tree
        middle = 0.5 * (args.q + q)
        maps = self.maps(args.middle, middle)
        balance = ns.gather(tree, maps, ns.rigid_transpose(middle, midpoint.unbalanced(args, q)))
        if args.chosen is None:
            return balance
        chosen = args.chosen[tree.closures]
        W = chosen[:, None] * ns.closure_rows(args.middle, tree, maps, middle)
        phi = chosen * ns.closure_values(args.end, tree, q)
        # Scaled like a mass, so that the matrix is as well conditioned as the mass matrix of the
        # freedoms.
        scale = 2.0 * jnp.mean(args.end.mass)
        gap = dense_solve(W @ W.T + jnp.diag(1.0 - chosen), scale * phi - W @ balance)
        return balance + W.T @ gap

    def guess(self) -> Float[Array, " n"]:
        """Increments of joints that move on with the velocities they have."""
        args, tree = self.args, self.tree
        maps = self.maps(args.middle, args.q)
        # Nearest by mass, which keeps the momentum, and a little in coordinates: some freedom may
        # have no inertia.
        P = ns.null_space_matrix(tree, maps, args.q)
        mass = jax.vmap(mass_block)(args.end.mass, args.end.inertia)
        scale = (
            1e-6 * jnp.mean(args.end.mass) * (args.end.length * midpoint.weights(args.end, 12)) ** 2
        )
        PtW = jnp.einsum(
            "bin,bij->nbj", P.reshape(-1, 12, tree.freedoms), mass + jnp.diag(scale)[None]
        ).reshape(P.T.shape)
        return dense_solve(PtW @ P, PtW @ (args.h * args.u).reshape(-1))


@dataclass(frozen=True, eq=False)
class SizeReduced:
    """The reduced scheme without reparametrization: the balance of the freedoms and the constraints
    of the tree, in the coordinates of all bodies (Betsch, Leyendecker, section 2.2.2).
    """

    reduced: Reduced

    def coordinates(self, x: Float[Array, " n"]) -> Float[Array, "nb 12"]:
        """Coordinates at the end of the step."""
        return x.reshape(self.reduced.args.q.shape)

    def residual(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        end, tree, q = self.reduced.args.end, self.reduced.tree, self.coordinates(x)
        values = phi(Directors(), end, q)
        inside = np.delete(np.arange(values.size), tree.closures)
        # As with increments, 1 + u²/4 for a joint that turns by 2 arctan(u / 2): without it half a
        # turn is a root that is none of the step's.
        overlap = jnp.sum(self._relative(self.reduced.args.q) * self._relative(q), axis=(1, 2))
        turned = 4.0 / jnp.maximum(1.0 + overlap, _LEAST_OVERLAP)
        stretch = jnp.where(tree.slot >= 3, turned[tree.body], 1.0)
        # In the unit of the balance: mass times length, or mass times length squared.
        scale = 2.0 * jnp.mean(end.mass)
        return jnp.concatenate([stretch * self.reduced.balance(q), scale * values[inside]])

    def _relative(self, q: Float[Array, "nb 12"]) -> Float[Array, "nb 3 3"]:
        """Rotation matrices of all bodies against what their joints turn against."""
        tree = self.reduced.tree
        A = jax.vmap(Directors().pose)(Directors().with_ground(q)).A
        against = np.where(tree.absolute, len(tree.parent), tree.parent)
        return jnp.einsum("bji,bjk->bik", A[against], A[:-1])

    def guess(self) -> Float[Array, " n"]:
        """Where bodies come that move on with the velocities they have, as in the constrained
        scheme.
        """
        return midpoint.predicted(self.reduced.args).reshape(-1)


def closures_now(
    system: System, tree: Tree, q: Float[Array, "nb 12"], t: Scalar
) -> Float[Array, "k n"]:
    """Rows of the closures by the freedoms of the tree at one instant."""
    now = system.at(t)
    return ns.closure_rows(now, tree, ns.hand_written(now, tree, q), q)


def enforced_rows(
    system: System, tree: Tree, q: Float[Array, "nb 12"], t: Scalar, rank: Int[Array, ""]
) -> Float[Array, " m"]:
    """One for the tree's rows, rigidity and as many independent closures as the rank says; zero for
    the others.
    """
    q = jax.lax.stop_gradient(q)
    chosen, _ = ns.independent_rows(closures_now(system, tree, q, t), rank)
    return (
        jnp.ones(len(row_bodies(Directors(), system)), q.dtype)
        .at[tree.closures]
        .set(jax.lax.stop_gradient(chosen))
    )
