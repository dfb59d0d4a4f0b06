"""The search for an equilibrium: a damped Newton method on the poses that the joints allow."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from ...equations.index1 import saddle_matrix
from ...equations.rows import phi, row_sizes, rows
from ...equations.statics import (
    Rest,
    Spin,
    force_units,
    load_scale,
    metric,
    reactions,
    static_loads,
    static_matrix,
)
from ...formulations import RA
from ...linalg import factorize
from ...model.state import Pose
from ...model.system import System
from ...rotations.types import Scalar

# Of the loads that balance each other: what may be left of them at an equilibrium, and what is
# rounding.
_LEFT, _ROUNDING = 0.62, 100.0  # exponent of eps; units of eps
_TURN = 0.7  # [rad] a step: a linearized mechanism says little beyond
_NEAR = 1e-6  # of the loads
_REFUSED = 60  # steps in a row, after which the search ends
_CLOSING = 12  # corrections that close the joints after a step
_FLOOR = 0.75  # exponent of eps: the least damping, in loads per length
# Unknowns up to which dense elimination takes over: single bodies often have no stiffness of their
# own, which elimination in blocks needs, and an equilibrium is factored few times.
DENSE = 3000
_REPEATS = 8  # refinements, which take damping and E out of solutions
_NUDGE = 0.05  # of the system's length, by which loads move a pose off a dead center


class Loading(eqx.Module):
    """Drivers and loads held at an instant, and how the loads are applied.

    Attributes:
        t: The instant [s].
        spin: The steady rotation of the whole mechanism, or None at rest.
        shares: Shares of the loads, applied one after the other, (s,).
    """

    t: Scalar
    spin: Spin | None
    shares: Float[Array, " s"]


class Balanced(eqx.Module):
    """Poses at which a search for an equilibrium ended.

    Attributes:
        pose: Of all bodies.
        angles: With their turns, (w,).
        lam: Multipliers in the stacked order, (m,).
        residual: What is left unbalanced, relative to the loads, and to what rounding of poses
            leaves of them.
        iterations: Factorizations of the tangent matrix.
        found: Whether it is an equilibrium.
        closed: Whether the joints are closed.
        finite: Whether all loads there are numbers.
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
    delta: Float[Array, "nb 6"]  # the step that is tried next
    damping: Scalar  # relative to the residual
    previous: Scalar
    k: Int[Array, ""]
    refused: Int[Array, ""]


def search(
    system: System,
    pose: Pose,
    angles: Float[Array, " w"],
    loading: Loading,
    max_steps: Int[Array, ""],
    downhill: bool,
) -> Balanced:
    """Poses and multipliers at which the iteration ends, and whether forces balance there."""
    t = loading.t
    now = system.at(t)

    def one_share(k: Int[Array, ""], state: tuple[_Place, Array, Array, Array]):
        place, last, count, good = state
        rest = Rest(now, t, loading.shares[k], loading.spin)
        start = _Loop(
            eqx.tree_at(lambda p: p.residual, place, jnp.asarray(jnp.inf, t.dtype)),
            jnp.zeros((system.nb, 6), t.dtype),
            jnp.asarray(0.1, t.dtype),
            jnp.asarray(jnp.inf, t.dtype),
            jnp.zeros((), int),
            jnp.zeros((), int),
        )
        end = jax.lax.while_loop(
            lambda s: good & ~_is_done(s) & (s.k <= max_steps) & (s.refused < _REFUSED),
            lambda s: _step(rest, s, downhill),
            start,
        )
        # Nothing is tried beyond a share that failed.
        reached = jax.tree.map(
            lambda a, b: jnp.where(good, a, b), (end.place, end.delta), (place, last)
        )
        # The first turn of the loop only looks at the start.
        return (
            *reached,
            count + jnp.maximum(end.k - 1, 0),
            good & _is_balanced(end.place),
        )

    zero = jnp.zeros((system.nb, 6), t.dtype)
    nothing = jnp.zeros((), t.dtype)
    m = now.nc
    begin = _Place(pose, angles, jnp.zeros(m, t.dtype), zero, nothing, nothing, nothing)
    place, last, k, good = jax.lax.fori_loop(
        0, loading.shares.shape[0], one_share, (begin, zero, jnp.zeros((), int), jnp.ones((), bool))
    )
    finite = jnp.all(jnp.isfinite(place.rest))
    closed = place.gap <= _closed_gap(now.dtype)
    return Balanced(
        pose=place.pose,
        angles=place.angles,
        lam=place.lam,
        residual=place.residual,
        iterations=k,
        found=good,
        closed=closed,
        finite=finite,
        last=last,
    )


