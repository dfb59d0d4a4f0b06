"""Multiple shooting: a fit over segments of the time span whose starts are unknowns too.

Over a long or chaotic motion the squared error of one simulation has countless minima; over short
segments it has few. The segments are joined by a penalty on the gaps between them that grows from
stage to stage, and the parameters found start the ordinary fit.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..model.state import State
from ..model.system import System
from ..rotations import so3
from ..rotations.types import Scalar
from ..xla.shared_programs import shared_jit
from .data import Samples, steps_of
from .evaluation import one_by_one, reduced
from .parameters import Point
from .problem import FitProblem
from .sampling import delays_of

STAGES = (1.0, 1e2, 1e4)  # weights of the gaps, relative to the spread of the data


class _Segment(eqx.Module):
    """N segments of experiments, or one of them.

    Attributes:
        begin: Its first instant, (N,) [s]; zero for the first segment of an experiment.
        step: Its first step, (N,).
        own: Coordinates of its experiment's own numbers, (N, k).
        samples: Those within it.
        reference: Near where it starts; increments are counted from there.
        next_reference: Near where the segment after it starts.
        increments: Of its start, (N, 12 nb); without effect on the first segment of an experiment.
    """

    begin: Float[Array, "*N"]
    step: Any
    own: Float[Array, "*N k"]
    samples: Samples
    reference: State
    next_reference: State
    increments: Float[Array, "*N w"]


class _Found(eqx.Module):
    """What a segment says about its own columns: parameters, own numbers, increments.

    Attributes:
        triangle: R of the QR decomposition of [J, r] of its samples.
        excess: As in `Evaluation`.
        end: Increments of where it ends, from the next reference, (w,).
        end_jacobian: Their Jacobian, (w, p + d + w).
    """

    triangle: Float[Array | np.ndarray, "*N m k"]
    excess: Float[Array | np.ndarray, "*N"]
    end: Float[Array | np.ndarray, "*N w"]
    end_jacobian: Float[Array | np.ndarray, "*N w c"]


class ShootingProblem:
    """Weighted residuals of all segments of all experiments, and the gaps between segments.

    Unknowns: the problem's own (p of them), then 12 nb increments of the start of every segment but
    the first of an experiment. A segment knows the parameters, its experiment's own numbers and its
    start, so that its Jacobian has few columns, and the gap after it is the difference of two
    increments.

    Args:
        problem: The fit over whole experiments.
        segments: How many for the longest experiment.
        z: Where the motions run along which segments are laid out; by default the problem's start.

    Raises:
        ValueError: More segments than steps.
    """

    def __init__(self, problem: FitProblem, segments: int, z: Point | None = None):
        if segments > problem.steps:
            raise ValueError(
                f"fit: {segments} segments are more than the {problem.steps} steps of the motion"
            )
        self.problem, self.count, self.weight = problem, problem.z0.size, 1.0
        self._z = np.asarray(problem.z0 if z is None else z)
        self.each = -(-problem.steps // segments)
        system, _ = problem.built(self._z)
        self.width = 12 * system.nb
        # A sensor shows what was a delay ago: its samples belong to the segment of that instant.
        delays = [float(delay) for delay in delays_of(system).values()]
        self._latest = max(delays, default=0.0)
        self._beyond = int(np.ceil(self._latest / problem.h)) + 2
        parts = [
            -(-steps_of([e], problem.h) // self.each) if kept else 0
            for e, kept in zip(problem.experiments, problem.kept, strict=True)
        ]
        self._experiment = np.repeat(np.arange(len(parts)), parts)
        self._index = np.concatenate([np.arange(n) for n in parts])
        self._inner = np.flatnonzero(self._index > 0)  # a gap is before each of these
        self._segments = self._described()
        self._gap_scale = self._spread()
        self._evaluate = shared_jit(self._all)
        self._evaluated: tuple[bytes, _Found] | None = None

    def start(self) -> np.ndarray:
        """The point of the references, and segments that begin at them."""
        return np.concatenate([self._z, np.zeros(self._inner.size * self.width)])

    def own(self, z: Point) -> np.ndarray:
        """The problem's own unknowns."""
        return np.asarray(z)[: self.count]

    def residuals(self, z: Point) -> np.ndarray:
        """Samples, what a loss costs above their squares, what is known beforehand, gaps."""
        found = self._evaluation(z)
        excess = np.sqrt(np.maximum(np.asarray(found.excess), 0.0))
        gaps = self._increments(z) - np.asarray(found.end)[self._inner - 1]
        prior = self.problem.prior_residual(self.own(z))
        samples = np.asarray(found.triangle)[:, :, -1].reshape(-1)
        scale = self.weight * self._gap_scale
        return np.concatenate([samples, excess, prior, scale * gaps.reshape(-1)])

    def jacobian(self, z: Point) -> np.ndarray:
        """Of `residuals`."""
        found = self._evaluation(z)
        triangles, ends = np.asarray(found.triangle), np.asarray(found.end_jacobian)
        N, m, _ = triangles.shape
        n, w = self.start().size, self.width
        samples, gaps = np.zeros((N, m, n)), np.zeros((N, w, n))
        for k in range(N):
            here, columns = self._columns(k)
            samples[k][:, columns] = triangles[k][:, :-1][:, here]
            gaps[k][:, columns] = -ends[k][:, here]
        gaps = gaps[self._inner - 1]
        for k in range(self._inner.size):
            own = self.count + k * w
            gaps[k, :, own : own + w] += np.eye(w)
        prior = np.zeros((self.problem.prior_residual(self.own(z)).size, n))
        prior[:, : self.count] = self.problem.prior_jacobian(self.own(z))
        scale = self.weight * self._gap_scale
        rows = [samples.reshape(N * m, n), np.zeros((N, n)), prior, scale * gaps.reshape(-1, n)]
        return np.concatenate(rows)

    def _columns(self, segment: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns of a segment's own Jacobian that are unknown, and where they stand among all."""
        own = self.problem.columns[self._experiment[segment]]
        here = np.flatnonzero(own >= 0)
        columns = own[here]
        if self._index[segment] > 0:
            at = self.count + self.width * int(np.searchsorted(self._inner, segment))
            here = np.concatenate([here, own.size + np.arange(self.width)])
            columns = np.concatenate([columns, at + np.arange(self.width)])
        return here, columns

    def _increments(self, z: Point) -> np.ndarray:
        return np.asarray(z)[self.count :].reshape(self._inner.size, self.width)

    # --- segments ---

    def _described(self) -> _Segment:
        """All segments, at the motions of the starting point."""
        problem, each = self.problem, self.each
        own, samples = problem.own_coordinates(self._z), problem.samples
        longest = int(self._index.max()) + 1
        shared = jnp.asarray(self._z[: problem.p])

        def rows(own: Float[Array, " k"], samples: Samples) -> State:
            system, state = problem.built_with(shared, own)
            sol = problem.run(system, state, problem.inputs_with(samples), longest * each)
            return jax.tree.map(lambda x: x[::each], sol.state)

        def at(index: np.ndarray) -> State:
            return jax.tree.map(lambda x: x[self._experiment, index], states)

        whole = self._filled(samples, longest * each)
        states = jax.jit(lambda *args: one_by_one(rows, *args))(own, whole)
        step = self._index * each
        return _Segment(
            begin=jnp.asarray(step * problem.h),
            step=jnp.asarray(step),
            own=own[self._experiment],
            samples=self._cut(self._filled(samples, longest * each + self._beyond)),
            reference=at(self._index),
            next_reference=at(self._index + 1),
            increments=jnp.zeros((step.size, self.width)),
        )

    def _filled(self, samples: Samples, steps: int) -> Samples:
        """With inputs by step for so many steps; the last value goes on."""

        def filled(x: PyTree) -> PyTree:
            if callable(x):
                return x
            missing = max(steps - x.shape[1], 0)
            return jnp.concatenate([x[:, :steps], jnp.repeat(x[:, -1:], missing, axis=1)], axis=1)

        inputs = {name: filled(x) for name, x in samples.inputs.items()}
        return eqx.tree_at(lambda s: s.inputs, samples, inputs)

    def _cut(self, samples: Samples) -> Samples:
        """Samples by segment, filled up with ones of no weight."""
        problem = self.problem
        offsets = np.asarray(jax.vmap(problem.clock_offset)(problem.own_coordinates(self._z)))
        instants = np.asarray(samples.t) - offsets[:, None] - self._latest
        of = np.floor(instants / (self.each * problem.h) + 1e-9).astype(int)
        last = np.zeros(len(of), int)
        np.maximum.at(last, self._experiment, self._index)
        of = np.clip(of, 0, last[:, None])
        within = [
            np.flatnonzero(of[e] == k) for e, k in zip(self._experiment, self._index, strict=True)
        ]
        longest = max(1, *(x.size for x in within))
        rows = np.stack([np.pad(x, (0, longest - x.size)) for x in within])
        there = np.stack([np.arange(longest) < x.size for x in within])
        e = self._experiment[:, None]
        weight = np.moveaxis(np.asarray(samples.weight)[e, :, rows], -1, 1) * there[:, None]
        white = samples.whitening
        return Samples(
            t=samples.t[e, rows],
            y=jnp.moveaxis(samples.y[e, :, rows], -1, 1),
            weight=jnp.asarray(weight),
            whitening=None if white is None else white[e, rows],
            wrapped=samples.wrapped[self._experiment],
            inputs=jax.tree.map(lambda x: x[self._experiment], samples.inputs),
        )

    def _spread(self) -> float:
        """How far the samples are spread, in standard deviations."""
        found = [
            np.nanstd(y) / np.mean(scale)
            for e in self.problem.experiments
            for y, scale in zip(
                e.measurements.values.values(), e.measurements.deviations(), strict=True
            )
        ]
        return float(np.nanmax(found)) or 1.0

    # --- one program ---

    def _evaluation(self, z: Point) -> _Found:
        z = np.asarray(z, float)
        if self._evaluated is None or self._evaluated[0] != z.tobytes():
            increments = np.zeros((self._index.size, self.width))
            increments[self._inner] = self._increments(z)
            own = self.problem.own_coordinates(self.own(z))[self._experiment]
            segments = eqx.tree_at(
                lambda s: (s.increments, s.own), self._segments, (jnp.asarray(increments), own)
            )
            found = self._evaluate(jnp.asarray(z[: self.problem.p]), segments)
            self._evaluated = z.tobytes(), jax.tree.map(np.asarray, found)
        return self._evaluated[1]

    def _all(self, shared: Float[Array, " p"], segments: _Segment) -> _Found:
        moving, p = self.problem.moving, self.problem.p

        def one(segment: _Segment) -> _Found:
            def by(x: Float[Array, " c"]):
                own = segment.own.at[moving].set(x[p : p + moving.size])
                changed = eqx.tree_at(
                    lambda s: (s.own, s.increments), segment, (own, x[p + moving.size :])
                )
                found = self._one(x[:p], changed)
                return found, found

            x = jnp.concatenate([shared, segment.own[moving], segment.increments])
            (jacobian, end_jacobian), (residual, end) = jax.jacfwd(by, has_aux=True)(x)
            triangle, excess = reduced(jacobian, residual, self.problem.settings.loss)
            return _Found(triangle, excess, end, end_jacobian)

        return one_by_one(one, segments)

    def _one(
        self, shared: Float[Array, " p"], segment: _Segment
    ) -> tuple[Float[Array, "q T"], Float[Array, " w"]]:
        """Weighted residuals of one segment, and increments of its end."""
        problem, duration = self.problem, jnp.asarray(self.each * self.problem.h)
        system, first = problem.built_with(shared, segment.own)
        moved = _moved(system, segment.reference, segment.increments, duration)
        state = jax.tree.map(lambda a, b: jnp.where(segment.step == 0, a, b), first, moved)
        steps = self.each + self._beyond

        def rows(x: PyTree) -> PyTree:
            return x if callable(x) else jax.lax.dynamic_slice_in_dim(x, segment.step, steps)

        inputs = {name: rows(x) for name, x in segment.samples.inputs.items()}
        samples = eqx.tree_at(lambda s: s.inputs, segment.samples, inputs)
        sol = problem.run(system, state, problem.inputs_with(samples), steps, t0=segment.begin)
        found, instants = problem.predicted(
            system, sol, samples.t - segment.begin, problem.clock_offset(segment.own)
        )
        end = jax.tree.map(lambda x: x[self.each], sol.state)
        increments = _increments_of(system, segment.next_reference, end, duration)
        return samples.weighted(found, instants + segment.begin), increments


def _moved(
    system: System, reference: State, increments: Float[Array, " w"], duration: Scalar
) -> State:
    """A state some increments away: positions by the system's length, turns in the body's frame,
    velocities by what they do within a segment.
    """
    by_body = increments.reshape(system.nb, 12)
    scale = duration / system.length
    return State(
        reference.r + by_body[:, :3] * system.length,
        reference.A @ jax.vmap(so3.exp)(by_body[:, 3:6]),
        reference.v + by_body[:, 6:9] / scale,
        reference.omega + by_body[:, 9:] / duration,
        reference.angles,
        reference.element_states,
    )


def _increments_of(
    system: System, reference: State, state: State, duration: Scalar
) -> Float[Array, " w"]:
    """The increments of `_moved` that lead to a state."""
    turn = jax.vmap(lambda a, b: so3.log(a.T @ b))(reference.A, state.A)
    parts = [
        (state.r - reference.r) / system.length,
        turn,
        (state.v - reference.v) * duration / system.length,
        (state.omega - reference.omega) * duration,
    ]
    return jnp.concatenate(parts, axis=1).reshape(-1)
