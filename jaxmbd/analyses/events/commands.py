"""Commands of a sampled controller in a run that looks for events: samples are taken at the ends of
whole steps, and commands hold across an event within a step.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...model.system import System
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_solution
from ...rotations.types import Scalar
from ..commanded import commanded
from ..controllers import Control, Controller
from ..running.schedule import FromStep, InputPart


class Commanding(eqx.Module):
    """A controller of a run: what stays as it is.

    Attributes:
        system: The mechanism, with the names of its quantities.
        controller: That gives some of its inputs.
        h: The step size [s].
    """

    system: System
    controller: Controller
    h: Scalar

    def parts(
        self, parts: tuple[InputPart, ...], command: Float[Array, " k"], n: Int[Array, ""]
    ) -> tuple[InputPart, ...]:
        """The parts of a schedule with a command in the n-th step."""
        by_name = dict(zip((label.name for label in self.system.inputs), parts, strict=True))
        first = 0
        for label in commanded(self.system, self.controller):
            value = command[first : first + label.width]
            first += label.width
            none = jnp.zeros_like(value)
            by_name[label.name] = FromStep(jnp.stack([value, none, none]), n, False)
        return tuple(by_name.values())


class Commands(eqx.Module):
    """What a controller carries from one step to the next.

    Attributes:
        control: Its memory, and its last commands.
        command: That which acts in the step at hand, (k,).
    """

    control: Control
    command: Float[Array, " k"]

    @staticmethod
    def begun(
        commanding: Commanding, control: Control, row: Row, t: Scalar, inputs: Float[Array, "3 n"]
    ) -> "Commands":
        """After the sample at the initial time."""
        before = Commands(control, jnp.zeros_like(control.line[0]))
        return before.next(commanding, row, (jnp.zeros((), int), t), inputs)

    def next(
        self,
        commanding: Commanding,
        row: Row,
        place: tuple[Int[Array, ""], Scalar],
        inputs: Float[Array, "3 n"],
    ) -> "Commands":
        """Those of the step that follows n others, at whose beginning there may be a sample."""
        (n, t), controller = place, commanding.controller

        def sampled(before: Control) -> Control:
            rows = jax.tree.map(lambda x: x[None], row)
            given, none = inputs[None], RESULTS.successful
            now = make_solution(t[None], rows, none, {}, commanding.system, inputs=given)
            control, seen = before.sensed(commanding.system, controller, now, n, commanding.h)
            return control.sampled(controller, seen, t)

        due = n % controller.period == 0
        control = jax.lax.cond(due, sampled, lambda before: before, self.control)
        return dataclasses.replace(self, control=control, command=control.command(controller, n))
