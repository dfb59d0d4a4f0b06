"""Time stepping for stops, dry friction, contact and impact, with gradients across them."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int

from ..complementarity import Groups, LawProblem, Laws, grouped, solve_with_bounces
from ..equations.index1 import minimum_norm
from ..equations.laws import (
    LawRows,
    each_place,
    gap_rates,
    gaps,
    held,
    joint_forces,
    law_rows,
    normal_rows,
    places,
)
from ..equations.motion import StepScales, step_matrices, unbalanced
from ..equations.rows import acceleration_right_side
from ..formulations.base import AbstractFormulation, Coordinates
from ..indexing import take
from ..linalg import SaddleMatrix, factorize, linear_solve
from ..model.laws.base import CONTACT, DRY, STOP
from ..model.system import System
from ..results import RESULTS
from ..roots import NewtonInfo, save_roots
from ..rotations.types import Scalar
from .base import AbstractIntegrator, Motion
from .impacts import acting_for, at_once_if_deep, parting
from .projection import ClosedPlaces, projected
from .sliding_ends import TINY, lead_of_the_stop, spent_before_the_stop

OPEN, STICKS, SLIPS = 0, 1, 2

# A gap of this part of the mechanism's length is closed.
_CLOSED = 1e-10
# Gaps of this many roundings of that length are closed to rounding.
_ROUNDING = 32.0
# Deeper than this part of what the fastest body crosses in a step no place may end.
_DEEP = 0.5
# How far impulses may reach in a step: this many times what the fastest impact would cross.
_REACH = 4.0


class Impulses(eqx.Module):
    """What the laws did in the last step.

    Attributes:
        impulse: In the order of rows, (w,) [N·s] or [N·m·s].
        force: Their mean over the step, (w,) [N] or [N·m].
        gap: At its end, (c,) [m] or [rad].
        state: Open, sticks or slips, (c,).
        impact: When its impulses began to act, from the start of the step on, (c,) [s].
        bounced: Whether it was an impact with restitution, (c,).
        dropped: Steps so far whose impacts had no solution with restitution and went without.
        rough: Steps so far whose laws hold to 1e-8 of the largest velocity, not to the tolerance.
        crowded: Whether more places touched than the step solved for.
        lasting: Acceleration by impulses that no impact makes, (nb, d) [velocity coordinates/s].
    """

    impulse: Float[Array, " w"]
    force: Float[Array, " w"]
    gap: Float[Array, " c"]
    state: Int[Array, " c"]
    impact: Float[Array, " c"]
    bounced: Bool[Array, " c"]
    dropped: Int[Array, ""]
    rough: Int[Array, ""]
    crowded: Bool[Array, ""]
    lasting: Float[Array, "nb d"]


class Moreau(AbstractIntegrator):
    """Moreau's time stepping, with the time of impact inside the step.

        u⁺ = u + h a₀ + X P,   q⁺ = q ⊕ (h u + h² a₀/2 + X (w P)),   X = K⁻¹ Wᵀ

    a₀ is the motion without laws, linearly implicit at the middle of the step: of second order, and
    stable for stiff springs. The impulses P satisfy all laws at velocity level together. One of an
    impact acts from the time of impact on, so that gradients across impacts are right and bounces
    are exact; the others act over the whole step. Positions and velocities are projected onto the
    joints after every step, positions onto closed contacts too.

    `Solution.a` and `Solution.lam` are means over the step that ends there, impulses included.

    Attributes:
        tolerance: On the laws, relative to the largest velocity that they change.
        gradient_smoothing: Width of a smoothing of the laws in derivatives alone, relative to that
            velocity. Zero gives right derivatives; more gives a direction to search in where they
            are zero, as for a block that sticks.
        most_contacts: Places of contact that may touch at once; a step with more ends the run with
            `RESULTS.too_many_contacts`. The laws' matrix is dense, so memory grows by the square of
            that number. Time grows by its cube, or more slowly where a body touches few others.

    Reference:
        Moreau, "Unilateral contact and dry friction in finite freedom dynamics", 1988; the time of
        impact and its derivative are this project's own, see the manual's theory.
    """

    name: ClassVar[str] = "moreau"
    takes_laws: ClassVar[bool] = True

    tolerance: float = eqx.field(static=True, default=1e-11)
    gradient_smoothing: float = eqx.field(static=True, default=0.0)
    most_contacts: int = eqx.field(static=True, default=200)

    def __check_init__(self):
        if self.most_contacts < 1:
            raise ValueError(f"Moreau: most_contacts must be at least 1, not {self.most_contacts}")

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        before = Motion(motion.q, motion.u, motion.a, motion.lam, _nothing(system, motion.u))
        if not system.laws:
            return before
        # Accelerations and multipliers of the first row know of the laws as well.
        first, info = self.step(formulation, system, before, t + h, h, True)
        none = jnp.zeros((), int)
        memory = eqx.tree_at(
            lambda m: (m.gap, m.dropped, m.rough),
            first.memory,
            (gaps(formulation, system, motion.q), none, none),
        )
        found = Motion(motion.q, motion.u, first.a, first.lam, memory)
        plain = Motion(motion.q, motion.u, motion.a, motion.lam, memory)
        return jax.tree.map(lambda a, b: jnp.where(info.converged, a, b), found, plain)

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        lasting = motion.memory.lasting
        q0, u0, in_chart = formulation.rechart(motion.q, motion.u, lasting)
        of_no_acceleration = formulation.rechart(motion.q, motion.u, jnp.zeros_like(lasting))[2]
        lasting = in_chart - of_no_acceleration
        move = jax.vmap(formulation.retract)
        middle = t - 0.5 * h
        q = move(q0, 0.5 * h * u0)
        now, f_dot, f_ddot = system.jet(middle)
        zero, none = jnp.zeros_like(u0), jnp.zeros(motion.lam.shape, u0.dtype)
        scales = StepScales(0.5 * h, 0.25 * h**2)
        matrix, _ = step_matrices(
            formulation, now, q, u0, zero, none, middle, scales, None, exact=False
        )
        factors = factorize(matrix, system.linear_solver)
        n = u0.size

        def solve(b):
            return linear_solve(matrix.matvec, factors, b)

        # The motion without laws, and what unit impulses change.
        bias = unbalanced(formulation, now, q, u0, zero, middle)
        gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u0)
        free = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
        # What the joints bear depends on the velocity in the middle of the step. What held in the
        # last step still does: a mechanism that rests under load would move in the middle without.
        u_middle = u0 + 0.5 * h * (free[:n].reshape(u0.shape) + lasting)
        gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u_middle)
        borne = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
        if matrix.regularization is not None:
            borne = minimum_norm(borne, factors)
        a0, lam0 = borne[:n].reshape(u0.shape), borne[n:]
        u1, d0 = u0 + h * a0, h * u0 + 0.5 * h**2 * a0
        if not system.laws:
            q1, u1, _ = projected(formulation, system, move(q0, d0), u1, t, None)
            return Motion(q1, u1, a0, lam0, motion.memory), _info(0, True, a0, q1)

        # What may touch is chosen once: gaps of the whole step are those of the same features.
        whole = system
        system = held(formulation, system, q0, move(q0, d0))
        now = eqx.tree_at(lambda s: s.laws, now, system.laws)
        every = law_rows(formulation, now, q)
        groups = _groups(system, matrix)
        free = _Free(q0, u0, u1, d0, a0, lam0, matrix.right, solve, every, whole, groups)
        contacts = places(system, CONTACT)
        found, hits = self._impacts(formulation, system, free, move(q0, d0), h)
        near = hits.near[:contacts]
        sizes = self._sizes(contacts)
        hit = found.state[:contacts] > OPEN
        first = jnp.argsort(2 - hit.astype(int) - near.astype(int), stable=True)

        def acting(size: int):
            def act(_):
                chosen = first[:size] if size < contacts else jnp.arange(contacts)
                return self._struck(
                    formulation, system, motion.memory, free, found, hits, chosen, t, h
                )

            return act

        def resting(_):
            q1, u1, _ = projected(formulation, system, move(q0, d0), free.u1, t, None)
            so_far, gap = motion.memory, gaps(formulation, whole, q1)
            memory = eqx.tree_at(
                lambda m: (m.gap, m.dropped, m.rough),
                _nothing(system, u0),
                (gap, so_far.dropped, so_far.rough),
            )
            return Motion(q1, u1, a0, lam0, memory), _info(0, True, a0, q1)

        branches = [acting(size) for size in sizes]
        which = jnp.searchsorted(jnp.array(sizes), jnp.sum(near))
        if not places(system, DRY):
            branches = [resting, *branches]
            which = jnp.where(jnp.any(found.state > OPEN), which + 1, 0)
        # A backward pass would otherwise copy all that a branch computes out of it and into it.
        branches = [jax.checkpoint(f, policy=save_roots, prevent_cse=False) for f in branches]
        # Of a batch all members take the branch of the one with the most.
        which = _largest(jnp.minimum(which, len(branches) - 1))
        after, info = jax.lax.switch(which, branches, None)
        crowded = jnp.sum(hit) > sizes[-1]
        after = eqx.tree_at(lambda m: m.memory.crowded, after, crowded)
        return after, eqx.tree_at(lambda i: i.converged, info, info.converged & ~crowded)

    def _sizes(self, contacts: int) -> tuple[int, ...]:
        """Numbers of contacts for which the laws of a step are compiled: what does not touch should
        cost little.
        """
        most = min(contacts, self.most_contacts)
        sizes = [most]
        while sizes[0] > 6:
            sizes.insert(0, max(4, sizes[0] // 2 if most <= 64 else sizes[0] // 3))
        return tuple(sizes)

    def _struck(
        self,
        formulation: AbstractFormulation,
        system: System,
        before: Impulses,
        free: "_Free",
        found: Impulses,
        hits: "_Hits",
        chosen: Int[Array, " k"],
        t: Scalar,
        h: Scalar,
    ) -> tuple[Motion, NewtonInfo]:
        """The end of a step in which the chosen contacts and all other laws may act."""
        contacts, stops = places(system, CONTACT), places(system, STOP)
        others = stops + places(system, DRY)
        k = chosen.shape[0]
        spots = jnp.concatenate([chosen, contacts + jnp.arange(others)])
        lines = (3 * chosen[:, None] + jnp.arange(3)[None, :]).reshape(-1)
        lines = jnp.concatenate([lines, 3 * contacts + jnp.arange(others)])
        normal = normal_rows(k, others)
        state, impact, bounced, begin = (
            take(x, spots) for x in (found.state, found.impact, found.bounced, found.gap)
        )
        wanted, strikes, near, room = (take(x, spots) for x in hits)
        n, none = free.u1.size, jnp.zeros_like(free.lam0)
        rows = free.rows.some(lines)
        pushes = rows.pushes(system.nb).reshape(lines.shape[0], n)
        answers = jax.vmap(lambda f: free.solve(jnp.concatenate([f, none])))(pushes)
        X, carried = answers[:, :n].reshape(-1, *free.u1.shape), answers[:, n:]
        G = jax.vmap(rows.velocities)(X).T

        # What is open and stays so without the others' impulses may close by them: there the gap at
        # the end of the step must not become negative, and its velocity is that of the next step.
        b = rows.velocities(free.u1)
        guarded = near & (state == OPEN)
        b = b.at[normal].set(jnp.where(guarded, room / h, b[normal] - wanted))
        frictions = each_place(system, lambda law: law.frictions(), CONTACT)
        laws = Laws(
            matrix=G,
            free=b,
            active=(state > OPEN) | guarded,
            friction=take(frictions, chosen),
            bound=h * each_place(system, lambda law: law.bound(), DRY),
            share=each_place(system, lambda law: law.share(), DRY),
            carried=h * joint_forces(system, free.joint_rows, free.lam0),
            carries=joint_forces(system, free.joint_rows, carried.T),
            spent=jnp.zeros_like(b),
            stops=stops,
            groups=free.groups if k == contacts else None,
        )
        slid = (take(before.state, spots) == SLIPS) & (state > OPEN) & ~bounced & (impact <= 0.0)
        spent = spent_before_the_stop(
            laws, rows.velocities(free.u0), h * take(before.force, lines), slid
        )
        laws = eqx.tree_at(lambda x: x.spent, laws, spent)
        problem = LawProblem(self.tolerance, self.gradient_smoothing)
        # Newton's law of impact asks for velocities that several points of one body cannot have
        # together in every case. Such a step goes without restitution, and says so.
        plain = b.at[normal].add(jnp.where(bounced, wanted, 0.0))
        P, outcome, fails = solve_with_bounces(
            laws, plain, jnp.any(bounced), take(before.impulse, lines), problem
        )
        b = jnp.where(fails, plain, b)
        bounced = bounced & ~fails

        weight, lasts = acting_for(G, P, normal, laws.active, strikes, impact, k + stops, h)
        speed = jnp.maximum(
            jnp.max(jnp.abs(rows.velocities(free.u1)), initial=0.0),
            jnp.max(jnp.abs(free.u1[:, :3]), initial=0.0),
        )
        depth = jax.lax.stop_gradient(_DEEP * h * speed)
        timing = laws.active, strikes, impact, room, k + stops, h, depth
        weight = at_once_if_deep(weight, G, P, normal, *timing)
        u1 = free.u1 + jnp.tensordot(P, X, 1)
        d = free.d0 + jnp.tensordot(laws.of_rows(weight) * P + lead_of_the_stop(laws, P, h), X, 1)
        v = G @ P + b
        touching = laws.active & (_shared(P, G, normal) > v[normal]) & ~bounced
        closed = jnp.arange(touching.shape[0]) < k + stops
        # What touched in the laws may be open where the step ends: crossing edges that have left
        # each other have a gap of the size of their bodies.
        way = _REACH * h * speed + _CLOSED * system.length
        rounding = _ROUNDING * jnp.finfo(G.dtype).eps * system.length
        lowest = jnp.minimum(begin, 0.0) - way
        shut = ClosedPlaces(rows, spots, X, G, normal, touching, closed, lowest, way, rounding)
        q1 = jax.vmap(formulation.retract)(free.q0, d)
        q1, u1, moved = projected(formulation, system, q1, u1, t, shut)

        def everywhere(value, at, size: int):
            return jnp.zeros(size, value.dtype).at[at].set(value, unique_indices=True)

        total = contacts + others
        impulse = everywhere(jax.lax.stop_gradient(P), lines, 3 * contacts + others)
        memory = Impulses(
            impulse,
            everywhere(P / h, lines, 3 * contacts + others),
            gaps(formulation, free.whole, q1),
            everywhere(_states(b, v, normal, k, touching | bounced | ~closed), spots, total),
            everywhere(impact, spots, total),
            everywhere(bounced, spots, total),
            before.dropped + fails.astype(int),
            before.rough + (outcome.residual > self.tolerance).astype(int),
            jnp.zeros((), bool),
            jnp.tensordot(jnp.where(laws.of_rows(lasts), P, 0.0), X, 1) / h,
        )
        a = free.a0 + jnp.tensordot(P, X, 1) / h
        after = Motion(q1, u1, a, free.lam0 + P @ carried / h, memory)
        return after, _info(
            outcome.iterations,
            # Places that ask for more than a step's way contradict each other: nothing is near.
            outcome.converged & (moved <= way),
            a,
            q1,
        )

    def _impacts(self, formulation, system, free: "_Free", q_free, h):
        """What is hit in this step, when, and how."""
        rows, u0 = free.rows, free.u0
        gap, start = gap_rates(formulation, system, free.q0, u0)
        later = gaps(formulation, system, q_free)
        contacts, stops = places(system, CONTACT), places(system, STOP)
        normal = normal_rows(contacts, gap.shape[0] - contacts)
        v = rows.velocities(u0)[normal]
        bend = 2.0 * (later - gap - h * v) / h**2
        dry = jnp.arange(gap.shape[0]) >= contacts + stops
        closed = gap <= _CLOSED * system.length
        hit = closed | (later <= 0.0)
        root = jnp.sqrt(jnp.maximum(v**2 - 2.0 * bend * gap, 0.0) + TINY)
        flying = hit & ~closed & ~dry
        below = jnp.where(flying, root - v, 1.0)
        impact = jnp.where(
            flying & (below > 0.0),
            jnp.clip(2.0 * gap / jnp.where(below > 0.0, below, 1.0), 0.0, h),
            0.0,
        )
        speed = v + bend * impact
        restitution = each_place(system, lambda law: law.bounces())
        # A flight that ends within the step is none. Bodies that fall together part as soon as
        # something bears one of them.
        falling = jnp.maximum(jnp.abs(bend), parting(rows, normal, free.a0, closed & ~dry))
        bounces = hit & ~dry & (speed < 0.0) & (2.0 * restitution * -speed > falling * h)
        wanted = jnp.where(
            bounces, jnp.maximum(-restitution * speed + bend * (h - impact), 0.0), 0.0
        )
        # Rows turn with the bodies: what is zero at the start and at the end of a step is not so on
        # those of its middle. Without that, sliding along what is curved loses energy.
        wanted = jnp.where(closed & ~dry & ~bounces, start - v, wanted)
        # What closed before and still approaches is struck at once.
        strikes = flying | bounces | (closed & ~dry & (-start > 0.5 * jnp.abs(bend) * h))
        fastest = jnp.max(jnp.where(hit & ~dry, -(v + bend * h), 0.0), initial=0.0)
        near = hit | (later < _REACH * h * jnp.maximum(fastest, 0.0))
        found = eqx.tree_at(
            lambda m: (m.gap, m.state, m.impact, m.bounced),
            _nothing(system, u0),
            (gap, (hit | dry).astype(int), impact, bounces),
        )
        return found, _Hits(wanted, strikes, near & ~dry, later)

    def unconverged(self, motion: Motion) -> RESULTS:
        return RESULTS.where(
            motion.memory.crowded, RESULTS.too_many_contacts, RESULTS.contact_not_converged
        )

    def observed(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar
    ) -> tuple[Motion, dict[str, Any]]:
        if not system.laws:
            return motion, {}
        memory = motion.memory
        return motion, {
            "law_forces": memory.force,
            "law_gaps": memory.gap,
            "law_states": memory.state,
            "law_impacts": memory.impact,
            "law_bounces_dropped": memory.dropped,
            "law_steps_rough": memory.rough,
        }


class _Hits(NamedTuple):
    """By places: normal velocities that are wanted at the end of the step, what is struck within
    it, what is so near that impulses of others may close it, and gaps at the end of free motion.
    """

    wanted: Float[Array, " c"]
    strikes: Bool[Array, " c"]
    near: Bool[Array, " c"]
    later: Float[Array, " c"]


class _Free(NamedTuple):
    """The motion of a step without laws, what answers to impulses, and the system whose laws have
    not chosen yet what may touch.
    """

    q0: Coordinates
    u0: Array
    u1: Array
    d0: Array
    a0: Array
    lam0: Array
    joint_rows: Array
    solve: Callable[[Array], Array]
    rows: LawRows
    whole: System
    groups: Groups | None


@custom_vmap
def _largest(x: Int[Array, ""]) -> Int[Array, ""]:
    """The largest of a batch."""
    return x


@_largest.def_vmap
def _(size: int, batched: Any, x: Array) -> tuple[Array, bool]:
    return _largest(jnp.max(x, axis=0)), False


def _groups(system: System, matrix: SaddleMatrix) -> Groups | None:
    """The contacts of a mechanism in groups, where their matrix has many zeros."""
    dense = system.linear_solver == "dense"
    if dense or any(stack.kind != CONTACT for stack in system.laws):
        return None
    elements = tuple((pair, s.places) for s in system.laws for pair in s.bodies)
    linked = matrix.bodies + tuple(pair for c in matrix.couplings for pair in c.bodies)
    return grouped(elements, linked, system.nb)


def _nothing(system: System, u: Float[Array, "nb d"]) -> Impulses:
    contacts, others = places(system, CONTACT), places(system, STOP) + places(system, DRY)
    zero = jnp.zeros(contacts + others, system.dtype)
    return Impulses(
        jnp.zeros(3 * contacts + others, system.dtype),
        jnp.zeros(3 * contacts + others, system.dtype),
        zero,
        zero.astype(int),
        zero,
        zero.astype(bool),
        jnp.zeros((), int),
        jnp.zeros((), int),
        jnp.zeros((), bool),
        jnp.zeros_like(u),
    )


def _shared(P: Array, G: Array, normal) -> Array:
    """Normal impulses as velocities: what is compared with the velocities that remain."""
    return P[normal] * jnp.diagonal(G)[normal]


def _states(b, v, normal, contacts: int, touching) -> Int[Array, " c"]:
    """Open, sticks or slips."""
    n = 3 * contacts
    tangential = v[:n].reshape(contacts, 3)[:, 1:]
    slip = jnp.sqrt(jnp.sum(tangential**2, axis=1))
    # What sticks has a velocity of the solver's tolerance.
    scale = jnp.max(jnp.abs(b), initial=0.0) + jnp.finfo(v.dtype).tiny
    moving = jnp.concatenate([slip, jnp.abs(v[n:])]) > 1e-8 * scale
    return jnp.where(touching, jnp.where(moving, SLIPS, STICKS), OPEN)


def _info(iterations, converged, a, q) -> NewtonInfo:
    finite = jnp.all(jnp.isfinite(a))
    for x in jax.tree.leaves(q):
        finite = finite & jnp.all(jnp.isfinite(x))
    no = jnp.zeros((), bool)
    return NewtonInfo(
        jnp.asarray(iterations, int),
        finite & converged,
        jnp.where(finite, 0.0, jnp.nan).astype(a.dtype),
        no,
        no,
        no,
    )
