"""Assembly: the consistent state closest to an approximate one."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..equations.index1 import saddle_matrix
from ..equations.motion import regularization
from ..equations.rows import (
    phi,
    row_bodies,
    row_sizes,
    row_variations,
    rows,
    velocity_right_side,
)
from ..formulations import RA
from ..linalg import Coupling, SaddleMatrix, factorize, linear_solve
from ..linalg.saddle import apply_tangent, scatter_rows
from ..linalg.small_matrices import times_last_transposed
from ..model.state import Pose, State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..roots import AbstractRootProblem, implicit_root
from ..rotations import so3
from ..rotations.types import Scalar
from .arguments import check_system, needs_state
from .compiled import compiled_once

METRICS = ("identity", "mass")
# What a velocity that was not described counts beside one that was. Every solve reduces its pull by
# this factor times the square of what a described velocity moves at most; with loops, E has to stay
# small beside the smallest weights.
_UNDESCRIBED, _UNDESCRIBED_IN_LOOPS = 1e-9, 1e-4
_MIXED_SOLVES = 6
_MAX_STEPS = 200
_VELOCITY_ROUNDING = 16.0  # of a row's terms, in units of rounding
_MAX_TURN = 0.7  # [rad] a step: linearized joints say little beyond


class AssemblyReport(eqx.Module):
    """What assembly did.

    Attributes:
        displacement: How far each mass center moved, (nb,) [m].
        rotation: How far each body turned, (nb,) [rad].
        velocity: Change of each velocity, (nb,) [m/s].
        angular_velocity: Change of each angular velocity, (nb,) [rad/s].
        violation_before: Largest constraint violation as described: of a distance in parts of the
            system's length, of a direction or an angle as it is [-].
        violation: Constraint values after assembly, (nc,), in the order of description, each in its
            own unit.
        shares: The same without units, as `violation_before` counts, (nc,).
        iterations: Steps taken.
        closed: Whether the constraints are met.
        on_branch: Whether driven rotations stand at their angle, and not half a turn away.
    """

    displacement: Float[Array, " nb"]
    rotation: Float[Array, " nb"]
    velocity: Float[Array, " nb"]
    angular_velocity: Float[Array, " nb"]
    violation_before: Scalar
    violation: Float[Array, " nc"]
    shares: Float[Array, " nc"]
    iterations: Int[Array, ""]
    closed: Bool[Array, ""]
    on_branch: Bool[Array, ""]


@compiled_once
def _untouched(
    system: System, state: State, t: Scalar
) -> tuple[AssemblyReport, Bool[Array, ""], Bool[Array, ""]]:
    """The report of an assembly that moves nothing, whether the joints are closed as described, and
    whether velocities satisfy them to rounding.
    """
    system = system.wound(state.angles)
    jet_system, f_dot, _ = system.jet(t)
    pose = state.pose
    on_branch = system.at(t).on_branch(RA().with_ground(pose))
    zero = jnp.zeros(system.nb, system.dtype)
    blocks = rows(RA(), jet_system, pose)
    gaps = phi(RA(), system.at(t), pose)
    shares = gaps / row_sizes(RA(), system, blocks)
    before = jnp.max(jnp.abs(shares), initial=0.0)
    closed = before <= position_tolerance(system.dtype)
    violation, shares = system.to_natural(gaps), system.to_natural(shares)
    none = jnp.zeros((), int)
    report = AssemblyReport(
        zero, zero, zero, zero, before, violation, shares, none, closed, on_branch
    )

    u = jnp.concatenate([state.v, state.omega], axis=1)
    nu = velocity_right_side(RA(), jet_system, f_dot, pose)
    u = jnp.concatenate([u, jnp.zeros((1, 6), u.dtype)])
    index = np.array(row_bodies(RA(), system), int).reshape(blocks.shape[:2])
    terms = blocks * u[index]
    rest = jnp.abs(jnp.sum(terms, axis=(1, 2)) - nu)
    scale = jnp.sum(jnp.abs(terms), axis=(1, 2)) + jnp.abs(nu)
    still = jnp.all(rest <= _VELOCITY_ROUNDING * jnp.finfo(u.dtype).eps * scale)
    return report, closed & on_branch, still


@compiled_once
def _assemble(
    system: System,
    state: State,
    t: Scalar,
    metrics: tuple[str, str],
    described: tuple[tuple[bool, bool], ...],
) -> tuple[State, AssemblyReport]:
    problem = _Closest()
    weights, velocity_weights = (_weights(system, metric) for metric in metrics)
    system = _geometry(system.wound(state.angles))
    at_positions = system.at_position_level().at(t)
    held = rows(RA(), at_positions, state.pose)
    sizes = jax.lax.stop_gradient(row_sizes(RA(), at_positions, held))
    args = (at_positions, state.pose, weights, sizes)
    x, (iterations, closed, before) = implicit_root(problem, (), args)
    xi = problem.displacements(x, system)
    pose = jax.vmap(RA().retract)(state.pose, xi)

    u0 = jnp.concatenate([state.v, state.omega], axis=1)
    u = _closest_velocity(system, pose, u0, velocity_weights, t, described)
    new = State(pose.r, pose.A, u[:, :3], u[:, 3:], state.angles)
    now = system.at(t)
    gaps = phi(RA(), now, pose)
    shares = gaps / row_sizes(RA(), now, rows(RA(), now, pose))
    report = AssemblyReport(
        displacement=_norms(xi[:, :3]),
        rotation=_norms(xi[:, 3:]),
        velocity=_norms(new.v - state.v),
        angular_velocity=_norms(new.omega - state.omega),
        violation_before=before,
        violation=system.to_natural(gaps),
        shares=system.to_natural(shares),
        iterations=iterations,
        closed=closed,
        on_branch=now.on_branch(RA().with_ground(pose)),
    )
    return new, jax.lax.stop_gradient(report)


@needs_state
def assemble(
    system: System,
    state: State,
    *,
    t: Any = 0.0,
    metric: str | None = None,
    velocities: bool = True,
) -> tuple[State, AssemblyReport]:
    """The consistent state closest to `state` at time t.

    Positions minimize the distance to the given ones subject to Φ = 0; then velocities minimize the
    distance to the given ones subject to Φ_q u = ν. Velocities that the description left out follow
    the others: they count little in that distance, so that a described angular velocity is kept
    where joints allow it.
    Differentiable in everything: moving a joint moves the result. A state that meets the
    constraints already is returned unchanged.

    Args:
        system: The mechanism.
        state: Approximate poses and twists.
        t: Time at which drivers are evaluated [s].
        metric: "identity" weighs meters and (length-scaled) radians alike; "mass" weighs by mass
            and inertia, so that the difference of velocities has the least kinetic energy. By
            default positions by "identity" and velocities by "mass", or by "identity" where a body
            has no mass.
        velocities: False where only the positions matter: velocities may then stay as they are.

    Returns:
        The state and a report of what moved. Nothing raises for joints that do not close: check
        `report.closed`.
    """
    check_system(system, state, "assemble")
    if metric not in (None, *METRICS):
        raise ValueError(f"metric must be one of {METRICS}, not {metric!r}")
    if metric == "mass" and system.massless:
        raise ValueError(
            f"metric='mass' needs the mass of {', '.join(system.massless)}; use metric='identity'"
        )
    metrics = (metric or "identity", metric or ("identity" if system.massless else "mass"))
    geometry = _only_geometry(system)
    if is_concrete((geometry, state, t)):
        # A small program tells whether there is anything to do for a large one, also where masses,
        # gravity or forces are traced: they move nothing that meets the constraints already.
        report, closed, still = _untouched.at_once(geometry, state, np.asarray(t, system.dtype))
        if bool(closed) and (bool(still) or not velocities):
            return state, report
    return _assemble(system, state, as_jax(t, system.dtype), metrics, system.described)


def _geometry(system: System) -> System:
    """The system with no derivative by what assembly does not see: a gradient by masses then leaves
    assembly out.
    """
    parts = (system.mass, system.inertia, system.gravity, system.forces, system.inertias)
    held = jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, parts)
    return eqx.tree_at(lambda s: (s.mass, s.inertia, s.gravity, s.forces, s.inertias), system, held)


def _only_geometry(system: System) -> System:
    """The unnamed system with zeros for the numbers that its constraints do not see."""
    system = system.unnamed()
    unseen = ("mass", "inertia", "gravity", "forces", "laws", "inertias")
    zeros = jax.tree.map(
        lambda x: np.zeros(x.shape, x.dtype) if eqx.is_array(x) else x,
        {name: getattr(system, name) for name in unseen},
    )
    return dataclasses.replace(system, **zeros)


def position_tolerance(dtype) -> float:
    """Violations of this size, of distances relative to the system's length, count as none."""
    return 10.0 * float(jnp.finfo(dtype).eps) ** 0.75


