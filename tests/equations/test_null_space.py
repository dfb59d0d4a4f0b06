"""Discrete null space matrices: G P = 0 at instants and midpoints, for all pairs either way round
and along a tree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import rotation, vec
from jaxmbd.equations import null_space
from jaxmbd.equations import rows as equations
from jaxmbd.equations.rows import dense_rows
from jaxmbd.equations.spanning_tree import spanning_tree

pytestmark = pytest.mark.xdist_group("null_space")  # fixtures and programs are shared

AXIS = (1.0, 2.0, -0.5)
PAIRS = {  # freedoms of each, and rows that are left to the closures
    "Spherical": (mbd.Spherical, {}, 3, 0),
    "Revolute": (mbd.Revolute, {"axis": AXIS}, 1, 0),
    "Translational": (mbd.Translational, {"axis": AXIS}, 1, 0),
    "Cylindrical": (mbd.Cylindrical, {"axis": AXIS}, 2, 0),
    "Planar": (mbd.Planar, {"axis": AXIS}, 3, 0),
    "Fixed": (mbd.Fixed, {}, 0, 0),
    "Universal": (mbd.Universal, {"axis_i": (1, 0, 0), "axis_j": (0, 1, 0)}, 3, 1),
}


@pytest.fixture(scope="module")
def tree_of_all_pairs():
    """A floating body with two branches of all pairs, one of them with the bodies of every joint
    exchanged."""
    rng = np.random.default_rng(5)
    m = mbd.Mechanism("all pairs")
    m.add_body("root", mass=1.0, inertia=(1, 1, 1), r=vec(rng), A=rotation(rng))
    for side in ("outwards", "inwards"):
        last = "root"
        for name, (kind, data, _, _) in PAIRS.items():
            new = f"{side} {name}"
            m.add_body(new, mass=1.0, inertia=(1, 1, 1), r=vec(rng), A=rotation(rng))
            bodies = (last, new) if side == "outwards" else (new, last)
            m.add(kind(new, *bodies, point=vec(rng), **data))
            last = new
    system, state = m.build()
    tree = spanning_tree(system)
    q, _ = mbd.Directors().from_state(state)
    moved = jax.jit(lambda q, u: null_space.moved(system, tree, q, u))
    before = moved(q, vec(rng, tree.freedoms))
    after = moved(before, 2.0 * vec(rng, tree.freedoms))  # finite steps, up to half a turn
    return system, tree, moved, before, after


def test_the_tree_has_the_freedoms_of_its_joints(tree_of_all_pairs):
    _, tree, *_ = tree_of_all_pairs
    assert tree.freedoms == 6 + 2 * sum(freedoms for *_, freedoms, _ in PAIRS.values())
    assert len(tree.closures) == 2 * sum(left for *_, left in PAIRS.values())


def test_joints_stay_closed_for_any_increments(tree_of_all_pairs):
    system, tree, _, before, after = tree_of_all_pairs
    for q in (before, after):
        phi = np.asarray(equations.phi(mbd.Directors(), system, q))
        assert np.max(np.abs(np.delete(phi, tree.closures))) < 1e-13


@pytest.mark.parametrize("maps", [null_space.hand_written, null_space.automatic])
def test_rows_times_null_space_matrix_vanish(tree_of_all_pairs, maps):
    system, tree, _, before, after = tree_of_all_pairs

    @jax.jit
    def both(q):
        P = null_space.null_space_matrix(tree, maps(system, tree, q), q)
        return dense_rows(mbd.Directors(), system, q), P

    for q in (before, 0.5 * (before + after)):  # continuous, discrete
        G, P = (np.asarray(x) for x in both(q))
        G = np.delete(G, tree.closures, axis=0)
        # Rows and columns grow along seven links: rounding is measured against the products' terms.
        assert np.max(np.abs(G @ P) / np.maximum(np.abs(G) @ np.abs(P), 1.0)) < 1e-14
        assert np.linalg.matrix_rank(P) == tree.freedoms


def test_the_null_space_matrix_is_the_derivative_of_the_joints_motion(tree_of_all_pairs):
    system, tree, moved, before, _ = tree_of_all_pairs
    slope = jax.jit(jax.jacfwd(lambda u: moved(before, u)))(jnp.zeros(tree.freedoms))
    P = null_space.null_space_matrix(tree, null_space.hand_written(system, tree, before), before)
    np.testing.assert_allclose(slope.reshape(P.shape), P, atol=1e-12)


def test_hand_written_and_automatic_matrices_span_the_same_space(tree_of_all_pairs):
    system, tree, _, before, after = tree_of_all_pairs
    q = 0.5 * (before + after)
    spaces = [
        null_space.null_space_matrix(tree, maps(system, tree, q), q)
        for maps in (null_space.hand_written, null_space.automatic)
    ]
    together = np.concatenate(spaces, axis=1)
    assert np.linalg.matrix_rank(together, tol=1e-9 * np.linalg.norm(together)) == tree.freedoms


def test_independent_rows_leave_out_what_others_imply():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4, 6))
    W = np.insert(W, 2, 0.3 * W[0] - 2.0 * W[1], axis=0)
    chosen, rank = null_space.independent_rows(jnp.array(W))
    assert int(rank) == 4 and np.linalg.matrix_rank(W[np.asarray(chosen) > 0.5]) == 4
    fixed, _ = null_space.independent_rows(jnp.array(W), jnp.asarray(4))
    np.testing.assert_array_equal(fixed, chosen)
