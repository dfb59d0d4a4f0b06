"""What `place` and `follow` return."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...model.readable import counted, known, readable
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, as_jax
from ...outcomes import RESULTS
from ...results.asking import full_name
from ...results.columns import columns_of, refuse_unknown
from .goals import instant
from .numbers import numbers_of


class PlacementError(ValueError):
    """Goals that have to be met cannot be, within the limits; the message names them.

    Attributes:
        placement: What was found: the closest that the mechanism comes.
    """

    placement: "Placement"


class Placement(eqx.Module):
    """A pose that was looked for, see `place`.

    Attributes:
        state: The mechanism there, at rest.
        result: `RESULTS.successful`; `RESULTS.goals_not_met` where a goal that has to be met is
            missed, and the state is the closest; `RESULTS.assembly_failed` where joints do not
            close.
        misses: By goal, its distance from the pose [m], [rad] or of a function.
        units: Pairs of goals, in the order in which they were given, and the units of their misses.
        at_limits: By quantity with limits, -1 at the lower one, 1 at the upper one, else 0.
        cost: ½ Σ weight miss² of the goals with weights, and the share of the distance from the
            start; lengths in parts of the mechanism's.
        settled: Whether the pose is a local optimum, with derivatives; where the search ended
            before, goals may be met all the same.
        steps: Of the search.
    """

    state: State
    result: RESULTS
    misses: dict[str, Float[Array, "*batch"]]
    at_limits: dict[str, Int[Array, "*batch"]]
    cost: Float[Array, "*batch"]
    settled: Bool[Array, "*batch"]
    steps: Int[Array, "*batch"]
    units: tuple[tuple[str, str], ...] = eqx.field(static=True)

    def value(self, name: str, system: System, t: Numbers = 0.0) -> Array:
        """A quantity of the pose by a name that `quantities` lists, such as "elbow.angle"; of a
        path one for every pose.

        Raises:
            ValueError: There is no such quantity.
        """
        refuse_unknown([name], system)
        full = full_name(name, {column.name for column in columns_of(system)})
        t = as_jax(t, system.dtype)

        def one(state: State) -> Array:
            state = system.with_turns(state)
            near = system.turns() if state.angles is None else state.angles
            now = instant(system, state.pose, near, state.element_states, t)
            return numbers_of(system, now, [full])[full]

        return one(self.state) if self.state.r.ndim == 2 else jax.vmap(one)(self.state)

    def __repr__(self) -> str:
        return readable(self, _described)


def _described(found: Placement) -> str:
    if not known(found.cost) or np.ndim(found.cost):
        return f"Placement: {counted(len(found.misses), 'goal')}"
    said = "joints do not close"
    for result, words in (
        (RESULTS.successful, "goals met"),
        (RESULTS.goals_not_met, "goals not met"),
    ):
        said = words if bool(found.result == result) else said
    lines = [f"Placement: {said}, {counted(int(found.steps), 'step')}"]
    if not bool(found.settled):
        lines[0] += "; no local optimum yet, so that derivatives are not those of one"
    for name, unit in found.units:
        lines.append(f"  {name}: off by {float(found.misses[name]):.2e} {unit}")
    for name, side in found.at_limits.items():
        if int(side):
            lines.append(f"  {name}: at its {'lower' if int(side) < 0 else 'upper'} limit")
    return "\n".join(lines)
