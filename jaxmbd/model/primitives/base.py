"""What a constraint primitive is: one scalar equation between bodies, written once on poses."""

import abc
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Mat3, Scalar, Vec3
from ...rotations.vectors import cross, skew
from ..state import Pose, Twist
from ..switches import Switch
from .products import FreeMotion, PoseVector


class RowFactors(eqx.Module):
    """The vectors of which a primitive's variation is made; arrays may have leading axes.

    Every primitive of this package varies as

        δΦ = gᵀ (δr_j - δr_i) + (ā_i × b̄_i)ᵀ δθ̄_i + (ā_j × b̄_j)ᵀ δθ̄_j

    and these vectors vary, with four constants of the type, as

        δg = κ (δr_j - δr_i) - χ_i A_i skew(ā_i) δθ̄_i - χ_j A_j skew(ā_j) δθ̄_j
        δb̄_i = skew(b̄_i) δθ̄_i + χ_i A_iᵀ (δr_j - δr_i) - η A_iᵀ A_j skew(ā_j) δθ̄_j

    and likewise δb̄_j, so that one assembly of rows and one of their variations serve all types:
    Tables 2 to 6 of Kissel et al. in one line each.

    Attributes:
        g: Global vector, (..., 3).
        a_i, b_i: Body i's vectors, (..., 3), body frame.
        a_j, b_j: Body j's vectors, (..., 3), body frame.
        constants: (κ, χ_i, χ_j, η), (..., 4).
    """

    g: Float[Array, "*n 3"]
    a_i: Float[Array, "*n 3"]
    b_i: Float[Array, "*n 3"]
    a_j: Float[Array, "*n 3"]
    b_j: Float[Array, "*n 3"]
    constants: Float[Array, "*n 4"]

    def row(self) -> Float[Array, "2 6"]:
        """Coefficients of (δr, δθ̄) of both bodies."""
        moments = jnp.stack([cross(self.a_i, self.b_i), cross(self.a_j, self.b_j)])
        return jnp.concatenate([jnp.stack([-self.g, self.g]), moments], axis=1)

    def variation_sums(self, weights: Float[Array, " n"]) -> "VariationSums":
        """What the variation of a weighted sum of rows between the same two bodies is made of;
        arrays have one leading axis.
        """
        kappa, chi_i, chi_j, eta = (weights * x for x in self.constants.T)

        def total(weights, x):
            return jnp.sum(weights[:, None] * x, axis=0)

        def outer(weights, x, y):
            return jnp.sum((weights[:, None] * x)[:, :, None] * y[:, None, :], axis=0)

        return VariationSums(
            jnp.sum(kappa),
            total(chi_i, self.a_i),
            total(chi_j, self.a_j),
            outer(weights, self.b_i, self.a_i),
            outer(weights, self.b_j, self.a_j),
            outer(eta, self.a_i, self.a_j),
        )

    def row_variation(self, A_i: Mat3, A_j: Mat3) -> Float[Array, "2 6 2 6"]:
        """Derivative of the row (first two axes) by (δr, δθ̄) of both bodies (last two)."""
        each = jax.tree.map(lambda x: x[None], self)
        return variation_of_sums(each.variation_sums(jnp.ones(1, self.g.dtype)), A_i, A_j)


class VariationSums(eqx.Module):
    """Sums over rows of what their variation is linear in: κ, χ_i a_i, χ_j a_j and three outer
    products of vectors.
    """

    kappa: Scalar
    chi_a_i: Vec3
    chi_a_j: Vec3
    outer_i: Mat3
    outer_j: Mat3
    mixed: Mat3


def variation_of_sums(
    sums: VariationSums, A_i: Mat3, A_j: Mat3, *, angular: bool = False
) -> Float[Array, "2 s 2 s"]:
    """The variation of one row, or of a weighted sum of rows, s = 6; of `angular` rows what
    rotations do to moments, s = 3, which is all that varies.
    """
    outer_i, outer_j = sums.outer_i, sums.outer_j
    eye = np.eye(3, dtype=outer_i.dtype)
    # skew(a) skew(b) = b aᵀ - (a·b) I
    own_i, own_j = outer_i - jnp.trace(outer_i) * eye, outer_j - jnp.trace(outer_j) * eye
    mixed = -_between_skews(A_i.T @ A_j, sums.mixed)
    if angular:
        return jnp.block([[own_i, mixed], [mixed.T, own_j]]).reshape(2, 3, 2, 3)
    turn_i, turn_j = A_i @ skew(sums.chi_a_i), A_j @ skew(sums.chi_a_j)
    rr = sums.kappa * eye
    # Rows of g and columns of r carry opposite signs for the two bodies.
    body_i_r = jnp.concatenate([rr, turn_i, -rr, turn_j], axis=1)
    body_i_theta = jnp.concatenate([turn_i.T, own_i, -turn_i.T, mixed], axis=1)
    body_j_theta = jnp.concatenate([turn_j.T, mixed.T, -turn_j.T, own_j], axis=1)
    return jnp.concatenate([body_i_r, body_i_theta, -body_i_r, body_j_theta]).reshape(2, 6, 2, 6)


