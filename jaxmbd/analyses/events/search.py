"""The search for the share of a step after which an event happens, one evaluation at a time.

An evaluation is a step, so that the search is a state which a loop over steps carries: the program
holds one step, whether it is a whole one or a part that is tried.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...rotations.types import Scalar

# What a turn of the loop evaluates: a whole step, or what an event has left of one; a point of a
# bracket, until this is narrow; then corrections, each of which adds an order of derivatives; then
# the event itself, if anything happens there; a turning point. Where an event acts: the motion
# after it; a point shortly after it; and the motion at the end of that step, started anew.
WHOLE, NARROWING, CORRECTING = 0, 1, 2
CORRECTIONS = 3
THERE = CORRECTING + CORRECTIONS
PROBING = THERE + 1
ACTING, PEEKING, RENEWING = PROBING + 1, PROBING + 2, PROBING + 3

# Of the largest magnitude of a value: what is held at zero, by a lock, is not above it.
BAND = 1e-9
# Of what is left of a step, where values are looked at after an event: what they do there says
# whether they pass once more within the step.
SHORTLY = 1e-3


def _narrow(like: Scalar | Array) -> float:
    """Width of a bracket, in steps. The slope across it is right to that share of the curvature,
    and to rounding divided by it; corrections by that slope gain as many digits each.
    """
    return 1e-5 if like.dtype == jnp.float64 else 0.05


class Search(eqx.Module):
    """What is known of the event that is looked for within a step.

    Attributes:
        stage: What the next turn evaluates.
        event: Its number.
        share: Length of the next step that is tried, in steps.
        share_from_before: Whether it begins a step before the last whole one.
        x: Shares: the last point, the other end of the bracket, the point before.
        f: Values there.
        slope: Of the value by the share, across the bracket.
        turning: Share and value of a turning point beyond zero, behind which the event happens once
            more.
        again: Whether there is one.
    """

    stage: Int[Array, ""]
    event: Int[Array, ""]
    share: Scalar
    share_from_before: Bool[Array, ""]
    x: Float[Array, "3"]
    f: Float[Array, "3"]
    slope: Scalar
    turning: Float[Array, "2"]
    again: Bool[Array, ""]

    @staticmethod
    def none(like: Scalar) -> "Search":
        """A whole step comes next, or what is left of it."""
        zero, one = jnp.zeros((), int), jnp.ones_like(like)
        no, three = jnp.asarray(False), jnp.zeros(3, like.dtype)
        return Search(zero, zero, one, no, three, three, one, three[:2], no)


def bracketed(
    event: Int[Array, ""], early: Bool[Array, ""], x: Float[Array, "2"], f: Float[Array, "2"]
) -> Search:
    """A search that begins between two shares at which the values have different signs."""
    x, f = jax.lax.stop_gradient((jnp.stack([x[0], x[1], x[1]]), jnp.stack([f[0], f[1], f[1]])))
    found = Search.none(x[0])
    found = dataclasses.replace(found, stage=jnp.asarray(NARROWING), event=event, x=x, f=f)
    return dataclasses.replace(found, share=_proposed(x, f), share_from_before=early)


def narrowed(search: Search, value: Scalar) -> Search:
    """After an evaluation at `search.share` in the stage of narrowing.

    Reference:
        Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a
        nonlinear function without using derivatives", Advances in Engineering Software 28 (1997).
    """
    value = jax.lax.stop_gradient(value)
    x, f = search.x, search.f
    same = jnp.sign(value) == jnp.sign(f[0])
    # The bracket is the new point and the one on the other side; the third is what it replaced.
    other = jnp.where(same, x[1], x[0]), jnp.where(same, f[1], f[0])
    third = jnp.where(same, x[0], x[1]), jnp.where(same, f[0], f[1])
    x = jnp.stack([search.share, other[0], third[0]])
    f = jnp.stack([value, other[1], third[1]])
    width = x[1] - x[0]
    closed = jnp.abs(width) <= 2.0 * _narrow(width)
    slope = (f[1] - f[0]) / jnp.where(width == 0.0, 1.0, width)
    safe = jnp.where(slope == 0.0, 1.0, slope)
    root = x[0] - jnp.where(slope == 0.0, 0.0, f[0] / safe)
    return dataclasses.replace(
        search,
        stage=jnp.where(closed, CORRECTING, NARROWING),
        share=jax.lax.stop_gradient(jnp.where(closed, root, _proposed(x, f))),
        x=x,
        f=f,
        slope=jax.lax.stop_gradient(safe),
    )


def corrected(search: Search, value: Scalar) -> Search:
    """After an evaluation in a stage of correcting: by the slope of the bracket as a constant.

    With f(x, p) and c = ∂f/∂x, the iteration x ← x - f(x, p) / c has at its root the derivative
    dx/dp = -(∂f/∂p) / c after one turn, the second derivative after two, and so on: derivatives of
    the root come from differentiating the corrections.
    """
    # A value that jumps has no slope to go by.
    most = _narrow(value)
    move = jnp.clip(value / search.slope, -most, most)
    return dataclasses.replace(search, stage=search.stage + 1, share=search.share - move)


def _proposed(x: Float[Array, "3"], f: Float[Array, "3"]) -> Scalar:
    """The next share: by inverse quadratic interpolation where that may be trusted, at first by a
    chord, otherwise in the middle.
    """
    first = x[2] == x[1]
    width = x[1] - x[0]
    xi = (x[0] - x[1]) / jnp.where(first, 1.0, x[2] - x[1])
    phi = (f[0] - f[1]) / jnp.where(f[2] == f[1], 1.0, f[2] - f[1])
    trusted = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)

    def part(a: Scalar, b: Scalar) -> Scalar:
        return a / jnp.where(b == 0.0, 1.0, b)

    curved = part(f[0], f[1] - f[0]) * part(f[2], f[1] - f[2])
    curved = curved + part(x[2] - x[0], width) * part(f[0], f[2] - f[0]) * part(f[1], f[2] - f[1])
    chord = part(f[0], f[0] - f[1])
    t = jnp.where(first, chord, jnp.where(trusted, curved, 0.5))
    narrow = _narrow(width)
    margin = narrow / jnp.maximum(jnp.abs(width), narrow)
    return x[0] + jnp.clip(t, jnp.minimum(margin, 0.5), jnp.maximum(1.0 - margin, 0.5)) * width


def passes(
    before: Float[Array, " E"], after: Float[Array, " E"], signs: Float[Array, " E"]
) -> Bool[Array, " E"]:
    """Which values pass zero in their direction: 1 rising, -1 falling, 0 both. A value that is zero
    has arrived, and does not pass again on leaving.
    """
    rises = (before < 0.0) & (after >= 0.0)
    falls = (before > 0.0) & (after <= 0.0)
    return (rises & (signs >= 0.0)) | (falls & (signs <= 0.0))
