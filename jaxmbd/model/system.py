"""System: a mechanism as stacked arrays, ready for computation. Topology is static, physics is dynamic."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..rotations.types import Scalar
from .forces import ForceStack
from .primitives import PrimitiveStack
from .state import Pose, Twist


class Connection(eqx.Module):
    """A joint, driver or free set of primitives as the reports know it.

    Attributes:
        s_i_bar: Its point on body i [m].
        s_j_bar: Its point on body j [m]; reactions are given there. For a distance, the other end of the link.
        axis_i_bar: Its axis in body i [-] (zero where it has none).
        axis_j_bar: Its axis in body j [-].
        name: As given by the user.
        kind: "Revolute", "RotationDriver", ...
        i: Index of body i (nb for the ground).
        j: Index of body j.
        rows: Its rows in the order of `Solution.lam`.
        labels: What each row does.
    """

    s_i_bar: Float[Array, "3"]
    s_j_bar: Float[Array, "3"]
    axis_i_bar: Float[Array, "3"]
    axis_j_bar: Float[Array, "3"]
    name: str = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    i: int = eqx.field(static=True)
    j: int = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    is_driver: bool = eqx.field(static=True)


class System(eqx.Module):
    """A mechanism, stacked by type. Made by `Mechanism.build`; a pytree whose numbers may all be differentiated.

    Attributes:
        mass: (nb,) [kg].
        inertia: About the mass centres in body components, (nb, 3, 3) [kg·m²].
        gravity: (3,) [m/s²], global.
        length: A characteristic length [m], the scale of position tolerances.
        constraints: One block per primitive type.
        forces: One block per structure of force element.
        connections: Joints and drivers, for reports and pictures.
        shapes: What bodies look like, or None, one per body.
        bodies: Names of the moving bodies.
        order: Position of each row of `Solution.lam` (the order of description) in the stacked order.
        has_loops: Whether redundant constraints are possible, judged by topology.
        linear_solver: "dense" or "block_sparse", how linear systems are solved; chosen by size when built.
        massless: Names of bodies without mass; with any, only kinematics is possible.
        described: Whether v and omega of each body were described, or left to assembly.
    """

    mass: Float[Array, " nb"]
    inertia: Float[Array, "nb 3 3"]
    gravity: Float[Array, "3"]
    length: Scalar
    constraints: tuple[PrimitiveStack, ...]
    forces: tuple[ForceStack, ...]
    connections: tuple[Connection, ...]
    shapes: tuple
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)
    has_loops: bool = eqx.field(static=True)
    massless: tuple[str, ...] = eqx.field(static=True, default=())
    linear_solver: str = eqx.field(static=True, default="dense")
    described: tuple[tuple[bool, bool], ...] = eqx.field(static=True, default=())

    def unnamed(self) -> "System":
        """The same arrays and topology without names, shapes and other labels, which no computation needs."""
        if not self.name and not any(self.bodies):
            return self
        return dataclasses.replace(
            self,
            connections=tuple(dataclasses.replace(c, name="") for c in self.connections),
            forces=tuple(dataclasses.replace(stack, names=("",) * len(stack.names)) for stack in self.forces),
            shapes=(None,) * self.nb,
            name="",
            bodies=("",) * self.nb,
            massless=("",) * len(self.massless),
            described=(),
        )

    @property
    def nb(self) -> int:
        """Number of moving bodies."""
        return len(self.bodies)

    @property
    def nc(self) -> int:
        """Number of constraint rows (drivers included)."""
        return len(self.order)

    @property
    def dtype(self):
        return self.mass.dtype

    @property
    def rows_i(self) -> np.ndarray:
        """Body i of every row in the stacked order, (nc,); the ground is nb."""
        return np.array([i for stack in self.constraints for i in stack.i], int)

    @property
    def rows_j(self) -> np.ndarray:
        """Body j of every row in the stacked order, (nc,)."""
        return np.array([j for stack in self.constraints for j in stack.j], int)

    @property
    def row_names(self) -> tuple[str, ...]:
        """Name of every row of `Solution.lam`, as "joint: what the row does"."""
        names = [""] * self.nc
        for c in self.connections:
            for row, label in zip(c.rows, c.labels, strict=True):
                names[row] = f"{c.name}: {label}"
        return tuple(names)

    def to_natural(self, values: Float[Array, "*t nc"]) -> Float[Array, "*t nc"]:
        """Reorder rows from the stacked order to the order of description."""
        return values[..., np.array(self.order, int)]

    def to_stacked(self, values: Float[Array, "*t nc"]) -> Float[Array, "*t nc"]:
        """Reorder rows from the order of description to the stacked order."""
        return values[..., np.argsort(np.array(self.order, int))]

    def at(self, t: Scalar) -> "System":
        """The system at one instant: motions of the constraints replaced by their values."""
        stacks = tuple(stack.at(t) for stack in self.constraints)
        return eqx.tree_at(lambda s: s.constraints, self, stacks)

    def jet(self, t: Scalar) -> tuple["System", Float[Array, " nc"], Float[Array, " nc"]]:
        """The system at one instant with rates of turning vectors; first and second derivatives of f, stacked order."""
        jets = [stack.jet(t) for stack in self.constraints]
        system = eqx.tree_at(lambda s: s.constraints, self, tuple(j[0] for j in jets))
        empty = jnp.zeros(0, self.dtype)
        return system, jnp.concatenate([empty] + [j[1] for j in jets]), jnp.concatenate([empty] + [j[2] for j in jets])

    def wrenches(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Float[Array, "nb 3"], Float[Array, "nb 3"]]:
        """Applied forces [N], global, and torques [N·m] about the mass centres, body frame; gravity included.

        `pose` and `twist` have nb + 1 rows, the last one being the ground.
        """
        force = self.mass[:, None] * self.gravity[None, :]
        if not self.forces:
            return force, jnp.zeros_like(force)
        ground = jnp.zeros((1, 3), force.dtype)
        force, torque = jnp.concatenate([force, ground]), jnp.zeros((self.nb + 1, 3), force.dtype)
        for stack in self.forces:
            index = stack.index
            local = Pose(pose.r[index], pose.A[index]), Twist(twist.v[index], twist.omega[index])
            f, n = stack.each(lambda element, p, w: element.wrench(p, w, t), *local)
            force, torque = force.at[index].add(f), torque.at[index].add(n)
        return force[: self.nb], torque[: self.nb]

    def on_branch(self, pose: Pose) -> Bool[Array, ""]:
        """Whether every row stands at the root that is meant; `self` is at the instant, `pose` has nb + 1 rows."""
        good = jnp.ones((), bool)
        for stack in self.constraints:
            pose_i, pose_j = (jax.tree.map(lambda x, k=k: x[np.array(k, int)], pose) for k in (stack.i, stack.j))
            value = jax.vmap(lambda p, x, y: p.branch(x, y))(stack.primitive, pose_i, pose_j)
            good = good if value is None else good & jnp.all(value >= 0.0)
        return good

    def unbroken(self, before: Pose, after: Pose) -> Bool[Array, ""]:
        """Whether every force element stayed in its range between two poses with nb + 1 rows."""
        good = jnp.ones((), bool)
        for stack in self.forces:
            local = (Pose(p.r[stack.index], p.A[stack.index]) for p in (before, after))
            broken = stack.each(lambda element, x, y: element.broken(x, y), *local)
            good = good if broken is None else good & ~jnp.any(broken)
        return good

    def potential(self, pose: Pose) -> Scalar:
        """Potential energy of gravity and springs [J]; `pose` has nb + 1 rows, the last one being the ground."""
        energy = -jnp.sum(self.mass * (pose.r[: self.nb] @ self.gravity))
        for stack in self.forces:
            local = Pose(pose.r[stack.index], pose.A[stack.index])
            energy = energy + jnp.sum(stack.each(lambda element, p: element.potential(p), local))
        return energy
