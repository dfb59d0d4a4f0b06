"""Coordinates of joints over a motion, with their rates and accelerations."""

from typing import TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from ..model.compiled import Compiled
from ..model.coordinates import Angle, JointMotion, along_motion
from ..model.names import unknown
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..rotations.types import Array, Vec3
from .by_rows import by_rows, part_of, with_ground

# Values, rates and accelerations at T instants.
Coordinate: TypeAlias = tuple[Float[Array, " T"], Float[Array, " T"], Float[Array, " T"]]


def joint_motion(
    system: System,
    name: str,
    states: State,
    a: Float[Array, "T nb 3"],
    alpha: Float[Array, "T nb 3"],
) -> JointMotion:
    """See `Solution.joint`; `a` and `alpha` are the accelerations of all bodies."""
    found = [c for c in system.connections if c.name == name]
    if not found:
        names = [c.name for c in system.connections]
        raise ValueError(unknown("joint", "joints", name, names))
    c = found[0]
    if c.angle is None and not c.element.has_displacement:
        raise ValueError(
            f"joint {name!r} is {c.kind}, which has neither an angle nor a displacement of its own"
        )
    angles = states.angles
    if c.angle is not None and angles is None:
        raise ValueError("this solution carries no angles")
    index = np.array(c.bodies[:2])
    both = np.s_[:, index]
    pose = Pose(
        part_of(with_ground(states.r, 0.0), both), part_of(with_ground(states.A, np.eye(3)), both)
    )
    twist = Twist(*(part_of(with_ground(x, 0.0), both) for x in (states.v, states.omega)))
    motion = pose, twist, *(part_of(with_ground(x, 0.0), both) for x in (a, alpha))
    turned = moved = (None,) * 3
    if (k := c.angle) is not None and angles is not None:
        angle = jax.tree.map(lambda x: part_of(x, k), system.angles.angle)
        turned = by_rows(_angle_motion, angle, part_of(angles, np.s_[:, k]), *motion)
    if c.element.has_displacement:
        along = c.axis_i_bar, c.s_i_bar, c.s_j_bar
        moved = by_rows(_displacement_motion, along, *motion)
    return JointMotion(*turned, *moved)


@Compiled
def _angle_motion(
    angle: Angle,
    values: Float[Array, " T"],
    pose: Pose,
    twist: Twist,
    a: Float[Array, "T 2 3"],
    alpha: Float[Array, "T 2 3"],
) -> Coordinate:
    """An angle with its rate and acceleration at all instants; `values` are the angles that were
    saved.
    """

    def one(near: Float[Array, ""], *motion):
        here = eqx.tree_at(lambda x: x.near, angle, near)
        return along_motion(
            lambda p: here.value(Pose(p.r[0], p.A[0]), Pose(p.r[1], p.A[1])), *motion
        )

    return jax.vmap(one)(jax.lax.stop_gradient(values), pose, twist, a, alpha)


@Compiled
def _displacement_motion(
    along: tuple[Vec3, Vec3, Vec3],
    pose: Pose,
    twist: Twist,
    a: Float[Array, "T 2 3"],
    alpha: Float[Array, "T 2 3"],
) -> Coordinate:
    """A displacement along an axis of body i with its rate and acceleration at all instants."""
    axis, s_i, s_j = along

    def displacement(p: Pose) -> Float[Array, ""]:
        return axis @ (p.A[0].T @ (p.r[1] + p.A[1] @ s_j - p.r[0]) - s_i)

    return jax.vmap(lambda *motion: along_motion(displacement, *motion))(pose, twist, a, alpha)
