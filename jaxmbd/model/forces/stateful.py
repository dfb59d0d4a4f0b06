"""Force elements with states of their own: a motor's current, a filter, a bristle, a pressure.

Between steps the states are numbers that a motion carries. Within a step they are what the element
itself makes of its bodies' motion: the rule of the integration method,

    share (z - past) = weight ż(pose, twist, z, t),

has as many unknowns as the element has states. The element solves it for z wherever its wrench is
asked for, so that a step has no more unknowns than without, and knows the states' derivatives by
the motion. Weight zero holds the states at `past`; share zero is rest.
"""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, host
from ...xla.indexing import take
from ..state import Pose, Twist
from ..validation import Numbers
from .base import AbstractForce, ForceStack, Output

# States that miss their rule by more than this part of its terms were not found.
_FOUND = 1e-6


class StateLabel(NamedTuple):
    """A state of an element as reports know it."""

    name: str
    unit: str


class StateRule(eqx.Module):
    """The discretized equation of an element's states and their rates: share (z - past) = weight ż.

    Attributes:
        past: (s,), in units of the states.
        share: [-].
        weight: [s].
    """

    past: Float[Array, "*n s"]
    share: Float[Array, "*n"]
    weight: Float[Array, "*n"]

    @staticmethod
    def held(z: Float[Array, " s"]) -> "StateRule":
        """The states stay as they are."""
        return StateRule(z, host.ones((), z.dtype), host.zeros((), z.dtype))