def _between_skews(B: Mat3, W: Mat3) -> Mat3:
    """skew(a) B skew(b) for W = a bᵀ, or the sum of such products for a sum of W: by the
    determinant of Kronecker deltas to which a product of two permutation symbols amounts.
    """
    product = W @ B
    traces = jnp.trace(product) - jnp.trace(W) * jnp.trace(B)
    rest = jnp.trace(W) * B + jnp.trace(B) * W - product - B @ W
    return traces * np.eye(3, dtype=B.dtype) + rest.T


_KINDS: dict[str, type] = {}


def primitives() -> dict[str, type]:
    """All concrete classes of primitives by name, those of users included."""
    return {name: cls for name, cls in _KINDS.items() if not inspect.isabstract(cls)}


class _AbstractRow(eqx.Module):
    """What primitives of either level share.

    Class attributes:
        driven: Fields that may be motions. For a field x other than f, fields x_dot and x_ddot hold
            its rates.
        in_files: Whether a file may list it in a `Constraint`; False for what only joints are made
            of.
        couples: Whether it binds, of each of its bodies, what the joint of that body leaves free;
            an elimination may then count it to either joint.
        presses: Whether its force comes with a second one that follows its magnitude, whatever its
            sign, and does no work: `pressing`.
        shifts: Whether another prescribed value lets it hold its bodies wherever they are, as that
            of a coordinate does.
        points_j, directions_j: Fields that are points and directions in body j.

    Attributes:
        switch: Whether it acts, where that may change; set by the program.
    """

    driven: ClassVar[tuple[str, ...]] = ("f",)
    in_files: ClassVar[bool] = True
    couples: ClassVar[bool] = False
    presses: ClassVar[bool] = False
    shifts: ClassVar[bool] = False
    points_j: ClassVar[tuple[str, ...]] = ()
    directions_j: ClassVar[tuple[str, ...]] = ()

    switch: Switch | None = eqx.field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        _KINDS[cls.__name__] = cls

    @property
    def prescribed(self) -> Any:
        """The prescribed value f; zero of a primitive that has no such field."""
        value = getattr(self, "f", 0.0)
        if self.switch is None or self.switch.offset is None:
            return value
        return value + self.switch.offset.value

    def placed(self) -> Any:
        """The row with its vectors in body j where its joint has been closed, which may be
        elsewhere than it was described.
        """
        if self.switch is None or self.switch.base is None:
            return self
        shift, turn = self.switch.base.value[:3], self.switch.base.value[3:].reshape(3, 3)
        names = (*self.points_j, *self.directions_j)
        moved = [x + turn @ x for x in (getattr(self, name) for name in names)]
        moved = [x + shift if k < len(self.points_j) else x for k, x in enumerate(moved)]
        return eqx.tree_at(lambda row: [getattr(row, name) for name in names], self, moved)

    def row_size(self, length: Scalar) -> Scalar | None:
        """What the row changes by when a body moves by `length` or turns by one radian, in the
        row's own unit: `length` for a distance [m], 1 for a direction or an angle [-].

        Rows of different units are solved and compared in parts of it, so that no result depends on
        the unit of length. None, the default, takes it from the derivatives of the row.
        """
        return None

    @classmethod
    def alike(cls, primitives: Sequence[Any]) -> Sequence[Any]:
        """The members of a mechanism made alike in structure, so that they stack; motions have been
        taken aside.
        """
        return primitives


