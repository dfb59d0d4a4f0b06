"""Sensors: what an instrument on a mechanism would read, with its errors.

A reading at time t is

    rounded(gain x(s - delay) + bias + noise),   s = the last sampling instant up to t,

of a quantity x that the motion has. A new sensor is a quantity (`AbstractMeasured`) and a
description below it, see `instruments.py`.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Scalar, Vec3, library_of
from . import given
from .body import Body
from .elements import AbstractElement
from .frames import FrameMotion, FrameOnBody
from .validation import (
    NOT_NEGATIVE,
    POSITIVE,
    array,
    concrete,
    is_concrete,
    number,
    require,
)


class Channel(eqx.Module):
    """Numbers of a reading that belong together.

    Attributes:
        name: Such as "acceleration".
        unit: Of the numbers.
        components: Their names; none for a single number.
    """

    name: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    components: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def width(self) -> int:
        """How many numbers."""
        return max(1, len(self.components))


@runtime_checkable
class Measurable(Protocol):
    """A motion, as sensors ask for it; T is the number of its rows."""

    @property
    def gravity(self) -> Vec3:
        """Acceleration of free fall [m/s²]."""
        ...

    def of_frame(self, frame: FrameOnBody) -> FrameMotion:
        """The motion of a frame."""
        ...

    def of_joint(self, joint: str, coordinate: str) -> Array:
        """A joint's "angle" [rad] or "displacement" [m], (T,)."""
        ...

    def load_on(self, joint: str) -> tuple[Array, Array]:
        """Force [N] and moment [N·m] of a joint on its body j, in this body, (T, 3) each."""
        ...


class AbstractMeasured(eqx.Module):
    """Base class of the quantities that sensors read."""

    @abc.abstractmethod
    def channels(self) -> tuple[Channel, ...]:
        """Channels of the quantity: names, units and components."""

    @abc.abstractmethod
    def of(self, motion: Measurable) -> Float[Array, "T n"]:
        """The quantity without errors."""

    def frames(self) -> tuple[FrameOnBody, ...]:
        """Where it looks from, for pictures: a housing, or the two ends of a line."""
        return ()

    def rounded(self, reading: Float[Array, "T n"]) -> Float[Array, "T n"]:
        """A reading as the instrument can show it; all digits by default."""
        return reading


class Sensor(eqx.Module):
    """A sensor as a system has it.

    Attributes:
        name: As described.
        measured: The quantity.
        gain: Per entry of a reading, (n,) [-].
        bias: (n,), in units of the reading.
        noise_density: (n,), in units of the reading per √Hz.
        period: From one sample to the next [s]; None for a continuous reading.
        delay: [s].
        is_instant: Whether a reading is known from its instant alone.
    """

    name: str = eqx.field(static=True)
    measured: AbstractMeasured
    gain: Float[Array, " n"]
    bias: Float[Array, " n"]
    noise_density: Float[Array, " n"]
    period: Scalar | None
    delay: Scalar
    is_instant: bool = eqx.field(static=True)

    @property
    def longest(self) -> Scalar:
        """What a reading may be behind its time [s]."""
        return self.delay if self.period is None else self.delay + self.period

    @property
    def width(self) -> int:
        """Numbers of a reading."""
        return self.gain.shape[0]

    def sampled_at(self, t: Float[Array, " T"]) -> tuple[Array, Array]:
        """The number of the last sample before times since the start, and its time [s]."""
        if self.period is None:
            return jnp.arange(t.shape[0]), t
        # A period may be a hair longer than some steps together.
        count = jnp.floor(t / self.period + 1e-9)
        return count.astype(int), jnp.minimum(count * self.period, t)

    def reading(
        self, x: Float[Array, "T n"], noise: Float[Array, "T n"] | None = None
    ) -> Float[Array, "T n"]:
        """A reading of the quantity; `noise` in its units."""
        xp: Any = np if is_concrete((x, self)) else jnp  # compiles nothing
        read = xp.asarray(self.gain)[None] * xp.asarray(x) + xp.asarray(self.bias)[None]
        return self.measured.rounded(jnp.asarray(read) if noise is None else read + noise)

    def noise(self, key: Array, count: Array) -> Float[Array, "T n"]:
        """White noise of samples by their number, (T,): the same sample has the same noise."""
        assert self.period is not None
        size = self.noise_density / jnp.sqrt(self.period)

        def one(k: Array) -> Array:
            return jax.random.normal(jax.random.fold_in(key, k), (self.width,), size.dtype)

        return size[None] * jax.vmap(one)(count)


@dataclass(frozen=True, eq=False)
class AbstractSensor(AbstractElement):
    """Base class of sensors, as described. The errors are arrays over the entries of a reading, or
    one number for all.

    Attributes:
        gain: What a reading is multiplied by; 1 for a true one.
        bias: What is added, in units of the reading.
        noise_density: Of white noise, in units of the reading per √Hz; a sample has the standard
            deviation noise_density / √period. Noise is drawn where a key is given.
        period: From one sample to the next, between which the reading is held [s]; None for a
            continuous one.
        delay: From a sample to its reading [s].
    """

    gain: Any = given.numbers("-", 1.0)
    bias: Any = given.numbers("unit of the reading", 0.0)
    noise_density: Any = given.numbers("unit of the reading/√Hz", 0.0)
    period: Any = given.number("s", None, bounds=POSITIVE)
    delay: Any = given.number("s", 0.0, bounds=NOT_NEGATIVE)

    what: ClassVar[str] = "sensor"

    @abc.abstractmethod
    def measured(self, bodies: list[Body], indices: list[int]) -> AbstractMeasured:
        """What it reads, on its bodies and their indices."""

    def placed(self, bodies: list[Body], indices: list[int]) -> Sensor:
        """The sensor in numbers.

        Raises:
            ValueError: Its data make no sense; the message names it.
        """
        measured = self.measured(bodies, indices)
        n = sum(channel.width for channel in measured.channels())
        period = None if self.period is None else self._number("period")
        delay = self._number("delay")
        density = self._entries("noise_density", n)
        density = require(density >= 0.0, density, f"{self.title}: noise_density below zero")
        known = concrete(density)
        if period is None and (known is None or np.any(known > 0.0)):
            raise ValueError(
                f"{self.title}: noise needs a period, the time between two samples, since white "
                "noise of a continuous reading has no bound"
            )
        known = concrete(delay)
        return Sensor(
            name=self.name,
            measured=measured,
            gain=self._entries("gain", n),
            bias=self._entries("bias", n),
            noise_density=density,
            period=period,
            delay=delay,
            is_instant=period is None and known is not None and float(known) == 0.0,
        )

    def _entries(self, field: str, n: int) -> Array:
        """One number for every entry of a reading."""
        value, what = getattr(self, field), f"{self.title}: {field}"
        if np.ndim(value) == 0:
            one = number(value, what)
            return library_of(one).broadcast_to(one, (n,))
        return array(value, (n,), what)


# --- at a frame ---


# --- in a joint ---


# --- between two points ---
