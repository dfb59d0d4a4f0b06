"""Condition numbers of the iteration matrices of both schemes, as in Tables II to V of the
paper.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.equations import midpoint, null_space, reduced_balance
from jaxmbd.equations.index1 import dynamic_accelerations
from jaxmbd.equations.spanning_tree import spanning_tree
from jaxmbd.integrators import Motion

# Rows that close the linkage's loop, in the order of the system: the hinge's point along three
# axes, and the two directions normal to its own.
CLOSURES = ("e1", "e2", "e3", "first direction", "second direction")
DEPENDENT = 2  # the row that is left out where one matrix is wanted

KINDS = (
    "condition_constrained",
    "condition_scaled",
    "condition_equilibrated",
    "condition_reduced",
    "condition_reduced_start",
    "condition_reduced_equilibrated",
)


class Stepper:
    """A mechanism by the constrained scheme, and the matrices of both schemes on the way."""

    def __init__(self, system, state):
        self.system, self.state, self.tree = system, state, spanning_tree(system)
        self._method, self._directors = mbd.EnergyMomentum(), mbd.Directors()
        self._start = jax.jit(self._first)
        self._step = jax.jit(
            lambda motion, t, h: self._method.step(self._directors, system, motion, t, h)
        )
        self.matrices = jax.jit(self._matrices)

    def _first(self, h):
        q, u = self._directors.from_state(self.state)
        zero = jnp.zeros(())
        motion = Motion(q, u, *dynamic_accelerations(self._directors, self.system, q, u, zero))
        return self._method.start(self._directors, self.system, motion, zero, h)

    def motions(self, h, steps):
        """The motion before and after every step, and the time after it."""
        after = self._start(h)
        for k in range(steps):
            before = after
            after, info = self._step(before, (k + 1) * h, h)
            assert bool(info.converged)
            yield before, after, (k + 1) * h

    def last(self, h, steps):
        """The matrices of the last of the steps."""
        for before, after, t in self.motions(h, steps):
            motion = before, after, t
        return {k: np.array(x) for k, x in self.matrices(*motion, h).items()}

    def _matrices(self, before, after, t, h):
        """Of a step: the constrained scheme's at the solution, with all rows; the reduced scheme's
        at the solution, and where no joint has moved yet; and the latter as the paper closes loops.
        """
        system, tree, chosen = self.system, self.tree, None
        if len(tree.closures):
            chosen = reduced_balance.enforced_rows(
                system, tree, before.q, t - h, before.memory.rank
            )
        args = midpoint.StepData(
            system.at(t), system.at(t - h / 2), before.q, before.u, t - h / 2, h, chosen
        )
        equations = reduced_balance.Reduced(tree, args, "hand")
        u = equations.guess()
        for _ in range(6):  # the joints' increments of this step, by Gauss-Newton
            gap = null_space.moved(system, tree, before.q, u) - after.q
            slope = jax.jacfwd(lambda u: null_space.moved(system, tree, before.q, u).reshape(-1))(u)
            u = u - jnp.linalg.solve(slope.T @ slope, slope.T @ gap.reshape(-1))
        mu = after.memory.mu if chosen is None else chosen * after.memory.mu
        every = midpoint.StepData(args.end, args.middle, args.q, args.u, args.t, h, None)
        rest = jnp.zeros_like(u)
        found = {
            "constrained": midpoint.matrix(every, after.q, mu, exact=True).dense(),
            "reduced": jax.jacfwd(equations.residual)(u),
            "reduced_start": jax.jacfwd(equations.residual)(rest),
        }
        for left_out in range(len(tree.closures)):
            kept = np.delete(np.arange(len(tree.closures)), left_out)
            found[f"loop_{left_out}"] = jax.jacfwd(
                lambda u, kept=kept: self._closed_loop(args, u, kept)
            )(rest)
        return found

    def _closed_loop(self, args, u, kept):
        """The paper's reduced equations of a loop with one degree of freedom: the balance divided
        by h along the unit vector that the closures leave free, and the closures.
        """
        tree = self.tree
        q = null_space.moved(args.end, tree, args.q, u)
        middle = 0.5 * (args.q + q)
        maps = null_space.hand_written(args.middle, tree, middle)
        balance = null_space.gather(
            tree, maps, null_space.rigid_transpose(middle, midpoint.unbalanced(args, q))
        )
        W = null_space.closure_rows(args.middle, tree, maps, middle)[kept]
        free = jnp.concatenate([jnp.ones(1), -jnp.linalg.solve(W[:, 1:], W[:, 0])])
        along = (free @ balance) / jnp.linalg.norm(free)
        return jnp.append(null_space.closure_values(args.end, tree, q)[kept], along / args.h)

    def without(self, K, left_out):
        """The constrained scheme's matrix less the row and the multiplier of one closure."""
        if not len(self.tree.closures):
            return K
        kept = np.delete(np.arange(len(K)), 12 * self.system.nb + self.tree.closures[left_out])
        return K[np.ix_(kept, kept)]