class AbstractStatefulForce(AbstractForce):
    """Base class of force elements with states.

    Class attributes:
        linear: Whether ż is linear in z, so that one solution finds it.
        linear_in_pieces: Whether it is so on either side of limits.
        most_iterations: Of Newton's method, where it is not linear.
        rests: Whether ż = 0 determines the states of bodies that rest, as `equilibrium` needs.

    Attributes:
        rule: What the states are now; described with `StateRule.held` and their initial values.
    """

    most_iterations: ClassVar[int] = 12
    linear_in_pieces: ClassVar[bool] = False
    # No ClassVars: elements may know these by their numbers.
    linear = False
    rests = True

    rule: eqx.AbstractVar[StateRule]

    @abc.abstractmethod
    def labels(self) -> tuple[StateLabel, ...]:
        """Names and units of the states."""

    @abc.abstractmethod
    def state_rates(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        """ż, per second; `pose` and `twist` have a leading axis over the element's bodies."""

    @abc.abstractmethod
    def loads(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        """The wrench at given states, as `AbstractForce.wrench` returns it."""

    def internal_energy(self, z: Float[Array, " s"]) -> Scalar:
        """Energy stored in the states [J]; zero by default."""
        return jnp.zeros((), z.dtype)

    def seen(self, pose: Pose, twist: Twist) -> Any:
        """What its states see of its bodies' motion, found once and not in every turn of Newton."""
        return pose, twist

    def rates_seen(self, motion: Any, z: Float[Array, " s"], t: Scalar) -> Float[Array, " s"]:
        """`state_rates` of what `seen` returned."""
        pose, twist = motion
        return self.state_rates(pose, twist, z, t)

    def states(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " s"]:
        """The states that satisfy the rule at this motion, differentiable in all numbers."""
        return self.states_seen(self.seen(pose, twist), t)

    def states_seen(self, motion: Any, t: Scalar) -> Float[Array, " s"]:
        """`states` at what `seen` returned: Newton's method from `past`.

        Of its last turns some are differentiated: of rates that are linear in z in pieces one,
        otherwise two, of which each squares what the ones before leave of an error, so that
        derivatives up to the third are those of the root.
        """

        def better(z: Array, given: tuple[AbstractStatefulForce, Any, Scalar]) -> Array:
            element, motion, t = given
            rule = element.rule

            def missing(z: Array) -> tuple[Array, Array]:
                rates = element.rates_seen(motion, z, t)
                rest = rule.share * (z - rule.past) - rule.weight * rates
                return rest, rest

            J, rest = jax.jacfwd(missing, has_aux=True)(z)
            return z - _solved(J, rest)

        z, known = self.rule.past, (self, motion, t)
        if not self.linear:
            still, z = jax.tree.map(jax.lax.stop_gradient, (known, z))
            z = jax.lax.fori_loop(0, self.most_iterations, lambda _, z: better(z, still), z)
            z = jax.lax.stop_gradient(z)
            if not self.linear_in_pieces:
                z = better(z, known)
        return better(z, known)

    def checked_states(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " s"]:
        """`states`, or NaN where Newton's method has not found them."""
        z, rule = self.states(pose, twist, t), self.rule
        now, past = rule.share * z, rule.share * rule.past
        change = rule.weight * self.state_rates(pose, twist, z, t)
        size = jnp.abs(now) + jnp.abs(past) + jnp.abs(change)
        # At rest nothing but rounding is left to compare with.
        found = jnp.all(jnp.abs(now - past - change) <= _FOUND * size) | (rule.share == 0.0)
        return jnp.where(jax.lax.stop_gradient(found), z, jnp.nan)

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        return self.loads(pose, twist, self.states(pose, twist, t), t)

    def potential(self, pose: Pose) -> Scalar:
        """Of the element and of its states, which are those that it holds."""
        return super().potential(pose) + self.internal_energy(self.rule.past)

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """What other elements say, and the states."""
        return (*super().outputs(pose, twist, t), *self.state_outputs(pose, twist, t))

    def state_outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The states by their names."""
        z = self.states(pose, twist, t)
        return tuple(Output(x.name, x.unit, z[k]) for k, x in enumerate(self.labels()))


def _solved(J: Float[Array, "s s"], b: Float[Array, " s"]) -> Float[Array, " s"]:
    """J⁻¹ b for few unknowns: a library's call would take longer. By determinants up to two, else
    by elimination with pivots.
    """
    n = b.shape[0]
    if n == 1:
        return b / J[0]
    if n == 2:
        (p, q), (r, s) = J
        return jnp.stack([s * b[0] - q * b[1], p * b[1] - r * b[0]]) / (p * s - q * r)
    rows = jnp.concatenate([J, b[:, None]], axis=1)
    for k in range(n):
        pivot = k + jnp.argmax(jnp.abs(rows[k:, k])) if k + 1 < n else k
        first, other = rows[k], take(rows, pivot) if k + 1 < n else rows[k]
        if k + 1 < n:
            rows = rows.at[pivot].set(first).at[k].set(other)
        row = rows[k] / rows[k, k]
        factors = rows[:, k].at[k].set(0.0)
        rows = (rows - factors[:, None] * row[None, :]).at[k].set(row)
    return rows[:, n]


# --- all elements of a mechanism ---


def stateful(stacks: tuple[ForceStack, ...]) -> list[tuple[int, AbstractStatefulForce]]:
    """The stacks whose elements have states, with their places."""
    return [
        (k, s.force) for k, s in enumerate(stacks) if isinstance(s.force, AbstractStatefulForce)
    ]


def held_states(stacks: tuple[ForceStack, ...]) -> Float[Array, " s"]:
    """The states that all elements hold, element by element, (s,)."""
    found = [force.rule.past.reshape(-1) for _, force in stateful(stacks)]
    return jnp.concatenate(found) if found else jnp.zeros(0)


def with_rule(
    stacks: tuple[ForceStack, ...], past: Float[Array, " s"], share: Numbers, weight: Numbers
) -> tuple[ForceStack, ...]:
    """The stacks with this rule for all states."""
    out, first = list(stacks), 0
    for k, force in stateful(stacks):
        shape = force.rule.past.shape
        size = int(np.prod(shape))
        part = past[first : first + size].reshape(shape)
        rule = StateRule(
            part,
            jnp.broadcast_to(jnp.asarray(share, part.dtype), shape[:-1]),
            jnp.broadcast_to(jnp.asarray(weight, part.dtype), shape[:-1]),
        )
        force = eqx.tree_at(lambda f: f.rule, force, rule)
        out[k] = dataclasses.replace(stacks[k], force=force)
        first += size
    return tuple(out)


def of_all(stacks: tuple[ForceStack, ...], function: Any, *states: Any) -> Float[Array, " s"]:
    """`function(element, *states of its bodies)` for all elements with states, flat; `states` have
    nb + 1 rows.
    """
    found = []
    for k, _ in stateful(stacks):
        stack = stacks[k]
        local = jax.tree.map(lambda x, index=stack.index: take(x, index), states)
        found.append(stack.each(function, *local).reshape(-1))
    return jnp.concatenate(found) if found else jnp.zeros(0)
