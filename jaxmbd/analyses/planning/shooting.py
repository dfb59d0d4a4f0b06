"""The motion over one interval between two knots, with what it costs and how far it is from limits,
as functions of the local coordinates at its beginning and of the inputs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...formulations import RA
from ...model.state import Pose, State, Twist
from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution
from ...rotations import so3
from ...rotations.types import Scalar
from .charts import Chart
from .reduced import reduced

# Share of the step, and weight, of each stage of the classical Runge-Kutta method.
_RK4 = ((0.0, 1.0 / 6.0), (0.5, 1.0 / 3.0), (0.5, 1.0 / 3.0), (1.0, 1.0 / 6.0))


class Inputs(eqx.Module):
    """How inputs follow from the numbers of a plan.

    Attributes:
        places: Which of the mechanism's inputs are planned.
        others: Values, rates and accelerations of all inputs; those planned are replaced.
        sizes: Of the planned ones: the numbers of a plan are parts of these, (m,).
        linear: Whether they go from knot to knot in straight lines, or are held from each.
    """

    places: tuple[int, ...] = eqx.field(static=True)
    others: Float[Array, "3 n"]
    sizes: Float[Array, " m"]
    linear: bool = eqx.field(static=True)

    @property
    def count(self) -> int:
        """Of planned inputs."""
        return len(self.places)

    def names(self, system: System) -> list[str]:
        """Of the planned inputs."""
        starts = np.cumsum([0, *(label.width for label in system.inputs)])
        at = dict(zip(starts.tolist(), system.inputs, strict=False))
        return [at[place].name for place in self.places]

    def values(self, system: System) -> dict[str, Any]:
        """Those that are not planned, as a caller gives them."""
        found, first = {}, 0
        for label in system.inputs:
            part = self.others[:, first : first + label.width].reshape(3, *label.shape)
            if first not in self.places:
                found[label.name] = tuple(part) if label.drives else part[0]
            first += label.width
        return found

    def during(
        self, begin: Float[Array, " m"], end: Float[Array, " m"], share: Scalar, length: Scalar
    ) -> Float[Array, "3 n"]:
        """All inputs at a share of an interval of some length [s]."""
        where = np.array(self.places, int)
        begin, end = begin * self.sizes, end * self.sizes
        if not self.linear:
            return self.others.at[0, where].set(end)
        values = self.others.at[0, where].set(begin + share * (end - begin))
        return values.at[1, where].set((end - begin) / length)


class Moving(eqx.Module):
    """What a motion is integrated in, or its rates: positions, orientations and speeds of a chart,
    and states of force elements.
    """

    r: Float[Array, "nb 3"]
    A: Float[Array, "nb 3 3"]
    w: Float[Array, " f"]
    z: Float[Array, " s"]


class _Stages(eqx.Module):
    """Between two stages: the beginning of the step, the rates of the last stage, their weighted
    sum, and the angles there.
    """

    start: Moving
    last: Moving
    total: Moving
    angles: Float[Array, " w"]


class Fine(eqx.Module):
    """The motion at all steps of an interval, its beginning first.

    Attributes:
        rows: What is saved of it, with a leading axis.
        inputs: (S + 1, 3, n).
        t: (S + 1,) [s].
    """

    rows: Row
    inputs: Float[Array, "*s 3 n"]
    t: Float[Array, "*s"]

    def instants(self, system: System) -> Solution:
        """As a solution."""
        return make_solution(self.t, self.rows, RESULTS.successful, {}, system, inputs=self.inputs)


def flown(
    system: System,
    here: Chart,
    state: State,
    inputs: Callable[[Scalar], Float[Array, "3 n"]],
    begin: Scalar,
    length: Scalar,
    steps: int,
) -> tuple[State, Fine]:
    """The state at the end of an interval, and all of its steps: by the classical Runge-Kutta
    method, in the speeds of the chart at its beginning.
    """
    h = length / steps
    units = jnp.tile(system.units(), system.nb)
    base = system.at_state(state)
    u = jnp.concatenate([state.v, state.omega], axis=1).reshape(-1) / units
    z = jnp.zeros(0, h.dtype) if state.element_states is None else state.element_states
    angles = system.turns() if state.angles is None else state.angles

    def rates(y: Moving, t: Scalar, now: System) -> tuple[Moving, Row]:
        pose = Pose(y.r, y.A)
        found = reduced(now, here, pose, y.w, t)
        v, omega = found.u[:, :3], found.u[:, 3:]
        twist = Twist(v, omega)
        turning = y.A @ jax.vmap(so3.skew)(omega)
        dz = _state_rates(now, pose, twist, t) if y.z.size else y.z
        lam = now.to_natural(found.multipliers)
        near = now.angle_values(RA().with_ground(pose))
        count = jnp.zeros((), int)
        row = Row(pose, twist, found.a[:, :3], found.a[:, 3:], lam, near, y.z, count)
        return Moving(v, turning, found.rates, dz), row

    def stage(c: _Stages, k: tuple[Array, ...]) -> tuple[_Stages, Fine]:
        part, weight, share, begins = k
        # A step ends where the next one begins; back to rotations by what its own error is.
        ended = jax.tree.map(lambda y, dy: y + h * dy, c.start, c.total)
        ended = dataclasses.replace(ended, A=_as_rotations(ended.A))
        start = jax.tree.map(lambda new, old: jnp.where(begins, new, old), ended, c.start)
        total = jax.tree.map(lambda x: jnp.where(begins, 0.0, x), c.total)
        y = jax.tree.map(lambda a, b: a + part * h * b, start, c.last)
        t, values = begin + share * length, inputs(share)
        now = base.wound(c.angles).given(values, t)
        if y.z.size:
            now = now.with_element_states(y.z)
        last, row = rates(y, t, now)
        total = jax.tree.map(lambda a, b: a + weight * b, total, last)
        return _Stages(start, last, total, row.angles), Fine(row, values, t)

    first = Moving(state.r, state.A, here.speeds.T @ u, z)
    still = jax.tree.map(jnp.zeros_like, first)
    *numbers, begins = _plan(steps)
    plan = (*(jnp.asarray(x, h.dtype) for x in numbers), jnp.asarray(begins))
    _, all_stages = jax.lax.scan(stage, _Stages(first, still, still, angles), plan)
    fine = jax.tree.map(lambda x: x[::4], all_stages)
    last = jax.tree.map(lambda x: x[-1], fine.rows)
    end = State(
        *(last.pose.r, last.pose.A, last.twist.v, last.twist.omega),
        last.angles,
        None if state.element_states is None else last.element_states,
    )
    return end, fine


def _as_rotations(A: Float[Array, "nb 3 3"]) -> Float[Array, "nb 3 3"]:
    """Rotations nearest to matrices that nearly are, but for the square of what they are off."""
    return 1.5 * A - 0.5 * A @ jnp.swapaxes(A, 1, 2) @ A


def _plan(steps: int) -> tuple[np.ndarray, ...]:
    """Of all stages of all steps, and of the first of the step that is not taken: the part of the
    step, the weight, the share of the interval, and whether a step begins.
    """
    part, weight = np.array(_RK4).T
    k = np.arange(4 * steps + 1)
    share = (k // 4 + part[k % 4]) / steps
    return part[k % 4], weight[k % 4], share, k % 4 == 0


def _state_rates(now: System, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " s"]:
    ground = jnp.zeros((1, 3), pose.r.dtype)
    padded = Twist(*(jnp.concatenate([x, ground]) for x in (twist.v, twist.omega)))
    return now.element_state_rates(RA().with_ground(pose), padded, t)


def quadrature(steps: int) -> np.ndarray:
    """Weights of the values at all steps in the mean over an interval: Simpson's rule, or the
    trapezoidal rule of a single step.
    """
    if steps == 1:
        return np.array([0.5, 0.5])
    weights = np.zeros(steps + 1)
    for k in range(0, steps, 2):
        weights[k : k + 3] += np.array([1.0, 4.0, 1.0]) / (3.0 * steps)
    return weights
