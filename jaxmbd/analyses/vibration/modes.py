"""Vibration about an equilibrium: modes, frequency response, the Campbell diagram of a rotor."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ...model.compiled import compiled_once
from ...model.system import System
from ...model.validation import Numbers, as_jax, is_concrete
from ...rotations.types import Scalar
from ..inputs import AbstractInput, collect_inputs, unit_wrenches
from .eigenmodes import Modes
from .linearization import selection
from .small_motions import Base, SmallMotions, base_of, small_motions

_UNSYMMETRIC = 1e-6  # of the largest stiffness
_REAL = 1e-7  # of an eigenvalue's size, below which its imaginary part is rounding


def modes(
    system: System,
    equilibrium: object,
    *,
    damped: bool = False,
    spinning: Mapping[str, Numbers] | None = None,
    freedoms: int | None = None,
) -> Modes:
    """Natural modes of small motions about an equilibrium.

    Undamped modes solve K y = ω² M y along the displacements that the joints allow, K being the
    tangent stiffness with its geometric part; shapes are real and scaled to unit modal mass,
    yᵀ M y = 1. Damped modes solve M ÿ + C ẏ + K y = 0 with damping, gyroscopic and circulatory
    terms; shapes are complex and scaled so that the largest component, turns times the system's
    length, is one. Eigenvalues and frequencies can be differentiated by any number. Where
    frequencies are equal their shapes are not unique: the derivative of one of them then is that of
    one chosen by rounding, while sums over the equal ones have the right derivative; second
    derivatives, and derivatives of shapes, are NaN.

    Args:
        system: The mechanism.
        equilibrium: What `equilibrium(system, state)` returned. In a steady rotation the modes are
            those that an observer sees who turns with it, and need `damped=True`.
        damped: Whether damping and gyroscopic terms count.
        spinning: Angular velocities [rad/s] of parts that turn in the equilibrium about axes of
            symmetry of their own, by body, body frame, (3,) each; for `damped=True`.
        freedoms: Number of degrees of freedom, as `mobility` counts; needed under `jit`, `grad` and
            `vmap` alone.

    Returns:
        Modes, slowest first: f undamped ones; of damped ones one of each conjugate pair, and real
        eigenvalues (under `jit` all 2f).

    Raises:
        ValueError: Loads without a potential make the stiffness unsymmetric, or a part turns, and
            `damped` is False; no degree of freedom is left; masses are missing.
    """
    base = base_of(system, equilibrium, "modes", spinning, freedoms)
    if not damped:
        if spinning or base.spin is not None:
            raise ValueError(
                "modes: gyroscopic forces act in a rotation: use modes(..., damped=True)"
            )
        values, shapes, vectors, skewness = _undamped(base)
        if is_concrete(skewness) and not float(skewness) <= _UNSYMMETRIC:
            raise ValueError(
                f"modes: the stiffness of {system.name!r} is not symmetric (by {skewness:.1e} of "
                "its size): some load, such as a follower force, has no potential; use "
                "modes(..., damped=True)"
            )
        return _made(base, values, vectors, shapes)
    if is_concrete(base):
        return _damped(base)
    values = _eigenvalues(base)
    order = jnp.argsort(jax.lax.stop_gradient(jnp.abs(values)))
    return _made(base, values[order], None, None)


def _made(
    base: Base,
    values: Complex[np.ndarray | Array, " n"],
    vectors: Complex[np.ndarray | Array, "x n"] | None,
    shapes: Complex[np.ndarray | Array, "n nb 6"] | None,
) -> Modes:
    size = jnp.abs(values)
    moving = size > 0.0
    ratio = jnp.where(moving, -jnp.real(values) / jnp.where(moving, size, 1.0), 1.0)
    frequency = jnp.abs(jnp.imag(values)) / (2.0 * np.pi)
    if is_concrete(values):
        values, frequency, ratio = (np.asarray(x) for x in (values, frequency, ratio))
    return Modes(values, vectors, frequency, ratio, shapes, base.state)


@compiled_once
def _undamped(base: Base):
    """Eigenvalues ±iω (one of each pair), mass-normalized shapes (f, nb, 6), vectors (f, f), and
    the skewness of the stiffness.
    """
    found = small_motions(base)
    squares, vectors = squared_frequencies(found.M, found.K)
    K = jax.lax.stop_gradient(found.K)
    skewness = jnp.max(jnp.abs(K - K.T)) / jnp.maximum(jnp.max(jnp.abs(K)), jnp.finfo(K.dtype).tiny)
    shapes = jnp.einsum("bcf,fn->nbc", found.basis, vectors)
    return _roots(squares), _complex(shapes), _complex(vectors), skewness


def squared_frequencies(
    M: Float[Array, "f f"], K: Float[Array, "f f"]
) -> tuple[Float[Array, " f"], Float[Array, "f f"]]:
    """ω² of K y = ω² M y, smallest first, and vectors with yᵀ M y = 1."""
    L = jnp.linalg.cholesky(M)
    half = jax.scipy.linalg.solve_triangular(L, 0.5 * (K + K.T), lower=True)
    A = jax.scipy.linalg.solve_triangular(L, half.T, lower=True)
    squares, y = jnp.linalg.eigh(0.5 * (A + A.T))
    return squares, jax.scipy.linalg.solve_triangular(L.T, y, lower=False)


def _roots(squares: Float[Array, " f"]) -> Complex[Array, " f"]:
    """iω, or the growing one of ±|ω| where ω² is negative; with finite derivatives at zero."""
    size = jnp.abs(squares)
    root = jnp.where(size > 0.0, jnp.sqrt(jnp.where(size > 0.0, size, 1.0)), 0.0)
    return jax.lax.complex(jnp.where(squares < 0.0, root, 0.0), jnp.where(squares < 0.0, 0.0, root))


def _complex(x: Array) -> Array:
    return jax.lax.complex(x, jnp.zeros_like(x))


def first_order(found: SmallMotions) -> Float[Array, "x x"]:
    """A of ẋ = A x with x = (y, ẏ)."""
    f = found.M.shape[0]
    solved = jnp.linalg.solve(found.M, jnp.concatenate([found.K, found.C], axis=1))
    top = jnp.concatenate([jnp.zeros((f, f), solved.dtype), jnp.eye(f, dtype=solved.dtype)], axis=1)
    return jnp.concatenate([top, -solved])


@compiled_once
def _eigenvalues(base: Base) -> Complex[Array, " x"]:
    return jnp.linalg.eigvals(first_order(small_motions(base)))


def _damped(base: Base) -> Modes:
    """Modes with shapes, of concrete values."""
    found = jax.tree.map(np.asarray, small_motions(base))
    values: Any
    values, vectors = np.linalg.eig(np.asarray(first_order(found)))
    size = np.max(np.abs(values), initial=0.0)
    real = np.abs(values.imag) <= _REAL * (np.abs(values) + 1e-9 * size)
    values = np.where(real, values.real, values)
    keep = np.flatnonzero(values.imag >= 0.0)
    keep = keep[np.argsort(np.abs(values[keep]), kind="stable")]
    values, vectors = values[keep].astype(complex), vectors[:, keep].astype(complex)
    shapes = np.einsum("bcf,fn->nbc", found.basis, vectors[: found.M.shape[0]])
    weight = np.array([1.0] * 3 + [float(base.system.length)] * 3)
    for k in range(len(values)):
        flat = (shapes[k] * weight).reshape(-1)
        largest = flat[np.argmax(np.abs(flat))]
        if largest != 0.0:
            shapes[k] /= largest
            vectors[:, k] /= largest
    return _made(base, values, vectors, shapes)


class FrequencyResponse(eqx.Module):
    """Steady vibration about an equilibrium under harmonic inputs.

    Attributes:
        omega: Angular frequencies, (n,) [rad/s].
        H: Complex amplitudes of the outputs for inputs e^{iωt} of amplitude one,
            (n, outputs, inputs); displacements [m], small turns [rad], per N or N·m.
        inputs: Their names.
        outputs: Their names.
    """

    omega: Float[Array, " n"]
    H: Complex[Array, "n p k"]
    inputs: tuple[str, ...] = eqx.field(static=True)
    outputs: tuple[str, ...] = eqx.field(static=True)

    @property
    def gain(self) -> Float[Array, "n p k"]:
        """|H|."""
        return jnp.abs(self.H)

    @property
    def phase(self) -> Float[Array, "n p k"]:
        """The phase of each output ahead of its input [rad]."""
        return jnp.angle(self.H)


def frequency_response(
    system: System,
    equilibrium: object,
    inputs: Sequence[str],
    outputs: Sequence[str],
    omega: Numbers,
    *,
    spinning: Mapping[str, Numbers] | None = None,
    freedoms: int | None = None,
) -> FrequencyResponse:
    """Frequency response of the bodies to harmonic forces about an equilibrium, H(ω) = S (K + iωC -
    ω²M)⁻¹ B.

    A pure function that can be differentiated by the system, the equilibrium and omega.

    Args:
        system: The mechanism.
        equilibrium: As in `modes`.
        inputs: Names of actuators, or "rod.force.x" (global, at the mass center) or "rod.torque.y"
            (body frame), as in `linearize`.
        outputs: Displacements, "cart.r.x" of a mass center (global) or "rod.theta.y" of a small
            turn (body frame).
        omega: Angular frequencies, (n,) [rad/s].
        spinning: As in `modes`.
        freedoms: As in `modes`.

    Returns:
        The response; infinite or NaN at an undamped natural frequency.

    Raises:
        ValueError: A name is unknown; the message lists what there is.
    """
    base = base_of(system, equilibrium, "frequency_response", spinning, freedoms)
    chosen = collect_inputs(system, list(inputs))
    unnamed = tuple(dataclasses.replace(x, name="") for x in chosen)
    names = tuple(outputs)
    bodies, parts = selection(names, system.bodies, "frequency_response")
    omega = as_jax(omega, system.dtype) if is_concrete(omega) else jnp.asarray(omega, system.dtype)
    if omega.ndim != 1:
        raise ValueError(
            f"frequency_response: omega must be an array of angular frequencies [rad/s], (n,), not "
            f"one of shape {omega.shape}"
        )
    H = _response(base, unnamed, (tuple(bodies.tolist()), tuple(parts.tolist())), omega)
    return FrequencyResponse(omega, H, tuple(x.name for x in chosen), names)


@compiled_once
def _response(
    base: Base,
    inputs: tuple[AbstractInput, ...],
    outputs: tuple[tuple[int, ...], tuple[int, ...]],
    omega: Float[Array, " n"],
):
    found = small_motions(base)
    loads = jnp.einsum("kbc,bcf->fk", unit_wrenches(inputs, base.state.pose), found.basis)
    loads = _complex(loads)
    seen = found.basis[np.array(outputs[0], int), np.array(outputs[1], int)]

    def at(w: Scalar):
        dynamic = jax.lax.complex(found.K - w**2 * found.M, w * found.C)
        return _complex(seen) @ jnp.linalg.solve(dynamic, loads)

    return jax.vmap(at)(omega)


class Campbell(eqx.Module):
    """Frequencies of a rotor over its speed; concrete values.

    Attributes:
        rates: Speeds, (n,) [rad/s].
        frequency: |Im s| / 2π of the modes at every speed, slowest first, (n, f) [Hz]; NaN where a
            mode does not oscillate.
        damping_ratio: (n, f).
        critical: Speeds at which a frequency equals the speed, (k,) [rad/s], where unbalance
            resonates.
    """

    rates: Float[np.ndarray, " n"]
    frequency: Float[np.ndarray, "n f"]
    damping_ratio: Float[np.ndarray, "n f"]
    critical: Float[np.ndarray, " k"]


def campbell(
    system: System,
    equilibrium: object,
    part: str,
    axis: Numbers,
    rates: Numbers,
    *,
    order: float = 1.0,
) -> Campbell:
    """The Campbell diagram of a part that spins about an axis of symmetry of its own, in the
    fixed frame.

    Args:
        system: The mechanism, with a bearing about that axis.
        equilibrium: Its equilibrium with the part at rest.
        part: Name of the spinning body.
        axis: The axis, body frame, (3,) [-].
        rates: Speeds, (n,) [rad/s].
        order: Excitations per turn, for the critical speeds.

    Returns:
        The frequencies, and the critical speeds found by linear interpolation between `rates`.

    Raises:
        ValueError: There is no such body, or it is not symmetric about the axis.
    """
    base = base_of(system, equilibrium, "campbell", {part: (0.0, 0.0, 0.0)})
    b = system.bodies.index(part)
    n = np.asarray(axis, float)
    n = n / np.linalg.norm(n)
    _check_symmetric(np.asarray(system.inertia[b]), n, part)
    rates = np.atleast_1d(np.asarray(rates, float))
    parts = np.zeros((len(rates), system.nb, 3))
    parts[:, b] = rates[:, None] * n
    values = np.asarray(_over_rates(base, as_jax(parts, system.dtype)))
    frequency = np.full((len(rates), base.freedoms), np.nan)
    damping = np.full_like(frequency, np.nan)
    for k, row in enumerate(values):
        row = row[row.imag > _REAL * np.max(np.abs(row))]
        row = row[np.argsort(row.imag)]
        frequency[k, : len(row)] = row.imag / (2 * np.pi)
        damping[k, : len(row)] = -row.real / np.abs(row)
    return Campbell(rates, frequency, damping, _crossings(rates, frequency, order))


@compiled_once
def _over_rates(base: Base, parts: Float[Array, "n nb 3"]):
    def one(parts: Float[Array, "nb 3"]):
        return first_order(small_motions(eqx.tree_at(lambda b: b.parts, base, parts)))

    return jnp.linalg.eigvals(jax.lax.map(one, parts))


def _check_symmetric(J: np.ndarray, axis: np.ndarray, part: str) -> None:
    across = np.linalg.svd(axis[None, :])[2][1:]
    off = np.max(np.abs(across @ J @ axis))
    uneven = np.max(np.abs(across @ J @ across.T - np.eye(2) * np.trace(across @ J @ across.T) / 2))
    if max(off, uneven) > 1e-9 * np.max(np.abs(J)):
        raise ValueError(
            f"campbell: body {part!r} is not symmetric about {axis.tolist()}: its motion has no "
            "constant coefficients in the fixed frame; find its steady rotation with "
            "equilibrium(spin=) and use modes(damped=True)"
        )


def _crossings(rates: np.ndarray, frequency: np.ndarray, order: float) -> np.ndarray:
    gap = 2 * np.pi * frequency - order * np.abs(rates)[:, None]
    found = []
    for k in range(len(rates) - 1):
        for a, b in zip(gap[k], gap[k + 1], strict=True):
            if np.isfinite(a) and np.isfinite(b) and (a > 0.0) != (b > 0.0):
                found.append(rates[k] + (rates[k + 1] - rates[k]) * a / (a - b))
    return np.sort(np.array(found))
