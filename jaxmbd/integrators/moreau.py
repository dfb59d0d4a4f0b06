"""Time stepping for stops, dry friction, contact and impact, with gradients across them."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..branches import anywhere, largest
from ..complementarity import (
    MANY,
    Groups,
    LawProblem,
    Laws,
    grouped,
    solve_with_bounces,
    without_bracing,
)
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
from ..roots import NewtonInfo, repeated
from ..rotations.types import Scalar
from .base import AbstractIntegrator, Motion
from .impacts import (
    Closing,
    closing,
    deserves_an_impact,
    instant_of_impact,
    long_flight,
    parting,
)
from .projection import ClosedPlaces, projected
from .sliding_ends import lead_of_the_stop, spent_before_the_stop

OPEN, STICKS, SLIPS = 0, 1, 2

# A gap of this part of the mechanism's length is closed.
_CLOSED = 1e-10
# Gaps of this many roundings of that length are closed to rounding.
_ROUNDING = 32.0
# How far impulses may reach in a step: this many times what the fastest impact would cross.
_REACH = 4.0
# Forces are computed for a part of a step that is at least this long, in steps: those of a shorter
# part would be rounding.
_SHORTEST = 1e-3
# Approach speeds below this part of the largest one are rounding, and those that would take longer
# than a step for this part of the mechanism's length.
_SLOW, _STILL = 1e-9, 1e-12
# Bodies that bounce for more than about 64 flights, each shorter than the one before.
_LONG_BOUNCING = 1.0 / 64.0


class Impulses(eqx.Module):
    """What the laws did in the last step.

    Attributes:
        lasting_force: What acted at its end and lasts, (w,) [N] or [N·m].
        force: Mean over the step, impacts included, (w,) [N] or [N·m].
        gap: At its end, (c,) [m] or [rad].
        state: Open, sticks or slips, (c,).
        slides: Which places slipped at its end, (c,).
        impact: When the first impact was, from the start of the step on, (c,) [s].
        dropped: Steps so far in which impacts went without their restitution.
        rough: Steps so far whose laws hold to 1e-8 of the largest velocity, not to the tolerance.
        crowded: Whether more places touched than the step solved for.
        lasting: Acceleration by impulses that no impact makes, (nb, d) [velocity coordinates/s].
    """

    lasting_force: Float[Array, " w"]
    force: Float[Array, " w"]
    gap: Float[Array, " c"]
    state: Int[Array, " c"]
    slides: Bool[Array, " c"]
    impact: Float[Array, " c"]
    dropped: Int[Array, ""]
    rough: Int[Array, ""]
    crowded: Bool[Array, ""]
    lasting: Float[Array, "nb d"]


class Moreau(AbstractIntegrator):
    """Moreau's time stepping, with impacts at their own instants within the step.

        u⁺ = u + h a₀ + X P,   q⁺ = q ⊕ (h u + h² a₀/2 + h X P/2),   X = K⁻¹ Wᵀ

    a₀ is the motion without laws, linearly implicit at the middle of the step: of second order, and
    stable for stiff springs. The impulses P satisfy all laws at velocity level together. Where a
    gap closes, the step ends at that instant, which is a differentiable root; an impact changes the
    velocities there, with the geometry of that instant; and another step takes the motion to the
    end. Gradients across impacts are therefore right, bounces are exact, and bodies that strike one
    another in turn do so one by one. Positions and velocities are projected onto the joints after
    every part of a step, positions onto closed contacts too.

    `Solution.a` and `Solution.lam` are means over the step that ends there, impulses included.

    Attributes:
        tolerance: On the laws, relative to the largest velocity that they change.
        gradient_smoothing: Width of a smoothing of the laws in derivatives alone, relative to that
            velocity. Zero gives right derivatives; more gives a direction to search in where they
            are zero, as for a block that sticks.
        most_contacts: Places of contact that may touch at once; a step with more ends the run with
            `RESULTS.too_many_contacts`. The laws' matrix is dense, so memory grows by the square of
            that number. Time grows by its cube, or more slowly where a body touches few others.
        most_impacts: Instants within a step at which bodies may strike each other. Later impacts of
            that step are plastic and act over the rest of it, to first order in the step; where
            they should have bounced, `stats["law_bounces_dropped"]` counts the step.

    Reference:
        Moreau, "Unilateral contact and dry friction in finite freedom dynamics", 1988; the instants
        of impact and their derivatives are this project's own, see the manual's theory.
    """

    name: ClassVar[str] = "moreau"
    takes_laws: ClassVar[bool] = True

    tolerance: float = eqx.field(static=True, default=1e-11)
    gradient_smoothing: float = eqx.field(static=True, default=0.0)
    most_contacts: int = eqx.field(static=True, default=200)
    most_impacts: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        if self.most_contacts < 1:
            raise ValueError(f"Moreau: most_contacts must be at least 1, not {self.most_contacts}")
        if self.most_impacts < 0:
            raise ValueError(f"Moreau: most_impacts must not be negative, not {self.most_impacts}")

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
        before = motion.memory
        q, u, in_chart = formulation.rechart(motion.q, motion.u, before.lasting)
        of_no_acceleration = formulation.rechart(
            motion.q, motion.u, jnp.zeros_like(before.lasting)
        )[2]
        lasting = in_chart - of_no_acceleration
        h = jnp.asarray(h, u.dtype)
        if not system.laws:
            free = _free(formulation, system, q, u, t - h, h, lasting, None)
            q, u, _ = projected(formulation, system, free.moved(formulation), free.u1, t, None)
            after = Motion(q, u, free.a0, free.lam0, before)
            return after, _info(0, True, free.a0, q)

        nothing, none = _nothing(system, u), jnp.zeros((), int)
        begun = _Part(
            q=q,
            u=u,
            left=h,
            count=none,
            going=jnp.ones((), bool),
            struck=jnp.zeros(nothing.gap.shape, bool),
            falling=nothing.gap,
            bend=nothing.gap,
            ends=(q, q) if any(stack.law.holds for stack in system.laws) else None,
            impulse=nothing.force,
            velocity=jnp.zeros_like(u),
            lam=jnp.zeros(motion.lam.shape, u.dtype),
            lasting=lasting,
            lasting_force=before.lasting_force,
            slides=before.slides,
            state=nothing.state,
            impact=nothing.impact,
            dropped=jnp.zeros((), bool),
            rough=jnp.zeros((), bool),
            crowded=jnp.zeros((), bool),
            converged=jnp.ones((), bool),
            iterations=none,
        )
        ended = repeated(
            lambda part, impulse, known: self._part(
                formulation, system, part, (impulse, known), t, h
            ),
            begun,
            nothing.force,
            lambda part: part.going,
            self._most_parts,
        )
        memory = Impulses(
            ended.lasting_force,
            ended.impulse / h,
            gaps(formulation, system, ended.q),
            ended.state,
            ended.slides,
            ended.impact,
            before.dropped + ended.dropped.astype(int),
            before.rough + ended.rough.astype(int),
            ended.crowded,
            ended.lasting,
        )
        after = Motion(ended.q, ended.u, ended.velocity / h, ended.lam / h, memory)
        converged = ended.converged & ~ended.crowded
        return after, _info(ended.iterations, converged, ended.velocity, ended.q)

    @property
    def _most_parts(self) -> int:
        """Motions and impacts in between."""
        return 2 * self.most_impacts + 1

    def _part(
        self,
        formulation: AbstractFormulation,
        system: System,
        part: "_Part",
        known: tuple[Array, Array],
        t: Scalar,
        h: Scalar,
    ) -> tuple["_Part", Float[Array, " w"]]:
        """An impact at this instant, or a motion up to the next one or to the end of the step; and
        its impulses. These may be `known` already, as the second of the pair says.

        An impact is a motion of no duration: velocities change by impulses alone.
        """
        strikes = jnp.any(part.struck)
        begin = t - part.left
        span = jnp.where(strikes, 0.0, jnp.maximum(part.left, _SHORTEST * h))
        features = None if part.ends is None else (strikes, *part.ends)
        free = _free(formulation, system, part.q, part.u, begin, span, part.lasting, features)
        plan = self._plan(formulation, free, part, strikes, span, h)
        pushed = self._pushed(system, free, plan, part, known, strikes, span)

        hits, length = self._next_impact(formulation, system, free, plan, pushed, part, span, h)
        cut = jnp.any(hits) & ~strikes
        length = jnp.where(strikes, 0.0, length)
        share = jnp.where(strikes, 1.0, length / jnp.where(strikes, 1.0, span))
        change = length * free.a0 + share * pushed.change
        d = length * free.u0 + 0.5 * length**2 * free.a0 + share**2 * pushed.shift
        q1 = jax.vmap(formulation.retract)(free.q0, d)
        q1, u1, moved = self._closed(
            formulation,
            free,
            plan,
            pushed,
            q1,
            free.u0 + change,
            begin + length,
            hits,
            strikes,
            span,
        )
        again = self._struck_again(free, plan, part, u1, strikes, h)
        hits = jnp.where(strikes, again, hits & cut)

        finite = jnp.all(jnp.isfinite(u1))
        rests = ~strikes
        states = jnp.where(pushed.state != OPEN, pushed.state, part.state)
        first = part.struck & (part.impact <= 0.0)
        after = _Part(
            q=q1,
            u=u1,
            left=part.left - length,
            count=part.count + 1,
            going=(strikes | cut) & finite,
            struck=hits,
            falling=jnp.where(strikes, part.falling, plan.falling),
            bend=jnp.where(strikes, part.bend, plan.bend),
            ends=free.ends,
            impulse=part.impulse + share * pushed.impulse,
            velocity=part.velocity + change,
            lam=part.lam + length * free.lam0 + share * pushed.lam,
            lasting=jnp.where(rests, pushed.lasting, part.lasting),
            lasting_force=jnp.where(
                rests,
                jax.lax.stop_gradient(pushed.impulse) / jnp.where(rests, span, 1.0),
                part.lasting_force,
            ),
            slides=jnp.where(rests, pushed.state == SLIPS, part.slides),
            state=states,
            impact=jnp.where(first, h - part.left, part.impact),
            dropped=part.dropped | pushed.dropped | jnp.any(plan.dropped),
            rough=part.rough | (pushed.residual > self.tolerance),
            crowded=part.crowded | (jnp.sum(plan.near[: plan.contacts]) > plan.sizes[-1]),
            # Places that ask for more than a part's way contradict each other: nothing is near.
            converged=part.converged & pushed.converged & (moved <= plan.way),
            iterations=part.iterations + pushed.iterations,
        )
        return after, jax.lax.stop_gradient(pushed.impulse)

    def _plan(
        self,
        formulation: AbstractFormulation,
        free: "_Free",
        part: "_Part",
        strikes: Bool[Array, ""],
        span: Scalar,
        h: Scalar,
    ) -> "_Plan":
        """What each place has to do in this part of the step, before impulses are known."""
        system, rows, last = free.system, free.rows, part.count >= self._most_parts - 2
        gap, rate = gap_rates(formulation, system, free.q0, free.u0)
        later = gaps(formulation, system, free.moved(formulation))
        contacts, stops = places(system, CONTACT), places(system, STOP)
        normal = normal_rows(contacts, gap.shape[0] - contacts)
        dry = np.arange(gap.shape[0]) >= contacts + stops
        v = rows.velocities(free.u0)[normal]
        lengths = _lengths(system)
        slow = jnp.maximum(
            _SLOW * _largest_speed(rows, normal, contacts, free.u0), _STILL * lengths / h
        )
        slow = jax.lax.stop_gradient(slow)
        bend = jnp.where(
            strikes, 0.0, 2.0 * (later - gap - span * rate) / jnp.where(strikes, 1.0, span) ** 2
        )
        closed = (gap <= _CLOSED * lengths) | part.struck
        falling = jnp.maximum(jnp.abs(bend), parting(rows, normal, free.a0, closed & ~dry))
        falling = jax.lax.stop_gradient(falling)
        restitution = each_place(system, lambda law: law.bounces())

        # In a motion: what closes at speed waits for its impact, what closes slowly is stopped.
        meets = closing(gap, rate, bend, closed, slow, span)
        meets = meets._replace(closes=meets.closes & ~dry & ~strikes)
        waits = meets.closes & deserves_an_impact(meets.speed, falling, restitution, slow, h)
        hops = closed & (rate > slow)
        late = waits & last
        waits = waits & ~last
        acts = (closed & ~hops) | (meets.closes & ~waits)
        # In an impact: what approaches, and what rests on it.
        speed = jnp.where(part.struck, jnp.maximum(-rate, 0.0), 0.0)
        wanted_speed = restitution * speed
        bounces = part.struck & (speed > slow) & long_flight(wanted_speed, part.falling, h)
        short = part.struck & (speed > slow) & (wanted_speed > 0.0) & ~bounces
        acts = jnp.where(strikes, part.struck | (closed & (rate <= slow)), acts & ~waits)
        # Places that close together have the instant of the first one; the others' own instants
        # differ by nothing, but not so their derivatives.
        delay = jnp.where(speed > slow, gap / jnp.where(speed > slow, speed, 1.0), 0.0)
        bounce = -restitution * (rate + part.bend * delay) - part.bend * delay
        # Rows turn with the bodies: what is zero at the start and at the end of a motion is not so
        # on those of its middle. Without that, sliding along what is curved loses energy.
        wanted = jnp.where(bounces, bounce, jnp.where(closed & ~dry & ~strikes, rate - v, 0.0))
        fastest = jnp.max(jnp.where(acts & ~dry, -(rate + bend * span), 0.0), initial=0.0)
        guarded = (
            ~acts & ~waits & ~strikes & ~dry & (later < _REACH * span * jnp.maximum(fastest, 0.0))
        )
        closes_late = (acts & meets.closes & ~closed) | late
        weight = jnp.where(
            strikes,
            -delay,
            jnp.where(closes_late, _acting_for(meets, bend, span), 0.5 * span),
        )
        speeds = jnp.maximum(
            jnp.max(jnp.abs(rows.velocities(free.u1)), initial=0.0),
            jnp.max(jnp.abs(free.u1[:, :3]), initial=0.0),
        )
        dropped = (late & (restitution > 0.0)) | (short & (1.0 - restitution < _LONG_BOUNCING))
        return _Plan(
            gap=gap,
            rate=rate,
            later=later,
            bend=bend,
            falling=falling,
            slow=slow,
            restitution=restitution,
            closed=closed,
            acts=acts | dry,
            guarded=guarded,
            bounces=bounces,
            wanted=wanted,
            weight=weight,
            near=(acts | guarded) & ~dry,
            dropped=dropped,
            last=last,
            way=_REACH * h * speeds + _CLOSED * system.length,
            normal=normal,
            contacts=contacts,
            closable=~dry,
            sizes=self._sizes(contacts),
        )

    def _sizes(self, contacts: int) -> tuple[int, ...]:
        """Numbers of contacts for which the laws of a step are compiled: what does not touch should
        cost little.
        """
        most = min(contacts, self.most_contacts)
        sizes = [most]
        while sizes[0] > 6:
            sizes.insert(0, max(4, sizes[0] // 2 if most <= 64 else sizes[0] // 3))
        return tuple(sizes)

    def _by_size(self, plan: "_Plan", needed: Any, none: Callable, some: Callable) -> Any:
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

    def _pushed(
        self,
        system: System,
        free: "_Free",
        plan: "_Plan",
        part: "_Part",
        known: tuple[Array, Array],
        strikes: Bool[Array, ""],
        span: Scalar,
    ) -> "_Pushed":
        """What the laws do in this part of the step."""

        def none() -> _Pushed:
            zero, no = jnp.zeros_like(free.u0), jnp.zeros((), bool)
            return _Pushed(
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
        return self._by_size(
            plan,
            needed,
            none,
            lambda chosen: self._solved(free, plan, part, known, chosen, strikes, span),
        )

    def _solved(
        self,
        free: "_Free",
        plan: "_Plan",
        part: "_Part",
        known: tuple[Array, Array],
        chosen: Int[Array, " k"],
        strikes: Bool[Array, ""],
        span: Scalar,
    ) -> "_Pushed":
        """Impulses of the chosen contacts and of all other laws, and what they change."""
        system = free.system
        at = _Chosen.of(system, plan, chosen)
        acts, guarded, bounces, wanted, weight, later = (
            take(x, at.spots)
            for x in (plan.acts, plan.guarded, plan.bounces, plan.wanted, plan.weight, plan.later)
        )
        none = jnp.zeros_like(free.lam0)
        rows = free.rows.some(at.lines)
        pushes = rows.pushes(system.nb).reshape(at.lines.shape[0], -1)
        answers = jax.vmap(lambda f: free.solve(jnp.concatenate([f, none])))(pushes)
        X = answers[:, : free.u0.size].reshape(-1, *free.u0.shape)
        carried = answers[:, free.u0.size :]
        G = jax.vmap(rows.velocities)(X).T
        frictions = each_place(system, lambda law: law.frictions(), CONTACT)
        b = rows.velocities(free.u1)
        laws = Laws(
            matrix=G,
            free=b,
            active=acts | guarded,
            friction=take(frictions, chosen),
            bound=span * each_place(system, lambda law: law.bound(), DRY),
            share=each_place(system, lambda law: law.share(), DRY),
            carried=span * joint_forces(system, free.joint_rows, free.lam0),
            carries=joint_forces(system, free.joint_rows, carried.T),
            spent=jnp.zeros_like(b),
            stops=at.stops,
            groups=free.groups if chosen.shape[0] == plan.contacts else None,
        )
        slid = take(part.slides, at.spots) & acts & ~strikes
        last = span * take(part.lasting_force, at.lines)
        spent = spent_before_the_stop(laws, rows.velocities(free.u0), last, slid)
        # Impulses of others may close what is open and would stay so: its gap at the end must not
        # become negative, to which each impulse contributes by the time for which it acts.
        own = jnp.where(strikes, 1.0, 0.5 * span)
        each = laws.of_rows(weight) / own
        guards = jnp.zeros(b.shape, bool).at[at.normal].set(guarded)
        plain = b.at[at.normal].add(-jnp.where(bounces, 0.0, wanted))
        plain = plain.at[at.normal].set(jnp.where(guarded, later / own, plain[at.normal]))
        asked = plain.at[at.normal].add(-jnp.where(bounces, wanted, 0.0))
        laws = eqx.tree_at(
            lambda x: (x.matrix, x.free, x.spent),
            laws,
            (jnp.where(guards[:, None], G * each[None, :], G), asked, spent),
        )
        # Newton's law of impact asks for velocities that several points of one body cannot have
        # together in every case, or that take energy. Such an impact goes without restitution, and
        # says so.
        guess = jnp.where(strikes, 0.0, last)
        guess = jnp.where(known[1], take(known[0], at.lines), guess)
        problem = LawProblem(self.tolerance, self.gradient_smoothing)
        P, outcome, fails = solve_with_bounces(laws, plain, acts, jnp.any(bounces), guess, problem)
        v = laws.matrix @ P + jnp.where(fails, plain, asked)
        pushing = P[at.normal] * jnp.diagonal(laws.matrix)[at.normal]
        touching = laws.active & (pushing > v[at.normal])
        lead = jnp.where(strikes, 0.0, lead_of_the_stop(laws, P, span))
        lasts = ~strikes & take(plan.closed, at.spots)
        kinds = _states(b, v, at.normal, chosen.shape[0], touching | ~at.closable)
        sticks = (kinds[: chosen.shape[0]] == STICKS) & ~strikes
        P = _unbraced(laws, G, P, sticks)
        per = jnp.where(strikes, 1.0, span)

        def everywhere(value, places, size: int):
            return jnp.zeros(size, value.dtype).at[places].set(value, unique_indices=True)

        total, width = plan.gap.shape[0], part.impulse.shape[0]
        return _Pushed(
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

    def _next_impact(
        self,
        formulation: AbstractFormulation,
        system: System,
        free: "_Free",
        plan: "_Plan",
        pushed: "_Pushed",
        part: "_Part",
        span: Scalar,
        h: Scalar,
    ) -> tuple[Bool[Array, " c"], Scalar]:
        """Places that strike before this part would end, and how long it lasts [s]."""
        per = jnp.where(span > 0.0, span, 1.0)

        def path(s: Array) -> Array:
            return s * free.u0 + 0.5 * s**2 * free.a0 + (s / per) ** 2 * pushed.shift

        held_system = free.system
        end = jax.vmap(formulation.retract)(free.q0, path(span))
        later = gaps(formulation, held_system, jax.lax.stop_gradient(end))
        bend = 2.0 * (later - plan.gap - span * plan.rate) / per**2
        meets = closing(plan.gap, plan.rate, bend, plan.closed, plan.slow, part.left)
        fast = deserves_an_impact(meets.speed, plan.falling, plan.restitution, plan.slow, h)
        open_ = ~plan.acts & plan.closable & ~(plan.guarded & pushed.touching)
        hits = open_ & meets.closes & fast & ~plan.last & (span > 0.0)
        hits = jax.lax.stop_gradient(hits)

        def found(_) -> tuple[Array, Array]:
            near = _CLOSED * _lengths(system)
            time, together = instant_of_impact(
                formulation, held_system, free.q0, path, meets.time, hits, near
            )
            return together, time

        def whole(_) -> tuple[Array, Array]:
            return jnp.zeros_like(hits), part.left

        some = jnp.any(hits)
        together, time = jax.lax.cond(anywhere(some), found, whole, None)
        return together & some, jnp.where(some, time, part.left)

    def _struck_again(
        self,
        free: "_Free",
        plan: "_Plan",
        part: "_Part",
        u: Array,
        strikes: Bool[Array, ""],
        h: Scalar,
    ) -> Bool[Array, " c"]:
        """What impulses of an impact press together although it touched without pressing before,
        (c,): the next impact, at the same instant.
        """
        speed = -free.rows.velocities(u)[plan.normal]
        fast = deserves_an_impact(speed, part.falling, plan.restitution, plan.slow, h)
        return strikes & ~plan.last & plan.closable & plan.closed & ~plan.acts & fast

    def _closed(
        self,
        formulation: AbstractFormulation,
        free: "_Free",
        plan: "_Plan",
        pushed: "_Pushed",
        q: Coordinates,
        u: Array,
        t: Scalar,
        hits: Bool[Array, " c"],
        strikes: Bool[Array, ""],
        span: Scalar,
    ) -> tuple[Coordinates, Array, Scalar]:
        """Positions on the joints and on closed contacts, velocities on the joints, and how far a
        contact moved a body.
        """
        system = free.system

        def none():
            return projected(formulation, system, q, u, t, None)

        def some(chosen: Int[Array, " k"]):
            at = _Chosen.of(system, plan, chosen)
            zeros = jnp.zeros_like(free.lam0)
            rows = free.rows.some(at.lines)
            pushes = rows.pushes(system.nb).reshape(at.lines.shape[0], -1)
            answers = jax.vmap(lambda f: free.solve(jnp.concatenate([f, zeros])))(pushes)
            X = answers[:, : free.u0.size].reshape(-1, *free.u0.shape)
            # What touched in the laws may be open where the part ends: crossing edges that have
            # left each other have a gap of the size of their bodies.
            lowest = jnp.minimum(take(plan.gap, at.spots), 0.0) - plan.way
            shut = ClosedPlaces(
                rows,
                at.spots,
                X,
                jax.vmap(rows.velocities)(X).T,
                at.normal,
                take(pushed.touching, at.spots),
                # What strikes has its gap, whose derivative is that of its instant.
                at.closable & ~take(hits, at.spots) & ~strikes,
                lowest,
                plan.way,
                _ROUNDING * jnp.finfo(u.dtype).eps * system.length,
            )
            return projected(formulation, system, q, u, t, shut)

        return self._by_size(plan, jnp.any(plan.near) & ~strikes, none, some)

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


class _Part(eqx.Module):
    """Where the parts of a step have come to, and what they did so far.

    Attributes:
        q: Coordinates.
        u: Velocities, (nb, d).
        left: What is left of the step [s].
        count: Parts so far.
        going: Whether another one follows.
        struck: What impacts at this instant, (c,).
        falling: Accelerations that push bodies together which rest, (c,) [m/s²] or [rad/s²].
        bend: Second derivatives of gaps without impulses, (c,).
        ends: Coordinates between which corners, edges and faces were chosen, if laws have any.
        impulse: So far, (w,).
        velocity: Changes of velocities so far, (nb, d).
        lam: Impulses of joints so far, (m,).
        lasting: See `Impulses`, as all that follows.
    """

    q: Coordinates
    u: Float[Array, "nb d"]
    left: Scalar
    count: Int[Array, ""]
    going: Bool[Array, ""]
    struck: Bool[Array, " c"]
    falling: Float[Array, " c"]
    bend: Float[Array, " c"]
    ends: tuple[Coordinates, Coordinates] | None
    impulse: Float[Array, " w"]
    velocity: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    lasting: Float[Array, "nb d"]
    lasting_force: Float[Array, " w"]
    slides: Bool[Array, " c"]
    state: Int[Array, " c"]
    impact: Float[Array, " c"]
    dropped: Bool[Array, ""]
    rough: Bool[Array, ""]
    crowded: Bool[Array, ""]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


class _Plan(NamedTuple):
    """What every place does in a part of a step, (c,) unless said otherwise.

    Attributes:
        gap: At the beginning [m] or [rad].
        rate: Its rate there.
        later: Gaps at the end of a motion without impulses.
        bend: Their second derivatives.
        falling: Accelerations that push bodies together which rest.
        slow: Velocities below this are rounding.
        restitution: e.
        closed: Whether the gap is closed at the beginning.
        acts: Whether a law on velocities acts.
        guarded: Whether the gap at the end must not become negative.
        bounces: Whether an impact has restitution.
        wanted: Normal velocities asked for.
        weight: For how long impulses act on positions [s].
        near: Contacts and stops whose laws are solved.
        dropped: Whether a restitution is not respected.
        last: Whether this part must take the motion to the end of the step, ().
        way: How far positions may be moved, () [m].
        normal: Which rows are those of gaps.
        contacts: Number of places of contact.
        closable: Which places have a gap.
        sizes: Numbers of contacts that programs are made for.
    """

    gap: Array
    rate: Array
    later: Array
    bend: Array
    falling: Array
    slow: Array
    restitution: Array
    closed: Array
    acts: Array
    guarded: Array
    bounces: Array
    wanted: Array
    weight: Array
    near: Array
    dropped: Array
    last: Array
    way: Array
    normal: np.ndarray
    contacts: int
    closable: np.ndarray
    sizes: tuple[int, ...]


class _Pushed(NamedTuple):
    """What the laws do in a part of a step.

    Attributes:
        impulse: P, (w,) [N·s] or [N·m·s].
        change: What they change of velocities, (nb, d).
        shift: What they add to displacements, (nb, d).
        lasting: Acceleration by those of places that were closed, (nb, d).
        lam: Impulses of joints by them, (m,).
        state: Open, sticks or slips, (c,).
        touching: Which places the laws found closed, (c,).
        dropped: Whether an impact had no solution with restitution.
        converged: Whether the laws are satisfied.
        residual: See `Outcome`.
        iterations: Of all attempts.
    """

    impulse: Float[Array, " w"]
    change: Float[Array, "nb d"]
    shift: Float[Array, "nb d"]
    lasting: Float[Array, "nb d"]
    lam: Float[Array, " m"]
    state: Int[Array, " c"]
    touching: Bool[Array, " c"]
    dropped: Bool[Array, ""]
    converged: Bool[Array, ""]
    residual: Scalar
    iterations: Int[Array, ""]


class _Chosen(NamedTuple):
    """Some contacts and all stops and dry frictions.

    Attributes:
        spots: Their places among all, (k,).
        lines: Their rows, (w,).
        normal: Which of these are normal.
        closable: Which places have a gap, (k,).
        stops: How many are stops.
    """

    spots: Int[Array, " k"]
    lines: Int[Array, " w"]
    normal: np.ndarray
    closable: np.ndarray
    stops: int

    @staticmethod
    def of(system: System, plan: _Plan, chosen: Int[Array, " n"]) -> "_Chosen":
        contacts, stops, dry = plan.contacts, places(system, STOP), places(system, DRY)
        others = jnp.arange(stops + dry)
        lines = (3 * chosen[:, None] + jnp.arange(3)[None, :]).reshape(-1)
        n = chosen.shape[0]
        return _Chosen(
            jnp.concatenate([chosen, contacts + others]),
            jnp.concatenate([lines, 3 * contacts + others]),
            normal_rows(n, stops + dry),
            np.arange(n + stops + dry) < n + stops,
            stops,
        )


class _Free(NamedTuple):
    """A motion without laws, what answers to impulses, and the system whose laws have chosen what
    may touch.
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
    system: System
    groups: Groups | None
    ends: tuple[Coordinates, Coordinates] | None

    def moved(self, formulation: AbstractFormulation) -> Coordinates:
        """Coordinates at its end."""
        return jax.vmap(formulation.retract)(self.q0, self.d0)


