"""Joint coordinates: the angle of a body against another over any number of turns, and its
displacement along an axis.

An angle is known from two poses up to whole turns. Where it was a moment before is carried along by
every run (`AbstractFollowed.near`), and has no derivative of its own: the angle is exact after any
number of turns. The place where two curves touch is followed in the same way.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ..rotations.types import Array, Scalar, Vec3, host, library_of
from ..rotations.vectors import basis_from_axis, cross, skew
from ..xla.indexing import take
from .body import Body
from .state import Pose, Twist
from .validation import Numbers, vector

_TURN = 2.0 * np.pi
# Which coordinates a joint may have, the usual first.
COORDINATES = ("angle", "displacement")


class AbstractFollowed(eqx.Module):
    """A coordinate that two poses determine only near where it was a moment before: to be derived
    from.

    A force, a primitive or a law that needs one holds it as a field; runs keep `near` current.

    Attributes:
        near: A value close to the present one; one number, or several that belong together, (k,).
        of: Which of its element's bodies are i and j.
    """

    near: eqx.AbstractVar[Array]
    of: eqx.AbstractVar[tuple[int, int]]

    @abc.abstractmethod
    def value(self, pose_i: Pose, pose_j: Pose) -> Array:
        """The coordinate, of the shape of `near`."""

    def rate(self, pose_i: Pose, twist_i: Twist, pose_j: Pose, twist_j: Twist) -> Array:
        """Its rate [1/s]."""
        return _rate_of(self.value, (pose_i, pose_j), (twist_i, twist_j))


def _rate_of(value: Callable, poses: tuple[Pose, Pose], twists: tuple[Twist, Twist]) -> Array:
    """The rate of a function of two poses."""
    rates = (
        Pose(twist.v, pose.A @ skew(twist.omega)) for pose, twist in zip(poses, twists, strict=True)
    )
    return jax.jvp(value, poses, tuple(rates))[1]


class AbstractAngle(AbstractFollowed):
    """A followed coordinate that is an angle, of which a pose tells the cosine and the sine."""

    @abc.abstractmethod
    def cosine_and_sine(self, pose_i: Pose, pose_j: Pose) -> tuple[Scalar, Scalar]:
        """Of the angle, times any common positive factor."""

    def unwound(self, cosine: Scalar, sine: Scalar) -> Scalar:
        """The angle with this cosine and sine that is nearest to `near` [rad]."""
        angle = jnp.arctan2(sine, cosine)
        return angle + _TURN * jnp.round(jax.lax.stop_gradient(self.near - angle) / _TURN)

    def value(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        """The angle [rad]."""
        return self.unwound(*self.cosine_and_sine(pose_i, pose_j))


class Angle(AbstractAngle):
    """The rotation of body j relative to body i about an axis of body i, zero at the initial pose,
    over any number of turns. A force or a primitive of your own may have it as a field.

    Attributes:
        axis_i_bar: Unit axis in body i [-].
        e_i_bar: Unit direction in body i, normal to the axis [-].
        e_j_bar: The same direction in body j at zero angle [-].
        near: A value within half a turn of the present one [rad].
        of: Which of its element's bodies are i and j.
    """

    axis_i_bar: Vec3
    e_i_bar: Vec3
    e_j_bar: Vec3
    near: Scalar
    of: tuple[int, int] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def between(i: Body, j: Body, axis: Numbers, of: tuple[int, int] = (0, 1)) -> "Angle":
        """The angle of two bodies about a direction, global at the initial pose, of any length;
        where they tilt, it stays with i.

        Args:
            i: The body that the angle is seen from, as `add_body` returns it, or the ground.
            j: The body that turns.
            axis: The direction, (3,).
            of: Which of the element's bodies these are.
        """
        e1, _, unit = basis_from_axis(vector(axis, 3, "Angle: axis"))
        return Angle(
            axis_i_bar=i.direction(unit),
            e_i_bar=i.direction(e1),
            e_j_bar=j.direction(e1),
            near=host.zeros((), unit.dtype),
            of=of,
        )

    def cosine_and_sine(self, pose_i: Pose, pose_j: Pose) -> tuple[Scalar, Scalar]:
        """Of the angle: quadratic in the columns of the rotation matrices."""
        e_j = pose_i.A.T @ (pose_j.A @ self.e_j_bar)
        return self.e_i_bar @ e_j, cross(self.axis_i_bar, self.e_i_bar) @ e_j

    def rate(self, pose_i: Pose, twist_i: Twist, pose_j: Pose, twist_j: Twist) -> Scalar:
        """Its rate [rad/s]."""
        axis = pose_i.A @ self.axis_i_bar
        return axis @ (pose_j.A @ twist_j.omega - pose_i.A @ twist_i.omega)


class Sight(AbstractAngle):
    """The angle about an axis of body i at which a point or a direction of body j is seen from body
    i, zero at the initial pose.

    Attributes:
        axis_i_bar: Unit axis in body i [-].
        e_i_bar: Unit direction in body i, normal to the axis, in which it is seen at zero
            angle [-].
        s_i_bar: The point of body i from which a point is seen [m]; None for a direction.
        seen_j_bar: The point [m] or the direction [-] in body j.
        near: A value within half a turn of the present one [rad].
        of: Which of its element's bodies are i and j.
    """

    axis_i_bar: Vec3
    e_i_bar: Vec3
    s_i_bar: Vec3 | None
    seen_j_bar: Vec3
    near: Scalar
    of: tuple[int, int] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def point(
        i: Body, j: Body, axis: Vec3, from_point: Vec3, to_point: Vec3, of: tuple[int, int] = (0, 1)
    ) -> "Sight":
        """Of a point of body j; axis and points are global at the initial pose."""
        e = _normal_part(to_point - from_point, axis)
        return Sight(
            axis_i_bar=i.direction(axis),
            e_i_bar=i.direction(e),
            s_i_bar=i.point(from_point),
            seen_j_bar=j.point(to_point),
            near=host.zeros((), e.dtype),
            of=of,
        )

    @staticmethod
    def direction(
        i: Body, j: Body, axis: Vec3, seen: Vec3, of: tuple[int, int] = (0, 1)
    ) -> "Sight":
        """Of a direction of body j; both directions are global at the initial pose."""
        e = _normal_part(seen, axis)
        return Sight(
            axis_i_bar=i.direction(axis),
            e_i_bar=i.direction(e),
            s_i_bar=None,
            seen_j_bar=j.direction(seen),
            near=host.zeros((), e.dtype),
            of=of,
        )

    def cosine_and_sine(self, pose_i: Pose, pose_j: Pose) -> tuple[Scalar, Scalar]:
        """Of the angle, times the length of what is seen across the axis."""
        seen = pose_j.A @ self.seen_j_bar
        if self.s_i_bar is None:
            seen = pose_i.A.T @ seen
        else:
            seen = pose_i.A.T @ (pose_j.r + seen - pose_i.r) - self.s_i_bar
        return self.e_i_bar @ seen, cross(self.axis_i_bar, self.e_i_bar) @ seen


def _normal_part(x: Array, axis: Array) -> Array:
    """The unit direction of x normal to a unit axis."""
    xp = library_of(x, axis)
    across = x - (axis @ x) * axis
    return across / xp.sqrt(across @ across)


class Displacement(eqx.Module):
    """The displacement of a point of body j along an axis of body i, zero at the initial pose.

    Attributes:
        axis_i_bar: Unit axis in body i [-].
        s_i_bar: The point of body i from which it is counted [m].
        s_j_bar: The point of body j [m].
        of: Which of its element's bodies are i and j.
    """

    axis_i_bar: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    of: tuple[int, int] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def between(
        i: Body, j: Body, axis: Vec3, point: Vec3, of: tuple[int, int] = (0, 1)
    ) -> "Displacement":
        """Of the point of body j along a global direction at the initial pose, which stays with
        body i.
        """
        return Displacement(i.direction(axis), i.point(point), j.point(point), of)

    def value(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        """The displacement [m]."""
        moved = pose_i.A.T @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r) - self.s_i_bar
        return self.axis_i_bar @ moved

    def rate(self, pose_i: Pose, twist_i: Twist, pose_j: Pose, twist_j: Twist) -> Scalar:
        """Its rate [m/s]."""
        return _rate_of(self.value, (pose_i, pose_j), (twist_i, twist_j))


class AngleStack(eqx.Module):
    """The angles of all joints that have one, stacked; `bodies` (n, 2) are static indices, the
    ground is nb.
    """

    angle: Angle | None
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @property
    def index(self) -> np.ndarray:
        """Body indices, (n, 2)."""
        return np.array(self.bodies, int).reshape(-1, 2)

    @property
    def members(self) -> Any:
        """What holds the angles, with a leading axis."""
        return self.angle


def is_followed(x: object) -> bool:
    """Whether a node of a pytree is a followed coordinate."""
    return isinstance(x, AbstractFollowed)


def followed_in(tree: PyTree) -> list[AbstractFollowed]:
    """All followed coordinates of a pytree in its order."""
    return [x for x in jax.tree.leaves(tree, is_leaf=is_followed) if is_followed(x)]


def with_turns(tree: PyTree, near: Sequence[Array]) -> Any:
    """The pytree with other `near` in its followed coordinates, which carry no derivative."""
    if not near:
        return tree
    held = [
        jax.lax.stop_gradient(x).reshape(a.near.shape)
        for x, a in zip(near, followed_in(tree), strict=True)
    ]
    return eqx.tree_at(lambda t: [a.near for a in followed_in(t)], tree, held)


def each_followed(
    angle: AbstractFollowed, index: np.ndarray, function: Callable, *states: Any
) -> Float[Array, "n *k"]:
    """`function(coordinate, state of i, state of j)` for a stacked coordinate of elements whose
    bodies are `index` (n, k).
    """
    if not len(index):
        return jnp.zeros(0, jnp.result_type(float))
    at = [
        tuple(jax.tree.map(lambda x, k=k: take(x, index[:, k]), state) for state in states)
        for k in angle.of
    ]
    return eqx.filter_vmap(function)(angle, *at)


class JointMotion(eqx.Module):
    """The coordinates of a joint over a motion; None where it has no such coordinate.

    Attributes:
        angle: Of body j relative to body i about the joint's axis, (T,) [rad], over any number of
            turns; zero at the pose as described.
        rate: Its rate, (T,) [rad/s].
        acceleration: Its second derivative, (T,) [rad/s²].
        displacement: Of body j's point relative to body i's along the axis, (T,) [m]; zero at the
            pose as described.
        speed: Its rate, (T,) [m/s].
        displacement_acceleration: Its second derivative, (T,) [m/s²].
    """

    angle: Float[Array, "*T"] | None = None
    rate: Float[Array, "*T"] | None = None
    acceleration: Float[Array, "*T"] | None = None
    displacement: Float[Array, "*T"] | None = None
    speed: Float[Array, "*T"] | None = None
    displacement_acceleration: Float[Array, "*T"] | None = None


def along_motion(
    function: Callable, pose: Pose, twist: Twist, a: Array, alpha: Array
) -> tuple[Scalar, Scalar, Scalar]:
    """A function of poses (k,) with its first two derivatives by time along a motion with these
    accelerations.
    """
    zero, one = jnp.zeros((), pose.r.dtype), jnp.ones((), pose.r.dtype)
    turn, bend = jax.vmap(skew)(twist.omega), jax.vmap(skew)(alpha)
    first = pose.A @ turn
    second = pose.A @ (turn @ turn + bend)

    def moved(s: Scalar) -> Scalar:
        return function(
            Pose(pose.r + s * twist.v + 0.5 * s**2 * a, pose.A + s * first + 0.5 * s**2 * second)
        )

    def rate(s: Scalar):
        return jax.jvp(moved, (s,), (one,))

    (value, speed), (_, acceleration) = jax.jvp(rate, (zero,), (one,))
    return value, speed, acceleration
