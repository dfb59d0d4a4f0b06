"""The search for an equilibrium: a damped Newton method on the poses that the joints allow, and its
derivative.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..equations.index1 import minimum_norm, saddle_matrix
from ..equations.rows import phi, rows
from ..equations.statics import (
    Rest,
    Spin,
    force_units,
    load_scale,
    metric,
    static_balance,
    static_gaps,
    static_loads,
    static_matrix,
)
from ..formulations import RA
from ..linalg import factorize, linear_solve
from ..linalg.linear_solve import held
from ..model.state import Pose
from ..model.system import System
from ..roots import AbstractRootProblem, implicit_root
from ..rotations.types import Scalar

# Of the loads that balance each other: what may be left of them at an equilibrium, and what is
# rounding.
_LEFT, _ROUNDING = 0.62, 100.0  # exponent of eps; units of eps
_TURN = 0.7  # [rad] a step: a linearized mechanism says little beyond
_CLOSING = 12  # corrections that close the joints after a step
_FLOOR = 0.75  # exponent of eps: the least damping, in loads per length
_MIXED = 0.5  # damping of the derivative, likewise; refinement takes it out


class Balanced(eqx.Module):
    """What the search found.

    Attributes:
        pose: Of all bodies.
        angles: With their turns, (w,).
        lam: Multipliers in the stacked order, (m,).
        residual: What is left unbalanced, relative to the loads.
        iterations: Factorizations of the tangent matrix.
        found: Whether it is an equilibrium.
        closed: Whether the joints are closed.
        finite: Whether all loads there are numbers.
        share: Of the loads, which was reached.
        last: The last correction, (nb, 6): what runs away where nothing was found.
    """

    pose: Pose
    angles: Float[Array, " w"]
    lam: Float[Array, " m"]
    residual: Scalar
    iterations: Int[Array, ""]
    found: Bool[Array, ""]
    closed: Bool[Array, ""]
    finite: Bool[Array, ""]
    share: Scalar
    last: Float[Array, "nb 6"]


class _Place(eqx.Module):
    """A pose on the constraints with the multipliers that balance it best."""

    pose: Pose
    angles: Float[Array, " w"]
    lam: Float[Array, " m"]
    rest: Float[Array, "nb 6"]
    gap: Scalar
    scale: Scalar
    residual: Scalar


class _Loop(eqx.Module):
    place: _Place
    damping: Scalar  # relative to the residual
    previous: Scalar
    last: Float[Array, "nb 6"]
    k: Int[Array, ""]
    refused: Int[Array, ""]


def balance_poses(
    system: System,
    pose: Pose,
    angles: Float[Array, " w"],
    t: Scalar,
    spin: Spin | None,
    shares: Float[Array, " s"],
    max_steps: Scalar | Int[Array, ""],
    downhill: bool,
) -> Balanced:
    """The equilibrium that is found from a closed pose, under all shares of the loads one after the
    other; differentiable in the system and the spin.

    `downhill` follows the loads, and so comes to rest; otherwise the nearest balance is looked for,
    stable or not.
    """
    search = functools.partial(_search, max_steps=max_steps, downhill=downhill)
    found = search(*held((system, pose, angles, t, spin, shares)))
    base = held(found.pose)
    args = (system.wound(found.angles).at(t), t, spin, base)
    xi, _ = implicit_root(_Equilibrium(), (), args)
    pose = jax.vmap(RA().retract)(base, xi[: 6 * system.nb].reshape(-1, 6))
    rest = Rest(args[0], t, jnp.ones_like(t), spin)
    lam = _multipliers(rest, pose, rows(RA(), rest.system, pose))[0]
    ok = found.found
    pose, lam = jax.tree.map(
        lambda x, y: jnp.where(ok, x, y), (pose, lam), held((found.pose, found.lam))
    )
    return eqx.tree_at(lambda b: (b.pose, b.lam), found, (pose, lam))


def _search(system, pose, angles, t, spin, shares, *, max_steps, downhill: bool) -> Balanced:
    now = system.at(t)

    def settle(pose: Pose, angles, share) -> _Place:
        return _closed_place(now, t, spin, pose, angles, share)

    def one_share(k, state):
        place, last, count, good = state
        share = shares[k]
        start = settle(place.pose, place.angles, share)
        limit = count + max_steps
        end = jax.lax.while_loop(
            lambda s: good & ~_is_done(s) & (s.k < limit) & (s.refused < 60),
            lambda s: _step(now, t, spin, share, s, settle, downhill),
            _Loop(
                start,
                jnp.asarray(0.1, t.dtype),
                jnp.asarray(jnp.inf, t.dtype),
                jnp.zeros((system.nb, 6), t.dtype),
                count,
                jnp.zeros((), int),
            ),
        )
        return end.place, end.last, end.k, good & _is_balanced(end.place)

    zero = jnp.zeros((system.nb, 6), t.dtype)
    nothing = jnp.zeros((), t.dtype)
    m = now.nc
    begin = _Place(pose, angles, jnp.zeros(m, t.dtype), zero, nothing, nothing, nothing)
    place, last, k, good = jax.lax.fori_loop(
        0, shares.shape[0], one_share, (begin, zero, jnp.zeros((), int), jnp.ones((), bool))
    )
    finite = jnp.all(jnp.isfinite(place.rest))
    closed = place.gap <= _closed_gap(now)
    return Balanced(
        place.pose, place.angles, place.lam, place.residual, k, good, closed, finite, shares[-1], last
    )


def _closed_gap(system: System) -> Scalar:
    return jnp.finfo(system.dtype).eps ** 0.75 * system.length


def _is_balanced(place: _Place) -> Bool[Array, ""]:
    tolerance = jnp.finfo(place.residual.dtype).eps ** _LEFT
    return (place.residual <= tolerance) & jnp.isfinite(place.residual)


def _is_done(s: _Loop) -> Bool[Array, ""]:
    """Balanced to rounding, or so nearly that a further step did not help."""
    eps = jnp.finfo(s.previous.dtype).eps
    stalled = _is_balanced(s.place) & ((s.place.residual > 0.1 * s.previous) | (s.refused > 1))
    return (s.place.residual <= _ROUNDING * eps) | stalled


def _step(now: System, t, spin, share, s: _Loop, settle, downhill: bool) -> _Loop:
    """One damped Newton step, taken if it leads on."""
    place, length = s.place, now.length
    system = now.wound(place.angles)
    args = Rest(system, t, share, spin)
    eps = jnp.finfo(t.dtype).eps
    tiny = jnp.finfo(t.dtype).tiny
    unit = place.scale / length + tiny**0.5
    sigma = jnp.maximum(s.damping * place.residual, eps**_FLOOR) * unit
    whole = jnp.ones_like(sigma)
    if not downhill:
        sigma, whole = eps**_FLOOR * unit, 1.0 / jnp.maximum(10.0 * s.damping, 1.0)
    matrix = static_matrix(args, place.pose, place.lam, sigma)
    factors = factorize(matrix, now.linear_solver)
    right = jnp.concatenate([-place.rest.reshape(-1), jnp.zeros_like(place.lam)])
    delta = factors.solve(right)[: right.size - place.lam.size].reshape(-1, 6)
    arm = force_units(now)
    size = jnp.max(jnp.abs(delta) * jnp.where(arm == 1.0, 1.0 / length, 1.0)[None, :])
    delta = whole * jnp.minimum(1.0, _TURN / (size + tiny)) * delta
    new = settle(jax.vmap(RA().retract)(place.pose, delta), place.angles, share)
    before, after = jnp.sum(delta * place.rest), jnp.sum(delta * new.rest)
    good = jnp.all(jnp.isfinite(new.rest)) & (new.gap <= _closed_gap(now))
    if downhill:
        # Loads do work along the way, and at its end none that would lead back.
        leads = (before < 0.0) & (after <= 0.5 * jnp.abs(before))
        # Near the end the work is rounding.
        accept = good & (leads | ((new.residual < 0.5 * place.residual) & (place.residual < 1e-6)))
    else:
        accept = good & (new.residual < (1.0 - 1e-4 * whole) * place.residual)
    # Uphill the stiffness is negative: damp by twice its size.
    across = jnp.einsum("bij,bi,bj->", metric(now), delta, delta) + tiny
    curvature = jnp.abs(before) / across
    enough = 2.0 * curvature / (unit * place.residual + tiny)
    more = jnp.maximum(10.0 * s.damping, jnp.where(before > 0.0, enough, 0.0))
    damping = jnp.where(accept, jnp.maximum(0.1 * s.damping, 1e-4), more if downhill else 2.0 * s.damping)
    return _Loop(
        jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, place),
        damping,
        jnp.where(accept, place.residual, s.previous),
        delta,
        s.k + 1,
        jnp.where(accept, 0, s.refused + 1),
    )


def _closed_place(now: System, t, spin, pose: Pose, angles, share) -> _Place:
    """The pose with its joints closed, and how well it is balanced."""
    n = 6 * now.nb

    class Closing(eqx.Module):
        pose: Pose
        correction: Float[Array, "nb 6"]
        place: Any
        k: Int[Array, ""]

    def look(s: Closing) -> Closing:
        pose = jax.vmap(RA().retract)(s.pose, s.correction)
        turned = now.wound(angles).angle_values(RA().with_ground(pose))
        system = now.wound(turned)
        args = Rest(system, t, share, spin)
        lam, factors, forces = _multipliers(args, pose, rows(RA(), system, pose))
        values = phi(RA(), system, pose)
        closing = factors.solve(jnp.concatenate([jnp.zeros(n, t.dtype), -values]))[:n]
        rest = static_balance(args, pose, lam)
        scale = load_scale(args, pose, lam)
        left = jnp.max(jnp.abs(rest) * force_units(system)[None, :])
        relative = left / jnp.where(scale > 0.0, scale, 1.0)
        gap = jnp.max(jnp.abs(values), initial=0.0)
        place = _Place(pose, turned, lam, rest, gap, scale, relative)
        closing = closing.reshape(-1, 6)
        most = jnp.max(jnp.abs(closing[:, 3:])) + jnp.max(jnp.abs(closing[:, :3])) / now.length
        closing = jnp.minimum(1.0, _TURN / (most + 1e-30)) * closing
        return Closing(pose, closing, place, s.k + 1)

    nothing = jnp.zeros((), t.dtype)
    zero = jnp.zeros((now.nb, 6), t.dtype)
    open_place = _Place(
        pose, angles, jnp.zeros(now.nc, t.dtype), zero, nothing + jnp.inf, nothing, nothing
    )
    start = Closing(pose, zero, open_place, jnp.zeros((), int))
    end = jax.lax.while_loop(
        lambda s: ~(s.place.gap <= 1e-3 * _closed_gap(now)) & (s.k < _CLOSING), look, start
    )
    return end.place


def _multipliers(args: Rest, pose: Pose, blocks):
    """The multipliers that balance the loads best, of minimum norm where rows repeat; the factors
    behind them, and the loads.
    """
    system = args.system
    matrix = saddle_matrix(RA(), system, metric(system), blocks)
    factors = factorize(matrix, system.linear_solver)
    forces = static_loads(args, pose)
    right = jnp.concatenate([-forces.reshape(-1), jnp.zeros(blocks.shape[0], forces.dtype)])
    x = linear_solve(matrix.matvec, factors, right)
    if matrix.regularization is not None:
        x = minimum_norm(x, factors)
    return x[forces.size :], factors, forces


class _Refined(eqx.Module):
    """Factors of the damped tangent matrix, refined by the matrix itself: as good as undamped ones
    where the stiffness is not zero, and of least norm where it is.
    """

    matrix: Any
    factors: Any

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return _repeated(self.matrix.matvec, self.factors.solve, b)

    def solve_transpose(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return _repeated(self.matrix.transposed().matvec, self.factors.solve_transpose, b)


def _repeated(matvec, solve, b):
    def again(x, _):
        return x + solve(b - matvec(x)), None

    return jax.lax.scan(again, jnp.zeros_like(b), None, length=4)[0]


class _Equilibrium(AbstractRootProblem):
    """Balance and closure in the displacement from an equilibrium that is known, and λ."""

    def residual(self, x: Float[Array, " n"], args) -> Float[Array, " n"]:
        system, t, spin, base = args
        n = 6 * system.nb
        xi, lam = x[:n].reshape(-1, 6), x[n:]
        pose = jax.vmap(RA().retract)(base, xi)
        rest = Rest(system, t, jnp.ones_like(t), spin)
        forces = static_balance(rest, pose, lam)
        return jnp.concatenate([forces.reshape(-1), static_gaps(rest, pose, base, xi)])

    def solve(self, guess, args):
        system, t, spin, base = args
        rest = Rest(system, t, jnp.ones_like(t), spin)
        lam = _multipliers(rest, base, rows(RA(), system, base))[0]
        return jnp.concatenate([jnp.zeros(6 * system.nb, system.dtype), lam]), ()

    def factors(self, x: Float[Array, " n"], args):
        system, t, spin, base = args
        rest = Rest(system, t, jnp.ones_like(t), spin)
        lam = x[6 * system.nb :]
        unit = load_scale(rest, base, lam) / system.length + jnp.finfo(t.dtype).tiny ** 0.5
        sigma = jnp.finfo(t.dtype).eps ** _MIXED * unit
        damped = static_matrix(rest, base, lam, sigma)
        exact = eqx.tree_at(lambda k: k.diagonal, damped, damped.diagonal - sigma * metric(system))
        return _Refined(exact, factorize(damped, system.linear_solver))