class AbstractPrimitive(_AbstractRow):
    """Base class of scalar constraints Φ = geometry(poses) - f(t) = 0 on two to four bodies.

    Only `geometry` has to be written, with JAX, as a smooth function of poses:

        class OnParabola(mbd.AbstractPrimitive):
            point: Vec3              # in body j
            f: float = 0.0

            def geometry(self, pose_i, pose_j):
                x, _, z = pose_i.A.T @ (pose_j.r + pose_j.A @ self.point - pose_i.r)
                return z - x**2

    Its row, the variation of its reactions and its acceleration terms come by automatic
    differentiation, in every formulation. Numbers among its fields are parameters: they may be
    differentiated, batched and fitted. In a description, `f` may be a motion, a function of time;
    inside a `System` motions have been replaced by their values at the instant considered.
    """

    # A primitive names the poses of its own two to four bodies. `*poses: Any, **_: Any` is how a
    # base class leaves parameters open; type checkers then accept every override.

    @abc.abstractmethod
    def geometry(self, *poses: Any, **_: Any) -> Scalar:
        """The geometric part of the constraint, Φ + f [m, or - for directions]."""

    def geometry_rate(self, *poses: Any, **_: Any) -> Scalar:
        """The partial time derivative of the geometry; zero unless a vector of the primitive
        turns.
        """
        return jnp.zeros((), poses[0].r.dtype)

    def pressing(self, *poses: Any, **_: Any) -> Float[Array, "k 6"] | None:
        """Forces, global, and torques about the mass centers, body frame, that act on the bodies
        per unit of the magnitude of the row's multiplier; None where `presses` is False.
        """
        return None

    def branch(self, *poses: Any, **_: Any) -> Scalar | None:
        """Positive or zero on the root that is meant where the row has others; None where any root
        will do.
        """
        return None

    def advanced(self, s: Scalar) -> "AbstractPrimitive":
        """The primitive a small time `s` later, exact to second order; itself unless a vector
        turns.
        """
        return self


class AbstractVelocityPrimitive(_AbstractRow):
    """A scalar constraint rate(poses, twists) = f(t) that is linear in the twists: a row at
    velocity level.

    What no function of positions says: rolling without slipping, a knife edge. Its row B comes by
    automatic differentiation, and so do the terms of its time derivative.
    """

    @abc.abstractmethod
    def rate(self, poses: tuple[Pose, ...], twists: tuple[Twist, ...]) -> Scalar:
        """B(q) u [m/s or rad/s]: linear in the twists (v global, omega body frame)."""


class AbstractNormalForm(AbstractPrimitive):
    """A product of two vectors of two poses, whose variation by rotations has the form of
    `RowFactors`: the fast path of rA.

    Class attributes:
        constants: (κ, χ_i, χ_j, η) of the type, see `RowFactors`.
    """

    constants: ClassVar[tuple[float, float, float, float]]

    @property
    def angular(self) -> bool:
        """Whether κ and χ are zero: the row then varies with rotations alone, and of it the moments
        alone do.
        """
        return not any(self.constants[:3])

    @abc.abstractmethod
    def product(self) -> tuple[PoseVector, PoseVector]:
        """The two vectors whose product the geometry is."""

    def geometry(self, pose_i: Pose, pose_j: Pose) -> Scalar:
        """The geometric part of the constraint, Φ + f."""
        x, y = self.product()
        return x.value(pose_i, pose_j) @ y.value(pose_i, pose_j)

    @abc.abstractmethod
    def vectors(self, pose_i: Pose, pose_j: Pose) -> tuple[Vec3, Vec3, Vec3, Vec3, Vec3]:
        """(g, ā_i, b̄_i, ā_j, b̄_j) of `RowFactors`, hand-coded."""

    def gamma(self, motion_i: FreeMotion, motion_j: FreeMotion) -> Scalar:
        """Minus the second derivative of the geometry along a free motion (γ without f'').

        Kissel et al. Eqs. 18, 24 and 29, corrected: one line for all coordinates of rotation.
        """
        (x, x_dot, x_ddot), (y, y_dot, y_ddot) = (
            vector.motion(motion_i, motion_j) for vector in self.product()
        )
        terms = [] if x_ddot is None else [x_ddot @ y]
        if x_dot is not None and y_dot is not None:
            terms.append(2.0 * (x_dot @ y_dot))
        if y_ddot is not None:
            terms.append(x @ y_ddot)
        return -sum(terms[1:], terms[0])

    def factors(self, pose_i: Pose, pose_j: Pose) -> RowFactors:
        """The vectors of the variation with the constants of the type."""
        return RowFactors(*self.vectors(pose_i, pose_j), jnp.array(self.constants, pose_i.r.dtype))

    def variation(self, pose_i: Pose, pose_j: Pose) -> Float[Array, "12"]:
        """Coefficients of (δr_i, δθ̄_i, δr_j, δθ̄_j) in δΦ (Kissel et al. Table 2, corrected)."""
        return self.factors(pose_i, pose_j).row().reshape(12)

    def reaction_variation(self, pose_i: Pose, pose_j: Pose) -> Float[Array, "12 12"]:
        """Variation of the reactions (f_i, n̄_i, f_j, n̄_j) per unit multiplier, rows, by (δr_i,
        δθ̄_i, δr_j, δθ̄_j).

        The reactions are f = -Φ_rᵀ λ and n̄ = -Π̄ᵀ λ (Kissel et al. Tables 3-6, corrected in index
        and sign).
        """
        return -self.factors(pose_i, pose_j).row_variation(pose_i.A, pose_j.A).reshape(12, 12)
