"""Solutions by factors of a matrix nearby: equal to NumPy's, also where the matrix is not near or
the equations contradict each other.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import linalg
from jaxmbd.equations import index3
from jaxmbd.linalg import Coupling, NearbyFactors, SaddleMatrix, near_or_exact
from jaxmbd.linalg.small_matrices import pivoted_inverse

NB, M = 4, 12


def pair(distance, *, repeated=False, seed=0):
    """A matrix that couples bodies by more than rows, and one nearby that does not."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(NB, 6, 6))
    H = jnp.asarray(H @ H.transpose(0, 2, 1) + 3.0 * np.eye(6))
    rows = rng.normal(size=(M, 2, 6))
    bodies = [(b, b + 1 if b + 1 < NB else NB) for b in (0, 1, 2, 3) for _ in range(3)]
    rows[9:, 1] = 0.0
    E = None
    if repeated:
        rows[1] = rows[0]
        E = jnp.full(M, 1e-9)
    rows = jnp.asarray(rows)
    nearby = SaddleMatrix(H, (), rows, rows, E, tuple(bodies))
    blocks = jnp.asarray(distance * rng.normal(size=(2, 2, 6, 2, 6)))
    turned = rows * (1.0 + distance * jnp.asarray(rng.normal(size=rows.shape)))
    if repeated:
        turned = turned.at[1].set(turned[0])
    exact = SaddleMatrix(H, (Coupling(blocks, ((0, 1), (2, 3))),), rows, turned, E, tuple(bodies))
    return exact, nearby, jnp.asarray(rng.normal(size=NB * 6 + M))


def solved(exact, nearby, b, transpose):
    """The solution, and whether it took factors of the matrix itself."""
    factors = near_or_exact(exact, nearby, "range_space")
    assert isinstance(factors, NearbyFactors)
    x = factors.solve_unregularized(b, transpose=transpose)
    # A matrix that is nothing but NaN shows where it is used.
    real = linalg.saddle.SaddleMatrix.dense
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linalg.nearby, "factorize", lambda *_, **__: Nan())
        patch.setattr(linalg.saddle.SaddleMatrix, "dense", lambda m: jnp.nan * real(m))
        spoiled = factors.solve_unregularized(b, transpose=transpose)
    return x, bool(jnp.isnan(spoiled).any())


class Nan:
    def solve_unregularized(self, b, *, transpose):
        return jnp.full_like(b, jnp.nan)


@pytest.fixture(params=["small", "large"])
def own_inverse(request, monkeypatch):
    """Small matrices that are not near are inverted by a loop, others have factors."""
    if request.param == "large":
        monkeypatch.setattr(linalg.nearby, "_SMALL", 0)


@pytest.mark.usefixtures("own_inverse")
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("distance", "near"), [(1e-5, True), (1e-2, True), (0.5, False)])
def test_solutions_are_those_of_numpy(distance, near, transpose):
    exact, nearby, b = pair(distance)
    x, made = solved(exact, nearby, b, transpose)
    K = np.asarray(exact.dense())
    wanted = np.linalg.solve(K.T if transpose else K, b)
    np.testing.assert_allclose(x, wanted, rtol=1e-11, atol=1e-12)
    assert made != near


@pytest.mark.usefixtures("own_inverse")
@pytest.mark.parametrize("transpose", [False, True])
def test_where_rows_repeat_the_rest_is_right(transpose):
    exact, nearby, b = pair(1e-4, repeated=True)
    K = np.array(eqx.tree_at(lambda m: m.regularization, exact, None).dense())
    K = K.T if transpose else K
    consistent = K @ np.asarray(b)
    x, made = solved(exact, nearby, jnp.asarray(consistent), transpose)
    assert not made
    np.testing.assert_allclose(K @ np.asarray(x), consistent, atol=1e-12)
    # What the rows leave undetermined stays out of the accelerations.
    n = NB * 6
    wanted = np.linalg.lstsq(K, consistent, rcond=1e-12)[0]
    np.testing.assert_allclose(x[:n], wanted[:n], atol=1e-7)
    # Equations that contradict each other: the way round, and as good as that is.
    x, made = solved(exact, nearby, b, transpose)
    assert made
    assert np.isfinite(np.asarray(x)).all()


def test_other_matrices_have_factors_of_their_own():
    exact, nearby, _ = pair(1e-4)
    assert not isinstance(near_or_exact(exact, exact, "range_space"), NearbyFactors)
    assert not isinstance(near_or_exact(exact, nearby, "block_sparse"), NearbyFactors)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), nearby)
    assert not isinstance(near_or_exact(single, single, "range_space"), NearbyFactors)


def test_gradients_of_large_steps_are_those_of_the_factors_of_the_matrix_itself(monkeypatch):
    """At 50 ms the matrix nearby is far from the exact one."""
    system, state = mbd.load("four_bar")

    def end(mass):
        heavier = eqx.tree_at(lambda s: s.mass, system, mass)
        sol = mbd.simulate(heavier, state, h=0.05, steps=6, save_every=6)
        return sol.r[-1, -1, 2] + sol.omega[-1, -1] @ sol.omega[-1, -1]

    found = jax.grad(end)(system.mass)
    monkeypatch.setattr(
        index3,
        "near_or_exact",
        lambda exact, _, strategy: linalg.factorize(exact, strategy),
    )
    wanted = jax.grad(lambda mass: end(mass))(system.mass)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_inverses_with_row_exchanges_are_those_of_numpy():
    A = np.random.default_rng(3).normal(size=(9, 9))
    A[0, 0] = A[4, :5] = 0.0
    np.testing.assert_allclose(pivoted_inverse(jnp.asarray(A)), np.linalg.inv(A), rtol=1e-12)
    assert not np.isfinite(pivoted_inverse(jnp.zeros((3, 3)))).any()
