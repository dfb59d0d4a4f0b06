"""Inputs: numbers that the caller gives from step to step, where elements take a function of time.

An element is described with an `Input`. When the mechanism is built, a `Held` takes its place: a
parabola of time, whose coefficients a run replaces at every step. Names stay in `System.inputs`.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ..rotations.types import Array, Scalar, host, library_of
from .names import unknown
from .stacking import AbstractKnown
from .validation import default_dtype, is_concrete


class Input(eqx.Module):
    """A number, or several, that the caller gives by name: `simulate(..., inputs=)` for a whole
    run, `step(..., inputs=)` for one step. Stands wherever an element takes a function of time.

    Attributes:
        name: By which it is given; elements that name the same input share it.
        size: How many numbers it has; None for one that stands where a number does.
        unit: For tables.
        default: Its value, or that of each of its numbers, where the caller gives none; None where
            the caller has to.
    """

    name: str = eqx.field(static=True)
    size: int | None = eqx.field(static=True, default=None)
    unit: str = eqx.field(static=True, default="-")
    default: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"Input: needs a name, a non-empty string, not {self.name!r}")
        if self.size is not None and (not isinstance(self.size, int) or self.size < 1):
            raise ValueError(f"Input {self.name!r}: size must be a positive integer or None")
        if self.default is not None and not isinstance(self.default, int | float):
            raise ValueError(
                f"Input {self.name!r}: default must be a Python number or None, not "
                f"{self.default!r}; give other values with inputs="
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its value."""
        return () if self.size is None else (self.size,)

    def __call__(self, t: Scalar) -> Array:
        """The default, or zero: a mechanism that nobody has given anything."""
        return jnp.full(self.shape, self.default or 0.0, jnp.result_type(t))


class InputLabel(NamedTuple):
    """An input as reports know it.

    Attributes:
        name: By which it is given.
        shape: Of its value.
        drives: Whether a driver follows it, which needs its rate and acceleration too.
        unit: For tables.
        default: Its value where the caller gives none, or None.
    """

    name: str
    shape: tuple[int, ...]
    drives: bool
    unit: str = "-"
    default: float | None = None

    @property
    def width(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=int))


class Held(AbstractKnown):
    """What an input is during a step: x + ẋ (t - t₁) + ẍ (t - t₁)²/2.

    Attributes:
        value, rate, acceleration: x, ẋ and ẍ at t₁; with a leading axis in a stack.
        at: t₁ [s].
        number: Which input it is; of elements that were not stacked yet.
        numbers: Which inputs those of a stack are.
    """

    value: Array
    rate: Array
    acceleration: Array
    at: Array
    number: Any = None
    numbers: tuple[int, ...] = eqx.field(static=True, default=())

    def stacked(self, each: Sequence["Held"]) -> "Held":
        """With the numbers of all members."""
        return dataclasses.replace(self, number=np.stack([x.number for x in each]))

    def __call__(self, t: Scalar) -> Array:
        dt = t - self.at
        return self.value + dt * (self.rate + 0.5 * dt * self.acceleration)

    def jet(self, t: Scalar) -> Float[Array, "3 k"]:
        """Value, rate and acceleration of one input."""
        rate = self.rate + (t - self.at) * self.acceleration
        return jnp.stack([x.reshape(-1) for x in (self(t), rate, self.acceleration)])


def _is_input(x: object) -> bool:
    return isinstance(x, Input)


def _is_held(x: object) -> bool:
    return isinstance(x, Held)


def held_in(tree: PyTree) -> list[Held]:
    """All inputs of a pytree of elements in its order."""
    return [x for x in jax.tree.leaves(tree, is_leaf=_is_held) if _is_held(x)]


class Numbering:
    """The inputs of a mechanism that is being built."""

    def __init__(self) -> None:
        self.known: dict[str, Input] = {}
        self.driving: set[str] = set()

    def numbered(self, element: PyTree, *, drives: bool = False) -> Any:
        """The element with a `Held` in the place of each of its inputs.

        Raises:
            ValueError: Another element has an input of this name and of another size.
        """
        return jax.tree.map(
            lambda x: self._held(x, drives) if _is_input(x) else x, element, is_leaf=_is_input
        )

    def _held(self, given: Input, drives: bool) -> Held:
        known = self.known.setdefault(given.name, given)
        if known.size != given.size:
            raise ValueError(
                f"input {given.name!r} is of size {known.size} in one element and of size "
                f"{given.size} in another; give one of them another name"
            )
        if known.default != given.default:
            raise ValueError(
                f"input {given.name!r} has the default {known.default} in one element and "
                f"{given.default} in another; use one mbd.Input for both"
            )
        if drives:
            self.driving.add(given.name)
        dtype = default_dtype()
        zero, start = host.zeros(given.shape, dtype), host.zeros((), dtype)
        number = host.asarray(list(self.known).index(given.name), dtype)
        return Held(host.full(given.shape, given.default or 0.0, dtype), zero, zero, start, number)

    @property
    def labels(self) -> tuple[InputLabel, ...]:
        """All inputs in the order in which they were met."""
        return tuple(
            InputLabel(name, x.shape, name in self.driving, x.unit, x.default)
            for name, x in self.known.items()
        )


