"""What the events of a run look at."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...model.events import SIGNS, Event
from ...model.system import System
from ...outcomes import RESULTS
from ...results.columns import columns_by_name
from ...results.moment import Moment
from ...results.saved_rows import Row, make_solution
from ...rotations.types import Scalar
from .kinks import Kink, kinks_at


def which_act(events: Sequence[Event]) -> Bool[np.ndarray, " E"]:
    """Which events act."""
    return np.asarray([bool(event.actions) for event in events])


def signs_of(events: Sequence[Event]) -> Float[np.ndarray, " E"]:
    """1 for events that rise, -1 for those that fall, 0 for both."""
    return np.asarray([SIGNS[event.direction] for event in events])


def values_of(
    system: System,
    events: Sequence[Event],
    row: Row,
    t: Scalar,
    inputs: Float[Array, "3 n"] | None,
) -> Float[Array, " E"]:
    """The value of every event at an instant, less the one that is passed."""
    rows = jax.tree.map(lambda x: x[None], row)
    given = None if inputs is None else inputs[None]
    now = make_solution(t[None], rows, RESULTS.successful, {}, system, inputs=given)
    found, state = [], now.at(0)
    bends = []
    if any(isinstance(event.function, Kink) for event in events):
        bends = kinks_at(Moment(t, inputs).of(system, state), state, t)
    for event in events:
        if isinstance(at := event.function, Kink):
            value = bends[at.stack][at.element, at.value]
        elif event.function is not None:
            value = event.function(state.pose, state.twist, state.element_states, t)
        else:
            assert event.quantity is not None
            value = columns_by_name(now, system, [event.quantity])[0][0]
        found.append(jnp.asarray(value, t.dtype).reshape(()) - event.value)
    return jnp.stack(found)
