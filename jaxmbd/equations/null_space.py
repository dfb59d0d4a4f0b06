"""Discrete null space matrices of joints and trees, and poses from joint coordinates.

A twist here is (r increment or rate, rotation), both global, (6,). Between two instants the
directors of a body change by Δd_I = w × d_I at the midpoint, so twists of a step obey the
midpoint's rows, P_int(q_mid) t = Δq; at one instant the same formulas give velocities. Along a tree
t_child = A t_parent + B τ with the freedoms τ of its joint, and G P = 0 for the matrix P of all
bodies' coordinates by all freedoms.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..formulations import Directors
from ..model.primitives import PrimitiveStack
from ..model.system import System
from ..rotations import so3
from .rows import joined, joint_rows
from .spanning_tree import Tree

Coordinates = Float[Array, "nb 12"]
# Of a body and of those beside it, the indices, from tables that a scan goes through.
TableRow = tuple[Array | np.ndarray, ...]

# Of the longest closure's row by the freedoms: shorter ones are zero but for rounding.
_ROUNDING = 1e-10


class TreeMaps(NamedTuple):
    """How twists pass through the joints of a tree.

    Attributes:
        A: From the parent's twist to the body's, (nb, 6, 6).
        B: From the body's six slots of freedoms, unused ones being zero, (nb, 6, 6).
    """

    A: Float[Array, "nb 6 6"]
    B: Float[Array, "nb 6 6"]


class JointData(NamedTuple):
    """Where the joint to the parent sits, body by body, (nb, 3) each; see `joint_data`."""

    s_parent: Float[Array, "nb 3"]
    s_child: Float[Array, "nb 3"]
    axis_i: Float[Array, "nb 3"]
    axis_j: Float[Array, "nb 3"]


def joint_data(system: System, tree: Tree) -> JointData:
    """Points in parent and child, and the axis in bodies i and j, of every body's joint; zeros for
    free bodies.
    """
    zero = jnp.zeros(3, system.dtype)
    rows = []
    for b, k in enumerate(tree.connection):
        if k < 0:
            rows.append((zero, zero, zero, zero))
            continue
        c = system.connections[k]
        points = (c.s_i_bar, c.s_j_bar) if tree.is_j[b] else (c.s_j_bar, c.s_i_bar)
        rows.append((*points, c.axis_i_bar, c.axis_j_bar))
    return JointData(*(jnp.stack(x) for x in zip(*rows, strict=True)))


# --- one body: rigidity
# ------------------------------------------------------------------------------


def rigid_product(q: Coordinates, t: Float[Array, "nb 6"]) -> Coordinates:
    """P_int t, Eq. 29: Δr = t_r and Δd_I = t_w × d_I."""
    turned = jnp.cross(t[:, None, 3:], q[:, 3:].reshape(-1, 3, 3))
    return jnp.concatenate([t[:, :3], turned.reshape(-1, 9)], axis=1)


def rigid_transpose(q: Coordinates, f: Coordinates) -> Float[Array, "nb 6"]:
    """P_intᵀ f: force, and moment Σ d_I × f_I."""
    moment = jnp.cross(q[:, 3:].reshape(-1, 3, 3), f[:, 3:].reshape(-1, 3, 3)).sum(axis=1)
    return jnp.concatenate([f[:, :3], moment], axis=1)


def rigid_rows(q: Float[Array, "m k 12"], rows: Float[Array, "m k 12"]) -> Float[Array, "m k 6"]:
    """Rows times P_int of their bodies, whose coordinates are q."""
    flat = rigid_transpose(q.reshape(-1, 12), rows.reshape(-1, 12))
    return flat.reshape(*rows.shape[:2], 6)


# --- joints
# ------------------------------------------------------------------------------------------


def hand_written(system: System, tree: Tree, q: Coordinates) -> TreeMaps:
    """The matrices of the paper for S, C, R, P and E pairs, and for a weld, at the midpoint q (or
    at an instant).

    The axis that turns is the one fixed in body j, whose rows hold it against two directions of
    body i; translations are along cross products of midpoint directions of body i, which makes G P
    = 0 exact where the midpoint evaluation of the continuous matrix is not (Eqs. 90, 113, 125, 133,
    149).
    """
    data = joint_data(system, tree)
    padded = Directors().with_ground(q)
    parent = padded[tree.parent]
    r_p, D_p, r_c, D_c = _parts(parent) + _parts(q)
    eye = jnp.broadcast_to(np.eye(3, dtype=q.dtype), (system.nb, 3, 3))
    zero = jnp.zeros_like(eye)
    skew = jax.vmap(so3.skew)
    rho_p, rho_c = _turn(D_p, data.s_parent), _turn(D_c, data.s_child)

    def pick(mask: np.ndarray, x: Array, y: Array | np.ndarray) -> Array:
        return jnp.where(mask.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    # Free bodies and balls: rotation against the ground, the center by the common point.
    ball_A = _blocks(eye, -skew(rho_p), zero, zero)
    ball_B = _blocks(eye, skew(rho_c), zero, eye)
    # The others: the parent's motion carried over, turns about the axis and translations of body i.
    carried = _blocks(eye, -skew(r_c - r_p), zero, eye)
    D_i, D_j = pick(tree.is_j, D_p, D_c), pick(tree.is_j, D_c, D_p)
    basis = jax.vmap(_basis)(data.axis_i)
    e1, e2, n = (_turn(D_i, basis[:, k]) for k in range(3))
    slides = jnp.stack([jnp.cross(e2, n), jnp.cross(n, e1), jnp.cross(e1, e2)], axis=2)
    axis = _turn(D_j, data.axis_j)
    # From the joint's point on body j to the center that moves: body j turns about it, or body i
    # does.
    arm = pick(tree.is_j, rho_c, r_p + rho_p - r_c)
    about = jnp.stack([jnp.zeros_like(axis)] * 2 + [jnp.cross(arm, axis)], axis=2)
    turns = jnp.stack([jnp.zeros_like(axis)] * 2 + [axis], axis=2)
    sign = np.where(tree.is_j, 1.0, -1.0).reshape(-1, 1, 1)
    pair_B = sign * _blocks(slides, about, zero, turns)
    B = pick(tree.absolute, ball_B, pair_B) * tree.mask()[:, None, :]
    return TreeMaps(pick(tree.absolute, ball_A, carried), B)


def automatic(
    system: System, tree: Tree, q: Coordinates, reference: Coordinates | None = None
) -> TreeMaps:
    """The matrices of any joint from its rows alone: t_child = -pinv(Gc) Gp t_parent + null(Gc) τ.

    [Gp | Gc] are the joint's midpoint rows times P_int. Spans the same space as `hand_written`, in
    another basis: the projection on null(Gc) of a basis at `reference`, so that it depends smoothly
    on q.
    """
    G, count = _joint_rows(system, tree, q)
    G_ref, _ = (G, count) if reference is None else _joint_rows(system, tree, reference)
    unused = jax.vmap(jnp.diag)(jnp.asarray(np.arange(6)[None, :] >= count[:, None], q.dtype))
    Gp, Gc = G[:, :, 0], G[:, :, 1]
    pinv = jnp.swapaxes(jnp.linalg.solve(jnp.einsum("bij,bkj->bik", Gc, Gc) + unused, Gc), 1, 2)
    # The last right singular vectors span the null space; they go to the slots of the joint's
    # freedoms.
    _, _, Vt = jnp.linalg.svd(jax.lax.stop_gradient(G_ref[:, :, 1]), full_matrices=True)
    where = np.zeros((system.nb, 6, 6))
    for b in range(system.nb):
        for k, slot in enumerate(tree.slot[tree.body == b]):
            where[b, count[b] + k, slot] = 1.0
    basis = jnp.einsum("bki,bks->bis", Vt, where)
    return TreeMaps(-pinv @ Gp, basis - pinv @ (Gc @ basis))


def _joint_rows(
    system: System, tree: Tree, q: Coordinates
) -> tuple[Float[Array, "nb 6 2 6"], np.ndarray]:
    """Rows of every body's joint on the twists of parent and body, filled up with zeros; and their
    number.
    """
    padded = Directors().with_ground(q)
    rows = joined(joint_rows(Directors(), system.holonomic, padded), system, 12)
    local = rigid_rows(padded[system.row_bodies], rows)[:, :2]  # joints of a tree bind two bodies
    stacked, closures = np.array(system.order, int), set(tree.closures.tolist())
    parts, count = [], np.zeros(system.nb, int)
    for b, k in enumerate(tree.connection):
        mine = (
            []
            if k < 0
            else [
                r for r in stacked[list(system.connections[k].rows)].tolist() if r not in closures
            ]
        )
        count[b] = len(mine)
        own = local[np.array(mine, int)]
        own = own if tree.is_j[b] else own[:, ::-1]
        parts.append(jnp.concatenate([own, jnp.zeros((6 - len(mine), 2, 6), q.dtype)]))
    return jnp.stack(parts), count


def _parts(q: Float[Array, "nb 12"]) -> tuple[Array, Array]:
    """Mass centers and the matrices with directors as columns."""
    return q[:, :3], jnp.swapaxes(q[:, 3:].reshape(-1, 3, 3), 1, 2)


def _turn(D: Float[Array, "nb 3 3"], s: Float[Array, "nb 3"]) -> Float[Array, "nb 3"]:
    return jnp.sum(D * s[:, None, :], axis=-1)


def _blocks(
    a: Float[Array, "nb 3 3"],
    b: Float[Array, "nb 3 3"],
    c: Float[Array, "nb 3 3"],
    d: Float[Array, "nb 3 3"],
) -> Float[Array, "nb 6 6"]:
    return jnp.concatenate(
        [jnp.concatenate([a, b], axis=2), jnp.concatenate([c, d], axis=2)], axis=1
    )


def _basis(axis: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """A right-handed basis with the axis last; any where there is none."""
    missing = axis @ axis == 0.0
    return so3.basis_from_axis(jnp.where(missing, jnp.array([0.0, 0.0, 1.0], axis.dtype), axis))


# --- the tree
# ----------------------------------------------------------------------------------------


def twists(tree: Tree, maps: TreeMaps, tau: Float[Array, " n"]) -> Float[Array, "nb 6"]:
    """P_ext τ: twists of all bodies from the freedoms of all joints, by one pass outwards (Eq.
    179).
    """
    own = jnp.einsum("bij,bj->bi", maps.B, slots(tree, tau))

    def visit(t: Float[Array, "b 6"], body: TableRow) -> tuple[Float[Array, "b 6"], None]:
        b, parent = body
        return t.at[b].set(maps.A[b] @ t[parent] + own[b]), None

    start = jnp.zeros((own.shape[0] + 1, 6), own.dtype)
    return jax.lax.scan(visit, start, (tree.order, tree.parent[tree.order]))[0][:-1]


def gather(tree: Tree, maps: TreeMaps, f: Float[Array, "nb 6"]) -> Float[Array, " n"]:
    """P_extᵀ f: what wrenches on all bodies do at the freedoms, by one pass inwards."""

    def visit(total: Float[Array, "b 6"], body: TableRow) -> tuple[Float[Array, "b 6"], None]:
        b, parent = body
        return total.at[parent].add(maps.A[b].T @ total[b]), None

    start = jnp.concatenate([f, jnp.zeros((1, 6), f.dtype)])
    total, _ = jax.lax.scan(visit, start, (tree.order[::-1], tree.parent[tree.order[::-1]]))
    return jnp.einsum("bij,bi->bj", maps.B, total[:-1])[tree.body, tree.slot]


def slots(tree: Tree, tau: Float[Array, " n"]) -> Float[Array, "nb 6"]:
    """Freedoms in the six slots of their bodies, zeros elsewhere."""
    return jnp.zeros((len(tree.parent), 6), tau.dtype).at[tree.body, tree.slot].set(tau)


def null_space_matrix(tree: Tree, maps: TreeMaps, q: Coordinates) -> Float[Array, "n12 n"]:
    """P = P_int P_ext as one array, (12 nb, n) (Eq. 185)."""
    columns = jax.vmap(lambda tau: rigid_product(q, twists(tree, maps, tau)).reshape(-1))(
        np.eye(tree.freedoms, dtype=q.dtype)
    )
    return columns.T


def closure_stacks(system: System, tree: Tree) -> list[PrimitiveStack]:
    """The closures' primitives, in the order of `tree.closures`; `system` is at the instant."""
    stacks, start = [], 0
    for stack in system.constraints:
        rows = (
            tree.closures[(tree.closures >= start) & (tree.closures < start + len(stack))] - start
        )
        if len(rows):
            stacks.append(stack.pick(rows.tolist()))
        start += len(stack)
    return stacks


