"""Eigenvalues of the upright bicycle, its critical speeds, and their exact derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.library import whipple_bicycle

# Only the lean and the angle between fork and frame act on the motion; the place on the ground, the
# heading and the turns of the wheels are cyclic.
COORDINATES = (
    "frame.r.x",
    "frame.r.y",
    "frame.theta.x",
    "frame.theta.z",
    "fork.theta.z",
    "rear_wheel.theta.y",
    "front_wheel.theta.y",
)
SPEEDS = ("frame.theta.x", "fork.theta.z", "rear_wheel.theta.y")
_LEAN, _HEADING, _FORK = (
    COORDINATES.index(name) for name in ("frame.theta.x", "frame.theta.z", "fork.theta.z")
)
_RATES = [
    len(COORDINATES) + SPEEDS.index("frame.theta.x"),
    len(COORDINATES) + SPEEDS.index("fork.theta.z"),
]


@functools.partial(jax.jit, static_argnames="rider")
def matrix(numbers, rider=True):
    """The 4 x 4 matrix of the lean, the turn of the fork against the frame, and the rates of lean
    and fork, from the nonlinear model by `linearize`; `numbers` are arguments of
    `whipple_bicycle`, speed among them.
    """
    system, state = whipple_bicycle(**numbers, rider=rider).build()
    found = mbd.linearize(system, state, coordinates=COORDINATES, speeds=SPEEDS)
    kept = np.array([_LEAN, _FORK, *_RATES])
    # With the heading zero, the turn of the fork is its turn against the frame; its rate is not.
    block = found.A[kept[:, None], kept[None, :]]
    return block.at[1].add(-found.A[_HEADING, kept])


@functools.partial(jax.jit, static_argnames="rider")
def slopes(numbers, rider=True):
    """Derivatives of `matrix` by all numbers."""
    return jax.jacfwd(lambda x: matrix(x, rider=rider))(numbers)


def as_numbers(**numbers):
    """Arguments as arrays, so that other values compile nothing."""
    return {name: jnp.asarray(x, float) for name, x in numbers.items()}


def eigenvalues(numbers):
    """The four eigenvalues [1/s], by real part."""
    values = np.linalg.eigvals(np.asarray(matrix(numbers)))
    return values[np.lexsort((values.imag, values.real))]


def growth(numbers, which, rider=True):
    """Largest real part of the weave pair (complex) or of the real eigenvalue closest to zero, and
    its derivatives by all numbers.
    """
    A, dA = np.asarray(matrix(numbers, rider)), slopes(numbers, rider)
    values, right = np.linalg.eig(A)
    left = np.linalg.inv(right)
    oscillates = np.abs(values.imag) > 1e-6
    wanted = oscillates if which == "weave" else ~oscillates
    distance = np.where(wanted, np.abs(values.real), np.inf)
    k = int(np.argmin(distance))
    slope = {n: float((left[k] @ np.asarray(d) @ right[:, k]).real) for n, d in dA.items()}
    return float(values[k].real), slope


def critical_speed(numbers, which, start, rider=True):
    """The speed at which weave or capsize has no growth [m/s], by Newton's method, and its
    derivatives by the other numbers, from the implicit function theorem.
    """
    speed = start
    for _ in range(30):
        value, slope = growth(numbers | as_numbers(speed=speed), which, rider)
        change = -value / slope["speed"]
        speed += change
        if abs(change) < 1e-13 * speed:
            break
    _, slope = growth(numbers | as_numbers(speed=speed), which, rider)
    return speed, {n: -d / slope["speed"] for n, d in slope.items() if n != "speed"}


def first_weave_speed(numbers, rider=True):
    """About the speed at which the last oscillation begins to fade [m/s], by search."""
    speeds = np.linspace(0.5, 12.0, 47)
    for low, high in zip(speeds[:-1], speeds[1:], strict=True):
        at = [
            np.linalg.eigvals(np.asarray(matrix(numbers | as_numbers(speed=v), rider)))
            for v in (low, high)
        ]
        grow = [
            max((x.real for x in values if abs(x.imag) > 1e-6), default=np.nan) for values in at
        ]
        if grow[0] > 0.0 > grow[1]:
            return 0.5 * (low + high)
    raise ValueError("the weave of this bicycle does not fade below 12 m/s")
