"""What a motion predicts for the samples of a measurement."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.sensors import Sensor
from ..model.system import System
from ..model.validation import is_concrete
from ..results.sensors import entry_names
from ..results.solution import Solution
from ..rotations.types import Scalar
from .measurements import quantities, terms_of


def predicted(
    system: System, solution: Solution, names: Sequence[str], t: Float[Array, " T"]
) -> tuple[Float[Array, "q T"], Float[Array, "q T"]]:
    """Quantities at the times of samples, and the instants of the motion that they belong to.

    Between the rows of a motion a quantity is a cubic through four of them, an error of fourth
    order; linear where the motion has contacts, stops or dry friction, at which it may jump. A
    sensor's delay shifts the instant; its resolution is left out, since residuals that jump have
    no derivative.

    Args:
        system: The mechanism.
        solution: Its motion, in equal steps, from t = 0.
        names: Quantities, or sums and differences of quantities, "pin.angle + elbow.angle".
        t: Times of the samples [s].
    """
    exact = _without_resolution(system)
    delays = delays_of(system)
    zero = jnp.zeros((), t.dtype)
    h = solution.t[1] - solution.t[0]
    values, instants = [], []
    for terms in map(terms_of, names):
        at = [t - delays.get(name, zero) for _, name in terms]
        columns = quantities(exact, solution, [name for _, name in terms])
        found = [
            sign * interpolated(column, x / h, linear=bool(system.laws))
            for (sign, _), column, x in zip(terms, columns, at, strict=True)
        ]
        values.append(sum(found[1:], start=found[0]))
        instants.append(jnp.min(jnp.stack(at), axis=0))
    return jnp.stack(values), jnp.stack(instants)


def at_rows(
    system: System, solution: Solution, names: Sequence[str]
) -> tuple[Float[Array, "q T"], Float[Array, "q T"]]:
    """The same where the rows of the motion are at the times of the samples and no sensor has a
    delay.
    """
    found = jnp.stack(quantities(_without_resolution(system), solution, names))
    return found, jnp.zeros_like(found)  # all of them are within the motion


def delays_of(system: System) -> dict[str, Scalar]:
    """Delays of sensors by the names of what they read [s]."""
    return {name: x.delay for x in system.sensors for name, _ in entry_names(x)}


def interpolated(
    x: Float[Array, " N"], place: Float[Array, " T"], *, linear: bool
) -> Float[Array, " T"]:
    """Rows x at places, 0 for the first; the outermost cubics or lines go on outside."""
    points = min(2 if linear else 4, x.shape[0])
    back = points // 2 - 1 if points > 1 else 0
    first = jnp.floor(jax.lax.stop_gradient(place)).astype(int) - back
    first = jnp.clip(first, 0, x.shape[0] - points)
    s = place - first.astype(place.dtype)
    found = jnp.zeros_like(s)
    for k in range(points):
        weight = jnp.ones_like(s)
        for m in set(range(points)) - {k}:
            weight = weight * (s - m) / (k - m)
        found = found + weight * x[first + k]
    return found


def _without_resolution(system: System) -> System:
    sensors = tuple(_exact(sensor) for sensor in system.sensors)
    return eqx.tree_at(lambda s: s.sensors, system, sensors) if sensors else system


def _exact(sensor: Sensor) -> Sensor:
    measured: Any = sensor.measured
    if getattr(measured, "resolution", None) is None:
        return sensor
    return eqx.tree_at(lambda s: s.measured.resolution, sensor, None)


def delayed(system: System, names: Sequence[str]) -> list[str]:
    """Which quantities come from sensors with a delay, or with one that is traced."""
    delays = delays_of(system)
    asked = [name for terms in map(terms_of, names) for _, name in terms if name in delays]
    return [x for x in asked if not is_concrete(delays[x]) or float(delays[x]) != 0.0]
