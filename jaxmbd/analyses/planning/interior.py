"""A step towards the optimum: Newton's method on the conditions of optimality, with limits kept by
a logarithmic barrier.

Every limit g ≥ 0 has a slack s > 0 and a multiplier z > 0 with g = s and s z = μ, and μ goes to
zero. Slacks and multipliers are eliminated, which leaves a linear-quadratic problem.

Reference:
    Waechter, Biegler, "On the implementation of an interior-point filter line-search algorithm for
    large-scale nonlinear programming", Mathematical Programming 106 (2006), sections 2 and 3.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...rotations.types import Scalar
from .expansion import Expansion, global_costates, local_costates
from .problem import Gaps, Multipliers, Problem, Values
from .riccati import Horizon, solved

_LARGEST_MULTIPLIER = 100.0  # mean from which errors are counted in parts of it


class Errors(eqx.Module):
    """How far a guess is from the conditions of optimality.

    Attributes:
        slope: Of the Lagrangian, the largest, in parts of `scale`.
        misses: Of motion, conditions and limits, the largest.
        scale: Of multipliers, where these are large.
        gone: The Euclidean norm of all misses.
        cost: Of the guess.
        logarithms: Of all slacks, their sum.
    """

    slope: Scalar
    misses: Scalar
    scale: Scalar
    gone: Scalar
    cost: Scalar
    logarithms: Scalar


class Step(eqx.Module):
    """A step in everything.

    Attributes:
        x, u: Numbers of knots, and controls.
        slacks: Their change.
        multipliers: After a whole step.
        along: The slope of the barrier's cost along the step.
        share: The largest that leaves slacks positive; `share_z` that of multipliers.
        gains: See `riccati.Solved`.
    """

    x: Float[Array, "M x"]
    u: Float[Array, "N u"]
    slacks: Gaps
    multipliers: Multipliers
    along: Scalar
    share: Scalar
    share_z: Scalar
    gains: Float[Array, "N u x"]


def each(function: Callable[..., Array], *gaps: Gaps) -> Gaps:
    """A function of all gaps, slacks and multipliers, one after the other."""
    return jax.tree.map(function, *gaps)


def total(gaps: Gaps) -> Scalar:
    """Their sum."""
    return jnp.sum(gaps.first) + jnp.sum(gaps.each) + jnp.sum(gaps.last)


def slopes_of_cost(expansion: Expansion) -> tuple[Array, Array]:
    """Of the costs alone, for all intervals and for the end."""
    v, s = expansion.values, expansion.slopes
    inside = s.cost + jnp.einsum("nr,nrz->nz", v.residuals, s.residuals)
    return inside, s.cost_end + v.residuals_end @ s.residuals_end


def errors(
    problem: Problem, expansion: Expansion, slacks: Gaps, multipliers: Multipliers
) -> Errors:
    """How far a guess is from the conditions of optimality."""
    v, s = expansion.values, expansion.slopes
    costates = local_costates(problem, expansion.charts, multipliers)
    inside, end = slopes_of_cost(expansion)
    z = multipliers.gaps
    inside = inside + jnp.einsum("nx,nxz->nz", costates, s.ends)
    inside = inside - jnp.einsum("ng,ngz->nz", z.each, s.gaps.each)
    n = costates.shape[1]
    before = jnp.concatenate([jnp.zeros((1, n), inside.dtype), costates])
    inside = inside.at[:, :n].add(-before[:-1])
    inside = inside.at[0, :n].add(-z.first @ s.gaps.first)
    end = end + multipliers.nu @ s.misses - z.last @ s.gaps.last - before[-1]
    fixed = jnp.asarray([k for k in range(n) if k not in problem.free], int)
    inside = inside.at[0, fixed].set(0.0)
    count = costates.size + multipliers.nu.size + z.first.size + z.each.size + z.last.size
    mean = (jnp.sum(jnp.abs(costates)) + jnp.sum(jnp.abs(multipliers.nu)) + total(z)) / count
    scale = jnp.maximum(1.0, mean / _LARGEST_MULTIPLIER)
    misses = misses_of(v, slacks)
    return Errors(
        jnp.maximum(_most(inside), _most(end)) / scale,
        _most(misses),
        scale,
        jnp.sqrt(misses @ misses),
        cost_of(v),
        barrier_of(slacks),
    )


def misses_of(values: Values, slacks: Gaps) -> Array:
    """What motion, conditions and limits miss."""
    apart = each(lambda g, s: g - s, values.gaps, slacks)
    parts = [values.ends, values.misses, apart.first, apart.each, apart.last]
    return jnp.concatenate([x.reshape(-1) for x in parts])


def _most(x: Array) -> Scalar:
    return jnp.max(jnp.abs(x), initial=0.0)


def step_of(
    problem: Problem,
    expansion: Expansion,
    slacks: Gaps,
    multipliers: Multipliers,
    barrier: Scalar,
    damping: Scalar,
    gone: Values,
) -> Step:
    """Newton's step; `gone` are the values of the expansion, or others in their place, for a
    second-order correction.
    """
    s, old = expansion.slopes, multipliers.gaps
    weights = each(lambda z, s: z / s, old, slacks)
    # What multipliers would be after a step that changes no gap.
    pulls = each(lambda g, s, w: barrier / s - w * (g - s), gone.gaps, slacks, weights)
    inside, end = slopes_of_cost(expansion)
    eye = jnp.eye(inside.shape[1], dtype=inside.dtype)
    n = end.size
    H = expansion.hessian + damping * eye[None]
    H_end = expansion.hessian_end + damping * eye[:n, :n]
    G, w = s.gaps, weights
    barred = H + jnp.einsum("ngi,ng,ngj->nij", G.each, w.each, G.each)
    barred = barred.at[0, :n, :n].add(G.first.T @ (w.first[:, None] * G.first))
    barred_end = H_end + G.last.T @ (w.last[:, None] * G.last)
    shift = 1.0 + jnp.max(jnp.abs(H_end))

    def again(so_far: _Total, _: None) -> tuple[_Total, Array]:
        zeta = jnp.concatenate([so_far.x[:-1], so_far.u], axis=1)
        change = _gaps_by(s.gaps, so_far.x, zeta)
        lack = each(lambda p, w, d, z: p - w * d - z, pulls, w, change, so_far.z)
        z = each(jnp.add, so_far.z, lack)
        before = jnp.concatenate([jnp.zeros_like(so_far.costates[:1]), so_far.costates])
        g = inside + jnp.einsum("nij,nj->ni", H, zeta) - jnp.einsum("ng,ngz->nz", z.each, G.each)
        g = g + jnp.einsum("nx,nxz->nz", so_far.costates, s.ends)
        g = g.at[:, :n].add(-before[:-1]).at[0, :n].add(-z.first @ G.first)
        g_end = end + H_end @ so_far.x[-1] - z.last @ G.last - before[-1] + so_far.nu @ s.misses
        c = gone.ends + jnp.einsum("nxz,nz->nx", s.ends, zeta) - so_far.x[1:]
        e = gone.misses + s.misses @ so_far.x[-1]
        horizon = Horizon(barred, g, s.ends, c, barred_end, g_end, s.misses, e, problem.free)
        found = solved(horizon, shift)
        zeta = jnp.concatenate([found.x[:-1], found.u], axis=1)
        by_step = _gaps_by(s.gaps, found.x, zeta)
        more = _Total(
            found.x,
            found.u,
            found.costates,
            found.nu,
            each(lambda lack, w, d: lack - w * d, lack, w, by_step),
        )
        return jax.tree.map(jnp.add, so_far, more), found.gains

    zero = jnp.zeros((problem.knots, n), inside.dtype)
    nothing = _Total(
        jnp.zeros((problem.knots + 1, n), inside.dtype),
        jnp.zeros((problem.knots, inside.shape[1] - n), inside.dtype),
        zero,
        jnp.zeros_like(gone.misses),
        each(jnp.zeros_like, pulls),
    )
    # The second round takes back what rounding did in the first: near the end, the weights of
    # limits in force are so large that multipliers lose the digits that slacks do not have.
    found, gains = jax.lax.scan(again, nothing, length=2)
    zeta = jnp.concatenate([found.x[:-1], found.u], axis=1)
    change = each(lambda z, old, s: (barrier - z * s) / old, found.z, old, slacks)
    along = jnp.sum(inside * zeta) + end @ found.x[-1]
    along = along - barrier * total(each(lambda d, s: d / s, change, slacks))
    most = jnp.maximum(0.99, 1.0 - barrier)
    forces, momenta, others = global_costates(expansion.charts, found.costates)
    after = Multipliers(forces, momenta, others, found.nu, found.z)
    return Step(
        found.x,
        found.u,
        change,
        after,
        along,
        _share(slacks, change, most),
        _share(old, each(lambda a, b: a - b, found.z, old), most),
        gains[0],
    )


class _Total(eqx.Module):
    """A solution of the linear-quadratic problem with the multipliers of limits."""

    x: Array
    u: Array
    costates: Array
    nu: Array
    z: Gaps


def _gaps_by(slopes: Gaps, x: Array, zeta: Array) -> Gaps:
    """By how much gaps change."""
    return Gaps(
        slopes.first @ x[0], jnp.einsum("ngz,nz->ng", slopes.each, zeta), slopes.last @ x[-1]
    )


def _share(x: Gaps, dx: Gaps, most: Scalar) -> Scalar:
    """The largest share of a change, one at most, that leaves numbers positive."""

    def of(x: Array, dx: Array) -> Scalar:
        share = jnp.where(dx < 0.0, -most * x / jnp.where(dx < 0.0, dx, -1.0), 1.0)
        return jnp.minimum(1.0, jnp.min(share, initial=1.0))

    return jnp.min(jnp.stack([of(a, b) for a, b in zip(_parts(x), _parts(dx), strict=True)]))


def _parts(gaps: Gaps) -> tuple[Array, Array, Array]:
    return gaps.first, gaps.each, gaps.last


def cost_of(values: Values) -> Scalar:
    """All costs."""
    inside = jnp.sum(values.cost) + 0.5 * jnp.sum(values.residuals**2)
    return inside + values.cost_end + 0.5 * jnp.sum(values.residuals_end**2)


def barrier_of(slacks: Gaps) -> Scalar:
    """The sum of the logarithms of all slacks."""
    return total(each(jnp.log, slacks))


def mixed(point: Multipliers, after: Multipliers, share: Scalar, share_z: Scalar) -> Multipliers:
    """Multipliers after a share of a step."""
    new = jax.tree.map(lambda a, b: a + share * (b - a), point, after)
    gaps = each(lambda a, b: a + share_z * (b - a), point.gaps, after.gaps)
    return eqx.tree_at(lambda m: m.gaps, new, gaps)
