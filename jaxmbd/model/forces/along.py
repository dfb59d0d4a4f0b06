"""Forces along joint coordinates: springs, servos, and tendons that add several coordinates up."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar
from ..coordinates import AbstractAngle, Angle, Displacement
from ..motions import Motion
from ..state import Pose, Twist
from ..tables import Characteristic, at_rate, kinks_of, stored_energy, without_potential
from ..validation import is_concrete
from .base import OF_FORCE, OF_TORQUE, AbstractActuator, Output, point_wrench


def coordinate_wrench(
    coordinate: Angle | Displacement, pose_i: Pose, pose_j: Pose
) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
    """The wrenches on bodies i and j of a generalized force of one along a joint coordinate."""
    axis = pose_i.A @ coordinate.axis_i_bar
    if isinstance(coordinate, AbstractAngle):
        torque = jnp.stack([-coordinate.axis_i_bar, pose_j.A.T @ axis])
        return jnp.zeros((2, 3), axis.dtype), torque
    arm_j = pose_j.A @ coordinate.s_j_bar
    f_i, n_i = point_wrench(pose_i.A, -axis, pose_j.r + arm_j - pose_i.r)
    f_j, n_j = point_wrench(pose_j.A, axis, arm_j)
    return jnp.stack([f_i, f_j]), jnp.stack([n_i, n_j])


def motion_along(
    coordinate: Angle | Displacement, pose: Pose, twist: Twist
) -> tuple[Scalar, Scalar]:
    """A joint coordinate and its rate; `pose` and `twist` have a leading axis over two bodies."""
    (pose_i, pose_j), (twist_i, twist_j) = _pair(coordinate, pose), _pair(coordinate, twist)
    x = coordinate.value(pose_i, pose_j)
    return x, coordinate.rate(pose_i, twist_i, pose_j, twist_j)


def wrench_along(
    coordinate: Angle | Displacement, pose: Pose, effort: Scalar
) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
    """The wrenches on two bodies of an effort along a joint coordinate."""
    force, torque = coordinate_wrench(coordinate, *_pair(coordinate, pose))
    return effort * force, effort * torque


def limited(x: Scalar, limit: Scalar | None) -> Scalar:
    """Between ±limit, where there is one."""
    return x if limit is None else jnp.clip(x, -limit, limit)


def along_outputs(
    is_angle: bool, length: Scalar, rate: Scalar, effort: Scalar
) -> tuple[Output, Output, Output]:
    """What an element along a coordinate says: its effort, the coordinate and the rate."""
    if is_angle:
        return (
            Output("torque", "N·m", effort),
            Output("angle", "rad", length),
            Output("rate", "rad/s", rate),
        )
    return Output("force", "N", effort), Output("length", "m", length), Output("rate", "m/s", rate)


class AlongCoordinates(AbstractActuator):
    """A spring, a damper and an actuator along L = Σ c_k x_k, x_k being joint coordinates.

        f = gain u(t) + offset - stiffness (L - reference) - damping dL/dt - F(L, dL/dt)
            - u(t) (stiffness_gain L + damping_gain dL/dt)

    The coordinate x_k gets the generalized force c_k f. Limits cut off u and f; an f that may be
    cut off has no potential.

    Attributes:
        coordinates: x_k, angles [rad] or displacements [m].
        coefficients: c_k, (n,).
        stiffness, damping, reference, gain, offset: As in the formula, in units of L and f.
        given: u, a number or a motion; None where there is no actuator.
        control_range: Least and greatest u, (2,), or None.
        effort_range: Least and greatest f, (2,), or None.
        is_angle: Whether L is an angle [rad] and f a torque [N·m], not a length and a force.
        characteristic: F, of a spring that is not linear, or None.
        stiffness_gain, damping_gain: As in the formula; None for both where u sets neither.
    """

    coordinates: tuple[Angle | Displacement, ...]
    coefficients: Float[Array, " n"]
    stiffness: Scalar
    damping: Scalar
    reference: Scalar
    gain: Scalar
    offset: Scalar
    given: Scalar | Motion | None = None
    control_range: Float[Array, "2"] | None = None
    effort_range: Float[Array, "2"] | None = None
    is_angle: bool = eqx.field(static=True, default=False)
    characteristic: Characteristic | None = None
    stiffness_gain: Scalar | None = None
    damping_gain: Scalar | None = None

    @property
    def is_motor(self) -> bool:
        # Where the control sets a damping, its wrench depends on more than the pose.
        return self.given is not None and self.damping_gain is None

    @property
    def control_units(self) -> tuple[str, str]:
        """Those of f and dL/dt, with the gain where that is not one."""
        effort, rate = OF_TORQUE if self.is_angle else OF_FORCE
        if is_concrete(self.gain) and bool(np.all(np.asarray(self.gain) == 1.0)):
            return effort, rate
        return f"{effort}/gain", f"gain·{rate}"

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        _, _, effort = self._motion(pose, twist, t)
        force, torque = self._direction(pose)
        return effort * force, effort * torque

    def _motion(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """L, its rate, and f."""
        length, rate, effort = self._free(pose, twist, t)
        return length, rate, within(effort, self.effort_range)

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """Where a table has points, and what is left to the limits of u and f."""
        length, _, effort = self._free(pose, twist, t)
        return jnp.concatenate(
            [
                kinks_of(self.characteristic, length),
                _left(self._asked(t), self.control_range),
                _left(effort, self.effort_range),
            ]
        )

    def _free(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """L, its rate, and f without its limits."""
        length = self._sum([x.value(*_pair(x, pose)) for x in self.coordinates])
        rates = []
        for x in self.coordinates:
            (pose_i, pose_j), (twist_i, twist_j) = _pair(x, pose), _pair(x, twist)
            rates.append(x.rate(pose_i, twist_i, pose_j, twist_j))
        rate = self._sum(rates)
        effort = self.offset - self.stiffness * (length - self.reference)
        if self.characteristic is not None:
            effort -= at_rate(self.characteristic, length, rate)
        u = self.control(t)
        effort = effort - self.damping * rate + self.gain * u
        if self.stiffness_gain is not None and self.damping_gain is not None:
            effort = effort - u * (self.stiffness_gain * length + self.damping_gain * rate)
        return length, rate, effort

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The force f along L, or the torque where L is an angle."""
        length, rate, effort = self._motion(pose, twist, t)
        return (*along_outputs(self.is_angle, length, rate, effort), self.power(pose, twist, t))

    def unit_wrench(self, pose: Pose) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        force, torque = self._direction(pose)
        return self.gain * force, self.gain * torque

    def control(self, t: Scalar) -> Scalar:
        return within(self._asked(t), self.control_range)

    def _asked(self, t: Scalar) -> Scalar:
        """U without its limits."""
        if self.given is None:
            return jnp.zeros_like(t)
        return jnp.asarray(self.given(t), t.dtype) if callable(self.given) else self.given

    def _direction(self, pose: Pose) -> tuple[Float[Array, "k 3"], Float[Array, "k 3"]]:
        """The wrenches of f = 1."""
        force = torque = jnp.zeros_like(pose.r)
        for k, x in enumerate(self.coordinates):
            at = jnp.array(x.of)
            f, n = coordinate_wrench(x, *_pair(x, pose))
            force = force.at[at].add(self.coefficients[k] * f)
            torque = torque.at[at].add(self.coefficients[k] * n)
        return force, torque

    def _sum(self, values: list[Scalar]) -> Scalar:
        return self.coefficients @ jnp.stack(values)

    def invariants(self, pose: Pose) -> Float[Array, " p"]:
        found = []
        for x in self.coordinates:
            pair = _pair(x, pose)
            found += x.cosine_and_sine(*pair) if isinstance(x, AbstractAngle) else [x.value(*pair)]
        return jnp.stack(found)

    def stored(self, invariants: Float[Array, " p"]) -> Scalar:
        if self.effort_range is not None:
            return jnp.zeros((), invariants.dtype)
        values, k = [], 0
        for x in self.coordinates:
            if isinstance(x, AbstractAngle):
                values.append(x.unwound(invariants[k], invariants[k + 1]))
                k += 2
            else:
                values.append(invariants[k])
                k += 1
        longer = self._sum(values) - self.reference
        return stored_energy(self.stiffness, self.characteristic, self.reference, longer)

    def dissipative(self) -> "AlongCoordinates":
        return self if self.effort_range is not None else without_potential(self)


def within(x: Any, limits: Float[Array, "2"] | None) -> Any:
    """Numbers, none of them below the first limit or above the second, where there are limits."""
    return x if limits is None else jnp.clip(x, limits[0], limits[1])


def _left(x: Scalar, limits: Float[Array, "2"] | None) -> Float[Array, " n"]:
    """What is left to the first limit and to the second, where there are limits."""
    return jnp.zeros(0, x.dtype) if limits is None else jnp.stack([x - limits[0], limits[1] - x])


def _pair(coordinate: Angle | Displacement, x):
    """The parts of a pose or a twist of a coordinate's two bodies."""
    parts = [getattr(x, f) for f in x.__dataclass_fields__]
    i, j = (type(x)(*(part[k] for part in parts)) for k in coordinate.of)
    return i, j
