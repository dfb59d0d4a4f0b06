"""Instruments: an inertial unit, an encoder, a force and torque sensor, a distance sensor."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rotations.types import Array, Scalar, host
from . import given
from .body import Body
from .coordinates import COORDINATES, AbstractAngle
from .frames import Frame, FrameOnBody
from .joint_coordinates import joint_coordinate
from .sensors import AbstractMeasured, AbstractSensor, Channel, Measurable
from .validation import (
    POSITIVE,
    default_dtype,
    is_concrete,
    vector,
)

_XYZ = ("x", "y", "z")


class Inertial(AbstractMeasured):
    """Specific force and angular velocity at a frame.

    Attributes:
        frame: Of the housing.
    """

    frame: FrameOnBody

    def frames(self) -> tuple[FrameOnBody, ...]:
        return (self.frame,)

    def channels(self) -> tuple[Channel, ...]:
        return (
            Channel("acceleration", "m/s²", _XYZ),
            Channel("angular_velocity", "rad/s", _XYZ),
        )

    def of(self, motion: Measurable) -> Float[Array, "T 6"]:
        # What a mass on a spring feels: at rest it reads what holds it up.
        at = motion.of_frame(self.frame)
        xp: Any = np if is_concrete((at, motion.gravity)) else jnp
        felt = xp.asarray(at.a) - xp.asarray(motion.gravity)[None]
        own = xp.einsum("tji,tj->ti", xp.asarray(at.A), felt)
        return xp.concatenate([own, xp.asarray(at.omega)], axis=1)


@dataclass(frozen=True, eq=False)
class IMU(AbstractSensor):
    """An inertial measurement unit: an accelerometer, which reads acceleration less gravity, and a
    gyroscope, both along the axes of a frame on a body. Entries of a reading: the acceleration
    along x, y, z [m/s²], the angular velocity about x, y, z [rad/s].

    Attributes:
        body: The body (object or name), or the ground.
        point: The origin of the frame, global at the initial pose [m]; the mass center by default.
        A: The axes of the frame as columns, global at the initial pose, (3, 3); those of the body
            by default.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    body: Body | str = given.body()
    point: Any = given.point(None)
    A: Any = given.numbers("-", None)

    def targets(self) -> tuple[Body | str, ...]:
        return (self.body,)

    def measured(self, bodies: list[Body], indices: list[int]) -> Inertial:
        frame = Frame(self.name, bodies[0], point=self.point, A=self.A)
        return Inertial(frame.on(bodies[0], indices[0]))


class JointPosition(AbstractMeasured):
    """The coordinate of a joint, in steps.

    Attributes:
        joint: Its name.
        coordinate: "angle" or "displacement".
        resolution: One step [rad] or [m], or None.
    """

    joint: str = eqx.field(static=True)
    coordinate: str = eqx.field(static=True)
    resolution: Scalar | None

    def channels(self) -> tuple[Channel, ...]:
        return (Channel(self.coordinate, "rad" if self.coordinate == "angle" else "m"),)

    def of(self, motion: Measurable) -> Float[Array, "T 1"]:
        return motion.of_joint(self.joint, self.coordinate)[:, None]

    def rounded(self, reading: Float[Array, "T 1"]) -> Float[Array, "T 1"]:
        if self.resolution is None:
            return reading
        steps = jnp.round(jax.lax.stop_gradient(reading / self.resolution))
        whole = steps * self.resolution
        # Its derivative is that of the line through the steps: theirs are zero or have none.
        return reading + jax.lax.stop_gradient(whole - reading)


@dataclass(frozen=True, eq=False)
class Encoder(AbstractSensor):
    """An encoder of a joint's angle [rad] or displacement [m].

    Attributes:
        joint: The joint (object or name).
        resolution: One step of a reading [rad] or [m]; None for all digits. Derivatives are those
            of the line through the steps.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    joint: Any = given.joint()
    resolution: Any = given.number("rad or m", None, bounds=POSITIVE)
    coordinate: str | None = given.choice(*COORDINATES, default=None)

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> JointPosition:
        i, j = bodies
        found = joint_coordinate(self.title, self.joint, self.coordinate, (i, j))
        kind = "angle" if isinstance(found, AbstractAngle) else "displacement"
        resolution = None if self.resolution is None else self._number("resolution")
        return JointPosition(self.joint.name, kind, resolution)


class JointLoad(AbstractMeasured):
    """What a joint does to its body j.

    Attributes:
        joint: Its name.
    """

    joint: str = eqx.field(static=True)

    def channels(self) -> tuple[Channel, ...]:
        return Channel("force", "N", _XYZ), Channel("torque", "N·m", _XYZ)

    def of(self, motion: Measurable) -> Float[Array, "T 6"]:
        parts = motion.load_on(self.joint)
        xp: Any = np if is_concrete(parts) else jnp
        return xp.concatenate([xp.asarray(x) for x in parts], axis=1)


@dataclass(frozen=True, eq=False)
class ForceTorque(AbstractSensor):
    """A force-torque sensor in a joint: the force and torque that the joint exerts on its body j,
    at the joint's point on that body and in its axes (global axes if body j is the ground). Entries
    of a reading: the force along x, y, z [N], the torque about x, y, z [N·m].

    Attributes:
        joint: The joint (object or name), such as a `Fixed` one; forces of motors and springs in it
            are no part of the reading, see `Reaction`.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    joint: Any = given.joint()

    def targets(self) -> tuple[Body | str, ...]:
        return self.joint.body_i, self.joint.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> JointLoad:
        return JointLoad(self.joint.name)


class Separation(AbstractMeasured):
    """The distance of two points.

    Attributes:
        i, j: Frames at the points.
    """

    i: FrameOnBody
    j: FrameOnBody

    def frames(self) -> tuple[FrameOnBody, ...]:
        return self.i, self.j

    def channels(self) -> tuple[Channel, ...]:
        return (Channel("distance", "m"),)

    def of(self, motion: Measurable) -> Float[Array, "T 1"]:
        ends = motion.of_frame(self.i).r, motion.of_frame(self.j).r
        xp: Any = np if is_concrete(ends) else jnp
        d = xp.asarray(ends[1]) - xp.asarray(ends[0])
        squared = xp.sum(d**2, axis=1, keepdims=True)
        # Where the points meet the derivative is zero, not NaN.
        apart = squared > 0.0
        return xp.where(apart, xp.sqrt(xp.where(apart, squared, 1.0)), 0.0)


@dataclass(frozen=True, eq=False)
class DistanceSensor(AbstractSensor):
    """The distance between a point of one body and one of another [m].

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Global at the initial pose [m]; the mass centers by default.
        gain, bias, noise_density, period, delay: See `AbstractSensor`.
    """

    body_i: Body | str = given.body()
    body_j: Body | str = given.body()
    point_i: Any = given.point(None)
    point_j: Any = given.point(None)

    def targets(self) -> tuple[Body | str, ...]:
        return self.body_i, self.body_j

    def measured(self, bodies: list[Body], indices: list[int]) -> Separation:
        ends = []
        for body, point, index, end in zip(
            bodies, (self.point_i, self.point_j), indices, "ij", strict=True
        ):
            at = body.r if point is None else vector(point, 3, f"{self.title}: point_{end}")
            A_bar = host.eye(3, dtype=default_dtype())
            ends.append(FrameOnBody(body.point(at), A_bar, f"{self.name}.{end}", index))
        return Separation(*ends)
