"""The energy-momentum equations of one step in directors, shared by the constrained and the reduced
scheme.

    2 M (Δq - h v_n) - h² Q(q_n, q) + G(q_mid)ᵀ μ = 0,   Φ(q) = 0,   μ = h² λ,   v = 2 Δq / h - v_n

These are the paper's equations times h: written so, nothing in Newton's matrix grows as the step
shrinks. All constraints are quadratic, so their Jacobian at the midpoint is the discrete
derivative; potentials enter through discrete gradients of functions of quadratic invariants,
everything else at the midpoint.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import Directors
from ..formulations.directors import mass_block, mass_times
from ..linalg import Coupling, SaddleMatrix
from ..linalg.saddle import scatter_rows
from ..model.forces.base import AbstractForce
from ..model.state import Pose, Twist
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Mat3, Scalar
from ..xla.indexing import take
from .motion import normalization_variations
from .rows import inner_rows, phi, row_bodies, row_variations, rows

# Below this change of the invariants, relative to them, the midpoint's gradient stands in for the
# discrete one.
_STILL = 1e-5

Coordinates = Float[Array, "nb 12"]


class StepData(eqx.Module):
    """What one step is made of.

    Attributes:
        end: The system at the end of the step.
        middle: The system at its midpoint.
        q: Coordinates at its start.
        u: v_n, (nb, 12).
        t: Time at its midpoint [s].
        h: Step [s].
        chosen: One for rows that are enforced, zero for rows that others imply, (m,); None enforces
            all.
    """

    end: System
    middle: System
    q: Coordinates
    u: Coordinates
    t: Scalar
    h: Scalar
    chosen: Float[Array, " m"] | None


def unbalanced(args: StepData, q: Coordinates) -> Coordinates:
    """2 M (Δq - h v_n) - h² Q: what the reactions have to balance, (nb, 12)."""
    system = args.end
    free = jax.vmap(mass_times)(system.mass, system.inertia, 2.0 * (q - args.q - args.h * args.u))
    load = jnp.zeros((system.nb + 1, 12), q.dtype)
    load = load.at[: system.nb, :3].add(system.mass[:, None] * system.gravity[None, :])
    before, after = Directors().with_ground(args.q), Directors().with_ground(q)
    for stack in system.forces:
        index = stack.index
        each = stack.each(
            lambda e, x, y: discrete_load(e, x, y, args.h, args.t),
            take(before, index),
            take(after, index),
        )
        load = load.at[index].add(each)
    return free - args.h**2 * load[: system.nb]


def residual(args: StepData, q: Coordinates, mu: Float[Array, " m"]) -> Float[Array, " n"]:
    """The equations of the constrained scheme."""
    formulation, system = Directors(), args.end
    chosen = jnp.ones_like(mu) if args.chosen is None else args.chosen
    right = rows(formulation, args.middle, 0.5 * (args.q + q))
    balance = unbalanced(args, q) + scatter_rows(
        right, chosen * mu, row_bodies(formulation, system), system.nb
    )
    gaps = chosen * phi(formulation, system, q) - (1.0 - chosen) * mu
    return jnp.concatenate([balance.reshape(-1), gaps])


def matrix(args: StepData, q: Coordinates, mu: Float[Array, " m"], *, exact: bool) -> SaddleMatrix:
    """The derivative of `residual`; without terms of reactions and loads, of second order in the
    step, if not exact; those of stiff loads stay.
    """
    formulation, system = Directors(), args.end
    middle = 0.5 * (args.q + q)
    right, left = rows(formulation, args.middle, middle), rows(formulation, system, q)
    diagonal = 2.0 * jax.vmap(mass_block)(system.mass, system.inertia)
    couplings, absent = [], None
    if args.chosen is not None:
        right, left = args.chosen[:, None, None] * right, args.chosen[:, None, None] * left
        mu, absent = args.chosen * mu, 1.0 - args.chosen
    if not exact:
        couplings += _load_blocks(args, q, only_stiff=True)
    else:
        couplings += row_variations(formulation, args.middle, middle, 0.5 * mu)
        couplings += _load_blocks(args, q)
        diagonal = diagonal + normalization_variations(formulation, system, middle, 0.5 * mu)
    bodies, inner = row_bodies(formulation, system), inner_rows(formulation, system)
    return SaddleMatrix(diagonal, tuple(couplings), right, left, absent, bodies, inner)


def _load_blocks(args: StepData, q: Coordinates, *, only_stiff: bool = False) -> list[Coupling]:
    before, after = Directors().with_ground(args.q), Directors().with_ground(q)

    def block(
        element: AbstractForce, x: Float[Array, "k 12"], y: Float[Array, "k 12"]
    ) -> Float[Array, "k 12 k 12"]:
        return -(args.h**2) * jax.jacfwd(lambda y: discrete_load(element, x, y, args.h, args.t))(y)

    return [
        Coupling(
            stack.each(block, take(before, stack.index), take(after, stack.index)), stack.bodies
        )
        for stack in args.end.forces
        if stack.force.stiff or not only_stiff
    ]


def discrete_load(
    element: AbstractForce,
    before: Float[Array, "k 12"],
    after: Float[Array, "k 12"],
    h: Scalar,
    t: Scalar,
) -> Float[Array, "k 12"]:
    """The generalized force of one element over a step, (k, 12).

    Its potential does exactly the work -ΔV, by Gonzalez's discrete derivative in the invariants;
    the rest of its wrench is taken at the orthonormal midpoint with the step's own twist, so that a
    damper never does positive work.
    """
    potential, middle = _potential_load(element, before, after), 0.5 * (before + after)
    rest = element.dissipative()
    if rest is None:
        return potential
    pose, twist = midpoint_motion(before, after, h)
    force, torque = rest.wrench(pose, twist, t)
    moment = jnp.einsum("kij,kj->ki", pose.A, torque)

    def spread(q: Float[Array, "12"], moment: Float[Array, "3"]) -> Float[Array, "9"]:
        d = q[3:].reshape(3, 3)
        return jnp.cross(_solved(d, moment)[None], d).reshape(9)

    return potential + jnp.concatenate([force, jax.vmap(spread)(middle, moment)], axis=1)


def _potential_load(
    element: AbstractForce, before: Float[Array, "k 12"], after: Float[Array, "k 12"]
) -> Float[Array, "k 12"]:
    def invariants(q: Float[Array, "k 12"]):
        return element.invariants(jax.vmap(Directors().pose)(q))

    start, end = invariants(before), invariants(after)
    if not start.size:
        return jnp.zeros_like(before)
    change, mean = end - start, 0.5 * (start + end)
    slope = jax.grad(element.stored)(mean)
    squared = change @ change
    moved = squared > _STILL**2 * (start @ start + end @ end)
    gap = element.stored(end) - element.stored(start) - slope @ change
    slope = slope + jnp.where(moved, gap / jnp.where(moved, squared, 1.0), 0.0) * change
    _, back = jax.vjp(invariants, 0.5 * (before + after))
    return -back(slope)[0]


def midpoint_motion(
    before: Float[Array, "k 12"], after: Float[Array, "k 12"], h: Scalar
) -> tuple[Pose, Twist]:
    """Orthonormal poses halfway, and the twists that P_int(q_mid) takes to Δq / h."""

    def one(x: Float[Array, "12"], y: Float[Array, "12"]) -> tuple[Pose, Twist]:
        middle, delta = 0.5 * (x + y), y - x
        d = middle[3:].reshape(3, 3)
        w = _solved(d, jnp.cross(d, delta[3:].reshape(3, 3)).sum(axis=0))
        # The mean of two rotations by the angle θ apart is short by cos(θ/2) across the axis; w is
        # 2 tan(θ/2) long.
        stretch = jnp.sqrt(1.0 + 0.25 * (w @ w))
        A = stretch * d.T - 0.25 / (1.0 + stretch) * jnp.outer(w, d @ w)
        return Pose(middle[:3], A), Twist(delta[:3] / h, A.T @ w / h)

    return jax.vmap(one)(before, after)


def _solved(d: Float[Array, "3 3"], moment: Float[Array, "3"]) -> Float[Array, "3"]:
    """X with Σ d_I × (x × d_I) = moment; rows of d are directors."""
    C = d.T @ d
    return jnp.linalg.solve(jnp.trace(C) * np.eye(3, dtype=d.dtype) - C, moment)


def kinetic_energy(system: System, u: Coordinates) -> Scalar:
    """½ vᵀ M v [J] of director velocities, which need not be those of rigid bodies."""
    return 0.5 * jnp.sum(u * jax.vmap(mass_times)(system.mass, system.inertia, u))


def rigid_twist(system: System, q: Coordinates, u: Coordinates) -> Twist:
    """The twists of rigid bodies nearest to director velocities by mass: of the same linear and
    angular momentum.
    """

    def one(
        inertia: Mat3, q: Float[Array, "12"], u: Float[Array, "12"], momentum: Float[Array, "12"]
    ) -> Twist:
        A = Directors().pose(q).A
        omega = Directors().twist(q, u).omega
        gap = (
            A.T @ jnp.cross(q[3:].reshape(3, 3), momentum[3:].reshape(3, 3)).sum(axis=0)
            - inertia @ omega
        )
        # A rod has no inertia about itself, and no gap either.
        J = inertia + 1e-12 * jnp.trace(inertia) * np.eye(3, dtype=q.dtype)
        return Twist(u[:3], omega + jnp.linalg.solve(J, gap))

    momentum = jax.vmap(mass_times)(system.mass, system.inertia, u)
    return jax.vmap(one)(system.inertia, q, u, momentum)


def predicted(args: StepData) -> Coordinates:
    """Every body moved on by itself with the velocity it has, by the midpoint's rule."""

    def one(q: Float[Array, "12"], twist: Twist) -> Float[Array, "12"]:
        A = Directors().pose(q).A @ so3.cayley(args.h * twist.omega)
        return Directors().coordinates(Pose(q[:3] + args.h * twist.v, A))

    return jax.vmap(one)(args.q, rigid_twist(args.end, args.q, args.u))


def weights(system: System, width: int) -> np.ndarray | Array:
    """Positions count in units of the system's length, directors and angles as they are,
    (width,).
    """
    return jnp.ones(width, system.dtype).at[:3].set(1.0 / system.length)
