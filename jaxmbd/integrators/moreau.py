"""Time stepping for stops, dry friction, contact and impact, with gradients across them."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..complementarity import LawProblem
from ..equations.laws import gaps
from ..formulations.base import AbstractFormulation, Coordinates
from ..model.system import System
from ..outcomes import RESULTS
from ..rotations.types import Scalar
from ..solvers import NewtonInfo
from ..xla.repeated import repeated
from .base import AbstractIntegrator, Motion
from .element_states import AbstractStateRule, Midpoint
from .moreau_step.ends import next_impact, on_closed_places, struck_again
from .moreau_step.free_motion import Interval, free_motion
from .moreau_step.laws import pushed
from .moreau_step.memory import OPEN, SLIPS, Impulses, no_impulses
from .moreau_step.part import Part, Reached, Stretch
from .moreau_step.plan import planned
from .moreau_step.projection import projected

# Forces are computed for a part of a step that is at least this long, in steps: those of a shorter
# part would be rounding.
_SHORTEST = 1e-3


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
            that step are plastic and act over the rest of it, to first order in the step;
            `stats["law_impacts_merged"]` counts such steps, and `stats["law_bounces_dropped"]`
            those in which they should have bounced.

    Reference:
        Moreau, "Unilateral contact and dry friction in finite freedom dynamics", 1988; the instants
        of impact and their derivatives are this project's own, see the manual's theory.
    """

    name: ClassVar[str] = "moreau"
    takes_laws: ClassVar[bool] = True
    keeps_accelerations: ClassVar[bool] = False

    tolerance: float = eqx.field(static=True, default=1e-11)
    gradient_smoothing: float = eqx.field(static=True, default=0.0)
    most_contacts: int = eqx.field(static=True, default=200)
    most_impacts: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        if self.most_contacts < 1:
            raise ValueError(f"Moreau: most_contacts must be at least 1, not {self.most_contacts}")
        if self.most_impacts < 0:
            raise ValueError(f"Moreau: most_impacts must not be negative, not {self.most_impacts}")

    @property
    def state_rule(self) -> AbstractStateRule:
        return Midpoint()

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        return Motion(motion.q, motion.u, motion.a, motion.lam, no_impulses(system, motion.u))

    def anew(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        # Laws are velocities' and know of no earlier step; what they did counts for the whole run.
        if not system.laws:
            return super().anew(formulation, system, motion, t, h)
        return motion

    def tries(self, system: System) -> bool:
        return bool(system.laws)

    def tried(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        step: tuple[Motion, NewtonInfo],
    ) -> Motion:
        # Accelerations and multipliers of the first row know of the laws as well.
        first, info = step
        none = jnp.zeros((), int)
        memory = eqx.tree_at(
            lambda m: (m.gap, m.dropped, m.merged, m.rough),
            first.memory,
            (gaps(formulation, system, motion.q), none, none, none),
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
            free = free_motion(formulation, system, q, u, Interval(t - h, h), lasting, None)
            q, u, _ = projected(formulation, system, free.moved(formulation), free.u1, t, None)
            after = Motion(q, u, free.a0, free.lam0, before)
            return after, _info(0, True, free.a0, q)

        nothing, none = no_impulses(system, u), jnp.zeros((), int)
        begun = Part(
            q=q,
            u=u,
            left=h,
            aim=h,
            aimed=jnp.zeros((), bool),
            count=none,
            going=jnp.asarray(active),
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
            merged=jnp.zeros((), bool),
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
            before.merged + ended.merged.astype(int),
            before.rough + ended.rough.astype(int),
            ended.crowded,
            ended.lasting,
        )
        after = Motion(ended.q, ended.u, ended.velocity / h, ended.lam / h, memory)
        converged = ended.converged & ~ended.crowded
        return after, _info(ended.iterations, converged, ended.velocity, ended.q)

    @property
    def _most_parts(self) -> int:
        """Motions, each to be repeated up to its impact, and impacts in between."""
        return 3 * self.most_impacts + 1

    def _part(
        self,
        formulation: AbstractFormulation,
        system: System,
        part: Part,
        known: tuple[Array, Array],
        t: Scalar,
        h: Scalar,
    ) -> tuple[Part, Float[Array, " w"]]:
        """An impact at this instant, or a motion up to the next one or to the end of the step; and
        its impulses. These may be `known` already, as the second of the pair says.

        An impact is a motion of no duration: velocities change by impulses alone. The motion up to
        it is computed twice, at last with the loads of its own middle: with those of a longer one
        the velocity would err by the square of the step, and its derivative by the step.
        """
        strikes, last = jnp.any(part.struck), part.count >= self._most_parts - 2
        begin, aim = t - part.left, jnp.where(last, part.left, part.aim)
        span = jnp.where(strikes, 0.0, jnp.maximum(aim, _SHORTEST * h))
        stretch = Stretch(begin, span, aim, h, strikes, last)
        features = None if part.ends is None else (strikes, *part.ends)
        interval = Interval(begin, span)
        free = free_motion(formulation, system, part.q, part.u, interval, part.lasting, features)
        plan = planned(formulation, free, part, stretch, self.most_contacts)
        problem = LawProblem(self.tolerance, self.gradient_smoothing)
        push = pushed(free, plan, part, known, stretch, problem)

        hits, length = next_impact(formulation, free, plan, push, part, stretch)
        cut = jnp.any(hits) & ~strikes
        length = jnp.where(strikes, 0.0, length)
        share = jnp.where(strikes, 1.0, length / jnp.where(strikes, 1.0, span))
        change = length * free.a0 + share * push.change
        d = length * free.u0 + 0.5 * length**2 * free.a0 + share**2 * push.shift
        q1 = jax.vmap(formulation.retract)(free.q0, d)
        end = Reached(q1, free.u0 + change, begin + length)
        q1, u1, moved = on_closed_places(formulation, free, plan, push, end, hits, strikes)
        again = struck_again(free, plan, part, u1, strikes, h)
        hits = jnp.where(strikes, again, hits & cut)

        finite = jnp.all(jnp.isfinite(u1))
        rests = ~strikes
        states = jnp.where(push.state != OPEN, push.state, part.state)
        first = part.struck & (part.impact <= 0.0)
        left = part.left - length
        after = Part(
            q=q1,
            u=u1,
            left=left,
            aim=left,
            aimed=jnp.zeros((), bool),
            count=part.count + 1,
            going=(strikes | cut | (left > 0.0)) & finite,
            struck=hits,
            falling=jnp.where(strikes, part.falling, plan.falling),
            bend=jnp.where(strikes, part.bend, plan.bend),
            ends=free.ends,
            impulse=part.impulse + share * push.impulse,
            velocity=part.velocity + change,
            lam=part.lam + length * free.lam0 + share * push.lam,
            lasting=jnp.where(rests, push.lasting, part.lasting),
            lasting_force=jnp.where(
                rests,
                jax.lax.stop_gradient(push.impulse) / jnp.where(rests, span, 1.0),
                part.lasting_force,
            ),
            slides=jnp.where(rests, push.state == SLIPS, part.slides),
            state=states,
            impact=jnp.where(first, h - part.left, part.impact),
            dropped=part.dropped | push.dropped | jnp.any(plan.dropped),
            merged=part.merged | plan.merged,
            rough=part.rough | (push.residual > self.tolerance),
            crowded=part.crowded | (jnp.sum(plan.near[: plan.contacts]) > plan.sizes[-1]),
            # Places that ask for more than a part's way contradict each other: nothing is near.
            converged=part.converged & push.converged & (moved <= plan.way),
            iterations=part.iterations + push.iterations,
        )
        aims = cut & ~part.aimed
        anew = eqx.tree_at(
            lambda p: (p.aim, p.aimed, p.count, p.iterations),
            part,
            (length, aims, after.count, after.iterations),
        )
        after = jax.tree.map(lambda a, b: jnp.where(aims, a, b), anew, after)
        return after, jax.lax.stop_gradient(push.impulse)

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
            "law_impacts_merged": memory.merged,
            "law_steps_rough": memory.rough,
        }


def _info(
    iterations: Int[Array, ""] | int,
    converged: Bool[Array, ""] | bool,
    a: Float[Array, "nb d"],
    q: Coordinates,
) -> NewtonInfo:
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
