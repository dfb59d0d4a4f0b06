"""Steps with the commands of a sampled controller."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..model.inputs import InputLabel, all_given
from ..model.names import unknown
from ..model.system import System
from ..results.columns import refuse_unknown
from .carry import Carry, row_of, taken
from .controllers import Control, Controller
from .running.schedule import FromStep, InputPart, Inputs, InputValue, Schedule, as_mapping


def check_controller(system: System, controller: object, who: str) -> None:
    """Raise unless the controller is an `mbd.Controller` whose names the mechanism knows.

    Raises:
        TypeError: It is no controller.
        ValueError: A name is unknown, or a command is the input of a driver.
    """
    if not isinstance(controller, Controller):
        raise TypeError(
            f"{who}: controller must be an object of a class derived from mbd.Controller, not "
            f"{controller!r}"
        )
    title = type(controller).__name__
    known = {label.name: label for label in system.inputs}
    for name in controller.commands:
        if name not in known:
            raise ValueError(f"{who}: {title}: {unknown('input', 'inputs', name, known)}")
        if known[name].drives:
            raise ValueError(
                f"{who}: {title}: the input {name!r} drives a joint, which needs a rate and an "
                "acceleration; command a force or a torque"
            )
    refuse_unknown(controller.observes, system)


def commanded(system: System, controller: Controller) -> list[InputLabel]:
    """The inputs that a controller gives, in the order of its commands."""
    known = {label.name: label for label in system.inputs}
    return [known[name] for name in controller.commands]


def with_commands(system: System, controller: Controller, given: Inputs | None) -> Inputs:
    """All inputs before a controller has given a command, which is zero until then."""
    nothing = {x.name: np.zeros(x.shape) for x in commanded(system, controller)}
    inputs = as_mapping(given, "simulate")
    for name in nothing:
        if name in inputs:
            raise ValueError(
                f"simulate: {type(controller).__name__} commands the input {name!r}; leave it out "
                "of inputs="
            )
    return nothing | dict(inputs)


def left_to_caller(
    system: System,
    controller: Controller,
    given: Inputs,
    part: Callable[[InputLabel, InputValue], InputPart],
) -> dict[str, Any]:
    """The parts of a schedule that a controller leaves to the caller, by name."""
    labels = [label for label in system.inputs if label.name not in controller.commands]
    given = all_given(labels, given, "controller")
    return {label.name: part(label, given[label.name]) for label in labels}


def commanded_step(
    system: System,
    carry: Carry,
    controller: Controller,
    others: Mapping[str, InputPart],
) -> tuple[Carry, Array]:
    """One step with the commands of a controller, which takes a sample where one is due."""
    assert carry.control is not None
    n = carry.steps

    def sampled(carry: Carry) -> Control:
        assert carry.control is not None
        now = row_of(system, carry)
        control, seen = carry.control.sensed(system, controller, now, n, carry.h)
        return control.sampled(controller, seen, carry.t)

    due = n % controller.period == 0
    control = (
        sampled(carry)
        if controller.period == 1
        else jax.lax.cond(due, sampled, lambda carry: carry.control, carry)
    )
    command, parts, start = control.command(controller, n), dict(others), 0
    for label in commanded(system, controller):
        value = command[start : start + label.width]
        start += label.width
        rows = jnp.stack([value, jnp.zeros_like(value), jnp.zeros_like(value)])
        parts[label.name] = FromStep(rows, n + 1, False)
    schedule = Schedule(tuple(parts[label.name] for label in system.inputs))
    carry = dataclasses.replace(carry, control=control)
    return taken(system, carry, schedule, 1)
