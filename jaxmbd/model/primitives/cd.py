"""CD: one coordinate of the vector between two points."""

from typing import ClassVar

from ...rotations.types import Scalar, Vec3
from .. import given
from ..motions import GivenNumber, GivenVector
from ..state import Pose
from .base import AbstractNormalForm
from .products import PoseVector


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
    points_j: ClassVar[tuple[str, ...]] = ("s_j_bar",)

    c: GivenVector = given.vector("-", kw_only=False)
    s_i_bar: GivenVector = given.vector("m", kw_only=False)
    s_j_bar: GivenVector = given.vector("m", kw_only=False)
    f: GivenNumber = given.value("m", 0.0, kw_only=False)

    def row_size(self, length: Scalar) -> Scalar:
        return length

    def product(self) -> tuple[PoseVector, PoseVector]:
        d = PoseVector(-self.s_i_bar, self.s_j_bar, between=True)
        return PoseVector(c=self.c), d

    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        return self.c, -self.s_i_bar, pose_i.A.T @ self.c, self.s_j_bar, pose_j.A.T @ self.c
