"""The coordinate of a joint that couplings and laws act on."""

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