def yielding_pose(system: System, t: Scalar, spin: Spin | None, pose: Pose) -> Pose:
    """The pose moved a little in the direction of the loads that the joints do not balance."""
    args = Rest(system, t, jnp.ones_like(t), spin)
    held_rows, loads = rows(RA(), system, pose), static_loads(args, pose)[0]
    lam = balancing_multipliers(args, held_rows, loads)[0]
    arm = force_units(system)[None, :]
    way = -(loads + reactions(args, held_rows, lam)) * arm**2
    size = jnp.max(jnp.abs(way) / arm)
    way = _NUDGE * system.length / jnp.where(size > 0.0, size, 1.0) * way
    return jax.vmap(RA().retract)(pose, way)


def _closed_gap(dtype: DTypeLike) -> float:
    """Largest constraint violation of a closed mechanism, with distances relative to its length."""
    return float(jnp.finfo(dtype).eps) ** 0.75


def _is_balanced(place: _Place) -> Bool[Array, ""]:
    tolerance = jnp.finfo(place.residual.dtype).eps ** _LEFT
    return (place.residual <= tolerance) & jnp.isfinite(place.residual)


def _is_done(s: _Loop) -> Bool[Array, ""]:
    """Whether forces balance to rounding, or to the tolerance and a further step did not help."""
    eps = jnp.finfo(s.previous.dtype).eps
    stalled = _is_balanced(s.place) & ((s.place.residual > 0.1 * s.previous) | (s.refused > 1))
    return (s.place.residual <= _ROUNDING * eps) | stalled


def _step(args: Rest, s: _Loop, downhill: bool) -> _Loop:
    """Accept or reject the trial step, and compute the next one: a damped Newton step."""
    now, dtype = args.system, args.t.dtype
    pose = jax.vmap(RA().retract)(s.place.pose, s.delta)
    new = _closed_place(args, pose, s.place.angles)
    before, after = jnp.sum(s.delta * s.place.rest), jnp.sum(s.delta * new.rest)
    good = jnp.all(jnp.isfinite(new.rest)) & (new.gap <= _closed_gap(now.dtype))
    if downhill:
        # Loads do work along the way, and at its end none that would lead back.
        leads = (before < 0.0) & (after <= 0.5 * jnp.abs(before))
        # Near the end the work is rounding.
        leads = leads | ((new.residual < 0.5 * s.place.residual) & (s.place.residual < _NEAR))
    else:
        leads = new.residual < (1.0 - 1e-4 * _share_of_step(s.damping)) * s.place.residual
    accept = (good & leads) | (s.k == 0)
    # Where loads lead uphill the stiffness is negative: damp by twice its size.
    tiny = jnp.finfo(dtype).tiny
    across = jnp.einsum("bij,bi,bj->", metric(now), s.delta, s.delta) + tiny
    enough = 2.0 * before / across / (_unit(now, s.place) * s.place.residual + tiny)
    more = jnp.maximum(10.0 * s.damping, jnp.where(before > 0.0, enough, 0.0))
    less = jnp.where(s.k == 0, s.damping, jnp.maximum(0.1 * s.damping, 1e-4))
    damping = jnp.where(accept, less, more if downhill else 2.0 * s.damping)
    place = jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, s.place)
    return _Loop(
        place,
        _newton_step(args, place, damping, downhill),
        damping,
        jnp.where(accept, s.place.residual, s.previous),
        s.k + 1,
        jnp.where(accept, 0, s.refused + 1),
    )


def _newton_step(
    args: Rest, place: _Place, damping: Scalar, downhill: bool
) -> Float[Array, "nb 6"]:
    """Displacement that balances the linearized forces, limited to the range of linearization."""
    now, t = args.system, args.t
    wound = dataclasses.replace(args, system=now.wound(place.angles))
    least = jnp.finfo(t.dtype).eps ** _FLOOR
    relative = jnp.maximum(damping * place.residual, least) if downhill else least
    matrix = static_matrix(wound, place.pose, place.lam, relative * _unit(now, place))
    factors = factorize(matrix, now.linear_solver, dense_limit=DENSE)
    right = jnp.concatenate([-place.rest.reshape(-1), jnp.zeros_like(place.lam)])
    delta = factors.solve(right)[: place.rest.size].reshape(-1, 6)
    size = jnp.max(jnp.abs(delta[:, 3:])) + jnp.max(jnp.abs(delta[:, :3])) / now.length
    whole = jnp.ones_like(t) if downhill else _share_of_step(damping)
    return whole * jnp.minimum(1.0, _TURN / (size + jnp.finfo(t.dtype).tiny)) * delta


