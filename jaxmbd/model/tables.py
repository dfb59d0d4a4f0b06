"""Characteristics of springs: a force by a coordinate, from a table or from a function of the
coordinate and its rate.

A table is interpolated by a cubic that is monotone wherever the table is, so that it has no bumps
of its own, and whose integral, the potential energy, is known exactly.
"""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Scalar, library_of
from .validation import array, require


class MonotoneCubic(eqx.Module):
    """A piecewise cubic through points, monotone between any two of them; straight beyond the ends.

    Its slopes at the points are weighted harmonic means of the slopes on both sides, or zero where
    these have different signs.

    Attributes:
        at: The arguments, increasing, (n,).
        values: (n,).
        slopes: At the points, (n,).
        areas: The integrals from the first point to each, (n,).

    Reference:
        Fritsch, Butland, "A method for constructing local monotone piecewise cubic interpolants",
        SIAM J. Sci. Stat. Comput. 5 (1984); with the slopes at the ends as in `scipy.interpolate.
        PchipInterpolator`.
    """

    at: Float[Array, " n"]
    values: Float[Array, " n"]
    slopes: Float[Array, " n"]
    areas: Float[Array, " n"]

    @staticmethod
    def through(table: Any, what: str) -> "MonotoneCubic":
        """From two lists of n numbers, arguments and values.

        Raises:
            ValueError: There are not two lists of equal length, or the arguments do not increase.
        """
        if not hasattr(table, "__len__") or len(table) != 2:
            raise ValueError(f"{what}: needs two lists, of arguments and values, or a function")
        counts = [len(x) if hasattr(x, "__len__") else 0 for x in table]
        if counts[0] != counts[1] or counts[0] < 2:
            raise ValueError(
                f"{what}: needs as many arguments as values, two or more, not {counts[0]} and "
                f"{counts[1]}"
            )
        at, values = (array(x, (n,), what) for x, n in zip(table, counts, strict=True))
        increases = library_of(at).all(at[1:] > at[:-1])
        at = require(increases, at, f"{what}: the arguments must increase")
        slopes = _slopes(at, values)
        step = at[1:] - at[:-1]
        mean, bend = 0.5 * (values[1:] + values[:-1]), (slopes[:-1] - slopes[1:]) / 12.0
        xp = library_of(at, values)
        areas = xp.cumsum(step * (mean + step * bend))
        return MonotoneCubic(at, values, slopes, xp.concatenate([np.zeros(1, areas.dtype), areas]))

    def _place(self, x: Scalar) -> tuple[Array, Scalar, Scalar]:
        """The interval of x, its length, and where in it x is, from 0 to 1."""
        # All comparisons at once: a search would be a loop.
        k = jnp.sum(jax.lax.stop_gradient(x) >= self.at[1:-1])
        step = self.at[k + 1] - self.at[k]
        # No minimum or maximum, which would halve the slope at the points.
        s = jnp.where(x > self.at[-1], 1.0, (x - self.at[k]) / step)
        return k, step, jnp.where(x < self.at[0], 0.0, s)

    def _beyond(self, x: Scalar) -> tuple[Scalar, Scalar]:
        """How far x is below the first point, negative, and above the last one."""
        first, last = self.at[0], self.at[-1]
        return jnp.where(x < first, x - first, 0.0), jnp.where(x > last, x - last, 0.0)

    def __call__(self, x: Scalar) -> Scalar:
        k, step, s = self._place(x)
        below, above = self._beyond(x)
        rise = self.values[k + 1] - self.values[k]
        inside = self.values[k] + s * s * (3.0 - 2.0 * s) * rise
        inside += step * s * (1.0 - s) * ((1.0 - s) * self.slopes[k] - s * self.slopes[k + 1])
        return inside + self.slopes[0] * below + self.slopes[-1] * above

    def integral(self, x: Scalar) -> Scalar:
        """From the first point to x."""
        k, step, s = self._place(x)
        below, above = self._beyond(x)
        rise = self.values[k + 1] - self.values[k]
        first = s * s * (0.5 - s * (2.0 / 3.0 - 0.25 * s)) * self.slopes[k]
        last = s**3 * (1.0 / 3.0 - 0.25 * s) * self.slopes[k + 1]
        inside = s * self.values[k] + s**3 * (1.0 - 0.5 * s) * rise + step * (first - last)
        outside = below * (self.values[0] + 0.5 * self.slopes[0] * below)
        outside += above * (self.values[-1] + 0.5 * self.slopes[-1] * above)
        return self.areas[k] + step * inside + outside

    def kink(self, x: Scalar) -> Scalar:
        """A smooth function of x with slope 1 or -1 at every point, where it is zero and the second
        derivative of the cubic jumps, and only there.
        """
        k, step, s = self._place(x)
        sign = jnp.where(k % 2 == 0, 1.0, -1.0).astype(step.dtype)
        below, above = self._beyond(x)
        return sign * (step * s * (1.0 - s) + below - above)


