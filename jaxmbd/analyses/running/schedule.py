"""Inputs of a mechanism over a run: arrays by step, or functions of time."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from ...model.expressions import Expression
from ...model.inputs import Held, InputLabel, all_given, as_values, one_value
from ...model.motions import hoist, is_motion, jet
from ...model.system import System
from ...model.validation import Numbers, default_dtype
from ...rotations.types import Array, Scalar
from ...xla.indexing import take

StepNumber = Int[Array, ""]  # of a run: the first step is 1, and 0 the initial time
# An input as users give it: numbers, a function of time or its text, the three of a driver.
InputValue: TypeAlias = Numbers | Callable[..., PyTree] | tuple[Numbers, ...]
Inputs: TypeAlias = Mapping[str, InputValue]  # by name


class ByStep(eqx.Module):
    """An input that is held over each step.

    Attributes:
        values: Value, rate and acceleration at the end of every step, (N, 3, k).
        drives: Whether a driver follows it.
    """

    values: Float[Array, "N 3 k"]
    drives: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Of its value."""
        return self.values.shape[-1]

    @property
    def may_jump(self) -> bool:
        """Whether it changes at all."""
        return self.values.shape[0] > 1

    def first(self, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """At the beginning of the first step."""
        return earlier(self.values[0], h)

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """In the n-th step."""
        last = self.values.shape[0] - 1
        return take(self.values, jnp.clip(jnp.asarray(n) - 1, 0, last))


class FromStep(eqx.Module):
    """An input that was given for the end of a step and goes on from there: held, or along the
    parabola of its rate and acceleration.

    Attributes:
        values: Value, rate and acceleration, (3, k).
        step: The number of the step.
        drives: Whether a driver follows it.
    """

    values: Float[Array, "3 k"]
    step: StepNumber
    drives: bool = eqx.field(static=True)
    may_jump: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """Of its value."""
        return self.values.shape[-1]

    def first(self, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """At the beginning of the step."""
        return earlier(self.values, h)

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """In the n-th step."""
        return earlier(self.values, (self.step - n).astype(h.dtype) * h)


class OfTime(eqx.Module):
    """An input that is a function of time.

    Attributes:
        function: Of time [s].
        size: Of its value.
        drives: Whether a driver follows it, which needs its own derivatives. What forces follow
            runs through its values at the beginning, the middle and the end of a step: methods of
            up to fourth order keep theirs.
    """

    function: Callable
    size: int = eqx.field(static=True)
    drives: bool = eqx.field(static=True)
    may_jump: ClassVar[bool] = False

    def first(self, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """At the initial time."""
        return self._rows(jet(self.function, t))

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 k"]:
        """In the step of length h that ends at t."""
        if self.drives:
            return self.first(t, h)
        end, middle, begin = (
            jnp.asarray(self.function(x), t.dtype) for x in (t, t - 0.5 * h, t - h)
        )
        rate, bend = 3.0 * end - 4.0 * middle + begin, 4.0 * (end - 2.0 * middle + begin)
        return self._rows((end, rate / h, bend / h**2))

    def _rows(self, parts: tuple[Array, ...]) -> Float[Array, "3 k"]:
        return jnp.stack([x.reshape(self.size) for x in parts])


InputPart: TypeAlias = ByStep | FromStep | OfTime


class Schedule(eqx.Module):
    """All inputs of a mechanism over a run, in the order of `System.inputs`."""

    parts: tuple[InputPart, ...]

    @property
    def jumps(self) -> np.ndarray:
        """Mask of the numbers that may change discontinuously between two steps, (n,): those that
        are held. Drivers, functions of time, and what stays for the whole run are continuous.
        """
        held = [not part.drives and part.may_jump for part in self.parts]
        return np.repeat(held, [part.size for part in self.parts])

    def first(self, t: Scalar, h: Scalar) -> Float[Array, "3 n"]:
        """Values, rates and accelerations at the initial time."""
        return jnp.concatenate([part.first(t, h) for part in self.parts], axis=1)

    def at(self, n: StepNumber | int, t: Scalar, h: Scalar) -> Float[Array, "3 n"]:
        """Values, rates and accelerations in the step of length h that ends as the n-th, at t."""
        return jnp.concatenate([part.at(n, t, h) for part in self.parts], axis=1)

    def rows(
        self, n: Int[np.ndarray | Array, " T"], t: Float[Array, " T"], h: Scalar
    ) -> Float[Array, "T 3 n"]:
        """Values, rates and accelerations at the ends of steps n, of which step 0 is the initial
        time.
        """

        def row(n: StepNumber, t: Scalar) -> Float[Array, "3 n"]:
            return jnp.where(n < 1, self.first(t, h), self.at(n, t, h))

        return jax.vmap(row)(jnp.asarray(n), t)


def earlier(values: Float[Array, "3 k"], dt: Scalar) -> Float[Array, "3 k"]:
    """Values, rates and accelerations at an earlier time, on the same parabola."""
    value, rate, bend = values
    return jnp.stack([value - dt * rate + 0.5 * dt**2 * bend, rate - dt * bend, bend])


def schedule_of(system: System, inputs: Inputs | None, steps: int, who: str) -> Schedule | None:
    """The inputs over a run; None for a mechanism without inputs.

    Raises:
        ValueError: An input is missing or unknown, or of a wrong shape.
    """
    inputs = all_given(system.inputs, as_mapping(inputs, who), who)
    parts = [over_a_run(label, inputs[label.name], steps, who) for label in system.inputs]
    _refuse_switches_of_time(system, inputs, parts, who)
    return Schedule(tuple(parts)) if parts else None


def _refuse_switches_of_time(
    system: System, inputs: Inputs, parts: Sequence[InputPart], who: str
) -> None:
    """Raise where a function of time switches a joint: within a step there is no impact.

    Raises:
        ValueError: The message names the input.
    """
    places, first = system.switch_places(), 0
    for label, part in zip(system.inputs, parts, strict=True):
        given = inputs[label.name]
        if first in places and isinstance(part, OfTime) and not isinstance(given, Held):
            raise ValueError(
                f"{who}: input {label.name!r} switches a joint or a force, which a function of "
                "time cannot do: its instant would lie within a step. Give a number, an array by "
                "step, or let an event do it: mbd.Event(..., action=mbd.Activate(...))"
            )
        first += label.width


def over_a_run(label: InputLabel, given: InputValue, steps: int, who: str) -> ByStep | OfTime:
    """One input over a run of some steps.

    Raises:
        ValueError: It is of a wrong shape.
    """
    value: PyTree = Expression(given) if isinstance(given, str) else given
    if not is_motion(value):
        constant = not label.drives and jnp.ndim(value) == len(label.shape)
        values = one_value(label, value, who, rows=() if constant else (steps,))
        return ByStep(jnp.asarray(values[None] if constant else values), label.drives)
    zero = jnp.zeros((), default_dtype())
    shape = jax.eval_shape(value, zero).shape
    if shape != label.shape:
        raise ValueError(
            f"{who}: input {label.name!r} is a function that returns shape {shape}; it has shape "
            f"{label.shape}"
        )
    return OfTime(hoist(value, zero), label.width, label.drives)


def held_from(system: System, inputs: Inputs | None, step: StepNumber, who: str) -> Schedule | None:
    """The inputs held from a step on, with those of drivers continued; None for a mechanism without
    inputs.

    Raises:
        ValueError: An input is missing or unknown, or of a wrong shape.
    """
    inputs = all_given(system.inputs, as_mapping(inputs, who), who)
    parts = [
        FromStep(jnp.asarray(one_value(label, inputs[label.name], who)), step, label.drives)
        for label in system.inputs
    ]
    return Schedule(tuple(parts)) if parts else None


def instant(system: System, inputs: Inputs | None, who: str) -> Float[Array, "3 n"] | None:
    """Values, rates and accelerations of all inputs at an instant, (3, n); None without any."""
    values = as_values(system.inputs, as_mapping(inputs, who), who)
    return jnp.asarray(values) if system.inputs else None


def as_mapping(inputs: object, who: str) -> Inputs:
    """The inputs of a caller by name; none for None.

    Raises:
        TypeError: They are no dict.
    """
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise TypeError(f"{who}: inputs must be a dict by name, not {type(inputs).__name__}")
    return inputs
