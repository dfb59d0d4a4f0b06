"""Products of two vectors: what DP1, DP2, D and CD are, whatever coordinates describe rotation."""

import functools
import operator

import equinox as eqx
from jaxtyping import Float

from ...rotations.types import Array, Vec3
from ...rotations.vectors import skew
from ..state import Pose, Twist


class FreeMotion(eqx.Module):
    """A body's pose and its rates without accelerations of its coordinates.

    Attributes:
        r, v: Position and velocity of the mass center, global, (3,).
        A, A_dot, D: The rotation matrix, its rate, and what is left of its second derivative,
            (3, 3): D = A ω̃ ω̃ in rA, 2 A(ṗ) in rp, Eq. 28b of Kissel et al. in r-ε.
    """

    r: Float[Array, "*n 3"]
    v: Float[Array, "*n 3"]
    A: Float[Array, "*n 3 3"]
    A_dot: Float[Array, "*n 3 3"]
    D: Float[Array, "*n 3 3"]


def free_motion(pose: Pose, twist: Twist) -> FreeMotion:
    """The motion with a constant velocity of the mass center and a constant ω̄."""
    rate = pose.A @ skew(twist.omega)
    return FreeMotion(pose.r, twist.v, pose.A, rate, rate @ skew(twist.omega))


class PoseVector(eqx.Module):
    """A global vector x = (r_j - r_i) + A_i ā_i + A_j ā_j + c of two poses; parts that are None are
    absent.

    Attributes:
        a_i, a_j: In the body frames, (3,).
        c: In the global frame, (3,).
        between: Whether r_j - r_i is part of it.
        a_i_dot, a_i_ddot: Time derivatives of `a_i` where it turns in its body.
    """

    a_i: Vec3 | None = None
    a_j: Vec3 | None = None
    c: Vec3 | None = None
    between: bool = eqx.field(static=True, default=False)
    a_i_dot: Vec3 | None = None
    a_i_ddot: Vec3 | None = None

    def value(self, pose_i: Pose, pose_j: Pose) -> Vec3:
        """The vector."""
        parts = [] if self.c is None else [self.c]
        if self.between:
            parts.append(pose_j.r - pose_i.r)
        for pose, a in ((pose_i, self.a_i), (pose_j, self.a_j)):
            if a is not None:
                parts.append(pose.A @ a)
        return _sum(parts)

    def motion(self, i: FreeMotion, j: FreeMotion) -> tuple[Vec3, Vec3 | None, Vec3 | None]:
        """x, ẋ and ẍ along a free motion of both bodies; None for what is zero."""
        rates, bends = ([j.v - i.v] if self.between else []), []
        for body, a in ((i, self.a_i), (j, self.a_j)):
            if a is not None:
                rates.append(body.A_dot @ a)
                bends.append(body.D @ a)
        if self.a_i_dot is not None:
            assert self.a_i_ddot is not None
            rates.append(i.A @ self.a_i_dot)
            bends.append(2.0 * (i.A_dot @ self.a_i_dot) + i.A @ self.a_i_ddot)
        value = self.value(Pose(i.r, i.A), Pose(j.r, j.A))
        return value, _sum(rates) if rates else None, _sum(bends) if bends else None


def _sum(parts: list[Vec3]) -> Vec3:
    return functools.reduce(operator.add, parts)