Characteristic = MonotoneCubic | Callable


def at_rate(characteristic: Characteristic, x: Scalar, rate: Scalar) -> Scalar:
    """The force at a coordinate and its rate."""
    if isinstance(characteristic, MonotoneCubic):
        return characteristic(x)
    return jnp.asarray(characteristic(x, rate), x.dtype)


def kinks_of(characteristic: Characteristic | None, x: Scalar) -> Float[Array, " n"]:
    """Of a table its `MonotoneCubic.kink`, otherwise nothing."""
    if isinstance(characteristic, MonotoneCubic):
        return characteristic.kink(x)[None]
    return jnp.zeros(0, x.dtype)


def has_potential(characteristic: Characteristic | None) -> bool:
    """Whether the spring is conservative: linear, or with a table."""
    return characteristic is None or isinstance(characteristic, MonotoneCubic)


def stored_energy(
    stiffness: Scalar, characteristic: Characteristic | None, reference: Scalar, longer: Scalar
) -> Scalar:
    """The potential energy of a spring that is longer than its reference [J], zero at the
    reference; of a function, for which none is defined, only that of the stiffness.
    """
    energy = 0.5 * stiffness * longer**2
    if isinstance(characteristic, MonotoneCubic):
        energy += characteristic.integral(reference + longer) - characteristic.integral(reference)
    return energy


def without_potential(spring: Any) -> Any:
    """An element with `stiffness` and `characteristic` without what has a potential."""
    characteristic = spring.characteristic
    return dataclasses.replace(
        spring,
        stiffness=jnp.zeros_like(spring.stiffness),
        characteristic=None if has_potential(characteristic) else characteristic,
    )


def _slopes(at: Float[Array, " n"], values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Slopes at the points of a table."""
    xp = library_of(at, values)
    step = at[1:] - at[:-1]
    secant = (values[1:] - values[:-1]) / step
    if secant.shape[0] == 1:
        return xp.concatenate([secant, secant])
    h, l, d, e = step[:-1], step[1:], secant[:-1], secant[1:]  # noqa: E741
    same = d * e > 0.0
    d_safe, e_safe = xp.where(same, d, 1.0), xp.where(same, e, 1.0)
    mean = 3.0 * (h + l) / ((h + 2.0 * l) / d_safe + (2.0 * h + l) / e_safe)
    inner = xp.where(same, mean, 0.0)
    first = _end_slope(xp, h[0], l[0], d[0], e[0])
    last = _end_slope(xp, l[-1], h[-1], e[-1], d[-1])
    return xp.concatenate([first[None], inner, last[None]])


def _end_slope(xp: ModuleType, h: Scalar, l: Scalar, d: Scalar, e: Scalar) -> Scalar:  # noqa: E741
    """Of the parabola through three points at the first of them, kept monotone; the nearer interval
    has length h and slope d.
    """
    slope = ((2.0 * h + l) * d - h * e) / (h + l)
    slope = xp.where(slope * d > 0.0, slope, 0.0)
    return xp.where((d * e <= 0.0) & (xp.abs(slope) > 3.0 * xp.abs(d)), 3.0 * d, slope)
