"""D: the squared distance between two points."""

from typing import ClassVar

from ...rotations.types import Scalar, Vec3
from .. import given
from ..motions import GivenNumber, GivenVector
from ..state import Pose
from .base import AbstractNormalForm
from .products import PoseVector


class D(AbstractNormalForm):
    """D: the squared distance between P (body i) and Q (body j) is prescribed.

        Φ = dᵀ d - f(t),  d = r_j + A_j s̄_j - r_i - A_i s̄_i

    Singular at d = 0: prescribe coincident points with three `CD` rows.

    Attributes:
        s_i_bar: P in body i [m].
        s_j_bar: Q in body j [m].
        f: Prescribed squared distance [m²], a number or a motion.
    """

    constants: ClassVar[tuple[float, float, float, float]] = (2.0, 1.0, 1.0, 0.5)
    points_j: ClassVar[tuple[str, ...]] = ("s_j_bar",)

    s_i_bar: GivenVector = given.vector("m", kw_only=False)
    s_j_bar: GivenVector = given.vector("m", kw_only=False)
    f: GivenNumber = given.value("m²", kw_only=False)

    def row_size(self, length: Scalar) -> Scalar:
        return length**2

    def product(self) -> tuple[PoseVector, PoseVector]:
        d = PoseVector(-self.s_i_bar, self.s_j_bar, between=True)
        return d, d

    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        u_i = pose_i.A.T @ (pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r)
        u_j = pose_j.A.T @ (pose_j.r - pose_i.r - pose_i.A @ self.s_i_bar)
        d = pose_j.r + pose_j.A @ self.s_j_bar - pose_i.r - pose_i.A @ self.s_i_bar
        return 2.0 * d, -2.0 * self.s_i_bar, u_i, 2.0 * self.s_j_bar, u_j