def _norms(x: Float[Array, "nb 3"]) -> Float[Array, " nb"]:
    return jnp.linalg.norm(jax.lax.stop_gradient(x), axis=1)


def _weights(system: System, metric: str) -> Float[Array, "nb 6 6"]:
    """The metric of a body's displacement or velocity, without units: about one for the system's
    length and for one radian.
    """
    eye = np.eye(3, dtype=system.dtype)
    if metric == "identity":
        return jnp.broadcast_to(jnp.diag(system.units() ** -2.0), (system.nb, 6, 6))
    unit = jnp.mean(system.mass) * system.length**2
    mass = system.mass[:, None, None] * eye[None]
    # A rod-like or zero inertia leaves rotations without weight; a trace of mass times length
    # squared gives them some.
    spin = system.inertia + 1e-6 * mass * system.length**2
    W = jnp.zeros((system.nb, 6, 6), system.dtype)
    return W.at[:, :3, :3].set(mass).at[:, 3:, 3:].set(spin) / unit


def _closest_velocity(
    system: System, pose: Pose, u0, weights, t: Scalar, flags
) -> Float[Array, "nb 6"]:
    jet_system, f_dot, _ = system.jet(t)
    blocks = rows(RA(), jet_system, pose)
    units = system.units()
    sizes = jax.lax.stop_gradient(row_sizes(RA(), system, blocks))
    nu = velocity_right_side(RA(), jet_system, f_dot, pose) / sizes
    u0 = u0 / units[None, :]
    described = np.repeat(np.array(flags or [(True, True)] * system.nb), 3, axis=1)
    mixed = bool(described.any() and not described.all())
    if mixed:
        light = _UNDESCRIBED_IN_LOOPS if system.has_loops else _UNDESCRIBED
        share = jnp.asarray(np.where(described, 1.0, light), u0.dtype)
        weights = weights * jnp.sqrt(share[:, :, None] * share[:, None, :])
    matrix = saddle_matrix(RA(), system, weights, blocks).scaled(units, sizes)
    factors = factorize(matrix, system.linear_solver)

    def improve(x, _):
        # The velocities that were not described are measured from their last iterate, so that the
        # small weight that they have does not pull at the others; repeating the solve also takes E
        # out of the constraints.
        u = x[: u0.size].reshape(u0.shape)
        target = jnp.where(described, u0, u) if mixed else u0
        pull = jnp.einsum("bij,bj->bi", matrix.diagonal, target)
        rhs = jnp.concatenate([pull.reshape(-1), nu])
        return x + linear_solve(matrix.matvec, factors, rhs - matrix.matvec(x)), None

    x = jnp.concatenate([u0.reshape(-1), jnp.zeros_like(nu)])
    x, _ = jax.lax.scan(improve, x, None, length=_MIXED_SOLVES if mixed else 2)
    return x[: u0.size].reshape(u0.shape) * units[None, :]