def _free(
    formulation: AbstractFormulation,
    system: System,
    q0: Coordinates,
    u0: Float[Array, "nb d"],
    begin: Scalar,
    span: Scalar,
    lasting: Float[Array, "nb d"],
    features: tuple[Array, Coordinates, Coordinates] | None,
) -> _Free:
    """The motion without laws for the time `span`, linearly implicit at its middle.

    An impact has the corners, edges and faces of the motion before it, which were chosen between
    the coordinates that `features` gives where its first flag is set: they are what struck.
    """
    move = jax.vmap(formulation.retract)
    middle = begin + 0.5 * span
    q = move(q0, 0.5 * span * u0)
    now, f_dot, f_ddot = system.jet(middle)
    zero, none = jnp.zeros_like(u0), jnp.zeros(f_dot.shape, u0.dtype)
    scales = StepScales(0.5 * span, 0.25 * span**2)
    matrix, _ = step_matrices(
        formulation, now, q, u0, zero, none, middle, scales, None, exact=False
    )
    factors = factorize(matrix, system.linear_solver)
    n = u0.size

    def solve(b: Array) -> Array:
        return linear_solve(matrix.matvec, factors, b)

    bias = unbalanced(formulation, now, q, u0, zero, middle)
    gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u0)
    free = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
    # What the joints bear depends on the velocity in the middle. What held in the last step still
    # does: a mechanism that rests under load would move in the middle without.
    u_middle = u0 + 0.5 * span * (free[:n].reshape(u0.shape) + lasting)
    gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u_middle)
    borne = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
    if matrix.regularization is not None:
        borne = minimum_norm(borne, factors)
    a0, lam0 = borne[:n].reshape(u0.shape), borne[n:]
    u1, d0 = u0 + span * a0, span * u0 + 0.5 * span**2 * a0
    # What may touch is chosen once: gaps of the whole part are those of the same features.
    near, ends = system, None
    if features is not None:
        strikes, *chosen = features
        ends = jax.tree.map(
            lambda a, b: jax.lax.stop_gradient(jnp.where(strikes, a, b)),
            tuple(chosen),
            (q0, move(q0, d0)),
        )
        near = held(formulation, system, *ends)
    rows = law_rows(formulation, eqx.tree_at(lambda s: s.laws, now, near.laws), q)
    return _Free(
        q0, u0, u1, d0, a0, lam0, matrix.right, solve, rows, near, _groups(near, matrix), ends
    )


