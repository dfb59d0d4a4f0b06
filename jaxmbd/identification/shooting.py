"""Multiple shooting: a fit over segments of the time span whose starts are unknowns too.

Over a long or chaotic motion the squared error of one simulation has countless minima; over short
segments it has few. The segments are joined by a penalty on the gaps between them that grows from
stage to stage, and the parameters found start the ordinary fit.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..analyses import simulate
from ..model.state import State
from ..rotations import so3
from ..xla.jit import jit
from .measurements import quantities
from .problem import FitProblem

STAGES = (1.0, 1e2, 1e4)  # weights of the gaps, relative to the spread of the data


class ShootingProblem:
    """Weighted residuals of all segments and of the gaps between them, with a sparse Jacobian by
    few tangents.

    Unknowns: the problem's own (p of them), then 12 nb increments of the start of every segment but
    the first. A residual depends on the starts of two neighboring segments at most, so that two
    colors of tangents, one for even and one for odd segments, give all columns.
    """

    def __init__(self, problem: FitProblem, segments: int):
        steps = problem.steps
        if segments > steps:
            raise ValueError(
                f"fit: {segments} segments are more than the {steps} steps of the motion"
            )
        self.problem, self.segments = problem, segments
        self.data = problem.experiments[0].measurements
        self.inputs = problem.inputs_of(0)
        self.each = -(-steps // segments)
        self.count = problem.z0.size
        system, state = problem.built(problem.z0)
        self.width = 12 * system.nb
        sol = problem.simulated(problem.z0, segments * self.each)
        self._starts = jax.tree.map(lambda x: x[:: self.each][:segments], sol.state)
        self._place(self.data.t, problem.h)
        self.weight = 1.0
        y = np.stack(list(self.data.values.values()))
        spread = np.nanstd(y, axis=1) / np.mean(self.data.deviations(), axis=1)
        self._gap_scale = float(np.max(spread)) or 1.0
        self.there = np.isfinite(y)
        self.y = (y / self.data.deviations())[self.there]
        self._duration = self.each * problem.h
        self._compiled = jit(self._flat)
        directions = np.zeros((self.count + 2 * self.width, self.count + 2 * self.width))
        np.fill_diagonal(directions, 1.0)
        self._directions = jnp.asarray(directions)
        self._tangents = jit(self._all_tangents)

    def _place(self, t: np.ndarray, h: float) -> None:
        """Segment, row and share of the next row of every sample."""
        position = np.asarray(t) / h
        segment = np.clip((position / self.each).astype(int), 0, self.segments - 1)
        inside = position - segment * self.each
        row = np.clip(inside.astype(int), 0, self.each - 1)
        self._segment, self._row, self._share = segment, row, inside - row

    def start(self) -> np.ndarray:
        """The problem's starting values, and segments that start on the motion they give."""
        return np.concatenate(
            [np.asarray(self.problem.z0), np.zeros((self.segments - 1) * self.width)]
        )

    def own(self, z: np.ndarray) -> np.ndarray:
        """The problem's own unknowns."""
        return np.asarray(z[: self.count])

    def residuals(self, z) -> np.ndarray:
        """Samples, then gaps."""
        data, gaps = self._compiled(jnp.asarray(z))
        return np.concatenate(
            [np.asarray(data) - self.y, self.weight * np.asarray(gaps).reshape(-1)]
        )

    def gap(self, z) -> float:
        """Largest gap between two segments, relative to the system's length and the segment's
        duration.
        """
        return float(jnp.max(jnp.abs(self._compiled(jnp.asarray(z))[1]))) / self._gap_scale

    def jacobian(self, z) -> np.ndarray:
        """Of `residuals`."""
        data, gaps = (
            np.asarray(x) for x in self._tangents(jnp.asarray(z))
        )  # (tangents, samples), (tangents, S-1, w)
        p, w, S = self.count, self.width, self.segments
        full_data = np.zeros((data.shape[1], p + (S - 1) * w))
        full_gaps = np.zeros((S - 1, w, p + (S - 1) * w))
        full_data[:, :p] = data[:p].T
        full_gaps[:, :, :p] = np.moveaxis(gaps[:p], 0, -1)
        segment_of = np.broadcast_to(self._segment, self.there.shape)[self.there]
        for k in range(1, S):
            columns = slice(p + (k - 1) * w, p + k * w)
            color = slice(p + (k % 2) * w, p + (k % 2 + 1) * w)
            mine = segment_of == k
            full_data[mine, columns] = data[color][:, mine].T
            for gap in {k - 1, k} & set(range(S - 1)):
                full_gaps[gap, :, columns] = gaps[color, gap].T
        return np.concatenate([full_data, self.weight * full_gaps.reshape((S - 1) * w, -1)])

    def _all_tangents(self, z):
        def one(direction):
            by_color = direction[self.count :].reshape(2, self.width)
            every = by_color[np.arange(1, self.segments) % 2].reshape(-1)
            tangent = jnp.concatenate([direction[: self.count], every])
            return jax.jvp(self._flat, (z,), (tangent,))[1]

        return jax.lax.map(one, self._directions, batch_size=32)

    def _flat(self, z) -> tuple[Float[Array, " samples"], Float[Array, "gaps w"]]:
        problem = self.problem
        system, first = problem.built(z[: self.count])
        moved = jnp.concatenate([jnp.zeros(self.width), z[self.count :]]).reshape(
            self.segments, system.nb, 12
        )
        own = jax.tree.map(lambda a, b: b.at[0].set(a), first, self._starts)
        scale = jnp.asarray(self._duration) / system.length
        starts = State(
            own.r + moved[..., :3] * system.length,
            own.A @ jax.vmap(jax.vmap(so3.exp))(moved[..., 3:6]),
            own.v + moved[..., 6:9] / scale,
            own.omega + moved[..., 9:] / self._duration,
            self._starts.angles,
            self._starts.element_states,
        )
        t0 = jnp.asarray(np.arange(self.segments) * self._duration)

        def run(state, t0):
            return simulate(
                system,
                state,
                h=problem.h,
                steps=self.each,
                t0=t0,
                throw=False,
                inputs=self.inputs,
                **problem.settings.options,
            )

        sol = jax.vmap(run)(starts, t0)

        def sampled(x):  # (S, rows)
            before, after = x[self._segment, self._row], x[self._segment, self._row + 1]
            return before + self._share * (after - before)

        found = jax.vmap(lambda s: quantities(system, s, list(self.data.values)))(sol)
        data = jnp.stack([sampled(x) for x in found])
        data = (data / jnp.asarray(self.data.deviations()))[self.there]
        end = jax.tree.map(lambda x: x[:-1, -1], sol.state)
        begin = jax.tree.map(lambda x: x[1:, 0], sol.state)
        turn = jax.vmap(jax.vmap(lambda a, b: so3.log(a.T @ b)))(end.A, begin.A)
        parts = [(begin.r - end.r) / system.length, turn, (begin.v - end.v) * scale]
        parts.append((begin.omega - end.omega) * self._duration)
        gaps = jnp.concatenate(parts, axis=-1).reshape(self.segments - 1, self.width)
        return data, gaps * self._gap_scale
