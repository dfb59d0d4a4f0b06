"""Steps along a path of equilibria: the tangent of the path, its stiffness, and the corrector."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...equations.rows import dense_rows, phi, row_sizes
from ...equations.rows import rows as joint_rows
from ...equations.statics import Rest, Spin, reactions, static_loads, static_matrix
from ...formulations import RA
from ...model.state import Pose, State
from ...model.system import System
from ...model.validation import Numbers
from ...rotations.types import Scalar
from .equilibrium import as_spin
from .stability import null_space

Build = Callable[[Any], tuple[System, State]]  # of the parameter, known or traced
SpinOf = Callable[[Any], Spin | Numbers]
_ITERATIONS = 12  # of the corrector; more mean a shorter step
_RESIDUAL = 1e-10  # of the loads


class _PointQuantities(eqx.Module):
    """Quantities at a point, dense: loads (n,) with the sums of their magnitudes, closure
    (m,), sizes of the rows (m,), the rates of loads and closure by the parameter with multipliers
    held, rows (m, n), stiffness (n, n) and angles.
    """

    loads: Any
    sizes: Any
    gaps: Any
    row_sizes: Any
    load_rate: Any
    gap_rate: Any
    rows: Any
    stiffness: Any
    angles: Any


class _Evaluator:
    """The compiled evaluation of a point, and of a displacement from it."""

    def __init__(self, build: Build, t: float, spin: SpinOf | None):
        def quantities(p: Scalar, pose: Pose, angles: Float[Array, " w"]):
            system, _ = build(p)
            now = jnp.asarray(t, system.dtype)
            whole = None if spin is None else as_spin(spin(p), system)
            system = system.unnamed().wound(angles).at(now)
            args = Rest(system, now, jnp.ones_like(now), whole)
            loads, sizes = (x.reshape(-1) for x in static_loads(args, pose))
            return args, loads, phi(RA(), system, pose), sizes

        def evaluate(p: Scalar, pose: Pose, angles: Float[Array, " w"], lam: Float[Array, " nc"]):
            def parts(p: Scalar):
                args, loads, gaps, _ = quantities(p, pose, angles)
                held = joint_rows(RA(), args.system, pose)
                return loads, gaps, reactions(args, held, lam).reshape(-1)

            values, rates = jax.jvp(parts, (p,), (jnp.ones_like(p),))
            args, _, _, sizes = quantities(p, pose, angles)
            n = values[0].size
            stiffness = static_matrix(args, pose, lam, jnp.zeros_like(p)).dense()[:n, :n]
            rows = dense_rows(RA(), args.system, pose)
            units = row_sizes(RA(), args.system)
            turned = args.system.angle_values(RA().with_ground(pose))
            rate = rates[0] + rates[2]
            loads, gaps, _ = values
            return _PointQuantities(
                loads, sizes, gaps, units, rate, rates[1], rows, stiffness, turned
            )

        self._evaluate = jax.jit(evaluate)
        self._retract = jax.jit(lambda pose, d: jax.vmap(RA().retract)(pose, d))

    def __call__(self, at: "Point") -> _PointQuantities:
        dtype = at.pose.r.dtype
        p, lam = jnp.asarray(at.p, dtype), jnp.asarray(at.lam, dtype)
        return jax.tree.map(np.asarray, self._evaluate(p, at.pose, at.angles, lam))

    def moved(self, at: "Point", delta: np.ndarray, dp: float, lam: np.ndarray) -> "Point":
        way = jnp.asarray(delta.reshape(-1, 6), at.pose.r.dtype)
        return dataclasses.replace(
            at, p=at.p + dp, pose=self._retract(at.pose, way), lam=np.asarray(lam)
        )


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of the path; multipliers in the stacked order."""

    p: float
    pose: Pose
    angles: Any
    lam: np.ndarray


@dataclasses.dataclass(frozen=True)
class Shape:
    """Tangent and stiffness of the path at a converged point.

    Attributes:
        tangent: Displacements (n,), in lengths and radians, and of the parameter in parts of its
            range; of length one.
        stiffness: Eigenvalues of the reduced stiffness but for those that are always zero, (f,).
        vectors: Displacements that belong to them, (n, f).
    """

    tangent: np.ndarray
    stiffness: np.ndarray
    vectors: np.ndarray


