"""DP2: a direction and the vector between two points."""

from typing import ClassVar

from ...rotations.types import Scalar, Vec3
from .. import given
from ..motions import GivenNumber, GivenVector
from ..state import Pose
from .base import AbstractNormalForm
from .products import PoseVector


class DP2(AbstractNormalForm):
    """DP2: the component along ā_i (body i) of the vector from P (body i) to Q (body j) is
    prescribed.

        Φ = (A_i ā_i)ᵀ d - f(t),  d = r_j + A_j s̄_j - r_i - A_i s̄_i

    Attributes:
        a_i_bar: Direction in body i [-].
        s_i_bar: P in body i [m].
        s_j_bar: Q in body j [m].
        f: Prescribed value [m], a number or a motion.
    """

    constants: ClassVar[tuple[float, float, float, float]] = (0.0, 1.0, 0.0, 1.0)
    points_j: ClassVar[tuple[str, ...]] = ("s_j_bar",)

    a_i_bar: GivenVector = given.vector("-", kw_only=False)
    s_i_bar: GivenVector = given.vector("m", kw_only=False)
    s_j_bar: GivenVector = given.vector("m", kw_only=False)
    f: GivenNumber = given.value("m", 0.0, kw_only=False)

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def product(self) -> tuple[PoseVector, PoseVector]:
        d = PoseVector(-self.s_i_bar, self.s_j_bar, between=True)
        return PoseVector(self.a_i_bar), d

    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        a = pose_i.A @ self.a_i_bar
        # From r_i, not from P: the rotation of body i about its mass center moves a and P together.
        u_i = pose_i.A.T @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r)
        return a, self.a_i_bar, u_i, self.s_j_bar, pose_j.A.T @ a