def _unit(now: System, place: _Place) -> Scalar:
    """Stiffness unit of the damping: loads per length [N/m]."""
    return place.scale / now.length + jnp.finfo(place.scale.dtype).tiny ** 0.5


def _share_of_step(damping: Scalar) -> Scalar:
    """Fraction of Newton's step that the search for any equilibrium takes."""
    return 1.0 / jnp.maximum(10.0 * damping, 1.0)


def _closed_place(rest: Rest, pose: Pose, angles: Float[Array, " w"]) -> _Place:
    """The pose with its joints closed, and its unbalanced forces."""
    now, t = rest.system, rest.t
    n = 6 * now.nb

    class Closing(eqx.Module):
        pose: Pose
        correction: Float[Array, "nb 6"]
        place: _Place
        k: Int[Array, ""]

    def look(s: Closing) -> Closing:
        pose = jax.vmap(RA().retract)(s.pose, s.correction)
        turned = now.wound(angles).angle_values(RA().with_ground(pose))
        system = now.wound(turned)
        args = dataclasses.replace(rest, system=system)
        held_rows, (loads, sizes) = rows(RA(), system, pose), static_loads(args, pose)
        lam, factors = balancing_multipliers(args, held_rows, loads)
        values = phi(RA(), system, pose)
        closing = factors.solve(jnp.concatenate([jnp.zeros(n, t.dtype), -values]))[:n]
        unbalanced = loads + reactions(args, held_rows, lam)
        scale = load_scale(args, held_rows, lam, sizes)
        left = jnp.max(jnp.abs(unbalanced) * force_units(system)[None, :])
        gap = jnp.max(jnp.abs(values) / row_sizes(RA(), system, held_rows), initial=0.0)
        place = _Place(pose, turned, lam, unbalanced, gap, scale, left)
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
        lambda s: ~(s.place.gap <= 1e-3 * _closed_gap(now.dtype)) & (s.k < _CLOSING), look, start
    )
    place = end.place
    args = dataclasses.replace(rest, system=now.wound(place.angles))
    least = place.scale + _blurred_loads(args, place.pose) / jnp.finfo(t.dtype).eps ** _LEFT
    relative = place.residual / jnp.where(least > 0.0, least, 1.0)
    return eqx.tree_at(lambda p: p.residual, place, relative)


def _blurred_loads(args: Rest, pose: Pose) -> Scalar:
    """Change of the loads by the rounding of poses [N], below which no pose balances. In a stiff
    beam it exceeds the tolerance on its weight.
    """
    length = args.system.length
    size = jnp.maximum(length, jnp.max(jnp.abs(pose.r), axis=1))
    # Signs without a pattern, so that neighbors move against each other.
    signs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], (pose.r.shape[0], 6)))
    way = signs.astype(pose.r.dtype).at[:, :3].multiply(size[:, None])

    def loads(d: Float[Array, "nb 6"]):
        return static_loads(args, jax.vmap(RA().retract)(pose, d))[0]

    _, change = jax.jvp(loads, (jnp.zeros_like(way),), (way,))
    most = jnp.max(jnp.abs(change) * force_units(args.system)[None, :], initial=0.0)
    return jnp.finfo(way.dtype).eps * most


def balancing_multipliers(
    args: Rest, held_rows: Float[Array, "m k 6"], loads: Float[Array, "nb 6"]
):
    """Multipliers that balance the loads best, of minimum norm if rows repeat, and the
    factorization of their matrix.
    """
    system = args.system
    matrix = saddle_matrix(RA(), system, metric(system), held_rows)
    factors = factorize(matrix, system.linear_solver, checked=False)

    def solve(_: object, b: Float[Array, " n"]) -> Float[Array, " n"]:
        return refined(matrix.matvec, factors.solve, b)

    right = jnp.concatenate([-loads.reshape(-1), jnp.zeros(held_rows.shape[0], loads.dtype)])
    x = jax.lax.custom_linear_solve(matrix.matvec, right, solve=solve, symmetric=True)
    return x[loads.size :], factors


def refined(
    matvec: Callable[[Array], Array], solve: Callable[[Array], Array], b: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Solution of A x = b by iterative refinement with approximate factors of A."""

    def again(x: Float[Array, " n"], _: None):
        return x + solve(b - matvec(x)), None

    return jax.lax.scan(again, jnp.zeros_like(b), None, length=_REPEATS)[0]