def published(K, n, h):
    """The paper's matrix, [[2M/h + h/2 Σ λA, h Gᵀ], [G, 0]], from that of the equations as they are
    solved.
    """
    K = K.copy()
    K[:n, :n] /= h
    K[:n, n:] *= h
    return K


def equilibrated(K, n):
    """Coordinates and their equations over the roots of their diagonal, which is twice the mass but
    for reactions; then constraints and multipliers over the length of their rows.
    """
    mass = np.sqrt(np.abs(np.diag(K)[:n]))
    scale = 1.0 / np.append(mass, np.linalg.norm(K[n:, :n] / mass, axis=1))
    return K * np.outer(scale, scale)


def conditions(system, state, steps, instant):
    """2-norm condition numbers by step size, at the end of the step that ends at `instant` (None:
    of the first one).

    `condition_constrained` is that of the paper's matrix, whose rows and unknowns scale differently
    with h; `condition_scaled` of the same equations as they are solved here;
    `condition_equilibrated` of these with unit diagonal masses and unit rows; `condition_reduced`
    of the derivative of the reduced scheme's equations by the joints' increments at the solution,
    `condition_reduced_start` with no increments, and `condition_reduced_equilibrated` of the former
    with a unit diagonal. Where a loop is closed, `by_row_left_out` has the paper's two matrices for
    each row that may be left out.
    """
    stepper, n = Stepper(system, state), 12 * system.nb
    found = {kind: {} for kind in KINDS}
    loops = {
        CLOSURES[k]: {"constrained": {}, "reduced": {}} for k in range(len(stepper.tree.closures))
    }
    for h in steps:
        key = str(h)
        of = stepper.last(h, 1 if instant is None else round(instant / h))
        K, R = stepper.without(of["constrained"], DEPENDENT), of["reduced"]
        matrices = (
            published(K, n, h),
            K,
            equilibrated(K, n),
            R,
            of["reduced_start"],
            equilibrated(R, len(R)),
        )
        for kind, matrix in zip(KINDS, matrices, strict=True):
            found[kind][key] = float(np.linalg.cond(matrix))
        for k, name in enumerate(loops):
            K = published(stepper.without(of["constrained"], k), n, h)
            loops[name]["constrained"][key] = float(np.linalg.cond(K))
            loops[name]["reduced"][key] = float(np.linalg.cond(of[f"loop_{k}"]))
    return found | ({"by_row_left_out": loops} if loops else {})


def over_time(system, state, h, steps):
    """Condition numbers of the paper's two matrices at the end of every step, without loops."""
    stepper, n = Stepper(system, state), 12 * system.nb
    found = {"h": h, "t": [], "constrained": [], "reduced": []}
    for before, after, t in stepper.motions(h, steps):
        of = {k: np.array(x) for k, x in stepper.matrices(before, after, t, h).items()}
        found["t"].append(round(t, 9))
        found["constrained"].append(float(np.linalg.cond(published(of["constrained"], n, h))))
        found["reduced"].append(float(np.linalg.cond(of["reduced"])))
    return found
