"""Readings of sensors during a motion, with delay, sampling and noise, for which past values are
kept.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.sensors import Sensor
from ..model.system import System
from ..model.validation import Numbers, concrete, require, shown
from ..results.columns import columns_by_name
from ..results.sensors import measured_by, readings_at, sensed_among
from ..results.solution import Solution


class Sensing(eqx.Module):
    """Past values of sensors that are read every so many steps.

    Attributes:
        past: Their quantities at the last looks, the newest last, (m, n).
        key: Data of the key that noise is drawn from, or None for no noise.
    """

    past: Float[Array, "m n"]
    key: Array | None

    @staticmethod
    def begun(system: System, names: Sequence[str], looks: int, key: Array | None) -> "Sensing":
        """The data before the first reading.

        Args:
            system: The mechanism.
            names: What is looked at.
            looks: How many are kept, see `looks_kept`.
            key: Of `jax.random`, or None for no noise.
        """
        width = sum(sensor.width for sensor in sensors_among(system, names))
        data = None if key is None else jax.random.key_data(key)
        return Sensing(jnp.zeros((looks, width), system.dtype), data)

    def look(
        self,
        system: System,
        names: Sequence[str],
        now: Solution,
        place: tuple[Array, int, Array],
        longest: tuple[float, str] | None = None,
    ) -> tuple["Sensing", Float[Array, " n"]]:
        """The data after a reading at the present instant, and the readings in the order of the
        names.

        Args:
            system: The mechanism.
            names: What is looked at, the same every time.
            now: The present instant, a solution of one row.
            place: Steps since the start, steps between two looks, and the length of a step [s].
            longest: Bound on delay and period of a sensor together [s], and who sets it, where
                they are traced.
        """
        n, period, h = place
        seen = jnp.stack([x[0] for x in map(jnp.asarray, columns_by_name(now, system, names))])
        sensors = sensors_among(system, names)
        fresh = jnp.concatenate([jnp.asarray(measured_by(x, now, system))[0] for x in sensors])
        past = jnp.where(n == 0, fresh, jnp.concatenate([self.past[1:], fresh[None]]))
        # Times of the looks since the start; before it the quantities were the first ones.
        back = period * np.arange(past.shape[0])[::-1].astype(h.dtype)
        times = (jnp.asarray(n, h.dtype) - back) * h
        key = None if self.key is None else jax.random.wrap_key_data(self.key)
        readings, first = {}, 0
        for sensor in sensors:
            part = past[:, first : first + sensor.width]
            first += sensor.width
            if longest is not None:
                allowed = _allowed_delay(sensor, *longest)
                sensor = eqx.tree_at(lambda x: x.delay, sensor, allowed)
            readings[sensor.name] = readings_at(sensor, times[-1:], times, part, key=key)[0]
        for where, sensor, entry in sensed_among(system, names):
            seen = seen.at[where].set(readings[sensor.name][entry])
        return Sensing(past, self.key), seen


def sensors_among(system: System, names: Sequence[str]) -> list[Sensor]:
    """The sensors among some names whose readings need the past, each once."""
    return list({sensor.name: sensor for _, sensor, _ in sensed_among(system, names)}.values())


def looks_kept(
    sensors: Sequence[Sensor], h: Numbers | None, period: int, who: str, bound: float | None = None
) -> int:
    """Number of past readings that sensors need.

    Args:
        sensors: Of `sensors_among`.
        h: The step size [s].
        period: Steps between two looks.
        who: Asks, for errors.
        bound: On delay and period of a sensor together [s], where JAX traces them.

    Raises:
        ValueError: It is not known.
    """
    if bound is None:
        bound = 0.0
        for sensor in sensors:
            # Each by itself: a sum of known arrays is traced inside `jit`.
            delay = concrete(sensor.delay)
            own = 0.0 if sensor.period is None else concrete(sensor.period)
            if delay is None or own is None:
                raise ValueError(
                    f"{who}: delay or period of sensor {sensor.name!r} is traced by JAX, and how "
                    "much of the past is kept must be known; a controller takes it as "
                    "longest_sensor_delay, which both together do not exceed [s]"
                )
            bound = max(bound, float(delay) + float(own))
    else:
        for sensor in sensors:
            _allowed_delay(sensor, bound, who)
    step = concrete(h)
    if step is None:
        raise ValueError(
            f"{who}: sensor {sensors[0].name!r} has a delay or a period, and how many samples "
            "that takes must be known: give a step size h that is not traced by JAX"
        )
    return int(np.ceil(bound / (float(step) * period) - 1e-9)) + 2


def _allowed_delay(sensor: Sensor, bound: float, who: str) -> Array:
    """The delay of a sensor; NaN where it is traced and beyond the bound.

    Raises:
        ValueError: It is known and beyond the bound.
    """
    return require(
        sensor.longest <= bound,
        sensor.delay,
        f"{who}: delay and period of sensor {sensor.name!r}, {shown(sensor.longest)} s together, "
        f"exceed longest_sensor_delay={shown(jnp.asarray(bound))}",
    )
