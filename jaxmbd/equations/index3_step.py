"""One implicit step on the index-3 form: its unknowns, residual, matrices and measures.

Velocities and coordinates at the end of a step are affine in the unknown accelerations,

    u = u* + c_u a,   q = retract(q_n, d* + c_q a),   balance(q, u, a, λ) = 0,   Φ(q, t) / c_q = 0

and a method is its choice of u*, d*, c_u and c_q. Positions satisfy the constraints at every step.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..formulations import AbstractFormulation
from ..linalg import SaddleMatrix
from ..model.system import System
from ..rotations.types import Scalar
from .motion import StepEnd, StepScales, balance, step_matrices
from .rows import row_sizes, step_values


class StepData(eqx.Module):
    """The data of one step that a method gives.

    Attributes:
        system: At the end of the step.
        q: Coordinates at its start.
        u: u*, (nb, d).
        increment: d*, (nb, d).
        t: Time at its end [s].
        scales: c_u and c_q.
    """

    system: System
    q: Any
    u: Float[Array, "nb d"]
    increment: Float[Array, "nb d"]
    t: Scalar
    scales: StepScales

    def velocity(self, a: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """Velocities at the end of the step."""
        return self.u + self.scales.velocity * a

    def displacement(self, a: Float[Array, "nb d"]) -> Float[Array, "nb d"]:
        """The argument of `retract` that leads to its end."""
        return self.increment + self.scales.position * a


@dataclasses.dataclass(frozen=True)
class Step:
    """The equations of one step in the unknowns x = (a, λ).

    Attributes:
        formulation: Of poses.
        args: What the method gives.
        tangent: Whether the quasi matrix knows that rotation matrices move by exponentials.
    """

    formulation: AbstractFormulation
    args: StepData
    tangent: bool = True

    @property
    def size(self) -> int:
        """Number of accelerations, after which multipliers follow."""
        return self.args.u.size

    def split(self, x: Float[Array, " n"]) -> tuple[Float[Array, "nb d"], Float[Array, " m"]]:
        """Accelerations and multipliers."""
        return x[: self.size].reshape(self.args.u.shape), x[self.size :]

    def coordinates(self, x: Float[Array, " n"]) -> Any:
        """At the end of the step."""
        a, _ = self.split(x)
        return jax.vmap(self.formulation.retract)(self.args.q, self.args.displacement(a))

    def residual(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """Balance of forces [N, N·m], and constraint values over c_q."""
        args, (a, lam) = self.args, self.split(x)
        q = self.coordinates(x)
        u, scales = args.velocity(a), args.scales
        forces = balance(self.formulation, args.system, q, u, a, lam, args.t)
        gaps = step_values(self.formulation, args.system, q, u, scales.velocity, scales.position)
        return jnp.concatenate([forces.reshape(-1), gaps])

    def matrices(
        self, x: Float[Array, " n"], *, tangent: bool, exact: bool
    ) -> tuple[SaddleMatrix, SaddleMatrix]:
        """Newton's matrix, exact or without variations of the rows, and one nearby that suits
        range-space elimination.
        """
        args, (a, lam) = self.args, self.split(x)
        increment = args.displacement(a)
        q = jax.vmap(self.formulation.retract)(args.q, increment)
        end = StepEnd(q, args.velocity(a), a, lam, args.t)
        moved = increment if tangent else None
        return step_matrices(self.formulation, args.system, end, args.scales, moved, exact=exact)

    def matrix(self, x: Float[Array, " n"], *, exact: bool) -> SaddleMatrix:
        """Newton's matrix, exact or without variations of the rows."""
        return self.matrices(x, tangent=exact or self.tangent, exact=exact)[0]

    def most(self, lam: Float[Array, " m"]) -> Scalar:
        """The largest of some multipliers, each times the size of its row: forces count as moments
        at the system's length [N·m].
        """
        sizes = row_sizes(self.formulation, self.args.system)
        return jnp.max(jnp.abs(sizes * lam), initial=0.0)

    def largest(self, values: Float[Array, " m"]) -> Scalar:
        """The largest of some values of the rows, each divided by the size of its row."""
        sizes = row_sizes(self.formulation, self.args.system)
        return jnp.max(jnp.abs(values) / sizes, initial=0.0)
