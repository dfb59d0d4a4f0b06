"""Curves that parts slide and roll on: through points, by expressions, or any smooth function.

A curve is a function of one parameter s. Where two parts touch, s is found from their poses, close
to where it was a moment before, and differentiated as the root of its equations.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Mat3, Scalar, Vec3, host, library_of
from ..rotations.vectors import cross
from .body import Body
from .coordinates import AbstractFollowed
from .expressions import Components
from .functions import numbers_of_shape, traced_shape
from .motions import hoist
from .state import Pose
from .validation import array, concrete, default_dtype, is_concrete, require

_SAMPLES = 256  # of a curve, where the first contact is sought
_ITERATIONS = 30
_CORNER = 0.2  # rad, by which a tangent turns within _SHORT of a curve where that has a corner
_SHORT = 1e-6


class Spline(eqx.Module):
    """A cubic spline through points, with s = 0, 1, 2, ... at them; periodic if it is closed.

    Attributes:
        points: (n, 3) [m].
        bends: Second derivatives at the points, (n, 3) [m].
        closed: Whether the last point is followed by the first.
    """

    points: Float[Array, "n 3"]
    bends: Float[Array, "n 3"]
    closed: bool = eqx.field(static=True)

    @staticmethod
    def through(points: Array, *, closed: bool) -> "Spline":
        """The smoothest one: with a continuous second derivative, zero at the ends of an open
        one.
        """
        n = points.shape[0]
        eye, before, after = np.eye(n), np.eye(n, k=-1), np.eye(n, k=1)
        if closed:
            before[0, -1], after[-1, 0] = 1.0, 1.0
        second = 6.0 * (before - 2.0 * eye + after)
        matrix = before + 4.0 * eye + after
        if not closed:
            second[[0, -1]], matrix[[0, -1]] = 0.0, eye[[0, -1]]
        # The bends are linear in the points, by constant numbers.
        bends: Any = np.linalg.solve(matrix, second).astype(points.dtype) @ points
        return Spline(points, bends, closed)

    @property
    def _last(self) -> int:
        """The number of the last interval."""
        return self.points.shape[0] - (1 if self.closed else 2)

    def known(self, s: np.ndarray) -> np.ndarray:
        """The points at some parameters, (n, 3), by NumPy, so that nothing is compiled."""
        points, bends = np.asarray(self.points), np.asarray(self.bends)
        n = len(points)
        s = s % n if self.closed else s
        k = np.clip(np.floor(s).astype(int), 0, self._last)
        b = (s - k)[:, None]
        a, m = 1.0 - b, (k + 1) % n
        return a * points[k] + b * points[m] + ((a**3 - a) * bends[k] + (b**3 - b) * bends[m]) / 6.0

    def __call__(self, s: Scalar) -> Vec3:
        n = self.points.shape[0]
        if self.closed:
            s = s - n * jnp.floor(jax.lax.stop_gradient(s) / n)
        last = self._last
        k = jnp.clip(jnp.floor(jax.lax.stop_gradient(s)).astype(int), 0, last)
        b = s - k.astype(s.dtype)
        a, m = 1.0 - b, (k + 1) % n
        points, bends = jnp.asarray(self.points), jnp.asarray(self.bends)
        straight = a * points[k] + b * points[m]
        return straight + ((a**3 - a) * bends[k] + (b**3 - b) * bends[m]) / 6.0


class Carried(eqx.Module):
    """A curve given in global components at the initial pose of its body, in the frame of the
    body.

    Attributes:
        function: s to a point, (3,) [m], global at the initial pose.
        r, A: The initial pose.
    """

    function: Callable
    r: Vec3
    A: Mat3

    def __call__(self, s: Scalar) -> Vec3:
        return self.A.T @ (jnp.asarray(self.function(s), self.r.dtype) - self.r)


class Curve(eqx.Module):
    """A curve in a body's frame with the range of its parameter.

    Attributes:
        at: s to a point in the body's frame, (3,) [m].
        start, end: Range of s; of a closed curve, one turn.
        closed: Whether s goes on beyond its range, turn after turn.
    """

    at: Callable
    start: Scalar
    end: Scalar
    closed: bool = eqx.field(static=True)

    @staticmethod
    def on(body: Body, given: Any, *, closed: bool, span: Any, what: str) -> "Curve":
        """From points (n, 3), three expressions of t, or a function of s, all global at the
        initial pose [m].

        Raises:
            ValueError: The curve has a corner or stands still, or its points repeat.
        """
        dtype = default_dtype()
        if callable(given) or _is_text(given):
            function = given if callable(given) else Components.of(given, what)
            zero = np.zeros((), dtype)
            shape = traced_shape(lambda s: jnp.asarray(function(s)), (zero,), what)
            numbers_of_shape(shape, (3,), what)
            ends = array(span, (2,), f"{what}: span")
            curve = Curve(Carried(hoist(function, zero), body.r, body.A), ends[0], ends[1], closed)
            with jax.ensure_compile_time_eval():  # also inside jit, where a known curve is no value
                _refuse_corners(curve, what)
            return curve
        count = len(given) if hasattr(given, "__len__") else 0
        points = array(given, (count, 3), what)
        least = 3 if closed else 2
        if count < least:
            raise ValueError(
                f"{what}: needs at least {least} points, not {count}"
                + (" (set closed=False for an open curve)" if closed else "")
            )
        xp = library_of(points)
        steps = xp.diff(xp.concatenate([points, points[: 1 if closed else 0]]), axis=0)
        apart = xp.sum(steps * steps, axis=1) > 1e-24
        known = concrete(apart)
        k = 0 if known is None else int(np.argmin(known))
        points = require(
            xp.all(apart),
            points,
            f"{what}: points {k} and {(k + 1) % count} coincide, so that the curve is not smooth"
            + ("; the first point need not be repeated at the end" if closed else ""),
        )
        own = (points - body.r[None]) @ body.A
        end = host.asarray(count if closed else count - 1, dtype)
        return Curve(Spline.through(own, closed=closed), host.zeros((), dtype), end, closed)

    def tangent(self, s: Scalar) -> Vec3:
        """dc/ds [m]."""
        return jax.jvp(self.at, (s,), (jnp.ones_like(s),))[1]

    def inside(self, s: Scalar) -> Scalar:
        """Zero or positive where the parameter is in its range."""
        if self.closed:
            return jnp.zeros_like(s)
        return jnp.minimum(s - self.start, self.end - s)

    def samples(self) -> tuple[Any, Any]:
        """Parameters over the range, (n,), and their points, (n, 3); of NumPy where a spline is
        known.
        """
        share = (np.arange(_SAMPLES) + (0.5 if self.closed else 0.0)) / (
            _SAMPLES - (0 if self.closed else 1)
        )
        s = self.start + (self.end - self.start) * host.asarray(share, default_dtype())
        if isinstance(self.at, Spline) and is_concrete((self.at.points, s)):
            return s, self.at.known(np.asarray(s))
        return s, jax.vmap(self.at)(jnp.asarray(s))

    def turns_about(self, axis: Vec3) -> Scalar:
        """1 where a closed curve runs counterclockwise about an axis of the body's frame, else -1;
        -1 for an open one.
        """
        if not self.closed:
            return -jnp.ones_like(self.start)
        _, points = self.samples()
        xp = library_of(points, axis)
        area = xp.sum(xp.cross(points, xp.roll(points, -1, axis=0)), axis=0) @ axis
        sign = xp.where(area > 0.0, 1.0, -1.0).astype(area.dtype)
        return sign if xp is np else jax.lax.stop_gradient(sign)

    def outline(self, body: Body) -> np.ndarray:
        """Points to draw, global at the initial pose, (n, 3); none of a curve that is traced."""
        _, points = self.samples()
        if not is_concrete(points):
            return np.zeros((0, 3))
        line = np.asarray(points) @ np.asarray(body.A).T + np.asarray(body.r)
        return np.concatenate([line, line[:1]]) if self.closed else line


def upward(curve: Curve, axis: Vec3, *, inside: bool) -> Array:
    """An axis of the body's frame, turned so that its product with the tangent points out of a
    closed curve, or into it.
    """
    sign = -curve.turns_about(axis) * (-1.0 if inside else 1.0)
    known = concrete(sign)
    return (sign if known is None else host.asarray(known)) * axis


def _is_text(given: object) -> bool:
    return isinstance(given, list | tuple) and any(isinstance(x, str) for x in given)


def _refuse_corners(curve: Curve, what: str) -> None:
    if not is_concrete(jax.tree.leaves((curve.start, curve.end, curve.at))):
        return
    span = float(np.asarray(curve.end)) - float(np.asarray(curve.start))
    if not span > 0.0:
        raise ValueError(f"{what}: span must be two growing numbers")

    def directions(s: np.ndarray) -> np.ndarray:
        tangents = np.asarray(jax.vmap(curve.tangent)(jnp.asarray(s)))
        speed = np.linalg.norm(tangents, axis=1, keepdims=True)
        if not np.all(np.isfinite(tangents)):
            raise ValueError(f"{what}: the curve or its tangent is NaN or infinite")
        if np.min(speed) < 1e-9 * np.max(speed):
            still = float(s[np.argmin(speed)])
            raise ValueError(f"{what}: the curve is not smooth: it stands still at {still:.6g}")
        return tangents / speed

    low = float(np.asarray(curve.start)) + span * np.linspace(0.0, 1.0, _SAMPLES + 1)[:-1]
    high = low + span / _SAMPLES
    at_low, at_high = directions(low), directions(high)
    # Intervals in which the tangent turns much are halved until it turns at a point, or does not.
    while len(low) and high[0] - low[0] > _SHORT * span:
        turned = np.linalg.norm(at_high - at_low, axis=1) > _CORNER
        low, high, at_low, at_high = (x[turned] for x in (low, high, at_low, at_high))
        if not len(low):
            return
        middle = 0.5 * (low + high)
        at_middle = directions(middle)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        at_low, at_high = (
            np.concatenate([at_low, at_middle]),
            np.concatenate([at_middle, at_high]),
        )
    turned = np.linalg.norm(at_high - at_low, axis=1) > _CORNER
    if np.any(turned):
        raise ValueError(
            f"{what}: the curve is not smooth: it has a corner at "
            f"{float(low[np.argmax(turned)]):.6g}; round it off"
        )


class Foot(AbstractFollowed):
    """The parameter of the point of a curve of body i whose tangent is normal to the line to a
    point of body j.

    Attributes:
        curve: In body i.
        s_j_bar: The point in body j [m].
        near: The parameter a moment before.
        of: Which of its element's bodies are i and j.
    """

    curve: Curve
    s_j_bar: Vec3
    near: Scalar
    of: tuple[int, int] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def between(
        curve: Curve, i: Body, j: Body, s_j_bar: Vec3, of: tuple[int, int] = (0, 1)
    ) -> "Foot":
        """Starting from the point of the curve that is nearest at the initial pose."""
        s, points = curve.samples()
        apart = points - (i.A.T @ (j.r + j.A @ s_j_bar - i.r))[None]
        xp = library_of(apart)
        near = _picked(s, xp.argmin(xp.sum(apart**2, axis=1)))
        return Foot(curve=curve, s_j_bar=s_j_bar, near=_as_known(near), of=of)

    def target(self, pose_i: Pose, pose_j: Pose) -> Vec3:
        """The point of body j in the frame of body i [m]."""
        return pose_i.A.T @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r)

    def value(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        """The parameter."""
        point = self.target(pose_i, pose_j)

        def equations(x, about):
            curve, point = about
            return (curve.tangent(x[0]) @ (point - curve.at(x[0])))[None]

        return _root(equations, self.near[None], (self.curve, point))[0]


class Meeting(AbstractFollowed):
    """The parameters at which a curve of body i and one of body j have one normal, in a plane of
    body i.

    Attributes:
        curve_i, curve_j: In the bodies.
        axis_i_bar: Unit normal of the plane in body i, seen against which curve j is on the left of
            curve i [-].
        near: Both parameters a moment before, (2,).
        of: Which of its element's bodies are i and j.
    """

    curve_i: Curve
    curve_j: Curve
    axis_i_bar: Vec3
    near: Float[Array, "2"]
    of: tuple[int, int] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def between(curve_i: Curve, curve_j: Curve, axis_i_bar: Vec3, i: Body, j: Body) -> "Meeting":
        """Starting from where the curves are nearest at the initial pose."""
        (s_i, on_i), (s_j, on_j) = curve_i.samples(), curve_j.samples()
        on_j = ((j.r - i.r)[None] + on_j @ j.A.T) @ i.A
        xp = library_of(on_i, on_j)
        k = xp.argmin(xp.sum((on_i[:, None] - on_j[None]) ** 2, axis=2))
        at_i, at_j = _picked(s_i, k // len(s_j)), _picked(s_j, k % len(s_j))
        near = library_of(at_i, at_j).stack([at_i, at_j])
        return Meeting(
            curve_i=curve_i, curve_j=curve_j, axis_i_bar=axis_i_bar, near=_as_known(near)
        )

    def value(self, pose_i: Pose, pose_j: Pose) -> Float[Array, "2"]:
        """Both parameters."""
        turn, shift = pose_i.A.T @ pose_j.A, pose_i.A.T @ (pose_j.r - pose_i.r)

        def equations(x, about):
            curve_i, curve_j, axis, turn, shift = about
            t_i, t_j = curve_i.tangent(x[0]), turn @ curve_j.tangent(x[1])
            line = shift + turn @ curve_j.at(x[1]) - curve_i.at(x[0])
            return jnp.stack([t_i @ line, cross(t_i, t_j) @ axis])

        about = self.curve_i, self.curve_j, self.axis_i_bar, turn, shift
        return _root(equations, self.near, about)


def _picked(s: Array, k: Array) -> Array:
    """One of some parameters, by an index that may be traced where they are known."""
    return library_of(s, k).asarray(s)[k]


def _as_known(x: Array) -> Array:
    """A value without a derivative; NumPy where it is known, as all descriptions are."""
    known = concrete(x)
    return jax.lax.stop_gradient(x) if known is None else host.asarray(known)


def _root(equations: Callable, near: Float[Array, " k"], about: Any) -> Float[Array, " k"]:
    """The root of `equations(x, about)` near a value, by Newton's method, with the derivatives by
    `about` that the implicit function theorem gives, of any order.
    """
    return _solve(equations, jax.lax.stop_gradient(near), about)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(equations, near, about):
    tolerance = 16.0 * jnp.finfo(near.dtype).eps

    def goes_on(carry):
        x, dx, k = carry
        return (k < _ITERATIONS) & jnp.any(jnp.abs(dx) > tolerance * (1.0 + jnp.abs(x)))

    def body(carry):
        x, _, k = carry
        dx = -_divided(_slope(equations, x, about), equations(x, about))
        return x + dx, dx, k + 1

    start = near, jnp.ones_like(near), jnp.zeros((), int)
    return jax.lax.while_loop(goes_on, body, start)[0]


@_solve.defjvp
def _solve_jvp(equations, primals, tangents):
    near, about = primals
    x = _solve(equations, near, about)
    moved = jax.jvp(lambda about: equations(x, about), (about,), (tangents[1],))[1]
    return x, -_divided(_slope(equations, x, about), moved)


def _slope(equations: Callable, x: Float[Array, " k"], about: Any) -> Float[Array, "k k"]:
    return jax.jacfwd(lambda x: equations(x, about))(x)


def _divided(matrix: Float[Array, "k k"], b: Float[Array, " k"]) -> Float[Array, " k"]:
    """The solution of one or two linear equations."""
    if b.shape[0] == 1:
        return b / matrix[0]
    (a, c), (d, e) = matrix
    return jnp.stack([e * b[0] - c * b[1], a * b[1] - d * b[0]]) / (a * e - c * d)
