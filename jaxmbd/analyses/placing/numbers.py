"""Quantities of a pose by name."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...formulations import RA
from ...model.coordinates import each_followed
from ...model.state import Pose, Twist
from ...model.system import Connection, System
from ...results.columns import columns_by_name
from ...results.solution import Solution
from ...rotations import so3
from ...rotations.types import Scalar


def numbers_of(system: System, now: Solution, names: Iterable[str]) -> dict[str, Scalar]:
    """Quantities of a motion of one row, by their names in full.

    Joint coordinates and their rates are found by themselves: with the accelerations that a motion
    has too, a search for a pose took four times as long to compile.
    """
    names = list(dict.fromkeys(names))
    if not names:
        return {}
    pose = RA().with_ground(Pose(now.r[0], now.A[0]))
    ground = jnp.zeros((1, 3), pose.r.dtype)
    twist = Twist(*(jnp.concatenate([x[0], ground]) for x in (now.v, now.omega)))
    joints = {c.name: c for c in system.connections}
    found: dict[str, Scalar] = {}
    angles = None
    for name in names:
        joint, _, coordinate = name.rpartition(".")
        c = joints.get(joint)
        if c is None:
            continue
        if coordinate in ("angle", "rate") and c.angle is not None:
            angles = _angles(system, now, pose, twist) if angles is None else angles
            found[name] = angles[coordinate == "rate"][c.angle]
        elif coordinate == "displacement" and c.element.has_displacement:
            found[name] = _displacement(c, pose)
        elif coordinate == "speed" and c.element.has_displacement:
            found[name] = _speed(c, pose, twist)
    others = [name for name in names if name not in found]
    if others:
        values = columns_by_name(now, system, others)
        found |= {name: jnp.asarray(x)[0] for name, x in zip(others, values, strict=True)}
    return found


def _angles(
    system: System, now: Solution, pose: Pose, twist: Twist
) -> tuple[Float[Array, " w"], Float[Array, " w"]]:
    """The angles of all joints that have one, and their rates."""
    assert now.angles is not None
    stack = system.wound(now.angles[0]).angles
    assert stack.angle is not None
    values = each_followed(stack.angle, stack.index, lambda a, i, j: a.value(i[0], j[0]), pose)
    rates = each_followed(stack.angle, stack.index, lambda a, i, j: a.rate(*i, *j), pose, twist)
    return values, rates


def _displacement(c: Connection, pose: Pose) -> Scalar:
    """Of the joint's point on body j along the axis on body i, from where it is described."""
    i, j = np.asarray(c.bodies[:2])
    d = pose.r[j] + pose.A[j] @ c.s_j_bar - pose.r[i]
    return c.axis_i_bar @ (pose.A[i].T @ d - c.s_i_bar)


def _speed(c: Connection, pose: Pose, twist: Twist) -> Scalar:
    """The rate of the displacement."""
    turning = pose.A @ jax.vmap(so3.skew)(twist.omega)
    return jax.jvp(lambda p: _displacement(c, p), (pose,), (Pose(twist.v, turning),))[1]
