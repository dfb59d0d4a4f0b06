"""The motion between the ends of chosen steps."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...equations.index1 import judged_accelerations
from ...formulations import RA
from ...model.system import System
from ...results.interpolation import between
from ...results.saved_rows import Row
from ...rotations.types import Scalar
from ..events.acting import Held
from ..running.schedule import Schedule


class RunInputs(eqx.Module):
    """The inputs of a run at any time.

    Attributes:
        schedule: As the run was given them, or None.
        held: Those that events have set since, or None where none acts.
    """

    schedule: Schedule | None
    held: Held | None = None

    def at(self, t: Scalar) -> Float[Array, "3 n"] | None:
        """Values, rates and accelerations, (3, n); None of a mechanism without inputs, or with
        inputs that stay.
        """
        if self.schedule is None:
            return None
        return self._over(lambda schedule: schedule.first(t, jnp.zeros_like(t)), t)

    def during(self, t: Scalar, h: Scalar) -> Float[Array, "3 n"] | None:
        """In the step of length h that ends at t."""
        return (
            None if self.schedule is None else self._over(lambda schedule: schedule.at(1, t, h), t)
        )

    def of(self, system: System, t: Scalar) -> System:
        """The system with its inputs as they are at an instant."""
        given = self.at(t)
        return system if given is None else system.given(given, t)

    def _over(
        self, found: Callable[[Schedule], Float[Array, "3 n"]], t: Scalar
    ) -> Float[Array, "3 n"]:
        assert self.schedule is not None
        none = jnp.zeros((3, 0), t.dtype)  # where there are no inputs at all
        given = found(self.schedule) if self.schedule.parts else none
        return given if self.held is None else self.held.over(given)


class Path(eqx.Module):
    """The ends of all steps of a run: rejected ones, and those of a search, repeat the one before.

    Attributes:
        knots: Their times, (K,) [s].
        rows: The motion there, with a leading axis.
        reached: The time that the run reached [s].
        started: Whether it began at all.
        held: The inputs that events have set at each of them; None where none acts.
        told: The event that was reached in the turn before each of them, -1 for none, (K,); or
            None.
        through: Bounces of each event that were too slow for a step, (E,); or None.
    """

    knots: Float[Array, " K"]
    rows: Row
    reached: Scalar
    started: Bool[Array, ""]
    held: Held | None = None
    told: Int[Array, " K"] | None = None
    through: Int[Array, " E"] | None = None

    def step_of(self, t: Scalar) -> Int[Array, ""]:
        """The step in which a time lies; refused ones repeat a knot, and that which grows past it
        counts.
        """
        k = jnp.searchsorted(self.knots, t, side="left") - 1
        return jnp.clip(k, 0, len(self.knots) - 2)

    def inputs(self, schedule: Schedule | None, k: Int[Array, ""]) -> RunInputs:
        """The inputs in the k-th step."""
        return RunInputs(schedule, jax.tree.map(lambda x: x[k], self.held))


def row_between(
    system: System, schedule: Schedule | None, path: Path, t: Scalar, k: Int[Array, ""]
) -> tuple[Row, Bool[Array, ""]]:
    """The row at a time in the k-th step, interpolated between its ends, NaN after the instant that
    was reached; and whether its multipliers leave out a part of the forces.
    """
    knots = path.knots
    h = knots[k + 1] - knots[k]
    inside = h > 0.0
    s = jnp.where(inside, (t - knots[k]) / jnp.where(inside, h, 1.0), 0.0)
    ends = [jax.tree.map(lambda x, i=i: x[i], path.rows) for i in (k, k + 1)]
    now = path.inputs(schedule, k).of(system, t)
    row, undetermined = _balanced(now, between(*ends, h=jnp.where(inside, h, 1.0), s=s), t)
    known = (t <= path.reached) & path.started
    row = jax.tree.map(
        lambda x: jnp.where(known, x, jnp.nan) if eqx.is_inexact_array(x) else x, row
    )
    return row, known & undetermined


def _balanced(system: System, row: Row, t: Scalar) -> tuple[Row, Bool[Array, ""]]:
    """The row with the accelerations and multipliers of the index-1 equations at its positions and
    velocities, and whether these leave out a part of the forces.

    Those of an index-3 method carry its positions' error divided by the step squared, and
    derivatives of the curve between two steps multiply it again.
    """
    u = jnp.concatenate([row.twist.v, row.twist.omega], axis=1)
    # Between those at the ends of the step.
    system = system.wound(row.angles).with_element_states(row.element_states)
    angles = system.angle_values(RA().with_ground(row.pose))
    a, lam, undetermined = judged_accelerations(RA(), system, row.pose, u, t)
    new = (a[:, :3], a[:, 3:], system.to_natural(lam), angles)
    return eqx.tree_at(lambda r: (r.a, r.alpha, r.lam, r.angles), row, new), undetermined