class _Loop(eqx.Module):
    pose: Pose
    lam: Float[Array, " m"]
    phi: Float[Array, " m"]
    damping: Scalar
    step: Scalar
    k: Int[Array, ""]


class _Closest(AbstractRootProblem):
    """min ½ ξᵀ W ξ subject to Φ(retract(pose0, ξ)) = 0, in the unknowns (ξ, λ).

    Stationarity: W ξ + T(ξ)ᵀ Rᵀ λ = 0 with T the tangent of the retraction. All are without units:
    ξ in `System.units`, Φ and R divided by the rows' sizes at pose0.
    """

    def displacements(self, x: Float[Array, " n"], system: System) -> Float[Array, "nb 6"]:
        """ξ of all bodies [m, rad]."""
        return x[: 6 * system.nb].reshape(system.nb, 6) * system.units()[None, :]

    def residual(self, x: Float[Array, " n"], args) -> Float[Array, " n"]:
        system, pose0, weights, sizes = args
        xi = self.displacements(x, system)
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, x[6 * system.nb :] / sizes)
        tangent = jax.vmap(RA().tangent)(xi)
        balance = jnp.einsum("bij,bj->bi", weights, xi) + times_last_transposed(tangent, pull)
        balance = balance * system.units()[None, :]
        return jnp.concatenate([balance.reshape(-1), phi(RA(), system, pose) / sizes])

    def _reaction(self, system: System, pose: Pose, lam) -> Float[Array, "nb 6"]:
        return scatter_rows(rows(RA(), system, pose), lam, row_bodies(RA(), system), system.nb)

    def factors(self, x: Float[Array, " n"], args) -> Any:
        system, pose0, weights, sizes = args
        xi, lam = self.displacements(x, system), x[6 * system.nb :] / sizes
        pose = jax.vmap(RA().retract)(pose0, xi)
        pull = self._reaction(system, pose, lam)
        tangent = jax.vmap(RA().tangent)(xi)

        def turned(xi, pull):
            return jax.jacfwd(lambda d: times_last_transposed(RA().tangent(d), pull))(xi)

        turn = jax.vmap(turned)(xi, pull)
        blocks, bodies = rows(RA(), system, pose), row_bodies(RA(), system)
        rows_t = apply_tangent(blocks, tangent, bodies)
        couplings = []
        for c in row_variations(RA(), system, pose, lam):
            right = apply_tangent(c.blocks, tangent, c.bodies)
            both = apply_tangent(jnp.transpose(right, (0, 3, 4, 1, 2)), tangent, c.bodies)
            couplings.append(Coupling(jnp.transpose(both, (0, 3, 4, 1, 2)), c.bodies))
        softness = regularization(RA(), system, weights, blocks)
        matrix = SaddleMatrix(weights + turn, tuple(couplings), rows_t, rows_t, softness, bodies)
        return factorize(matrix.scaled(system.units(), sizes), system.linear_solver)

    def solve(self, guess, args):
        system, pose0, weights, sizes = args
        nb, dtype = system.nb, system.dtype
        tolerance = position_tolerance(dtype)
        bodies = row_bodies(RA(), system)
        ra = RA()
        tiny = jnp.sqrt(jnp.finfo(dtype).eps)
        units = system.units()[None, :]

        def largest(values):
            return jnp.max(jnp.abs(values), initial=0.0)

        def values(pose):
            return phi(ra, system, pose) / sizes

        def body(s: _Loop) -> _Loop:
            # Sequential quadratic programming with the metric as Hessian, in two parts that share
            # one factorization: a normal step that closes the joints, and a tangential one towards
            # the described pose. Only the latter's multipliers are kept: where rows are redundant,
            # those of an open loop grow without bound.
            xi = jax.vmap(_displacement)(pose0, s.pose)
            inverse = jax.vmap(so3.inverse_right_jacobian)(xi[:, 3:])
            gradient = jnp.einsum("bij,bj->bi", weights, xi)
            gradient = gradient.at[:, 3:].set(jnp.einsum("bji,bj->bi", inverse, gradient[:, 3:]))
            blocks = rows(ra, system, s.pose)
            gradient = gradient + scatter_rows(blocks, s.lam / sizes, bodies, nb)
            matrix = SaddleMatrix(weights, (), blocks, blocks, None, bodies)
            matrix = matrix.scaled(units[0], sizes)
            diagonal = jnp.mean(jnp.sum(matrix.right**2, axis=(1, 2)))
            softness = jnp.full(len(bodies), diagonal * s.damping)
            matrix = dataclasses.replace(matrix, regularization=softness)
            factors = factorize(matrix, system.linear_solver, checked=False)
            normal = factors.solve(jnp.concatenate([jnp.zeros(6 * nb, dtype), -s.phi]))
            tangential = factors.solve(
                jnp.concatenate([-(gradient * units).reshape(-1), jnp.zeros_like(s.phi)])
            )
            # A damped step is about closing alone.
            tangential = jnp.where(s.damping <= 2.0 * tiny, tangential, 0.0)
            delta = (normal + tangential)[: 6 * nb].reshape(nb, 6)
            limit = jnp.minimum(1.0, _MAX_TURN / (jnp.max(jnp.abs(delta[:, 3:])) + 1e-30))
            pose = jax.vmap(ra.retract)(s.pose, limit * delta * units)
            gaps = values(pose)
            # Closing comes first: a step is taken when it closes the joints further, or opens them
            # by little compared with its length, as the curvature of the constraints makes every
            # step along them do.
            little = jnp.maximum(tolerance, 0.2 * largest(tangential[: 6 * nb]))
            accept = (jnp.sum(gaps**2) < jnp.sum(s.phi**2)) | (largest(gaps) <= little)
            lam = s.lam + tangential[6 * nb :]
            new = _Loop(
                pose,
                lam,
                gaps,
                jnp.maximum(0.1 * s.damping, tiny),
                largest(delta),
                s.k + 1,
            )
            old = _Loop(s.pose, s.lam, s.phi, jnp.maximum(10.0 * s.damping, 1e-4), s.step, s.k + 1)
            return jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, old)

        def goes_on(s: _Loop):
            # A step far below the tolerance: the iteration converges fast, and this leaves
            # violations at rounding.
            settled = (s.step <= 1e-3 * tolerance) & (largest(s.phi) <= tolerance)
            return ~settled & (s.k < _MAX_STEPS) & (s.damping < 1e8)

        phi0 = values(pose0)
        before = largest(phi0)
        consistent = before <= tolerance
        zero = jnp.zeros((), dtype)
        start = _Loop(
            pose0,
            jnp.zeros(len(bodies), dtype),
            phi0,
            tiny,
            jnp.where(consistent, zero, jnp.inf),
            jnp.zeros((), int),
        )
        end = jax.lax.while_loop(goes_on, body, start)
        xi = jnp.where(consistent, zero, jax.vmap(_displacement)(pose0, end.pose))
        closed = largest(end.phi) <= tolerance
        return jnp.concatenate([(xi / units).reshape(-1), end.lam]), (end.k, closed, before)


def _displacement(pose0: Pose, pose: Pose) -> Float[Array, "6"]:
    return jnp.concatenate([pose.r - pose0.r, so3.log(pose0.A.T @ pose.A)])
