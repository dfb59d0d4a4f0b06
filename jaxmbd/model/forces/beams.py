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
from ...rotations.types import Array, Mat3, Scalar, Vec3
from ...rotations.vectors import cross, skew, vee
from ..state import Pose, Twist
from .base import AbstractForce

# The logarithm of a rotation jumps at half a turn; an element that comes so close to it that a step
# could pass it unnoticed is refused.
LARGEST_BEND = 0.9 * np.pi


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

    @abc.abstractmethod
    def deformation(self, pose: Pose) -> Float[Array, "6"]:
        """The strains with their natural values left in, (6,) [-, 1/m]."""

    @abc.abstractmethod
    def wrench_of(self, pose: Pose, load: Float[Array, "6"]):
        """The wrenches on both nodes that do the work of section forces `load` (6,) on changes of
        the strains.
        """

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
        return self.bend(pose) > LARGEST_BEND

    def dissipative(self) -> "AbstractBeamElement":
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
        rho, theta = _relative(pose)
        return jnp.concatenate([rho, theta]) / self.length

    def wrench_of(self, pose: Pose, load: Float[Array, "6"]):
        """-∂V/∂(r, θ̄) by δ log(H_i⁻¹ H_j) = T(ξ) η_j - T(-ξ) η_i with T = dexp⁻¹, η = (Aᵀδr, δθ̄)."""
        rho, theta = _relative(pose)
        force, moment = load[:3], load[3:]
        x2 = theta @ theta
        # NaN beyond the largest bend: the solve fails there, and `broken` says why.
        x2 = jnp.where(x2 > LARGEST_BEND**2, jnp.nan, x2)
        d, slope = jax.jvp(so3.inverse_coefficient, (x2,), (jnp.ones_like(x2),))
        twisted = cross(theta, force)
        doubled = cross(theta, twisted)
        half, even = 0.5 * twisted, force + d * doubled
        # Derivative of T's rotational part along ρ.
        odd_rho = 0.5 * cross(rho, force)
        even_rho = d * (cross(rho, twisted) + cross(theta, cross(rho, force)))
        even_rho = even_rho + 2.0 * slope * (theta @ rho) * doubled
        turned = cross(theta, moment)
        odd_m, even_m = 0.5 * turned, moment + d * cross(theta, turned)
        pull = pose.A[0] @ (even + half)
        on_i = even_rho + odd_rho + even_m + odd_m
        on_j = even_rho - odd_rho + even_m - odd_m
        return jnp.stack([pull, -pull]), jnp.stack([on_i, -on_j])

    # Numbers that are quadratic in positions and directors; relative to those of the undeformed
    # element, so that a small change of them is a small strain.

    def invariants(self, pose: Pose) -> Float[Array, "12"]:
        r, A = pose.A[0].T @ (pose.r[1] - pose.r[0]), pose.A[0].T @ pose.A[1]
        return jnp.concatenate([r, A.reshape(9)])

    def stored(self, invariants: Float[Array, "12"]) -> Scalar:
        rho, theta = _logarithm(invariants[:3], invariants[3:].reshape(3, 3))
        e = jnp.concatenate([rho, theta]) / self.length - self.natural
        return 0.5 * self.length * (e @ (self.stiffness * e))


class DirectorBeamElement(AbstractBeamElement):
    """Strains that are quadratic in positions and directors, for energy-momentum methods.

        Γ_k = ½ (d_k^i + d_k^j)·(r_j - r_i) / L,   κ = axial vector of A_iᵀA_j / L

    Their energy differs from that of `BeamElement` by the order of the discretization, L².

    Reference:
        Betsch, Steinmann, "Frame-indifferent beam finite elements based upon the geometrically
        exact beam theory", IJNME 54 (2002), for two nodes and one quadrature point.
    """

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


def _relative(pose: Pose) -> tuple[Vec3, Vec3]:
    return _logarithm(pose.A[0].T @ (pose.r[1] - pose.r[0]), pose.A[0].T @ pose.A[1])


def _logarithm(r: Vec3, A: Mat3) -> tuple[Vec3, Vec3]:
    """(ρ, θ) of log on SE(3) for angles well below π."""
    theta = so3.log_of_part_turn(A)
    d = so3.inverse_coefficient(theta @ theta)
    twisted = cross(theta, r)
    return r - 0.5 * twisted + d * cross(theta, twisted), theta
