"""Block elimination on any topology against NumPy's dense solution; schedules; the check and its
fallback."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations.kinematic_solve import SparseRows
from jaxmbd.linalg import BlockFactors, Coupling, DenseFactors, SaddleMatrix, factorize
from jaxmbd.linalg.ordering import Topology, schedule
from jaxmbd.linalg.strategy import CheckedFactors

GROUND = None
# Solutions compared with those by an inverse: the condition of the matrices counts once more.
_NEAR = 1e3


def chain(n):
    return [(k - 1 if k else GROUND, k) for k in range(n)]


def ladder(n):
    """Four-bars that share rockers; returns pairs of bodies."""
    pairs = [(GROUND, k) for k in range(n + 1)]
    for k in range(n):
        pairs += [(k, n + 1 + k), (n + 1 + k, k + 1)]
    return pairs


def grid(n):
    """Bodies on an n x n grid, jointed with their neighbors: many loops that share bodies."""
    pairs = [(GROUND, 0)]
    for a in range(n):
        for b in range(n):
            pairs += [(n * a + b, n * a + b + 1)] * (b + 1 < n) + [(n * a + b, n * a + b + n)] * (
                a + 1 < n
            )
    return pairs


TOPOLOGIES = {
    "chain": (12, chain(12)),
    "star": (14, [(GROUND, 0)] + [(0, k) for k in range(1, 14)]),
    "tree": (15, [((k - 1) // 2 if k else GROUND, k) for k in range(15)]),
    "ladder": (11, ladder(5)),
    "grid": (9, grid(3)),
    "floating": (9, [(0, 1), (1, 2), (4, 5), (5, 6), (6, 4), (7, 8)]),
    "two joints between a pair": (6, [*chain(6), (2, 3)]),
}


def saddle(nb, pairs, rng, *, d=6, k=5, inner=0, spring=True, thin=True, asymmetric=False):
    """A random saddle matrix: bodies thin as rods, revolute-like rows of rank 5, a spring,
    normalizations."""
    H = np.zeros((nb, d, d))
    for b in range(nb):
        Q = rng.normal(size=(3, 3))
        spin = Q @ Q.T + 0.1 * np.eye(3)
        if thin:  # no inertia about one axis, which the rows hold
            spin[:, 0] = spin[0, :] = 0.0
        H[b, :3, :3], H[b, 3:6, 3:6] = rng.uniform(0.5, 5.0) * np.eye(3), spin
    rows, i, j = [], [], []
    for a, b in pairs:
        row = rng.normal(size=(k, 2, d))
        row[0, :, 3] += 4.0
        rows.append(row)
        i += [nb if a is None else a] * k
        j += [b] * k
    for b in range(nb if inner else 0):  # of rank 1 on the coordinates that H leaves out
        row = np.zeros((1, 2, d))
        row[0, 0, 6:] = 1.0
        row[0, 0, 3:6] = 0.3 * rng.normal(size=3)
        rows.append(row)
        i.append(b)
        j.append(nb)
    right = np.concatenate(rows)
    left = right + (1e-3 * rng.normal(size=right.shape) if asymmetric else 0.0)
    couplings = ()
    if spring:
        S = rng.normal(size=(2 * d, 2 * d))
        T = rng.normal(size=(6, 6))  # of the last three numbers of each body alone
        couplings = (
            Coupling(jnp.array(0.1 * (S @ S.T)).reshape(1, 2, d, 2, d), ((0, nb - 1),)),
            Coupling(jnp.array(0.1 * (T @ T.T)).reshape(1, 2, 3, 2, 3), ((0, nb - 1),)),
        )
    E = jnp.full(len(i), 1e-8)
    inner_rows = nb if inner else 0
    bodies = tuple(zip(i, j, strict=True))
    return SaddleMatrix(
        jnp.array(H), couplings, jnp.array(right), jnp.array(left), E, bodies, inner_rows
    )


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_any_topology_is_solved_like_a_dense_matrix(name):
    nb, pairs = TOPOLOGIES[name]
    rng = np.random.default_rng(3)
    thin = name != "floating"  # nothing would hold such a body
    # Rows of a ladder outnumber what its bodies can do: pivots as small as E, so growth up to 1/E
    # without pivoting.
    tolerance = np.finfo(float).eps / 1e-8 if name == "ladder" else 1e-10
    regular = {"thin": False, "spring": False, "asymmetric": True}
    for strategy, options in (
        ("block_sparse", {"thin": thin}),
        ("block_sparse", {"asymmetric": True, "thin": False}),
        ("block_sparse", {"d": 7, "inner": 1, "thin": thin}),
        ("range_space", regular),
        ("range_space", {**regular, "d": 7, "inner": 1}),
    ):
        m = saddle(nb, pairs, rng, **options)
        K = np.asarray(m.dense())
        b = np.asarray(
            m.matvec(jnp.array(rng.normal(size=m.size)))
        )  # rows that repeat do not contradict each other

        @jax.jit
        def solutions(m, b, strategy=strategy):
            factors = BlockFactors.of(m, bodies_first=strategy == "range_space")
            return (
                factors.solve(b),
                factors.solve_transpose(b),
                CheckedFactors(m, factors).solve_unregularized(b),
                factors.solve_rows(b[-len(m.bodies) :]),
                factors.solve_rows(b[-len(m.bodies) :], transpose=True),
            )

        x, x_transposed, unregularized, *of_rows = solutions(m, b)
        # The backward error, which says how well the elimination did whatever the condition of the
        # matrix.
        assert np.max(np.abs(K @ x - b)) <= tolerance * np.max(np.abs(K) @ np.abs(x))
        assert np.max(np.abs(K.T @ x_transposed - b)) <= tolerance * np.max(
            np.abs(K.T) @ np.abs(x_transposed)
        )
        np.testing.assert_allclose(
            m.matvec(unregularized), b, atol=1e-9 * np.max(np.abs(unregularized))
        )
        # The unknowns of the rows alone, by the inverse of the matrix.
        n = m.size - len(m.bodies)
        for y, inverse in zip(of_rows, (np.linalg.inv(K), np.linalg.inv(K).T), strict=True):
            wanted = inverse[n:, n:] @ b[n:]
            scale = np.max(np.abs(inverse[n:, n:]) @ np.abs(b[n:]))
            assert np.max(np.abs(y - wanted)) <= _NEAR * tolerance * scale


@pytest.mark.parametrize("name", ["chain", "tree", "floating chains"])
def test_trees_whose_rows_cannot_repeat_end_in_an_inverse(name):
    topologies = {**TOPOLOGIES, "floating chains": (8, [(0, 1), (1, 2), (2, 3), (4, 5), (6, 7)])}
    nb, pairs = topologies[name]
    options = {"thin": False, "spring": False, "asymmetric": True}
    m = saddle(nb, pairs, np.random.default_rng(5), **options)
    m = eqx.tree_at(lambda m: m.regularization, m, None)
    K, b = np.asarray(m.dense()), np.random.default_rng(6).normal(size=m.size)

    @jax.jit
    def solutions(m, b):
        factors = BlockFactors.of(m, bodies_first=True)
        rows = b[-len(m.bodies) :]
        return factors.solve(b), factors.solve_transpose(b), factors.solve_rows(rows)

    factors = BlockFactors.of(m, bodies_first=True)
    assert 0 < len(factors.schedule.final) <= 3 and not isinstance(factors.final, DenseFactors)
    x, x_transposed, y = solutions(m, b)
    # Rounding times the condition of the matrices, up to 4e4, and some for the lack of pivots.
    np.testing.assert_allclose(x, np.linalg.solve(K, b), atol=1e-10 * np.max(np.abs(x)))
    np.testing.assert_allclose(
        x_transposed, np.linalg.solve(K.T, b), atol=1e-10 * np.max(np.abs(x))
    )
    n = m.size - len(m.bodies)
    wanted = np.linalg.solve(K, np.concatenate([np.zeros(n), b[n:]]))[n:]
    np.testing.assert_allclose(y, wanted, atol=1e-10 * np.max(np.abs(wanted)))


def test_a_schedule_eliminates_every_node_once_and_chains_take_few_levels():
    i, j = zip(
        *[(256 if a is None else a, b) for a, b in chain(256) for _ in range(5)], strict=True
    )
    plan = schedule(Topology(256, 6, tuple(zip(i, j, strict=True))))
    assert sum(level.count for level in plan.levels) + len(plan.final) == plan.nodes == 256
    assert len(plan.levels) <= 8
    assert plan.size == 11
    assert len(set(plan.position.tolist())) == 11 * 256
    assert all(level.right.shape[1] == 2 for level in plan.levels)


def test_a_star_does_not_couple_its_arms():
    i, j = zip(
        *[(60 if a is None else a, b) for a, b in [(None, 0)] + [(0, k) for k in range(1, 60)]],
        strict=True,
    )
    plan = schedule(Topology(60, 6, tuple(zip(i, j, strict=True))))
    assert plan.levels[0].count >= 56 and plan.levels[0].right.shape[1] == 1
    assert len(plan.levels) == 1


def test_cut_joints_wait_for_the_bodies_of_their_loop():
    nb, pairs = 11, ladder(5)
    i, j = zip(*[(nb if a is None else a, b) for a, b in pairs for _ in range(5)], strict=True)
    plan = schedule(Topology(nb, 6, tuple(zip(i, j, strict=True))))
    node = plan.position // plan.size
    turn = np.repeat(
        np.arange(len(plan.levels) + 1), [*(level.count for level in plan.levels), len(plan.final)]
    )
    bodies = turn[node[: 6 * nb : 6]]
    supernodes = set(node[: 6 * nb].tolist())
    cut = [r for r in range(len(i)) if node[6 * nb + r] not in supernodes]
    assert len(cut) == 25
    for r in cut:
        assert turn[node[6 * nb + r]] > max(bodies[b] for b in (i[r], j[r]) if b < nb) or turn[
            node[6 * nb + r]
        ] == len(plan.levels)


def test_range_space_suits_bodies_that_nothing_couples_and_few_joints_bind():
    assert mbd.load("four_bar")[0].linear_solver == "range_space"
    rod = mbd.Mechanism()
    rod.add_body("rod", mass=1.0, inertia=(1.0, 1.0, 0.0))
    rod.add(mbd.Spherical("pivot", "ground", "rod", point=(0, 0, 1)))
    assert rod.build()[0].linear_solver == "dense"
    star = mbd.Mechanism()
    star.add_body("hub", mass=1.0, inertia=(1.0, 1.0, 1.0))
    for k in range(12):
        star.add_body(f"arm{k}", mass=1.0, inertia=(1.0, 1.0, 1.0), r=(np.cos(k), np.sin(k), 0.0))
        star.add(
            mbd.Spherical(
                f"joint{k}", "hub", f"arm{k}", point=(0.5 * np.cos(k), 0.5 * np.sin(k), 0.0)
            )
        )
    assert star.build()[0].linear_solver == "block_sparse"
    # A spring couples two bodies in the matrix, and the general strategies take over.
    m = saddle(3, chain(3), np.random.default_rng(0), thin=False)
    assert mbd.load("gear_train:33")[0].linear_solver == "range_space"
    assert mbd.load("gear_train:34")[0].linear_solver == "block_sparse"
    assert isinstance(factorize(m, "range_space", checked=False), DenseFactors)


def test_where_blocks_fail_dense_factors_step_in_and_large_ones_say_nan():
    """Bodies without any inertia that only a coupling holds: regular as a whole, but no block
    is."""

    def matrix(nb):
        flip = jnp.broadcast_to(jnp.array([[0.0, 1.0], [1.0, 0.0]]), (nb // 2, 2, 2))
        blocks = jnp.einsum("nkl,de->nkdle", flip, jnp.eye(6))
        pairs = tuple((2 * k, 2 * k + 1) for k in range(nb // 2))
        none = jnp.zeros((0, 2, 6))
        return SaddleMatrix(jnp.zeros((nb, 6, 6)), (Coupling(blocks, pairs),), none, none, None, ())

    m = matrix(12)
    b = jnp.arange(1.0, 73.0)
    assert not np.all(np.isfinite(BlockFactors.of(m).solve(b)))
    factors = factorize(m, "block_sparse")
    np.testing.assert_allclose(factors.solve(b), DenseFactors.of(m).solve(b), rtol=1e-12)
    np.testing.assert_allclose(
        factors.solve_transpose(b), DenseFactors.of(m).solve_transpose(b), rtol=1e-12
    )
    batch = jax.vmap(lambda s: factorize(m, "block_sparse").solve(s * b))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(batch[1], 2 * batch[0], rtol=1e-12)
    assert np.all(np.isnan(factorize(matrix(110), "block_sparse").solve(jnp.ones(660))))


@pytest.mark.parametrize("strategy", ["dense", "range_space"])
def test_bodies_by_themselves_are_solved_one_by_one(rng, strategy):
    none = jnp.zeros((0, 2, 6))
    blocks = 5.0 * np.eye(6) + rng.normal(size=(4, 6, 6))
    m = SaddleMatrix(jnp.array(blocks), (), none, none, None, ())
    factors, b = factorize(m, strategy), rng.normal(size=(7, 24))
    assert isinstance(factors, BlockFactors)
    one_by_one = np.linalg.solve(blocks, b.reshape(7, 4, 6, 1))[..., 0].reshape(7, 24)
    np.testing.assert_allclose(jax.vmap(factors.solve)(jnp.array(b)), one_by_one, rtol=1e-11)
    transposed = np.linalg.solve(np.swapaxes(blocks, 1, 2), b.reshape(7, 4, 6, 1))
    np.testing.assert_allclose(
        factors.solve_transpose(jnp.array(b[0])), transposed[0].ravel(), rtol=1e-11
    )


@pytest.mark.parametrize("name", ["four_bar", "bricard"])
def test_the_reduction_of_kinematics_has_a_transpose(name, rng):
    """Reverse mode goes through it: LAPACK's operations in the factors have no transpose."""
    system, state = mbd.load(name)
    system = dataclasses.replace(system, linear_solver="block_sparse")
    rows = SparseRows.of(mbd.RA(), system.at(jnp.zeros(())), state.pose, None, None)
    x, y = (jnp.asarray(rng.normal(size=n)) for n in (system.nc, 6 * system.nb))
    forward, pull = jax.vjp(rows.reduce, x)
    # E is √ε: so many digits have the factors of rows that repeat each other.
    np.testing.assert_allclose(forward @ y, x @ pull(y)[0], rtol=1e-7)
