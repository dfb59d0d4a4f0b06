"""Motions: functions of time, for drivers and rheonomic primitives.

A motion is any callable from time [s] to a number (or, for a turning direction, to a vector). Python functions,
`equinox` modules and parsed expressions all serve; derivatives are taken by JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rotations.types import Scalar, Vec3

Motion = Callable[[Scalar], Any]

# What a description may give where a system holds an array: plain numbers, or a motion.
GivenVector = Vec3 | np.ndarray | Sequence | Motion
GivenNumber = Scalar | np.ndarray | float | int | Motion


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


class Offset(eqx.Module):
    """A motion plus a constant."""

    constant: Scalar
    motion: Motion

    def __call__(self, t: Scalar) -> Scalar:
        return self.constant + self.motion(t)


class Squared(eqx.Module):
    """The square of a motion: a prescribed length for the primitive `D`."""

    motion: Motion

    def __call__(self, t: Scalar) -> Scalar:
        return self.motion(t) ** 2


class _Hoisted(eqx.Module):
    """A Python function whose captured arrays (also traced ones) have become leaves of this module."""

    function: Callable

    def __call__(self, *args):
        return self.function(*args)


def is_motion(value: Any) -> bool:
    """Whether `value` is a function of time rather than a number or an array."""
    return callable(value) and not eqx.is_array_like(value)


def hoist(function: Callable, *example_args) -> Callable:
    """Make arrays that a Python function closes over visible to JAX, so that they can be differentiated.

    `lambda t: w * t` with a traced `w` would otherwise hide a derivative. Functions that capture no array are
    returned as they are, and so are modules, whose arrays are visible already.
    """
    if isinstance(function, eqx.Module):
        return function
    converted = eqx.filter_closure_convert(function, *example_args)
    if not any(eqx.is_array(leaf) for leaf in jax.tree.leaves(converted)):
        return function
    return _Hoisted(converted)


def jet(motion: Motion, t: Scalar) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Value, first and second time derivative of a motion."""
    one = jnp.ones_like(t)

    def first(t):
        return jax.jvp(lambda s: jnp.asarray(motion(s), t.dtype), (t,), (one,))

    (value, rate), (_, acceleration) = jax.jvp(first, (t,), (one,))
    return value, rate, acceleration
