"""Controllers that see the whole state of a mechanism."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...formulations import RA
from ...model.state import State
from ...model.system import System
from ...results.columns import columns_of
from ...rotations.types import Scalar
from ..controllers import Controller
from .charts import Chart, at, chart
from .problem import Problem

_XYZ = "xyz"


class AbstractStateController(Controller):
    """A controller that sees poses and velocities of all bodies, and states of force elements."""

    problem: eqx.AbstractVar[Problem]

    @property
    def observes(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return state_names(self.problem.system)

    @property
    def commands(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return tuple(self.problem.inputs.names(self.problem.system))


def state_names(system: System) -> tuple[str, ...]:
    """The quantities that a state is made of: of each body position, orientation, and velocities,
    then states of force elements.
    """
    known = {column.name for column in columns_of(system)}

    def full(name: str) -> str:
        # Where a joint or a frame has the body's name, its kind stands before it.
        return name if f"bodies.{name}" not in known else f"bodies.{name}"

    bodies = [
        full(f"{body}.{part}")
        for body in system.bodies
        for part in (
            *(f"r.{axis}" for axis in _XYZ),
            *(f"A{m}{n}" for m in (1, 2, 3) for n in (1, 2, 3)),
            *(f"v.{axis}" for axis in _XYZ),
            *(f"omega.{axis}" for axis in _XYZ),
        )
    ]
    return (*bodies, *system.element_state_names)


def state_of(system: System, seen: Float[Array, " n"], near: Float[Array, " w"]) -> State:
    """The state from its quantities, with angles near those that it had."""
    count = system.nb * 18
    parts = seen[:count].reshape(system.nb, 18)
    A = parts[:, 3:12].reshape(system.nb, 3, 3)
    state = State(parts[:, :3], A, parts[:, 12:15], parts[:, 15:], near, seen[count:])
    angles = system.wound(near).angle_values(RA().with_ground(state.pose))
    return eqx.tree_at(lambda s: s.angles, state, angles)


def closed_at(problem: Problem, state: State, t: Scalar) -> tuple[State, Chart]:
    """The state nearest to one that measurement, or the step of a simulation, left open, and the
    chart there.
    """
    system = problem.system
    here = chart(system, state, t, problem.ranks)
    closed, _ = at(system, here, jnp.zeros(problem.local, t.dtype), t)
    return closed, chart(system, closed, t, problem.ranks)
