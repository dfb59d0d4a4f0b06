"""Motions: functions of time, for drivers and rheonomic primitives.

A motion is any callable from time [s] to a number (or, for a turning direction, to a vector).
Python functions, `equinox` modules and parsed expressions all serve; derivatives are taken by JAX.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations import so3
from ..rotations.types import Array, Scalar, Vec3
from .validation import default_dtype, is_concrete

Motion = Callable[[Scalar], Any]

# What a description may give where a system holds an array: plain numbers, or a motion.
if TYPE_CHECKING:

    class GivenVector:
        """A field that is given as any of these and read where it is an array: in a system."""

        def __get__(self, instance: object, owner: type | None = None) -> Array: ...
        def __set__(
            self, instance: object, value: Array | np.ndarray | Sequence | Motion
        ) -> None: ...
else:
    GivenVector = Vec3 | np.ndarray | Sequence | Motion
GivenNumber = Scalar | np.ndarray | float | int | Motion | str  # a text is an expression of time


class Turning(eqx.Module):
    """A unit vector that turns in the plane of e1 and e2: cos φ(t) e1 + sin φ(t) e2.

    Attributes:
        e1: Direction at φ = 0 [-].
        e2: Direction at φ = π/2 [-].
        angle: φ, a motion [rad].
    """

    e1: Vec3
    e2: Vec3
    angle: Motion

    def __call__(self, t: Scalar) -> Vec3:
        phi = self.angle(t)
        return jnp.cos(phi) * self.e1 + jnp.sin(phi) * self.e2


class Squared(eqx.Module):
    """The square of a motion: a prescribed length for the primitive `D`."""

    motion: Motion

    def __call__(self, t: Scalar) -> Scalar:
        return self.motion(t) ** 2


class Sampled(eqx.Module):
    """A motion through samples at equal intervals: piecewise cubics through four neighbors, of
    fourth order.

    It may be differentiated by its values. Outside the samples the outermost cubics go on.

    Attributes:
        start: Instant of the first sample [s].
        interval: Between samples [s].
        values: At least four, (n,) or (n, k).
    """

    start: Scalar
    interval: Scalar
    values: Array

    def __init__(self, t: Any, values: Any):
        times = np.asarray(t, float)
        steps = np.diff(times)
        if times.ndim != 1 or len(times) < 4:
            raise ValueError(
                f"Sampled: needs four or more instants in one array, not shape {times.shape}"
            )
        if not (steps > 0.0).all() or np.ptp(steps) > 1e-6 * steps.mean():
            raise ValueError("Sampled: the instants must increase by equal intervals")
        self.values = jnp.asarray(values)
        if self.values.shape[:1] != times.shape:
            raise ValueError(
                f"Sampled: {len(times)} instants but values of shape {self.values.shape}"
            )
        self.start = jnp.asarray(times[0], self.values.dtype)
        self.interval = jnp.asarray((times[-1] - times[0]) / (len(times) - 1), self.values.dtype)

    def __call__(self, t: Scalar) -> Array:
        x = (t - self.start) / self.interval
        first = jnp.clip(
            jnp.floor(jax.lax.stop_gradient(x)).astype(int) - 1, 0, self.values.shape[0] - 4
        )
        s = x - first.astype(x.dtype)  # between 1 and 2 inside
        p, q, r, u = s, s - 1.0, s - 2.0, s - 3.0
        weights = jnp.stack([-q * r * u / 6.0, p * r * u / 2.0, -p * q * u / 2.0, p * q * r / 6.0])
        near = jax.lax.dynamic_slice_in_dim(self.values, first, 4)
        return jnp.tensordot(weights, near, 1)


class TurningFrame(eqx.Module):
    """A vector that turns with a rotation: exp(θ(t)) e, from a body's frame and back.

    Attributes:
        axes: Axes of the components of θ and e, (3, 3), body frame.
        e: Direction at θ = 0 [-], components along the axes.
        rotation: θ, a motion (3,) [rad].
    """

    axes: Array
    e: Vec3
    rotation: Motion

    def __call__(self, t: Scalar) -> Vec3:
        return self.axes @ (so3.exp(jnp.asarray(self.rotation(t), self.e.dtype)) @ self.e)


class Component(eqx.Module):
    """One component of a vector motion, along `e`."""

    e: Array
    motion: Motion

    def __call__(self, t: Scalar) -> Scalar:
        return self.e @ jnp.asarray(self.motion(t), self.e.dtype)


class _Split(eqx.Module):
    """A function as the numbers that it holds, which are leaves, and all the rest, which is static.

    A system then has no leaves but arrays, so that plain `jax.jit` and `jax.vmap` take it as it is.
    """

    numbers: Any
    rest: tuple = eqx.field(static=True)  # leaves and structure

    @staticmethod
    def of(function: Callable) -> "_Split":
        numbers, rest = eqx.partition(function, eqx.is_array_like)
        leaves, structure = jax.tree.flatten(rest)
        return _Split(numbers, (tuple(leaves), structure))

    def __call__(self, *args):
        leaves, structure = self.rest
        return eqx.combine(self.numbers, jax.tree.unflatten(structure, leaves))(*args)


class _Shown(eqx.Module):
    """A module whose functions close over traced numbers, with these as leaves beside its own.

    Attributes:
        function: Of the module's numbers and its arguments.
        numbers: The module's own.
    """

    function: Callable
    numbers: Any

    @staticmethod
    def of(module: Any, *example_args) -> Callable:
        """The module itself if nothing traced is hidden in it."""
        numbers, rest = eqx.partition(module, eqx.is_array_like)
        dtype = default_dtype()  # elements become arrays of one type
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), dtype), numbers)
        converted = eqx.filter_closure_convert(
            lambda numbers, *args: eqx.combine(numbers, rest)(*args), shapes, *example_args
        )
        if is_concrete(converted):
            return module
        return _Shown(converted, jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers))

    def __call__(self, *args):
        return self.function(self.numbers, *args)


def value_at(value: Scalar | Motion, t: Scalar) -> Scalar:
    """What a number, or a function of time, is at time t."""
    return jnp.asarray(value(t), t.dtype) if callable(value) else value


def is_motion(value: object) -> bool:
    """Whether `value` is a function of time rather than a number or an array."""
    return callable(value) and not eqx.is_array_like(value)


def hoist(function: Callable, *example_args) -> Callable:
    """Make arrays that a Python function closes over visible to JAX, so that they can be
    differentiated.

    `lambda t: w * t` with a traced `w` would otherwise hide a derivative. Modules show their own
    arrays; what a function inside them closes over is shown beside these.
    """
    if isinstance(function, _Split | _Shown):
        return function
    shown = function
    if isinstance(function, eqx.Module):
        shown = _Shown.of(function, *example_args)
    else:
        # Around it a function that closes over it: of one without closure Equinox takes for granted
        # that nothing is hidden, but there are default arguments.
        converted = eqx.filter_closure_convert(lambda *args: function(*args), *example_args)
        if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(converted)):
            shown = converted
    if all(eqx.is_array_like(leaf) for leaf in jax.tree.leaves(shown)):
        return shown
    return _Split.of(shown)


def jet(
    motion: Motion, t: Scalar
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Value, first and second time derivative of a motion."""
    one = jnp.ones_like(t)

    def first(t):
        return jax.jvp(lambda s: jnp.asarray(motion(s), t.dtype), (t,), (one,))

    (value, rate), (_, acceleration) = jax.jvp(first, (t,), (one,))
    return value, rate, acceleration
