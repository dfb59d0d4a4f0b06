"""Elements between two points that have states: a spring and a damper in series; the
numeric elements and, below each, its description.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3
from .. import given
from ..body import Body
from ..state import Pose, Twist
from ..validation import POSITIVE, require
from .base import Output
from .descriptions import AbstractPairForce
from .springs import line_motion, push_apart
from .stateful import AbstractStatefulForce, StateLabel, StateRule


class AbstractAlongLine(AbstractStatefulForce):
    """A pull between a point of body i and one of body j, by their distance L, its rate, states and
    time.
    """

    s_i_bar: eqx.AbstractVar[Vec3]
    s_j_bar: eqx.AbstractVar[Vec3]

    @abc.abstractmethod
    def pull(self, length: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        """The pull [N], positive in tension."""

    @abc.abstractmethod
    def rates_at(
        self, length: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        """ż."""

    def _motion(self, pose: Pose, twist: Twist) -> tuple[Scalar, Scalar]:
        return line_motion(self.s_i_bar, self.s_j_bar, pose, twist)

    def state_rates(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.rates_at(*self._motion(pose, twist), z, t)

    def loads(
        self, pose: Pose, twist: Twist, z: Float[Array, " s"], t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        push = -self.pull(*self._motion(pose, twist), z, t)
        force, torque = push_apart(self.s_i_bar, self.s_j_bar, pose)
        return push * force, push * torque

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The pull, positive in tension, the distance of the points and its rate, and the
        states.
        """
        length, rate = self._motion(pose, twist)
        pull = self.pull(length, rate, self.states(pose, twist, t), t)
        return (
            Output("force", "N", pull),
            Output("length", "m", length),
            Output("rate", "m/s", rate),
            self.power(pose, twist, t),
            *self.state_outputs(pose, twist, t),
        )

    def line(self) -> tuple[Float[Array, "*n 3"], Float[Array, "*n 3"]]:
        return self.s_i_bar, self.s_j_bar


class SeriesOfSpringAndDamper(AbstractAlongLine):
    """A spring k and a damper c in series, whose damper is x longer than at first, with a spring K
    beside them: pull k (L - L₀ - x) + K (L - L₀), ẋ = k (L - L₀ - x)/c.

    Attributes:
        s_i_bar, s_j_bar: Its points in bodies i and j [m].
        rule: Of x [m].
        stiffness, damping, parallel: k, c and K.
        free_length: L₀ [m].
    """

    linear: ClassVar[bool] = True

    s_i_bar: Vec3
    s_j_bar: Vec3
    rule: StateRule
    stiffness: Scalar
    damping: Scalar
    parallel: Scalar
    free_length: Scalar

    def labels(self) -> tuple[StateLabel, ...]:
        return (StateLabel("elongation", "m"),)

    def rates_at(
        self, length: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.stiffness * (length - self.free_length - z) / self.damping

    def pull(self, length: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        longer = length - self.free_length
        return self.stiffness * (longer - z[0]) + self.parallel * longer

    def potential(self, pose: Pose) -> Scalar:
        """Of both springs [J]."""
        zero = jnp.zeros_like(pose.r)
        length, _ = self._motion(pose, Twist(zero, zero))
        longer = length - self.free_length
        series = longer - self.rule.past[0]
        return 0.5 * (self.stiffness * series**2 + self.parallel * longer**2)


@dataclass(frozen=True, eq=False)
class AbstractStatefulPairForce(AbstractPairForce):
    """An element between two points."""

    point_i: Any = given.point()
    point_j: Any = given.point()

    def _points(self, bodies: tuple[Body, ...]) -> tuple[Array, Array, Array]:
        """Its points in their bodies, and their distance at the initial pose."""
        i, j = bodies
        p_i, p_j = self._point("point_i"), self._point("point_j")
        squared = (p_j - p_i) @ (p_j - p_i)
        squared = require(
            squared > 0.0, squared, f"{self.title}: its points coincide at the initial pose"
        )
        return i.point(p_i), j.point(p_j), squared**0.5


@dataclass(frozen=True, eq=False)
class Maxwell(AbstractStatefulPairForce):
    """A spring and a damper in series between two points, as in viscoelastic mounts: stiff for what
    is fast, soft for what is slow; with a spring beside them, the standard linear solid.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Where it is attached, global at the initial pose [m].
        stiffness: Of the spring in series [N/m].
        damping: [N·s/m].
        parallel_stiffness: Of the spring beside them [N/m].
        free_length: [m]; defaults to the initial length.
        elongation: Of the damper at the initial time [m].
    """

    stiffness: Any = given.number("N/m", bounds=POSITIVE)
    damping: Any = given.number("N·s/m", bounds=POSITIVE)
    parallel_stiffness: Any = given.number("N/m", 0.0)
    free_length: Any = given.number("m", None)
    elongation: Any = given.number("m", 0.0)

    def element(self, *bodies: Body) -> SeriesOfSpringAndDamper:
        s_i, s_j, length = self._points(bodies)
        return SeriesOfSpringAndDamper(
            s_i,
            s_j,
            StateRule.held(self._number("elongation")[None]),
            self._number("stiffness"),
            self._number("damping"),
            self._number("parallel_stiffness"),
            length if self.free_length is None else self._number("free_length"),
        )
