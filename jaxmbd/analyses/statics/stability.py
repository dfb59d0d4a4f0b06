"""Stability of an equilibrium: the stiffness along the motions that the joints allow."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ...equations.motion import mass_matrix
from ...equations.statics import Rest, Spin, static_matrix
from ...formulations import RA
from ...model.compiled import compiled_once, if_made, remembered
from ...model.readable import readable
from ...model.state import State
from ...model.system import System
from ...rotations.types import Scalar
from ..mobility import row_norms, rows_without_units

# Of the largest stiffness: what counts as none. Slender beams have ratios down to 1e-10.
_NONE = 1e-12
# Unknowns beyond which singular values take minutes.
LARGEST = 3000
_MOMENT = 300  # unknowns whose eigenvalues take a moment


class Stability(eqx.Module):
    """The stiffness of an equilibrium against the displacements that all joints allow, loads and
    drivers held; concrete values.

    Attributes:
        stiffness: Eigenvalues of the reduced stiffness, (f,), smallest real part first: against
            the reduced mass, the squares of the undamped angular frequencies [1/s²]; for bodies
            without mass against meters and length-scaled radians [N/m]. Complex where loads without
            a potential drive a flutter.
        shapes: The displacements that belong to them, (f, nb, 6): of the mass centers, global, and
            turns, body frame.
        stable: Whether no eigenvalue is negative or complex.
        relative: How large each of them is beside the largest stiffness of all bodies, (f,).
        indifferent: Number of those that are zero: directions in which any pose is as good.
        unstable: Number of negative or complex ones.
    """

    stiffness: Complex[np.ndarray, " f"]
    shapes: Complex[np.ndarray, "f nb 6"]
    relative: Float[np.ndarray, " f"]
    indifferent: int = eqx.field(static=True)
    unstable: int = eqx.field(static=True)

    def __repr__(self) -> str:
        from ..summaries import of_stability

        return readable(self, of_stability)

    @property
    def stable(self) -> bool:
        return self.unstable == 0


def stability_of(
    system: System, state: State, lam: Float[Array, " nc"], t: Scalar, spin: Spin | None
) -> Stability | None:
    """The stability of an equilibrium; None for more than 3000 unknowns.

    Gyroscopic and damping forces are left out: in a steady rotation the motion may be stable though
    this stiffness is not, see `modes`.
    """
    n = 6 * system.nb
    if max(n, system.nc) > LARGEST:
        return None
    matrices = remembered(_matrices, _matrices, system, state, lam, t, spin)
    return _judged(system, *map(np.asarray, matrices))


def stability_if_made(
    system: System, state: State, lam: Float[Array, " nc"], t: Scalar, spin: Spin | None
) -> Stability | None:
    """As `stability_of`, if that compiles nothing and takes a moment; None otherwise."""
    if max(6 * system.nb, system.nc) > _MOMENT:
        return None
    matrices = if_made(_matrices, system, state, lam, t, spin)
    return None if matrices is None else _judged(system, *map(np.asarray, matrices))


def _judged(system: System, K: np.ndarray, M: np.ndarray, R: np.ndarray) -> Stability:
    """The stability of an equilibrium with stiffness K, mass matrix M and constraint rows R."""
    scale = np.tile([1.0] * 3 + [1.0 / float(system.length)] * 3, system.nb)
    Z = scale[:, None] * null_space(R)
    if not Z.shape[1]:
        none = np.zeros(0)
        return Stability(none + 0j, np.zeros((0, system.nb, 6), complex), none, 0, 0)
    reduced = Z.T @ K @ Z
    reduced_mass = np.eye(Z.shape[1]) if system.massless else Z.T @ M @ Z
    from scipy import linalg  # late: it would take a fifth of the import of the package

    symmetric = np.max(np.abs(reduced - reduced.T)) <= 1e-7 * np.max(np.abs(reduced))
    regular = np.linalg.cond(reduced_mass) < 1e12
    if symmetric and regular:
        values, vectors = linalg.eigh(0.5 * (reduced + reduced.T), reduced_mass)
    else:
        values, vectors = linalg.eig(reduced, reduced_mass)  # pyright: ignore[reportAssignmentType]
    values: Any = np.asarray(values, complex)
    vectors = np.asarray(vectors, complex)
    order = np.argsort(np.where(np.isfinite(values), values.real, np.inf))
    values, vectors = values[order], vectors[:, order]
    relative = _relative(scale[:, None] * K * scale[None, :], reduced, vectors)
    none = relative <= _NONE
    bad = ~none & ((values.real < 0.0) | (np.abs(values.imag) > 1e-6 * np.abs(values)))
    shapes = (Z @ vectors).T.reshape(-1, system.nb, 6)
    return Stability(values, shapes, relative, int(np.sum(none)), int(np.sum(bad)))


def _relative(whole: np.ndarray, reduced: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The stiffness along each vector, relative to the largest of all bodies."""
    largest = np.max(np.abs(whole), initial=0.0)
    along, size = (np.linalg.norm(x, axis=0) for x in (reduced @ vectors, vectors))
    return along / (size * largest) if largest > 0.0 else np.zeros_like(size)


def null_space(R: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the displacements that rows without units allow, (n, f)."""
    m, n = R.shape
    if not m:
        return np.eye(n)
    _, values, right = np.linalg.svd(R / row_norms(R)[:, None])
    tolerance = 0.1 * max(R.shape) * np.sqrt(np.finfo(R.dtype).eps) * values[0]
    return right[int(np.sum(values > tolerance)) :].T


@compiled_once
def _matrices(system: System, state: State, lam: Float[Array, " nc"], t: Scalar, spin: Spin | None):
    system = system.wound(state.angles).at(t)
    args = Rest(system, t, jnp.ones_like(t), spin)
    none = jnp.zeros_like(t)
    n = 6 * system.nb
    K = static_matrix(args, state.pose, system.to_stacked(lam), none).dense()[:n, :n]
    M = mass_matrix(RA(), system, state.pose)
    dense = jnp.zeros((n, n), t.dtype)
    index = np.arange(n).reshape(-1, 6)
    dense = dense.at[index[:, :, None], index[:, None, :]].set(M)
    return K, dense, rows_without_units(system, state.pose)