class Walker:
    """Steps along a path of equilibria."""

    def __init__(
        self,
        build: Build,
        system: System,
        *,
        parameter: tuple[float, float],
        t: float,
        spin: SpinOf | None,
        indifferent: int,
    ):
        self.evaluator = _Evaluator(build, t, spin)
        self.length = float(system.length)
        self.range = abs(parameter[1] - parameter[0])
        self.indifferent = indifferent
        self.scale = np.tile([self.length] * 3 + [1.0] * 3, system.nb)

    def reduced(self, at: Point):
        """Quantities at a point, a basis of the allowed displacements, and the linear system of the
        free coordinates and the parameter.
        """
        now, scale = self.evaluator(at), self.scale
        rows, K = now.rows * scale, scale[:, None] * now.stiffness * scale
        Z = null_space(rows / now.row_sizes[:, None])
        closing = -np.linalg.pinv(rows, rcond=1e-9)  # repeated rows say nothing new
        across, along = closing @ now.gaps, closing @ (self.range * now.gap_rate)
        loads, rate = scale * now.loads, self.range * scale * now.load_rate
        return now, rows, K, Z, across, along, loads, rate

    def corrected(
        self, at: Point, tangent: np.ndarray, within: float = 1.0
    ) -> tuple[Point, int] | None:
        """The equilibrium on the plane through a point across the tangent, and the number of
        iterations; None if they do not converge, or lead farther away than `within`, because
        another part of the path may cross that plane.
        """
        n, gone = len(self.scale), 0.0
        for k in range(_ITERATIONS):
            now, rows, K, Z, across, along, loads, rate = self.reduced(at)
            pull = loads + rows.T @ at.lam
            sizes = self.scale * now.sizes
            size = np.max(sizes + np.abs(rows.T) @ np.abs(at.lam), initial=0.0)
            left = np.max(np.abs(Z.T @ loads), initial=0.0)
            gap = np.max(np.abs(now.gaps / now.row_sizes), initial=0.0)
            # Loads of stiff elements are known as well as the rounding of poses allows.
            blur = np.finfo(K.dtype).eps * np.max(np.sum(np.abs(K), axis=1), initial=0.0)
            if left <= _RESIDUAL * size + blur and gap <= 1e-12 and k:
                lam = at.lam - np.linalg.lstsq(rows.T, pull, rcond=1e-9)[0] if len(rows) else at.lam
                return dataclasses.replace(at, angles=jnp.asarray(now.angles), lam=lam), k
            top = np.column_stack([Z.T @ K @ Z, Z.T @ (rate + K @ along)])
            bottom = np.append(tangent[:n] @ Z, tangent[n] + tangent[:n] @ along)
            right = -np.append(Z.T @ (loads + K @ across), tangent[:n] @ across)
            x = np.linalg.lstsq(np.vstack([top, bottom]), right, rcond=1e-11)[0]
            move = Z @ x[:-1] + across + along * x[-1]
            gone += np.sqrt(move @ move + x[-1] ** 2)
            if not gone <= within:
                return None
            lam = at.lam
            if len(rows):
                forces = loads + K @ move + rate * x[-1]
                lam = -np.linalg.lstsq(rows.T, forces, rcond=1e-9)[0]
            at = self.evaluator.moved(at, self.scale * move, self.range * x[-1], lam)
            at = dataclasses.replace(at, angles=jnp.asarray(now.angles))
        return None

    def shape(self, at: Point, along_tangent: np.ndarray) -> Shape:
        """Tangent, with the orientation of the last one, and stiffness at a converged point."""
        n = len(self.scale)
        _, _, K, Z, _, along, _, rate = self.reduced(at)
        reduced = Z.T @ K @ Z
        top = np.column_stack([reduced, Z.T @ (rate + K @ along)])
        bottom = np.append(along_tangent[:n] @ Z, along_tangent[n] + along_tangent[:n] @ along)
        right = np.zeros(len(top) + 1)
        right[-1] = 1.0
        x = np.linalg.lstsq(np.vstack([top, bottom]), right, rcond=1e-11)[0]
        tangent = np.append(Z @ x[:-1] + along * x[-1], x[-1])
        if np.max(np.abs(reduced - reduced.T), initial=0.0) <= 1e-7 * np.max(np.abs(reduced)):
            values, vectors = np.linalg.eigh(0.5 * (reduced + reduced.T))
        else:
            found: Any = np.linalg.eig(reduced)
            values, vectors = found[0].real, found[1].real
        keep = np.sort(np.argsort(np.abs(values))[self.indifferent :])
        keep = keep[np.argsort(values[keep])]
        return Shape(tangent / np.linalg.norm(tangent), values[keep], Z @ vectors[:, keep])

    def step(self, at: Point, tangent: np.ndarray, ds: float) -> tuple[Point, int] | None:
        """The next point at an arclength ds."""
        n = len(self.scale)
        guess = self.evaluator.moved(
            at, ds * self.scale * tangent[:n], ds * self.range * tangent[n], at.lam
        )
        return self.corrected(guess, tangent)