def closure_rows(system: System, tree: Tree, maps: TreeMaps, q: Coordinates) -> Float[Array, "k n"]:
    """Rows of the closures by the freedoms of the tree, G P."""
    bodies = system.row_bodies[tree.closures]
    padded = Directors().with_ground(q)
    rows = joined(joint_rows(Directors(), closure_stacks(system, tree), padded), system, 12)
    local = rigid_rows(padded[bodies], rows)
    each = np.arange(len(bodies))[:, None]
    wrench = jnp.zeros((len(bodies), system.nb + 1, 6), q.dtype).at[each, bodies].add(local)
    return jax.vmap(lambda f: gather(tree, maps, f))(wrench[:, : system.nb])


def closure_values(system: System, tree: Tree, q: Coordinates) -> Float[Array, " k"]:
    """Values of the closures."""
    poses = jax.vmap(Directors().pose)(Directors().with_ground(q))
    stacks = closure_stacks(system, tree)
    values = [
        stack.each(lambda p, *x: p.geometry(*x) - p.prescribed, *stack.local(poses))
        for stack in stacks
    ]
    return jnp.concatenate([jnp.zeros(0, q.dtype), *values])


def moved(system: System, tree: Tree, q: Coordinates, u: Float[Array, " n"]) -> Coordinates:
    """The coordinates after the joints moved by u from those at q, F of the paper (Eqs. 95, 118,
    126, 136, 154, 189).

    Rotations are Cayley's, about axes at q: u is then the twist about the midpoint, and a joint
    turns by less than half a turn whatever u is, as a step of the midpoint rule does. The tree's
    joints stay closed to rounding.
    """
    data = joint_data(system, tree)
    padded = Directors().with_ground(q)
    r_p, D_p, r_c, D_c = _parts(padded[tree.parent]) + _parts(q)
    own = slots(tree, u)
    shift, turn = own[:, :3], own[:, 3:]
    column = (slice(None), None)
    is_j, absolute, loose = tree.is_j[column], tree.absolute[column], (tree.connection < 0)[column]
    D_j = jnp.where(is_j[..., None], D_c, D_p)
    sign = np.where(tree.is_j, 1.0, -1.0)
    about = (sign * turn[:, 2])[:, None] * _turn(D_j, data.axis_j)
    R = jax.vmap(so3.cayley)(jnp.where(absolute, turn, about))
    # Orientation of a body in the one that carries it: its parent, or the ground.
    carried = jnp.where(absolute[..., None], R @ D_c, jnp.swapaxes(D_p, 1, 2) @ R @ D_c)
    carrier = np.where(tree.absolute, len(tree.parent), tree.parent)
    # The joint's point on body j, in body i, moved along the axis or in the plane.
    basis = jax.vmap(_basis)(data.axis_i)
    s_i = jnp.where(is_j, data.s_parent, data.s_child)
    s_j = jnp.where(is_j, data.s_child, data.s_parent)
    r_i, D_i = jnp.where(is_j, r_p, r_c), jnp.where(is_j[..., None], D_p, D_c)
    r_j = jnp.where(is_j, r_c, r_p)
    now = _turn(jnp.swapaxes(D_i, 1, 2), r_j + _turn(D_j, s_j) - r_i)
    slides = np.any(tree.mask()[:, :3], axis=1)[column]
    contact = jnp.where(slides, now, s_i) + jnp.einsum("bk,bkc->bc", shift, basis)
    x_parent = jnp.where(is_j, contact, data.s_parent)
    x_child = jnp.where(is_j, data.s_child, contact)
    x_parent = jnp.where(loose, r_c + shift, jnp.where(absolute, data.s_parent, x_parent))
    x_child = jnp.where(loose, 0.0, jnp.where(absolute, data.s_child, x_child))

    def visit(poses: tuple[Array, Array], body: TableRow) -> tuple[tuple[Array, Array], None]:
        r, D = poses
        b, parent, carrier = body
        new = D[carrier] @ carried[b]
        new = new @ (
            1.5 * np.eye(3, dtype=new.dtype) - 0.5 * new.T @ new
        )  # rounding would add up over steps
        center = r[parent] + D[parent] @ x_parent[b] - new @ x_child[b]
        return (r.at[b].set(center), D.at[b].set(new)), None

    start = _parts(padded)
    steps = (tree.order, tree.parent[tree.order], carrier[tree.order])
    (r, D), _ = jax.lax.scan(visit, start, steps)
    return jnp.concatenate([r, jnp.swapaxes(D, 1, 2).reshape(-1, 9)], axis=1)[:-1]


