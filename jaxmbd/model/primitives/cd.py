"""CD: one coordinate of the vector between two points."""

from typing import ClassVar

from ...rotations.types import Scalar, Vec3
from .. import given
from ..motions import GivenNumber, GivenVector
from ..state import Pose, Twist
from .base import AbstractNormalForm, vector_motion


class CD(AbstractNormalForm):
    """CD: the component along the global direction c of the vector from P (body i) to Q (body j) is
    prescribed.

        Φ = cᵀ (r_j + A_j s̄_j - r_i - A_i s̄_i) - f(t)

    Attributes:
        c: Global direction [-].
        s_i_bar: P in body i [m].
        s_j_bar: Q in body j [m].
        f: Prescribed value [m], a number or a motion.
    """

    constants: ClassVar[tuple[float, float, float, float]] = (0.0, 0.0, 0.0, 0.0)

    c: GivenVector = given.vector("-", kw_only=False)
    s_i_bar: GivenVector = given.vector("m", kw_only=False)
    s_j_bar: GivenVector = given.vector("m", kw_only=False)
    f: GivenNumber = given.value("m", 0.0, kw_only=False)

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        return self.c @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r - pose_i.A @ self.s_i_bar)

    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        return self.c, -self.s_i_bar, pose_i.A.T @ self.c, self.s_j_bar, pose_j.A.T @ self.c

    def gamma(self, pose_i: Pose, twist_i: Twist, pose_j: Pose, twist_j: Twist) -> Scalar:
        _, _, s_i_ddot = vector_motion(pose_i.A, twist_i.omega, self.s_i_bar)
        _, _, s_j_ddot = vector_motion(pose_j.A, twist_j.omega, self.s_j_bar)
        return -self.c @ (s_j_ddot - s_i_ddot)