def _groups(system: System, matrix: SaddleMatrix) -> Groups | None:
    """The contacts of a mechanism in groups, where their matrix has many zeros."""
    dense = system.linear_solver == "dense"
    if not system.laws or dense or any(stack.kind != CONTACT for stack in system.laws):
        return None
    elements = tuple((pair, s.places) for s in system.laws for pair in s.bodies)
    linked = matrix.bodies + tuple(pair for c in matrix.couplings for pair in c.bodies)
    return grouped(elements, linked, system.nb)


def _lengths(system: System) -> Float[Array, " c"]:
    """What gaps are compared with, (c,): the mechanism's length [m], or one radian."""
    contacts, others = places(system, CONTACT), places(system, STOP) + places(system, DRY)
    return jnp.where(np.arange(contacts + others) < contacts, system.length, 1.0)


def _largest_speed(
    rows: LawRows, normal: np.ndarray, contacts: int, u: Float[Array, "nb d"]
) -> Float[Array, " c"]:
    """The largest normal velocity of a body at places of contact, or at the others, by place."""
    padded = jnp.concatenate([u, jnp.zeros((1, u.shape[1]), u.dtype)])
    blocks, bodies = rows.blocks[normal], rows.bodies[normal]
    each = jnp.sum(jnp.abs(blocks * take(padded, bodies)), axis=(1, 2))
    one, other = (jnp.max(x, initial=0.0) for x in (each[:contacts], each[contacts:]))
    return jnp.where(np.arange(normal.size) < contacts, one, other)


