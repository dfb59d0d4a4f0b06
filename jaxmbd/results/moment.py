"""What a row of a motion knows beside its state: the time, and what the inputs were."""

import equinox as eqx
from jaxtyping import Array, Float

from ..model.state import State
from ..model.system import System


class Moment(eqx.Module):
    """One row, or all of them with a leading axis.

    Attributes:
        t: Time, () [s].
        inputs: Values, rates and accelerations of the inputs, (3, n); None without inputs.
    """

    t: Float[Array, "*T"]
    inputs: Float[Array, "*T 3 n"] | None

    def of(self, system: System, state: State) -> System:
        """The system with the angles and element states of a state and its inputs at this
        moment.
        """
        system = system.at_state(state)
        return system if self.inputs is None else system.given(self.inputs, self.t)
