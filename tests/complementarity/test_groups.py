"""Block elimination of many contacts against one dense factorization and the plain laws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_laws import broken

from jaxmbd.complementarity import LawProblem, Laws, grouped, solve_laws

BODIES = 28


def brickwork(rng, linked=()):
    """Contacts of a row of bodies, with their neighbors, the next but one and the ground, and of
    one to three places each; random rows, masses that differ by a factor of a hundred.
    """
    pairs = [(b, b + 1) for b in range(BODIES - 1)] + [(b, b + 2) for b in range(0, BODIES - 2, 3)]
    pairs += [(b, BODIES) for b in range(0, BODIES, 4)]
    elements = tuple((pair, 1 + k % 3) for k, pair in enumerate(pairs))
    count = sum(n for _, n in elements)
    W, row = np.zeros((3 * count, 6 * (BODIES + 1))), 0
    for bodies, n in elements:
        for body in bodies:
            W[row : row + 3 * n, 6 * body : 6 * body + 6] = rng.normal(size=(3 * n, 6))
        row += 3 * n
    W = W[:, : 6 * BODIES]
    G = W @ np.diag(1.0 / 10.0 ** rng.uniform(-1.0, 1.0, 6 * BODIES)) @ W.T
    none = jnp.zeros(0)
    return Laws(
        matrix=jnp.asarray(G),
        free=jnp.asarray(W @ rng.normal(size=6 * BODIES)),
        active=jnp.asarray(rng.uniform(size=count) < 0.9),
        friction=jnp.asarray(rng.uniform(0.05, 1.2, count)),
        bound=none,
        share=none,
        carried=jnp.zeros((0, 3)),
        carries=jnp.zeros((0, 3, 3 * count)),
        spent=jnp.zeros(3 * count),
        stops=0,
        groups=grouped(elements, linked, BODIES),
    )


def test_a_step_by_blocks_is_that_of_a_dense_factorization(rng):
    laws = brickwork(rng)
    assert laws.groups is not None and laws.groups.contacts.shape[1] == 3
    laws = laws.scaled()[0].pulled(jnp.asarray(1e-4), jnp.zeros(laws.width))
    x = jnp.asarray(rng.normal(size=laws.width))
    for kappa in (jnp.asarray(1e-1), jnp.asarray(1e-6)):
        value = laws.residual(x, kappa)
        found = jax.jit(Laws.newton_step)(laws, x, kappa, value)
        wanted = -np.linalg.solve(laws.jacobian(x, kappa), value)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.max(np.abs(wanted)))


def test_impulses_by_blocks_satisfy_the_laws_and_their_velocities_are_those_of_dense_ones(rng):
    laws = brickwork(rng)
    none, problem = jnp.zeros(laws.width), LawProblem()

    @jax.jit
    def impulses(laws):
        return solve_laws(laws, none, problem)

    P, outcome = impulses(laws)
    assert bool(outcome.converged) and broken_of_active(laws, P) < 1e-9
    # There are more rows than velocities of bodies: impulses are not unique, velocities are.
    assert np.linalg.matrix_rank(laws.matrix) < np.sum(np.repeat(laws.active, 3))
    dense, _ = impulses(dataclasses.replace(laws, groups=None))
    np.testing.assert_allclose(laws.matrix @ P, laws.matrix @ dense, rtol=0, atol=1e-8)

    @jax.jit
    def velocities(free):
        return laws.matrix @ solve_laws(dataclasses.replace(laws, free=free), none, problem)[0]

    # A change that motions of the bodies can make. The laws hold to 1e-11 of the largest velocity:
    # differences over 1e-5 are good to 1e-6 of it.
    way, step = laws.matrix @ jnp.asarray(rng.normal(size=laws.width)) / 10.0, 1e-5
    slope = jax.jvp(velocities, (laws.free,), (way,))[1]
    ends = [velocities(laws.free + sign * step * way) for sign in (1.0, -1.0)]
    difference = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose(slope, difference, rtol=0, atol=1e-6 * np.max(np.abs(difference)))


def broken_of_active(laws, P):
    """`broken` of the laws that may act; the others have no impulse."""
    on = np.asarray(laws.active)
    rows = np.repeat(on, 3)
    assert np.max(np.abs(np.asarray(P)[~rows])) < 1e-20 * np.max(np.abs(P))
    few = Laws(
        matrix=laws.matrix[rows][:, rows],
        free=laws.free[rows],
        active=laws.active[on],
        friction=laws.friction[on],
        bound=laws.bound,
        share=laws.share,
        carried=laws.carried,
        carries=laws.carries[:, :, rows],
        spent=laws.spent[rows],
        stops=0,
    )
    return broken(few, np.asarray(P)[rows])


def test_where_blocks_lose_their_digits_a_dense_factorization_serves(rng):
    """Pivots of zero, as no mechanism has them: elimination by blocks divides by zero."""
    laws = brickwork(rng)
    plain = np.array(laws.matrix)
    for c in range(plain.shape[0] // 3):
        plain[3 * c : 3 * c + 3, 3 * c : 3 * c + 3] = 0.0
    held = dataclasses.replace(laws, matrix=jnp.asarray(plain), active=jnp.ones_like(laws.active))
    x, kappa = jnp.full(laws.width, 5.0), jnp.asarray(1e-6)
    value = held.residual(x, kappa)
    found = jax.jit(Laws.newton_step)(held, x, kappa, value)
    wanted = -np.linalg.solve(held.jacobian(x, kappa), value)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("case", ["few", "joined", "all together"])
def test_matrices_with_few_zeros_stay_dense(case):
    row = tuple(((b, b + 1), 3) for b in range(30))
    assert grouped(row, (), 31) is not None
    if case == "few":
        assert grouped(row[:10], (), 31) is None
    elif case == "joined":  # joints couple all bodies
        assert grouped(row, tuple((b, b + 1) for b in range(30)), 31) is None
    else:  # as of balls that all may touch
        pairs = tuple(((a, b), 1) for b in range(20) for a in range(b))
        assert grouped(pairs, (), 20) is None