def _acting_for(meets: Closing, bend: Float[Array, " c"], span: Scalar) -> Float[Array, " c"]:
    """For how long the impulse of what closes within a part acts on positions, (c,) [s]: what stops
    the approach from its instant on, what holds it there half of the rest.
    """
    rest = jnp.clip(span - meets.time, 0.0, span)
    hold = jnp.maximum(-bend, 0.0) * rest
    needed = meets.speed + hold
    return rest * (1.0 - 0.5 * hold / jnp.where(needed > 0.0, needed, 1.0))


def _nothing(system: System, u: Float[Array, "nb d"]) -> Impulses:
    contacts, others = places(system, CONTACT), places(system, STOP) + places(system, DRY)
    zero = jnp.zeros(contacts + others, system.dtype)
    none = jnp.zeros((), int)
    return Impulses(
        jnp.zeros(3 * contacts + others, system.dtype),
        jnp.zeros(3 * contacts + others, system.dtype),
        zero,
        zero.astype(int),
        zero.astype(bool),
        zero,
        none,
        none,
        jnp.zeros((), bool),
        jnp.zeros_like(u),
    )


def _states(b, v, normal, contacts: int, touching) -> Int[Array, " c"]:
    """Open, sticks or slips."""
    n = 3 * contacts
    tangential = v[:n].reshape(contacts, 3)[:, 1:]
    slip = jnp.sqrt(jnp.sum(tangential**2, axis=1))
    # What sticks has a velocity of the solver's tolerance.
    scale = jnp.max(jnp.abs(b), initial=0.0) + jnp.finfo(v.dtype).tiny
    moving = jnp.concatenate([slip, jnp.abs(v[n:])]) > 1e-8 * scale
    return jnp.where(touching, jnp.where(moving, SLIPS, STICKS), OPEN)


def _unbraced(
    laws: Laws, G: Float[Array, "w w"], P: Float[Array, " w"], sticks: Bool[Array, " k"]
) -> Float[Array, " w"]:
    """The impulses without what sticking contacts brace each other by; of many contacts, where that
    would take as long as the laws themselves, the ones that were found.
    """
    n = 3 * laws.contacts
    if laws.contacts < 2 or n >= MANY:
        return P

    def least(P: Array) -> Array:
        return P.at[:n].set(without_bracing(G[:n, :n], P[:n], laws.friction, sticks))

    return jax.lax.cond(anywhere(jnp.sum(sticks) > 1), least, lambda P: P, P)


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
