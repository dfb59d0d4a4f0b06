"""Buckling: the shares of the loads at which an equilibrium loses its stiffness."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...equations.statics import Rest, static_matrix
from ...linalg.linear_solve import held
from ...model.compiled import compiled_once
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...rotations.types import Scalar
from ..mobility import mobility
from ..running.checks import check_system, needs_state
from ..running.initial_state import assembled
from ..vibration.small_motions import carried, free_displacements, reduced
from .balance import balance_poses
from .equilibrium_search import Loading

_FIRST = 1e-3  # share of the loads from which the first guess extrapolates
# How close two shares are between which the stiffness is interpolated, relative: ever closer.
_APART = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_MAX_STEPS = 50


class Buckling(eqx.Module):
    """Buckling load factors of a mechanism.

    Attributes:
        factor: Multiples of the loads at which the stiffness vanishes, smallest first, (n,); NaN
            where there are fewer, or where the equilibrium was lost on the way.
        shapes: The displacements without stiffness, (n, nb, 6): of the mass centers [m], global,
            and turns [rad], body frame; the largest component is one, lengths counted in the
            system's.
    """

    factor: Float[Array, " n"]
    shapes: Float[Array, "n nb 6"]


@needs_state
def buckling(
    system: System,
    state: State,
    *,
    count: int = 1,
    t: Numbers = 0.0,
    freedoms: int | None = None,
) -> Buckling:
    """The load factors at which the tangent stiffness of a loaded equilibrium becomes singular.

    Gravity and all loads that store no energy are multiplied by the factor; springs and other
    elements that store energy are not. From the unloaded equilibrium the stiffness is extrapolated
    along the factor (linear buckling analysis), and then computed again beside each factor until
    two neighboring ones enclose it, so that the motion before buckling counts. A pure function that
    can be jitted and differentiated.

    Args:
        system: The mechanism.
        state: Where the unloaded mechanism rests, approximately; it is assembled first.
        count: How many factors.
        t: Instant at which drivers and loads are held [s].
        freedoms: Number of degrees of freedom, as `mobility` counts; needed under `jit`, `grad` and
            `vmap` alone.

    Returns:
        Factors and shapes.

    Raises:
        ValueError: The mechanism has laws of contact, or no degree of freedom; count is no number.
    """
    check_system(system, state, "buckling")
    system.refuse_elements_with_states("buckling", "leave them out, or simulate the motion")
    system.refuse_laws("buckling", "leave them out")
    if system.nonholonomic:
        system.refuse_velocity_rows("buckling", "use equilibrium and its stability")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"buckling: count must be a whole number of at least 1, not {count!r}")
    t = as_jax(t, system.dtype) if is_concrete(t) else jnp.asarray(t, system.dtype)
    state = system.with_turns(state)
    state, _ = assembled(system, state, t, velocities=False)
    if freedoms is None:
        if not is_concrete((system, state)):
            raise ValueError("buckling: under jit, grad or vmap give freedoms=")
        freedoms = mobility(system, state, t=t).freedoms
    if not freedoms:
        raise ValueError(
            f"buckling: {system.name!r} has no degree of freedom left; its drivers determine it"
        )
    return Buckling(*_buckling(system, state, t, count=min(count, freedoms), freedoms=freedoms))


@compiled_once
def _buckling(system: System, state: State, t: Scalar, count: int, freedoms: int):
    angles = system.turns() if state.angles is None else state.angles
    fixed = free_displacements(system.wound(angles).at(t), held(state.pose), freedoms)

    def tangent(system: System, share: Scalar):
        shares = jnp.stack([share])
        steps = jnp.asarray(_MAX_STEPS)
        loading = Loading(t, None, shares)
        found = balance_poses(system, state.pose, angles, loading, steps, False)
        now = system.wound(found.angles).at(t)
        args = Rest(now, t, share, None)
        basis = carried(now, found.pose, fixed)
        K = reduced(static_matrix(args, found.pose, found.lam, jnp.zeros_like(t)), basis)
        return jnp.where(found.found, K, jnp.nan), basis

    def pencil(system: System, pair: Float[Array, "2"]):
        K, basis = jax.lax.map(lambda share: tangent(system, share), pair)
        return K[0], K[1] - K[0], basis[0]

    still = held(system)
    none = jnp.zeros_like(t)
    K, dK, _ = pencil(still, jnp.stack([none, none + _FIRST]))
    ratios, _, _ = _ratios(K, dK)
    guesses = _FIRST * jnp.sort(jnp.where(ratios > 0.0, ratios, jnp.inf))[:count]

    def nearer(factor: Scalar, apart: Scalar):
        low = factor * (1.0 - apart)
        K, dK, _ = pencil(still, jnp.stack([low, factor]))
        ratios = _ratios(K, dK)[0]
        nearest = ratios[jnp.argmin(jnp.abs(ratios - 1.0))]
        return low + nearest * (factor - low), None

    def located(guess: Scalar):
        start = jnp.where(jnp.isfinite(guess), guess, 1.0)
        factor, _ = jax.lax.scan(nearer, start, jnp.asarray(_APART, t.dtype))
        low = held(factor * (1.0 - _APART[-1]))
        factor = held(factor)
        K, dK, basis = pencil(system, jnp.stack([low, factor]))
        ratios, right, left = held(_ratios(held(K), held(dK)))
        k = jnp.argmin(jnp.abs(ratios - 1.0))
        y, z = right[:, k], left[:, k]
        # A quotient whose derivative is that of the eigenvalue, vectors held.
        exact = -(z @ (K @ y)) / (z @ (dK @ y))
        value = jnp.where(jnp.isfinite(guess), low + exact * (factor - low), jnp.nan)
        shape = (held(basis) @ y).reshape(-1, 6)
        weights = jnp.ones(6, t.dtype).at[:3].set(1.0 / system.length)
        flat = (shape * weights[None, :]).reshape(-1)
        return value, held(shape / flat[jnp.argmax(jnp.abs(flat))])

    values, shapes = jax.lax.map(located, guesses)
    return values, shapes


def _ratios(K: Float[Array, "f f"], dK: Float[Array, "f f"]):
    """Real μ with (K + μ dK) y = 0, infinite where there is none, with y and z, zᵀ (K + μ dK) = 0,
    as columns.
    """
    finite = jnp.all(jnp.isfinite(K)) & jnp.all(jnp.isfinite(dK))
    eye = jnp.eye(K.shape[0], dtype=K.dtype)
    K, dK = jnp.where(finite, K, eye), jnp.where(finite, dK, 0.0 * eye)
    values, right = jnp.linalg.eig(-jnp.linalg.solve(K, dK))
    inverse, right = jnp.real(values), jnp.real(right)
    rigid = jnp.abs(jnp.imag(values)) > 1e-6 * jnp.abs(values)
    none = rigid | (jnp.abs(inverse) < 1e-14)
    ratios = jnp.where(none, jnp.inf, 1.0 / jnp.where(none, 1.0, inverse))
    values, left = jnp.linalg.eig(-jnp.linalg.solve(K.T, dK.T))
    # Both problems have the same eigenvalues, in orders of their own.
    order = jnp.argmin(jnp.abs(inverse[:, None] - jnp.real(values)[None, :]), axis=1)
    return ratios, right, jnp.real(left)[:, order]
