"""Condition numbers of the iteration matrices of both schemes, as in Tables II to V of the
paper.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.equations import midpoint, null_space
from jaxmbd.equations.index1 import dynamic_accelerations
from jaxmbd.equations.spanning_tree import spanning_tree
from jaxmbd.integrators import Motion, energy_momentum


def conditions(system, state, steps, instant):
    """2-norm condition numbers by step size, at the end of the step that ends at `instant` (None:
    of the first one).

    `condition_constrained` is that of the paper's matrix, [[2M/h + h/2 Σ λA, h Gᵀ], [G, 0]], whose
    rows and unknowns scale differently with h; `condition_scaled` of the same equations as they are
    solved here; `condition_reduced` of the derivative of the reduced scheme's equations by the
    joints' increments.
    """
    method, directors = mbd.EnergyMomentum(), mbd.Directors()
    tree = spanning_tree(system)

    @jax.jit
    def start(state, h):
        q, u = directors.from_state(state)
        zero = jnp.zeros(())
        motion = Motion(q, u, *dynamic_accelerations(directors, system, q, u, zero))
        return method.start(directors, system, motion, zero, h)

    @jax.jit
    def step(motion, t, h):
        return method.step(directors, system, motion, t, h)

    @jax.jit
    def matrices(before, after, t, h):
        chosen = None
        if len(tree.closures):
            chosen = energy_momentum.enforced_rows(
                system, tree, before.q, t - h, before.memory.rank
            )
        args = midpoint.StepData(
            system.at(t), system.at(t - h / 2), before.q, before.u, t - h / 2, h, chosen
        )
        equations = energy_momentum.Reduced(tree, args, "hand")
        u = equations.guess()
        for _ in range(6):  # the joints' increments of this step, by Gauss-Newton
            gap = null_space.moved(system, tree, before.q, u) - after.q
            slope = jax.jacfwd(lambda u: null_space.moved(system, tree, before.q, u).reshape(-1))(u)
            u = u - jnp.linalg.solve(slope.T @ slope, slope.T @ gap.reshape(-1))
        K = midpoint.matrix(args, after.q, after.memory.mu, exact=True).dense()
        return (
            K,
            jnp.ones(K.shape[0]) if chosen is None else chosen,
            jax.jacfwd(equations.residual)(u),
        )

    found = {"condition_constrained": {}, "condition_scaled": {}, "condition_reduced": {}}
    for h in steps:
        after = start(state, h)
        for k in range(1 if instant is None else round(instant / h)):
            before = after
            after, info = step(before, (k + 1) * h, h)
            assert bool(info.converged)
        K, chosen, reduced = (np.array(x) for x in matrices(before, after, (k + 1) * h, h))
        n = after.q.size
        rows = np.arange(n, K.shape[0])
        kept = np.concatenate([np.arange(n), rows[chosen[-len(rows) :] > 0.5]])
        K = K[np.ix_(kept, kept)]
        published = K.copy()
        published[:n, :n] /= h
        published[:n, n:] *= h
        for name, matrix in zip(found, (published, K, reduced), strict=True):
            found[name][str(h)] = float(np.linalg.cond(matrix))
    return found
