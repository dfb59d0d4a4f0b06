"""What the sensors of a mechanism read in a motion."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..model.forces import Output
from ..model.frames import FrameMotion, FrameOnBody
from ..model.names import unknown
from ..model.sensors import Sensor
from ..model.system import System
from ..model.validation import is_concrete
from ..rotations.types import Array, Vec3
from .elements import ElementMotion

if TYPE_CHECKING:
    from .solution import Solution


class SensorReadings(ElementMotion):
    """Readings of a sensor over a motion; its channels are attributes.

    Of an `IMU` `acceleration` (T, 3) [m/s²] and `angular_velocity` (T, 3) [rad/s] in its frame, of
    an `Encoder` `angle` [rad] or `displacement` [m], of a `ForceTorque` `force` [N] and `torque`
    [N·m], of a `DistanceSensor` `distance` [m].

    Attributes:
        outputs: The same with names and units.
    """


@dataclass(frozen=True)
class _Motion:
    """A solution as sensors ask for it."""

    solution: "Solution"
    system: System

    @property
    def gravity(self) -> Vec3:
        return self.system.gravity

    def of_frame(self, frame: FrameOnBody) -> FrameMotion:
        return self.solution.motion_of(frame, self.system)

    def of_joint(self, joint: str, coordinate: str) -> Array:
        return getattr(self.solution.joint(joint, self.system), coordinate)

    def load_on(self, joint: str) -> tuple[Array, Array]:
        found = self.solution.reactions(self.system)[joint]
        (j,) = (c.j for c in self.system.connections if c.name == joint)
        if j == self.system.nb:
            return found.force, found.moment
        A, parts = self.solution.A[:, j], (found.force, found.moment)
        xp = np if is_concrete((A, parts)) else jnp
        force, moment = (xp.einsum("tji,tj->ti", xp.asarray(A), xp.asarray(x)) for x in parts)
        return force, moment


def sensor_named(system: System, name: str) -> Sensor:
    """A sensor by its name.

    Raises:
        ValueError: There is none; the message names the nearest.
    """
    for sensor in system.sensors:
        if sensor.name == name:
            return sensor
    raise ValueError(unknown("sensor", "sensors", name, [x.name for x in system.sensors]))


def measured_by(sensor: Sensor, solution: "Solution", system: System) -> Array:
    """The quantity of a sensor without its errors, (T, n)."""
    return sensor.measured.of(_Motion(solution, system))


def instant_readings(sensor: Sensor, solution: "Solution", system: System) -> Array:
    """Readings without delay, sampling and noise, (T, n)."""
    x = measured_by(sensor, solution, system)
    return sensor.reading(x)


def key_of(sensor: Sensor, key: Array) -> Array:
    """The key of one sensor: its noise does not depend on what other sensors there are."""
    return jax.random.fold_in(key, zlib.crc32(sensor.name.encode()))


def readings_at(sensor: Sensor, at: Array, t: Array, x: Array, *, key: Array | None) -> Array:
    """Readings with delay, sampling and noise, (m, n).

    Args:
        sensor: The sensor.
        at: When it is read, (m,) since the start [s].
        t: When its quantity is known, (T,) since the start [s].
        x: The quantity then, (T, n); linear between, and before all the first.
        key: Of the noise, or None for no noise.
    """
    count, sampled = sensor.sampled_at(at)
    asked = sampled - sensor.delay
    found = jax.vmap(lambda column: jnp.interp(asked, t, column), in_axes=1, out_axes=1)(x)
    # An impossible delay or period is NaN, and interpolation hides that.
    found = jnp.where(jnp.isnan(asked)[:, None], jnp.nan, found)
    noise = None
    if key is not None and sensor.period is not None:
        noise = sensor.noise(key_of(sensor, key), count)
    return sensor.reading(found, noise)


def sensor_readings(
    solution: "Solution", system: System, name: str, key: Array | None
) -> SensorReadings:
    """What a sensor read, see `Solution.sensor`."""
    sensor = sensor_named(system, name)
    x = jnp.asarray(measured_by(sensor, solution, system))
    t = jnp.asarray(solution.t) - solution.t[0]
    readings, first, outputs = readings_at(sensor, t, t, x, key=key), 0, []
    for channel in sensor.measured.channels():
        part = readings[:, first : first + channel.width]
        first += channel.width
        value = part if channel.components else part[:, 0]
        outputs.append(Output(channel.name, channel.unit, value, channel.components))
    return SensorReadings(tuple(outputs))


def entry_names(sensor: Sensor) -> list[tuple[str, str]]:
    """Names of all numbers of a reading, "imu.acceleration.x", with their units."""
    return [
        (f"{sensor.name}.{channel.name}{'.' * bool(axis)}{axis}", channel.unit)
        for channel in sensor.measured.channels()
        for axis in channel.components or ("",)
    ]


def sensed_among(system: System, names: Iterable[str]) -> list[tuple[int, Sensor, int]]:
    """Which of some names are readings that their instant alone does not tell: the place among the
    names, the sensor, the entry.
    """
    known = {
        name: (sensor, entry)
        for sensor in system.sensors
        if not sensor.is_instant
        for entry, (name, _) in enumerate(entry_names(sensor))
    }
    return [(k, *known[name]) for k, name in enumerate(names) if name in known]