def independent_rows(
    W: Float[Array, "k n"], rank: Int[Array, ""] | None = None
) -> tuple[Float[Array, " k"], Int[Array, ""]]:
    """Ones at a set of independent rows that spans as well as any, zeros elsewhere; and the number
    of ones.

    Gram-Schmidt with the longest remaining row first. `rank` is the largest number; None counts
    what is not a combination of the others to 1e-6. A row of rounding alone is none.
    """
    lengths = jnp.linalg.norm(W, axis=1, keepdims=True)
    real = lengths > _ROUNDING * jnp.max(lengths, initial=0.0)
    W = jnp.where(real, W / jnp.where(real, lengths, 1.0), 0.0)

    def pick(
        k: Int[Array, ""], state: tuple[Float[Array, "k n"], Float[Array, " k"]]
    ) -> tuple[Float[Array, "k n"], Float[Array, " k"]]:
        rest, chosen = state
        left = jnp.sum(rest**2, axis=1)
        best = jnp.argmax(left)
        # On a singular pose itself a row may say nothing that rounding would not hide.
        least = 1e-12 if rank is None else _ROUNDING**2
        taken = (left[best] > least) & (True if rank is None else k < rank)
        row = rest[best] / jnp.sqrt(jnp.where(left[best] > 0.0, left[best], 1.0))
        rest = rest - jnp.outer(rest @ row, row)
        return rest.at[best].set(0.0), chosen.at[best].max(taken.astype(W.dtype))

    _, chosen = jax.lax.fori_loop(0, W.shape[0], pick, (W, jnp.zeros(W.shape[0], W.dtype)))
    return chosen, jnp.sum(chosen).astype(int)
