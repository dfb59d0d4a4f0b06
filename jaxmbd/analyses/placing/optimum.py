"""The optimum of a placement, refined to rounding, with its derivatives."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...formulations import RA
from ...linalg import DenseFactors
from ...linalg.linear_solve import held
from ...model.state import Pose
from ...rotations.types import Scalar
from ...solvers import AbstractRootProblem, implicit_root
from .precision import in_digits_of
from .problem import Placing
from .search import SearchState, search

_SOFTNESS = 1e-12  # of rows that repeat others
_CORRECTIONS = 8
_BARRIER = 1e-14
_LEAST_SLACK = 1e-10  # of limits, where Newton's method begins


class Optimum(eqx.Module):
    """Where a search has ended.

    Attributes:
        pose: The pose.
        near: Its angles.
        steps: Of the search.
        flat: Whether no neighbouring pose is better.
        multipliers: Of limits, positive where one is in force.
    """

    pose: Pose
    near: Float[Array, " w"]
    steps: Int[Array, ""]
    flat: Bool[Array, ""]
    multipliers: Float[Array, " g"]


def optimum(placing: Placing, near: Float[Array, " w"]) -> Optimum:
    """The pose that meets goals within limits; differentiable in all numbers of the placement."""
    found = search(*held((placing, near)))
    base, angles = held((found.at.pose, found.at.near))
    args = (placing, base, angles, found.compromise)
    x, flat = implicit_root(_Optimality(), found, args)
    pose = placing.moved(base, x[: 6 * placing.system.nb])
    near = placing.system.wound(angles).angle_values(RA().with_ground(pose))
    z = x[x.size - found.at.z.size :]
    return Optimum(pose, near, found.steps, flat, held(z))


class _Optimality(AbstractRootProblem):
    """The conditions of Karush, Kuhn and Tucker at a pose, in the unknowns (δ, y, s, z)."""

    one_kernel = False

    def _parts(self, x: Float[Array, " n"], args: PyTree) -> tuple[Array, Array, Array, Array]:
        placing, base, near, _ = args
        rows = jax.eval_shape(lambda: placing.rows(base, near))
        n, g = 6 * placing.system.nb, rows.gaps.size
        m = rows.closing.size + rows.hard.size
        return x[:n], x[n : n + m], x[n + m : n + m + g], x[n + m + g :]

    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        placing, base, near, compromise = args
        delta, y, s, z = self._parts(x, args)

        def lagrangian(delta: Array) -> tuple[Scalar, tuple[Array, Array]]:
            rows = placing.rows(placing.moved(base, delta), near)
            value = rows.lagrangian(y, z, compromise)
            return value, (rows.equations(compromise), rows.gaps)

        gradient, (equations, gaps) = jax.grad(lagrangian, has_aux=True)(delta)
        return jnp.concatenate(
            [gradient, equations, gaps - s, s * z - in_digits_of(x.dtype, _BARRIER)]
        )

    def factors(self, x: Float[Array, " n"], args: PyTree) -> Any:
        delta, y, s, _ = self._parts(x, args)
        K = jax.jacfwd(lambda x: self.residual(x, args))(x)
        n, m, g = delta.size, y.size, s.size
        soft = jnp.concatenate(
            [jnp.zeros(n), jnp.full(m, in_digits_of(x.dtype, _SOFTNESS)), jnp.zeros(2 * g)]
        )
        return DenseFactors.of(K - jnp.diag(soft.astype(x.dtype)))

    def solve(self, guess: PyTree, args: PyTree) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
        """Newton's method from the end of the search, as long as it comes closer."""
        found: SearchState = guess
        at = found.at
        zero = jnp.zeros(6 * args[0].system.nb, at.y.dtype)
        least, barrier = (in_digits_of(zero.dtype, x) for x in (_LEAST_SLACK, _BARRIER))
        s = jnp.maximum(found.rows.gaps, least)
        x = jnp.concatenate([zero, at.y, s, jnp.maximum(at.z, barrier / s)])
        scale = jnp.maximum(1.0, jnp.max(jnp.abs(at.y), initial=0.0))

        def size(rest: Array) -> Scalar:
            return jnp.max(jnp.abs(rest)) / scale

        def turn(carry: tuple[Array, Array, Bool[Array, ""], Array]):
            x, rest, _, k = carry
            new = x - self.factors(x, args).solve(rest)
            left = self.residual(new, args)
            _, _, s, z = self._parts(new, args)
            better = (size(left) < 0.5 * size(rest)) & jnp.all(s > 0.0) & jnp.all(z > 0.0)
            x, rest = (jnp.where(better, a, b) for a, b in ((new, x), (left, rest)))
            return x, rest, better, k + 1

        first = (x, self.residual(x, args), jnp.asarray(True), jnp.zeros((), int))
        better, rest, _, _ = jax.lax.while_loop(lambda c: c[2] & (c[3] < _CORRECTIONS), turn, first)
        flat = size(rest) < jnp.finfo(x.dtype).eps ** 0.5
        return jnp.where(flat, better, x), flat
