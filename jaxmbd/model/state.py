"""Pose, twist and state: the same for every formulation."""

import equinox as eqx
from jaxtyping import Float

from ..rotations.types import Array, host


class Pose(eqx.Module):
    """Position and orientation of a body-fixed frame at the mass center.

    Attributes:
        r: Position in global components, (..., 3) [m].
        A: Rotation from body to global components, (..., 3, 3) [-].
    """

    r: Float[Array, "*n 3"]
    A: Float[Array, "*n 3 3"]


class Twist(eqx.Module):
    """Velocity of a body.

    Attributes:
        v: Velocity of the mass center in global components, (..., 3) [m/s].
        omega: Angular velocity in body components, (..., 3) [rad/s].
    """

    v: Float[Array, "*n 3"]
    omega: Float[Array, "*n 3"]


class State(eqx.Module):
    """Poses and twists of all moving bodies, in the order in which they were added.

    Attributes:
        r: Positions of the mass centers, (nb, 3) [m], global.
        A: Rotation matrices from body to global components, (nb, 3, 3) [-].
        v: Velocities of the mass centers, (nb, 3) [m/s], global.
        omega: Angular velocities, (nb, 3) [rad/s], body frame.
        angles: Angles of joints and force elements with their turns, as `Solution.angles` has them,
            (w,) [rad]. `Mechanism.build` and every analysis give them, so that all states of one
            mechanism have one structure, as the carry of `jax.lax.scan` needs; None, in a state
            made by hand, stands for poses within half a turn of the description.
        element_states: Of force elements, such as currents, in the order of
            `System.element_state_names`, (s,); None, in a state made by hand, stands for those
            that were described.
    """

    r: Float[Array, "*n 3"]
    A: Float[Array, "*n 3 3"]
    v: Float[Array, "*n 3"]
    omega: Float[Array, "*n 3"]
    angles: Float[Array, "*w"] | None = None
    element_states: Float[Array, "*s"] | None = None

    @property
    def pose(self) -> Pose:
        return Pose(self.r, self.A)

    @property
    def twist(self) -> Twist:
        return Twist(self.v, self.omega)


def ground_pose(dtype) -> Pose:
    """The pose of the ground: the global frame."""
    return Pose(host.zeros(3, dtype), host.eye(3, dtype=dtype))
