"""The impulses of the laws in a part of a step, and what they change."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...complementarity import MANY, LawProblem, Laws, Pressing, solve_with_bounces, without_bracing
from ...equations.laws import each_place, joint_forces
from ...equations.pressing import pressing_rows
from ...model.laws.base import CONTACT, DRY
from ...rotations.types import Scalar
from ...xla.indexing import take
from ...xla.lazy_cond import anywhere, largest
from .free_motion import Free
from .impacts import Guards
from .memory import OPEN, SLIPS, STICKS
from .part import Chosen, Part, Plan, Pushed, Stretch
from .sliding_ends import lead_of_the_stop, spent_before_the_stop

Found = TypeVar("Found")


def by_size(
    plan: Plan,
    needed: Bool[Array, ""],
    none: Callable[[], Found],
    some: Callable[[Int[Array, " k"]], Found],
) -> Found:
    """`some(places of contact)` for as many contacts as are near, or `none()` where no law is
    `needed`.
    """
    near = plan.near[: plan.contacts]
    first = jnp.argsort(~near, stable=True)

    def of(size: int):
        return lambda: some(first[:size] if size < plan.contacts else jnp.arange(plan.contacts))

    which = jnp.searchsorted(jnp.array(plan.sizes), jnp.sum(near))
    which = jnp.where(needed, jnp.minimum(which, len(plan.sizes) - 1) + 1, 0)
    branches = [none, *(of(size) for size in plan.sizes)]
    # Of a batch all elements take the branch of the one with the most.
    return jax.lax.switch(largest(which), branches)


def pushed(
    free: Free,
    plan: Plan,
    part: Part,
    known: tuple[Array, Array],
    stretch: Stretch,
    problem: LawProblem,
) -> Pushed:
    """What the laws do in this part of the step."""

    def none() -> Pushed:
        zero, no = jnp.zeros_like(free.u0), jnp.zeros((), bool)
        return Pushed(
            jnp.zeros_like(part.impulse),
            zero,
            zero,
            zero,
            jnp.zeros_like(free.lam0),
            jnp.zeros(plan.gap.shape, int),
            jnp.zeros(plan.gap.shape, bool),
            no,
            ~no,
            jnp.zeros((), free.u0.dtype),
            jnp.zeros((), int),
        )

    needed = jnp.any(plan.acts | plan.guarded)
    return by_size(
        plan,
        needed,
        none,
        lambda chosen: _solved(free, plan, part, known, chosen, stretch, problem),
    )


def _solved(
    free: Free,
    plan: Plan,
    part: Part,
    known: tuple[Array, Array],
    chosen: Int[Array, " k"],
    stretch: Stretch,
    problem: LawProblem,
) -> Pushed:
    """Impulses of the chosen contacts and of all other laws, and what they change."""
    system, strikes, span = free.system, stretch.strikes, stretch.span
    at = Chosen.of(system, plan, chosen)
    acts, bounces, wanted, weight = (
        take(x, at.spots) for x in (plan.acts, plan.bounces, plan.wanted, plan.weight)
    )
    none = jnp.zeros_like(free.lam0)
    rows = free.rows.some(at.lines)
    pushes = rows.pushes(system.nb).reshape(at.lines.shape[0], -1)
    answers = jax.vmap(lambda f: free.solve(jnp.concatenate([f, none])))(pushes)
    X = answers[:, : free.u0.size].reshape(-1, *free.u0.shape)
    carried = answers[:, free.u0.size :]
    G = jax.vmap(rows.velocities)(X).T
    frictions = each_place(system, lambda law: law.frictions(), CONTACT)
    # What bodies have at the end, as `plan.turning` says.
    turning = take(plan.turning, at.lines)
    b = rows.velocities(free.u1) - turning
    laws = Laws(
        matrix=G,
        free=b,
        active=acts,
        friction=take(frictions, chosen),
        bound=span * each_place(system, lambda law: law.bound(), DRY),
        share=each_place(system, lambda law: law.share(), DRY),
        carried=span * joint_forces(system, free.matrix.right, free.lam0),
        carries=joint_forces(system, free.matrix.right, carried.T),
        spent=jnp.zeros_like(b),
        stops=at.stops,
        groups=free.groups if chosen.shape[0] == plan.contacts else None,
        pressing=_pressing(free, carried, span),
    )
    slid = take(part.slides, at.spots) & acts & ~strikes
    last = span * take(part.lasting_force, at.lines)
    spent = spent_before_the_stop(laws, rows.velocities(free.u0) + turning, last, slid)
    plain = b.at[at.normal].add(-jnp.where(bounces, 0.0, wanted))
    asked = plain.at[at.normal].add(-jnp.where(bounces, wanted, 0.0))
    laws = eqx.tree_at(lambda x: (x.free, x.spent), laws, (asked, spent))
    # Impulses of others may close what is open and would stay so. Each one contributes to a gap by
    # the time for which it acts.
    reach = G[at.normal] * laws.of_rows(weight)[None, :]
    guards = _guards(plan, at, reach, span, stretch.h)
    # Newton's law of impact asks for velocities that several points of one body cannot have
    # together in every case, or that take energy. Such an impact goes without restitution, and
    # says so.
    guess = jnp.where(strikes, 0.0, last)
    guess = jnp.where(known[1], take(known[0], at.lines), guess)
    P, outcome, fails, active = solve_with_bounces(
        laws, plain, guards, jnp.any(bounces), guess, problem
    )
    v = G @ P + jnp.where(fails, plain, asked)
    touching = active & (P[at.normal] * jnp.diagonal(G)[at.normal] > v[at.normal])
    lead = jnp.where(strikes, 0.0, lead_of_the_stop(laws, P, span))
    lasts = ~strikes & take(plan.closed, at.spots)
    kinds = _states(b, v, at.normal, chosen.shape[0], touching | ~at.closable)
    sticks = (kinds[: chosen.shape[0]] == STICKS) & ~strikes
    P = _unbraced(laws, G, P, sticks, outcome.iterations > 0)
    per = jnp.where(strikes, 1.0, span)

    def everywhere(value: Array, places: Int[Array, " k"], size: int) -> Array:
        return jnp.zeros(size, value.dtype).at[places].set(value, unique_indices=True)

    total, width = plan.gap.shape[0], part.impulse.shape[0]
    return Pushed(
        impulse=everywhere(P, at.lines, width),
        change=jnp.tensordot(P, X, 1),
        shift=jnp.tensordot(laws.of_rows(weight) * P + lead, X, 1),
        lasting=jnp.tensordot(jnp.where(laws.of_rows(lasts), P, 0.0), X, 1) / per,
        lam=P @ carried,
        state=everywhere(kinds, at.spots, total),
        touching=everywhere(touching & ~strikes, at.spots, total),
        dropped=fails & strikes,
        converged=outcome.converged,
        residual=jax.lax.stop_gradient(outcome.residual),
        iterations=outcome.iterations,
    )


def _guards(plan: Plan, at: Chosen, reach: Float[Array, "c w"], span: Scalar, h: Scalar) -> Guards:
    """Of the chosen places."""

    def chosen(x: Array) -> Array:
        return take(x, at.spots)

    return Guards(
        places=chosen(plan.guarded),
        gap=chosen(plan.gap),
        rate=chosen(plan.rate),
        later=chosen(plan.later),
        reach=reach,
        closed=chosen(plan.closed),
        falling=chosen(plan.falling),
        restitution=chosen(plan.restitution),
        slow=chosen(plan.slow),
        span=span,
        h=h,
        last=plan.last,
    )


def _pressing(free: Free, carried: Float[Array, "w m"], span: Scalar) -> Pressing | None:
    """What presses gears apart, from multipliers per unit of the laws' impulses."""
    if free.teeth is None:
        return None
    teeth = pressing_rows(free.system)
    return Pressing(
        impulse=span * free.lam0[teeth],
        each=carried[:, teeth].T,
        borne=joint_forces(free.system, free.matrix.right, free.teeth.T),
    )


