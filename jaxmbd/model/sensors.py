"""Sensors: what an instrument on a mechanism would read, with its errors.

A reading at time t is

    rounded(gain x(s - delay) + bias + noise),   s = the last sampling instant up to t,

of a quantity x that the motion has. A new sensor is a quantity (`AbstractMeasured`) and a
description below it.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Scalar, Vec3, host, library_of
from . import given
from .body import Body
from .coordinates import COORDINATES, AbstractAngle
from .elements import AbstractElement
from .frames import Frame, FrameMotion, FrameOnBody
from .joint_coordinates import joint_coordinate
from .validation import (
    NOT_NEGATIVE,
    POSITIVE,
    array,
    concrete,
    default_dtype,
    is_concrete,
    number,
    require,
    vector,
)

_XYZ = ("x", "y", "z")


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


class Inertial(AbstractMeasured):
    """Specific force and angular velocity at a frame.

    Attributes:
        frame: Of the housing.
    """

    frame: FrameOnBody

    def channels(self) -> tuple[Channel, ...]:
        return (
            Channel("acceleration", "m/s²", _XYZ),
            Channel("angular_velocity", "rad/s", _XYZ),
        )

    def of(self, motion: Measurable) -> Float[Array, "T 6"]:
        # What a mass on a spring feels: at rest it reads what holds it up.
        at = motion.of_frame(self.frame)
        xp: Any = np if is_concrete((at, motion.gravity)) else jnp
        felt = xp.asarray(at.a) - xp.asarray(motion.gravity)[None]
        own = xp.einsum("tji,tj->ti", xp.asarray(at.A), felt)
        return xp.concatenate([own, xp.asarray(at.omega)], axis=1)


@dataclass(frozen=True, eq=False)
class IMU(AbstractSensor):
    """An inertial measurement unit: an accelerometer, which reads acceleration less gravity, and a
    gyroscope, both along the axes of a frame on a body. Entries of a reading: the acceleration
    along x, y, z [m/s²], the angular velocity about x, y, z [rad/s].

    Attributes:
        body: The body (object or name), or the ground.
        point: The origin of the frame, global at the initial pose [m]; the mass center by default.
        A: The axes of the frame as columns, global at the initial pose, (3, 3); those of the body
            by default.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    body: Body | str = given.body()
    point: Any = given.point(None)
    A: Any = given.numbers("-", None)

    def targets(self) -> tuple[Body | str, ...]:
        return (self.body,)

    def measured(self, bodies: list[Body], indices: list[int]) -> Inertial:
        frame = Frame(self.name, bodies[0], point=self.point, A=self.A)
        return Inertial(frame.on(bodies[0], indices[0]))


# --- in a joint ---


class JointPosition(AbstractMeasured):
    """The coordinate of a joint, in steps.

    Attributes:
        joint: Its name.
        coordinate: "angle" or "displacement".
        resolution: One step [rad] or [m], or None.
    """

    joint: str = eqx.field(static=True)
    coordinate: str = eqx.field(static=True)
    resolution: Scalar | None

    def channels(self) -> tuple[Channel, ...]:
        return (Channel(self.coordinate, "rad" if self.coordinate == "angle" else "m"),)

    def of(self, motion: Measurable) -> Float[Array, "T 1"]:
        return motion.of_joint(self.joint, self.coordinate)[:, None]

    def rounded(self, reading: Float[Array, "T 1"]) -> Float[Array, "T 1"]:
        if self.resolution is None:
            return reading
        steps = jnp.round(jax.lax.stop_gradient(reading / self.resolution))
        whole = steps * self.resolution
        # Its derivative is that of the line through the steps: theirs are zero or have none.
        return reading + jax.lax.stop_gradient(whole - reading)


@dataclass(frozen=True, eq=False)
class Encoder(AbstractSensor):
    """An encoder of a joint's angle [rad] or displacement [m].

    Attributes:
        joint: The joint (object or name).
        resolution: One step of a reading [rad] or [m]; None for all digits. Derivatives are those
            of the line through the steps.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    joint: Any = given.joint()
    resolution: Any = given.number("rad or m", None, bounds=POSITIVE)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> JointPosition:
        i, j = bodies
        found = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        kind = "angle" if isinstance(found, AbstractAngle) else "displacement"
        resolution = None if self.resolution is None else self._number("resolution")
        return JointPosition(self.joint.name, kind, resolution)


class JointLoad(AbstractMeasured):
    """What a joint does to its body j.

    Attributes:
        joint: Its name.
    """

    joint: str = eqx.field(static=True)

    def channels(self) -> tuple[Channel, ...]:
        return Channel("force", "N", _XYZ), Channel("torque", "N·m", _XYZ)

    def of(self, motion: Measurable) -> Float[Array, "T 6"]:
        parts = motion.load_on(self.joint)
        xp: Any = np if is_concrete(parts) else jnp
        return xp.concatenate([xp.asarray(x) for x in parts], axis=1)


@dataclass(frozen=True, eq=False)
class ForceTorque(AbstractSensor):
    """A force-torque sensor in a joint: the force and torque that the joint exerts on its body j,
    at the joint's point on that body and in its axes (global axes if body j is the ground). Entries
    of a reading: the force along x, y, z [N], the torque about x, y, z [N·m].

    Attributes:
        joint: The joint (object or name), such as a `Fixed` one; forces of motors and springs in it
            are no part of the reading, see `Reaction`.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    joint: Any = given.joint()

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> JointLoad:
        return JointLoad(self.joint.name)


# --- between two points ---


class Separation(AbstractMeasured):
    """The distance of two points.

    Attributes:
        i, j: Frames at the points.
    """

    i: FrameOnBody
    j: FrameOnBody

    def channels(self) -> tuple[Channel, ...]:
        return (Channel("distance", "m"),)

    def of(self, motion: Measurable) -> Float[Array, "T 1"]:
        ends = motion.of_frame(self.i).r, motion.of_frame(self.j).r
        xp: Any = np if is_concrete(ends) else jnp
        d = xp.asarray(ends[1]) - xp.asarray(ends[0])
        squared = xp.sum(d**2, axis=1, keepdims=True)
        # Where the points meet the derivative is zero, not NaN.
        apart = squared > 0.0
        return xp.where(apart, xp.sqrt(xp.where(apart, squared, 1.0)), 0.0)


@dataclass(frozen=True, eq=False)
class DistanceSensor(AbstractSensor):
    """The distance between a point of one body and one of another [m].

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Global at the initial pose [m]; the mass centers by default.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()
    point_i: Any = given.point(None)
    point_j: Any = given.point(None)

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> Separation:
        ends = []
        for body, point, index, end in zip(
            bodies, (self.point_i, self.point_j), indices, "ij", strict=True
        ):
            at = body.r if point is None else vector(point, 3, f"{self.title}: point_{end}")
            A_bar = host.eye(3, dtype=default_dtype())
            ends.append(FrameOnBody(body.point(at), A_bar, f"{self.name}.{end}", index))
        return Separation(*ends)
