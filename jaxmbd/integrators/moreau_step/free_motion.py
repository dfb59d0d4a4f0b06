"""The motion of a part of a step without its laws, and what answers to their impulses."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...complementarity import Groups, grouped
from ...equations.index1 import minimum_norm
from ...equations.laws import LawRows, held, law_rows, rates_along, row_order
from ...equations.motion import StepEnd, StepScales, step_matrices, unbalanced
from ...equations.pressing import borne_of_each
from ...equations.rows import acceleration_right_side
from ...formulations.base import AbstractFormulation, Coordinates
from ...linalg import SaddleMatrix, factorize, linear_solve
from ...model.laws.base import CONTACT
from ...model.system import System
from ...rotations.types import Scalar


class Free(NamedTuple):
    """A motion without laws, what answers to impulses, and the system whose laws have chosen what
    may touch. `turning` is what the rows lose of u0 from the beginning to the middle of the motion,
    (w,); `teeth` are the multipliers by which joints bear what presses gears apart, (k, m), if
    friction follows the forces of joints.
    """

    q0: Coordinates
    u0: Array
    u1: Array
    d0: Array
    a0: Array
    lam0: Array
    matrix: SaddleMatrix
    factors: Any
    rows: LawRows
    turning: Array
    system: System
    groups: Groups | None
    ends: tuple[Coordinates, Coordinates] | None
    teeth: Array | None

    def solve(self, b: Array) -> Array:
        """Accelerations and multipliers, or their impulses, that answer to b, (n,)."""
        return linear_solve(self.matrix.matvec, self.factors, b)

    def moved(self, formulation: AbstractFormulation) -> Coordinates:
        """Coordinates at its end."""
        return jax.vmap(formulation.retract)(self.q0, self.d0)


class Interval(NamedTuple):
    """Beginning and length of an interval of time [s]."""

    begin: Scalar
    span: Scalar


def free_motion(
    formulation: AbstractFormulation,
    system: System,
    q0: Coordinates,
    u0: Float[Array, "nb d"],
    interval: Interval,
    lasting: Float[Array, "nb d"],
    features: tuple[Array, Coordinates, Coordinates] | None,
) -> Free:
    """The motion without laws over an interval of time, linearly implicit at its middle.

    An impact has the corners, edges and faces of the motion before it, which were chosen between
    the coordinates that `features` gives where its first flag is set: they are what struck.
    """
    move = jax.vmap(formulation.retract)
    begin, span = interval
    middle = begin + 0.5 * span
    q = move(q0, 0.5 * span * u0)
    now, f_dot, f_ddot = system.jet(middle)
    zero, none = jnp.zeros_like(u0), jnp.zeros(f_dot.shape, u0.dtype)
    scales = StepScales(0.5 * span, 0.25 * span**2)
    end = StepEnd(q, u0, zero, none, middle)
    matrix, _ = step_matrices(formulation, now, end, scales, None, exact=False)
    factors = factorize(matrix, system.linear_solver)
    n = u0.size

    def solve(b: Array) -> Array:
        return linear_solve(matrix.matvec, factors, b)

    bias = unbalanced(formulation, now, q, u0, zero, middle)
    gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u0)
    free = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
    # What the joints bear depends on the velocity in the middle. What held in the last step still
    # does: a mechanism that rests under load would move in the middle without.
    u_middle = u0 + 0.5 * span * (free[:n].reshape(u0.shape) + lasting)
    gamma = acceleration_right_side(formulation, now, f_dot, f_ddot, q, u_middle)
    borne = solve(jnp.concatenate([-bias.reshape(-1), gamma]))
    if matrix.regularization is not None:
        borne = minimum_norm(borne, factors)
    a0, lam0 = borne[:n].reshape(u0.shape), borne[n:]
    u1, d0 = u0 + span * a0, span * u0 + 0.5 * span**2 * a0
    # What may touch is chosen once: gaps of the whole part are those of the same features.
    near, ends = system, None
    if features is not None:
        strikes, *chosen = features
        ends = jax.tree.map(
            lambda a, b: jax.lax.stop_gradient(jnp.where(strikes, a, b)),
            tuple(chosen),
            (q0, move(q0, d0)),
        )
        near = held(formulation, system, *ends)
    rows = law_rows(formulation, eqx.tree_at(lambda s: s.laws, now, near.laws), q)
    teeth = None
    if system.presses and row_order(system).dry:
        teeth = borne_of_each(now, jax.vmap(formulation.pose)(q))
    turning = rates_along(formulation, near, q, q0, u0) - rows.velocities(u0)
    groups = _groups(near, matrix)
    return Free(q0, u0, u1, d0, a0, lam0, matrix, factors, rows, turning, near, groups, ends, teeth)


def _groups(system: System, matrix: SaddleMatrix) -> Groups | None:
    """The contacts of a mechanism in groups, where their matrix has many zeros."""
    dense = system.linear_solver == "dense"
    if not system.laws or dense or any(stack.kind != CONTACT for stack in system.laws):
        return None
    elements = tuple((pair, s.places) for s in system.laws for pair in s.bodies)
    linked = matrix.bodies + tuple(pair for c in matrix.couplings for pair in c.bodies)
    return grouped(elements, linked, system.nb)
