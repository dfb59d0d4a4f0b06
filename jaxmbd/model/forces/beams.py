"""Elements of geometrically exact beams: two nodes, six constant strains between them.

Nodes are ordinary rigid bodies. The x axis of a node is the tangent of the beam, y and z are the
principal axes of its section. Strains, stiffnesses and section forces have the order (stretch,
shear along y, shear along z, torsion, bending about y, bending about z).
"""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ...rotations import so3
from ...rotations.types import Array, Mat3, Scalar, Vec3, host
from ...rotations.vectors import cross, skew, vee
from ..state import Pose, Twist
from .base import AbstractForce, Output

# The logarithm of a rotation jumps at half a turn; an element that comes so close to it that a step
# could pass it unnoticed is refused.
LARGEST_BEND = 0.9 * np.pi

Vec6 = Float[Array, "6"]


class AbstractBeamElement(AbstractForce):
    """An element with the energy ½ L eᵀ K e; what derives from it says what the strains are.

    Attributes:
        length: L, of the element as described [m].
        natural: Strains at which it stores nothing, (6,) [-, 1/m].
        stiffness: Diagonal of K, (6,) [N, N·m²].
        viscosity: Section forces per rate of strain, (6,) [N·s, N·m²·s], or None.
    """

    length: eqx.AbstractVar[Scalar]
    natural: eqx.AbstractVar[Float[Array, "6"]]
    stiffness: eqx.AbstractVar[Float[Array, "6"]]
    viscosity: eqx.AbstractVar[Float[Array, "6"] | None]

    stiff: ClassVar[bool] = True
    largest_bend: ClassVar[float] = LARGEST_BEND

    @abc.abstractmethod
    def deformation(self, pose: Pose) -> Float[Array, "6"]:
        """The strains with their natural values left in, (6,) [-, 1/m]."""

    @abc.abstractmethod
    def wrench_of(
        self, pose: Pose, load: Float[Array, "6"]
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        """The wrenches on both nodes that do the work of section forces `load` (6,) on changes of
        the strains.
        """

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """None: `Solution.beam` says what a beam does."""
        return ()

    def strains(self, pose: Pose) -> Float[Array, "6"]:
        """E, (6,) [-, 1/m]."""
        return self.deformation(pose) - self.natural

    def section_forces(self, pose: Pose, twist: Twist) -> Float[Array, "6"]:
        """Force [N] and moment [N·m] in the section, in the axes of the section, (6,)."""
        load = self.stiffness * self.strains(pose)
        if self.viscosity is None:
            return load
        turned = pose.A @ jax.vmap(skew)(twist.omega)
        _, rate = jax.jvp(self.deformation, (pose,), (Pose(twist.v, turned),))
        return load + self.viscosity * rate

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        return self.wrench_of(pose, self.section_forces(pose, twist))

    def bend(self, pose: Pose) -> Scalar:
        """The angle by which its second node is turned against the first [rad]."""
        return jnp.linalg.norm(so3.log(pose.A[0].T @ pose.A[1]))

    def broken(self, pose: Pose) -> Bool[Array, ""]:
        return self.bend(pose) > self.largest_bend

    def dissipative(self) -> "AbstractBeamElement | None":
        if self.viscosity is None:
            return None
        return dataclasses.replace(self, stiffness=jnp.zeros_like(self.stiffness))


class BeamElement(AbstractBeamElement):
    """Strains from the logarithm of the relative pose on SE(3): e = log(H_i⁻¹ H_j) / L - e₀.

    Between the nodes the section moves along a screw, so that arcs and helices are exact.

    Reference:
        Sonneville, Cardona, Brüls, "Geometrically exact beam finite element formulated on the
        special Euclidean group SE(3)", CMAME 268 (2014).
    """

    length: Scalar
    natural: Float[Array, "6"]
    stiffness: Float[Array, "6"]
    viscosity: Float[Array, "6"] | None = None

    def deformation(self, pose: Pose) -> Float[Array, "6"]:
        return _relative(pose) / self.length

    def wrench_of(self, pose: Pose, load: Float[Array, "6"]):
        """By δ log(H_i⁻¹ H_j) = T(ξ) η_j - T(-ξ) η_i with T = dexp⁻¹ and η = (Aᵀδr, δθ̄)."""
        xi = _relative(pose)
        found = _local_wrench(xi, *_coefficients(xi[3:] @ xi[3:])[:2], load)
        pull = pose.A[0] @ found[:3]
        return jnp.stack([pull, -pull]), jnp.stack([found[3:6], found[6:]])

    def tangent(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Array, Array]:
        A_i = pose.A[0]
        xi = _relative(pose)
        x2 = xi[3:] @ xi[3:]
        d, slope, bend = _coefficients(x2)
        P, D = _inverse_jacobian(xi, d, slope)
        stretch, zero = P.T @ A_i.T, jnp.zeros((3, 3), xi.dtype)
        # Changes of ξ by (δr_i, δθ̄_i, δr_j, δθ̄_j), and of the local wrench by section forces.
        B = jnp.block([[-stretch, -D.T, stretch, D], [zero, -P.T, zero, P]])
        M = jnp.block([[P, zero], [D, P], [-D.T, -P.T]])
        V = [jnp.concatenate([A.T @ twist.v[k], twist.omega[k]]) for k, A in enumerate(pose.A)]

        def local(xi):
            # Coefficients to first order: they are not differentiated anew for every column.
            more = xi[3:] @ xi[3:] - x2
            at = xi, d + slope * more, slope + bend * more
            load = self.stiffness * (xi / self.length - self.natural)
            if self.viscosity is not None:
                rate = _rate(*at, *V)
                load = load + self.viscosity * rate / self.length
            return _local_wrench(*at, load), load

        slopes, load = jax.jacfwd(local, has_aux=True)(xi)
        by_pose, by_twist = slopes @ B, jnp.zeros((9, 12), xi.dtype)
        if self.viscosity is not None:
            damping = M * (self.viscosity / self.length)[None]
            by_twist = damping @ B
            turned = jnp.concatenate([-P.T @ skew(V[0][:3]), zero, P @ skew(V[1][:3])], axis=1)
            by_pose = by_pose.at[:, 3:].add(damping[:, :3] @ turned)
        by_pose = by_pose.at[:3, 3:6].add(-skew(P @ load[:3]))
        return _on_bodies(A_i, by_pose), _on_bodies(A_i, by_twist)

    # Numbers that are quadratic in positions and directors; relative to those of the undeformed
    # element, so that a small change of them is a small strain.

    def invariants(self, pose: Pose) -> Float[Array, "12"]:
        r, A = pose.A[0].T @ (pose.r[1] - pose.r[0]), pose.A[0].T @ pose.A[1]
        return jnp.concatenate([r, A.reshape(9)])

    def stored(self, invariants: Float[Array, "12"]) -> Scalar:
        e = _logarithm(invariants[:3], invariants[3:].reshape(3, 3)) / self.length - self.natural
        return 0.5 * self.length * (e @ (self.stiffness * e))


class DirectorBeamElement(AbstractBeamElement):
    """Strains that are quadratic in positions and directors, for energy-momentum methods.

        Γ_k = ½ (d_k^i + d_k^j)·(r_j - r_i) / L,   κ = axial vector of A_iᵀA_j / L

    Their energy differs from that of `BeamElement` by the order of the discretization, L².

    Reference:
        Betsch, Steinmann, "Frame-indifferent beam finite elements based upon the geometrically
        exact beam theory", IJNME 54 (2002), for two nodes and one quadrature point.
    """

    # Its moment falls from a quarter turn on.
    largest_bend: ClassVar[float] = 0.5 * LARGEST_BEND

    length: Scalar
    natural: Float[Array, "6"]
    stiffness: Float[Array, "6"]
    viscosity: Float[Array, "6"] | None = None

    def deformation(self, pose: Pose) -> Float[Array, "6"]:
        step = pose.r[1] - pose.r[0]
        R = pose.A[0].T @ pose.A[1]
        along = 0.5 * (pose.A[0] + pose.A[1]).T @ step
        return jnp.concatenate([along, vee(R)]) / self.length

    def wrench_of(self, pose: Pose, load: Float[Array, "6"]):
        A_i, A_j = pose.A[0], pose.A[1]
        step, R = pose.r[1] - pose.r[0], A_i.T @ A_j
        force, moment = load[:3], load[3:]
        pull = 0.5 * (A_i @ force + A_j @ force)
        spread = jnp.trace(R) * moment
        on_i = 0.5 * (spread - R.T @ moment - cross(force, A_i.T @ step))
        on_j = 0.5 * (R @ moment - spread - cross(force, A_j.T @ step))
        return jnp.stack([pull, -pull]), jnp.stack([on_i, on_j])

    def invariants(self, pose: Pose) -> Float[Array, "6"]:
        return self.strains(pose)

    def stored(self, invariants: Float[Array, "6"]) -> Scalar:
        return 0.5 * self.length * (invariants @ (self.stiffness * invariants))


def _relative(pose: Pose) -> Vec6:
    """ξ = log(H_i⁻¹ H_j)."""
    return _logarithm(pose.A[0].T @ (pose.r[1] - pose.r[0]), pose.A[0].T @ pose.A[1])


def _logarithm(r: Vec3, A: Mat3) -> Vec6:
    """The logarithm on SE(3) for angles well below π."""
    theta = so3.log_of_part_turn(A)
    d = so3.inverse_coefficient(theta @ theta)
    twisted = cross(theta, r)
    return jnp.concatenate([r - 0.5 * twisted + d * cross(theta, twisted), theta])


def _coefficients(x2: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(1 - x/2 cot(x/2)) / x² with its first two derivatives by x²."""
    # NaN beyond the largest bend: the solve fails there, and `broken` says why.
    x2 = jnp.where(x2 > LARGEST_BEND**2, jnp.nan, x2)
    one = jnp.ones_like(x2)

    def slope(x2):
        return jax.jvp(so3.inverse_coefficient, (x2,), (one,))

    (value, first), (_, second) = jax.jvp(slope, (x2,), (one,))
    return value, first, second


# T(ξ) = dexp⁻¹ = [[P, D], [0, P]] with P = I + θ̃/2 + d θ̃² and D its derivative along ρ;
# T(-ξ) = [[Pᵀ, Dᵀ], [0, Pᵀ]].


def _inverse_jacobian(xi: Vec6, d: Scalar, slope: Scalar) -> tuple[Mat3, Mat3]:
    rho, theta = skew(xi[:3]), skew(xi[3:])
    square = theta @ theta
    mixed = rho @ theta
    P = host.eye(3, dtype=xi.dtype) + 0.5 * theta + d * square
    D = 0.5 * rho + d * (mixed + mixed.T) + 2.0 * slope * (xi[:3] @ xi[3:]) * square
    return P, D


def _even_and_odd(xi: Vec6, d: Scalar, slope: Scalar, x: Vec3) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """Symmetric and antisymmetric parts of P x and D x."""
    rho, theta = xi[:3], xi[3:]
    turned, shifted = cross(theta, x), cross(rho, x)
    twice = cross(theta, turned)
    even = d * (cross(rho, turned) + cross(theta, shifted)) + 2.0 * slope * (theta @ rho) * twice
    return x + d * twice, 0.5 * turned, even, 0.5 * shifted


def _local_wrench(xi: Vec6, d: Scalar, slope: Scalar, load: Vec6) -> Float[Array, "9"]:
    """Force on the first node in its frame (the second has the opposite), torques on both."""
    even, odd, even_D, odd_D = _even_and_odd(xi, d, slope, load[:3])
    even_m, odd_m, _, _ = _even_and_odd(xi, d, slope, load[3:])
    on_i = even_D + odd_D + even_m + odd_m
    on_j = even_D - odd_D + even_m - odd_m
    return jnp.concatenate([even + odd, on_i, -on_j])


def _rate(xi: Vec6, d: Scalar, slope: Scalar, V_i: Vec6, V_j: Vec6) -> Vec6:
    """T(ξ) V_j - T(-ξ) V_i, for velocities in the frames of the nodes."""
    P, D = _inverse_jacobian(xi, d, slope)
    return jnp.concatenate([P @ V_j[:3] + D @ V_j[3:], P @ V_j[3:]]) - jnp.concatenate(
        [P.T @ V_i[:3] + D.T @ V_i[3:], P.T @ V_i[3:]]
    )


def _on_bodies(A_i: Mat3, by: Float[Array, "9 12"]) -> Float[Array, "2 6 2 6"]:
    """Derivatives of the local wrench as those of force, global, and torque on both nodes."""
    pull = A_i @ by[:3]
    return jnp.concatenate([pull, by[3:6], -pull, by[6:]]).reshape(2, 6, 2, 6)