def settled(tree: PyTree) -> Any:
    """Stacked elements whose inputs know their numbers without an array."""

    def of(held: Held) -> Held:
        numbers = tuple(int(k) for k in np.asarray(held.number).reshape(-1))
        return dataclasses.replace(held, number=None, numbers=numbers)

    return jax.tree.map(lambda x: of(x) if _is_held(x) else x, tree, is_leaf=_is_held)


def with_inputs(
    tree: PyTree, labels: Iterable[InputLabel], values: Float[Array, "3 n"], t: Scalar
) -> Any:
    """Elements that hold inputs with these values, rates and accelerations at time t."""
    labels = list(labels)
    first = list(itertools.accumulate((x.width for x in labels), initial=0))

    def of(held: Held) -> Held:
        places = [first[k] + np.arange(labels[k].width) for k in held.numbers]
        found = values[:, np.stack(places)].reshape(3, *held.value.shape)
        at = jnp.broadcast_to(t, held.at.shape)
        return dataclasses.replace(
            held, value=found[0], rate=found[1], acceleration=found[2], at=at
        )

    return jax.tree.map(lambda x: of(x) if _is_held(x) else x, tree, is_leaf=_is_held)


def all_given(
    labels: Iterable[InputLabel], given: Mapping[str, object], who: str
) -> dict[str, Any]:
    """The inputs by name, those that the caller left out at their defaults.

    Raises:
        ValueError: One is missing that has none, or the mechanism has not; the message names them.
    """
    labels = list(labels)
    known, given = [x.name for x in labels], default_values(labels) | dict(given)
    strange = [name for name in given if name not in known]
    if strange:
        raise ValueError(f"{who}: {unknown('input', 'inputs', strange[0], known)}")
    missing = [name for name in known if name not in given]
    if missing:
        raise ValueError(
            f"{who}: no value is given for the input{'s' if missing[1:] else ''} "
            f"{', '.join(map(repr, missing))}; give inputs={{{missing[0]!r}: ...}}"
        )
    return given


def default_values(labels: Iterable[InputLabel]) -> dict[str, Any]:
    """Of the inputs that have one, as callers give them."""

    def of(label: InputLabel) -> Any:
        value = np.full(label.shape, label.default)
        return (value, 0.0 * value, 0.0 * value) if label.drives else value

    return {label.name: of(label) for label in labels if label.default is not None}


def as_values(
    labels: Iterable[InputLabel], given: Mapping[str, object], who: str
) -> Float[Array, "3 n"]:
    """Values, rates and accelerations of all inputs, (3, n), of what a caller gives for one step.

    Raises:
        ValueError: Names or shapes are wrong, or a driver has no rate and acceleration.
    """
    labels = list(labels)
    given = all_given(labels, given, who)
    parts = [one_value(label, given[label.name], who) for label in labels]
    xp = library_of(*parts)
    return xp.concatenate([np.zeros((3, 0), default_dtype()), *parts], axis=1)


def one_value(label: InputLabel, given: object, who: str, *, rows: tuple[int, ...] = ()) -> Array:
    """Value, rate and acceleration of an input, (*rows, 3, size); a rate that was not given is
    zero.

    Raises:
        ValueError: The shape is wrong, or a driver has no rate and acceleration.
    """
    triple = isinstance(given, list | tuple)
    parts = given if triple and label.drives else [given]
    what, size = f"{who}: input {label.name!r}", label.width
    if label.drives and len(parts) != 3:
        raise ValueError(
            f"{what} drives a joint: give a tuple of its value, rate and acceleration, which the "
            "joint's velocity and acceleration follow"
        )
    dtype = default_dtype()
    arrays = [(np if is_concrete(x) else jnp).asarray(x, dtype) for x in parts]
    xp = library_of(*arrays)
    for x in arrays:
        if x.shape != (*rows, *label.shape):
            shape = (*rows, *label.shape)
            wanted = f"an array of shape {shape}" if shape else "a number"
            raise ValueError(f"{what}: expected {wanted}, got shape {x.shape}")
    arrays = [x.reshape(*rows, size) for x in arrays]
    arrays += [xp.zeros_like(arrays[0])] * (3 - len(arrays))
    return xp.stack(arrays, axis=-2)
