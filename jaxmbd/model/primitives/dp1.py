"""DP1: the angle between two directions."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from ...rotations.types import Scalar, Vec3, host
from .. import given
from ..motions import GivenNumber, GivenVector
from ..state import Pose
from .base import AbstractNormalForm
from .products import PoseVector


class DP1(AbstractNormalForm):
    """DP1: the dot product of direction ā_i (body i) and direction ā_j (body j) is prescribed.

        Φ = (A_i ā_i)ᵀ (A_j ā_j) - f(t)

    `a_i_bar` may be a motion (a direction that turns in body i): that is how `RotationDriver` stays
    regular.

    Attributes:
        a_i_bar: Direction in body i [-].
        a_j_bar: Direction in body j [-].
        f: Prescribed value [-], a number or a motion.
        a_j_along: Direction in body j that ā_i points along on the root that is meant; the other
            root of a turning direction lies half a turn away. None where both will do.
    """

    constants: ClassVar[tuple[float, float, float, float]] = (0.0, 0.0, 0.0, 1.0)
    directions_j: ClassVar[tuple[str, ...]] = ("a_j_bar",)
    driven: ClassVar[tuple[str, ...]] = ("f", "a_i_bar")

    a_i_bar: GivenVector = given.vector("-", kw_only=False)
    a_j_bar: GivenVector = given.vector("-", kw_only=False)
    f: GivenNumber = given.value("-", 0.0, kw_only=False)
    a_j_along: Vec3 | None = eqx.field(default=None, kw_only=True)
    # First and second time derivatives of a_i_bar, set by `System.at` where it turns.
    a_i_bar_dot: Vec3 | None = eqx.field(default=None, kw_only=True)
    a_i_bar_ddot: Vec3 | None = eqx.field(default=None, kw_only=True)

    def row_size(self, length: Scalar) -> Scalar:
        return jnp.ones_like(length)

    def product(self) -> tuple[PoseVector, PoseVector]:
        a_i = PoseVector(self.a_i_bar, a_i_dot=self.a_i_bar_dot, a_i_ddot=self.a_i_bar_ddot)
        return a_i, PoseVector(a_j=self.a_j_bar)

    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        a_i, a_j = pose_i.A @ self.a_i_bar, pose_j.A @ self.a_j_bar
        return jnp.zeros_like(a_i), self.a_i_bar, pose_i.A.T @ a_j, self.a_j_bar, pose_j.A.T @ a_i

    def geometry_rate(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        if self.a_i_bar_dot is None:
            return jnp.zeros((), pose_i.r.dtype)
        return (pose_i.A @ self.a_i_bar_dot) @ (pose_j.A @ self.a_j_bar)

    def branch(self, pose_i: Pose, pose_j: Pose) -> Scalar | None:
        if self.a_j_along is None:
            return None
        # The cosine is 1 on that root, -1 half a turn away, and 0 on the roots that three rows
        # together have at a third of a turn. In a stack, rows without such a direction have zeros.
        return (pose_i.A @ self.a_i_bar) @ (pose_j.A @ self.a_j_along) - 0.5 * (
            self.a_j_along @ self.a_j_along
        )

    @classmethod
    def alike(cls, primitives: Sequence["DP1"]) -> Sequence["DP1"]:
        turning = any(p.a_i_bar_dot is not None for p in primitives)
        branching = any(p.a_j_along is not None for p in primitives)

        def completed(p: DP1) -> DP1:
            zero = host.zeros(3, jnp.result_type(float))
            along = p.a_j_along if p.a_j_along is not None or not branching else zero
            rates = {"a_i_bar_dot": zero, "a_i_bar_ddot": zero} if turning else {}
            return dataclasses.replace(p, a_j_along=along, **rates)

        return [completed(p) for p in primitives] if turning or branching else primitives

    def advanced(self, s: Scalar) -> "DP1":
        if self.a_i_bar_dot is None:
            return self
        assert self.a_i_bar_ddot is not None
        a_i_bar = self.a_i_bar + s * self.a_i_bar_dot + 0.5 * s * s * self.a_i_bar_ddot
        return eqx.tree_at(lambda p: p.a_i_bar, self, a_i_bar)