def _states(
    b: Float[Array, " w"],
    v: Float[Array, " w"],
    normal: np.ndarray,
    contacts: int,
    touching: Bool[Array, " c"],
) -> Int[Array, " c"]:
    """Open, sticks or slips."""
    n = 3 * contacts
    tangential = v[:n].reshape(contacts, 3)[:, 1:]
    slip = jnp.sqrt(jnp.sum(tangential**2, axis=1))
    # What sticks has a velocity of the solver's tolerance.
    scale = jnp.max(jnp.abs(b), initial=0.0) + jnp.finfo(v.dtype).tiny
    moving = jnp.concatenate([slip, jnp.abs(v[n:])]) > 1e-8 * scale
    return jnp.where(touching, jnp.where(moving, SLIPS, STICKS), OPEN)


def _unbraced(
    laws: Laws,
    G: Float[Array, "w w"],
    P: Float[Array, " w"],
    sticks: Bool[Array, " k"],
    found: Bool[Array, ""],
) -> Float[Array, " w"]:
    """The impulses without what sticking contacts brace each other by; of many contacts, where that
    would take as long as the laws themselves, the ones that were found.
    """
    n = 3 * laws.contacts
    if laws.contacts < 2 or n >= MANY:
        return P

    def least(P: Array) -> Array:
        return P.at[:n].set(without_bracing(G[:n, :n], P[:n], laws.friction, sticks, found))

    return jax.lax.cond(anywhere(jnp.sum(sticks) > 1), least, lambda P: P, P)
