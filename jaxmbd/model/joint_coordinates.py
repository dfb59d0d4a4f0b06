"""The coordinate of a joint that couplings, forces and laws act on."""

from collections.abc import Sequence

from .body import Body
from .coordinates import COORDINATES, Angle, Displacement
from .joints import AbstractConstraint


def joint_coordinate(
    title: str,
    joint: AbstractConstraint,
    kind: str | None,
    bodies: tuple[Body, Body],
    of: tuple[int, int] = (0, 1),
) -> Angle | Displacement:
    """The coordinate of a joint, zero at the initial pose; the angle where it has both and nothing
    is said.

    Args:
        title: Of the part that asks, for messages.
        joint: The joint.
        kind: "angle", "displacement" or None.
        bodies: Its bodies, i and j.
        of: Which they are among the bodies of that part.

    Raises:
        ValueError: The joint has no such coordinate.
    """
    i, j = bodies
    has = {"angle": joint.has_angle, "displacement": joint.has_displacement}
    kind = kind or next((k for k in COORDINATES if has[k]), None)
    if kind not in COORDINATES or not has[kind]:
        raise ValueError(
            f"{title}: joint {joint.name!r} is {type(joint).__name__}, which has no "
            f"{kind or 'angle or displacement'}"
        )
    axis = joint.reference_axes(i, j)[0]
    if kind == "angle":
        return Angle.between(i, j, axis, of=of)
    return Displacement.between(i, j, axis, joint.reference_point(i, j), of=of)


def bodies_of_joints(title: str, joints: Sequence[object]) -> tuple[Body | str, ...]:
    """The bodies of some joints, those that the joints move first, each once.

    Raises:
        ValueError: One of them is no joint of the mechanism.
    """
    for joint in joints:
        if not isinstance(joint, AbstractConstraint):
            raise ValueError(f"{title}: {joint!r} is not a joint between two bodies")
    found: dict[str, Body | str] = {}
    for which in ("body_j", "body_i"):
        for joint in joints:
            body = getattr(joint, which)
            found.setdefault(_name(body), body)
    return tuple(found.values())


def coordinate_among(
    title: str, joint: AbstractConstraint, kind: str | None, bodies: Sequence[Body]
) -> Angle | Displacement:
    """The coordinate of a joint on the bodies of an element that has more of them; see
    `joint_coordinate`.
    """
    names = [b.name for b in bodies]
    i, j = names.index(_name(joint.body_i)), names.index(_name(joint.body_j))
    return joint_coordinate(title, joint, kind, (bodies[i], bodies[j]), of=(i, j))


def _name(body: Body | str) -> str:
    return body if isinstance(body, str) else body.name
