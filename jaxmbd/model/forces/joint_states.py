"""Elements along a joint's coordinate that have states: a motor's winding, a controller, bristles
of friction; the numeric elements and, below each, its description.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ...rotations.types import Array, Scalar, host
from .. import given
from ..body import Body
from ..coordinates import AbstractAngle, Angle, Displacement
from ..motions import Motion, value_at
from ..state import Pose, Twist
from ..validation import NOT_NEGATIVE, POSITIVE, default_dtype, is_concrete, require
from .along import along_outputs, limited, motion_along, wrench_along
from .along_states import AbstractAlongCoordinate, AbstractCoordinateForce
from .base import AbstractForce, Output
from .inertias import AlongCoordinate
from .stateful import StateLabel, StateRule


class Winding(AbstractAlongCoordinate):
    """A direct-current motor behind a gearbox, L di/dt = V - R i - k n ẋ, with effort n k i.

    Attributes:
        coordinate: Of the joint.
        rule: Of the current i [A].
        command: The voltage V [V].
        gear_ratio: n, turns of the motor per unit of x [-] or [rad/m].
        resistance, inductance: R [Ω] and L [H].
        constant: k [N·m/A], which is [V·s/rad] too.
        voltage_limit: [V], or None.
        effort_limit: At the joint [N·m] or [N], or None.
    """

    linear = True

    coordinate: Angle | Displacement
    rule: StateRule
    command: Scalar | Motion
    gear_ratio: Scalar
    resistance: Scalar
    inductance: Scalar
    constant: Scalar
    voltage_limit: Scalar | None
    effort_limit: Scalar | None

    def labels(self) -> tuple[StateLabel, ...]:
        return (StateLabel("current", "A"),)

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        voltage = limited(value_at(self.command, t), self.voltage_limit)
        induced = self.constant * self.gear_ratio * rate
        return (voltage - self.resistance * z - induced) / self.inductance

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        return limited(self.gear_ratio * self.constant * z[0], self.effort_limit)

    def internal_energy(self, z: Float[Array, " s"]) -> Scalar:
        """Of the magnetic field [J]."""
        return 0.5 * self.inductance * z[0] ** 2


class LimitedEffort(AbstractForce):
    """An effort in a joint that follows its command as far as limits allow.

    Attributes:
        coordinate: Of the joint.
        command: The effort of the motor [N·m].
        gear_ratio: Turns of the motor per unit of x [-] or [rad/m].
        effort_limit: At the joint [N·m] or [N], or None.
        no_load_rate: The joint's rate at which nothing is left of the limit [rad/s] or [m/s], or
            None.
    """

    coordinate: Angle | Displacement
    command: Scalar | Motion
    gear_ratio: Scalar
    effort_limit: Scalar | None
    no_load_rate: Scalar | None

    def _motion(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        x, rate = motion_along(self.coordinate, pose, twist)
        effort = self.gear_ratio * value_at(self.command, t)
        if self.effort_limit is not None:
            behind, ahead = self._limits(self.effort_limit, rate)
            effort = jnp.clip(effort, -behind, ahead)
        return x, rate, effort

    def _limits(self, most: Scalar, rate: Scalar) -> tuple[Scalar, Scalar]:
        """The largest effort downwards and upwards at a rate."""
        if self.no_load_rate is None:
            return most, most
        # What a motor still has falls with its speed, in the direction in which it turns.
        share = rate / self.no_load_rate
        down, up = (most * jnp.clip(1.0 - s, 0.0, 1.0) for s in (-share, share))
        return down, up

    def kinks(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " n"]:
        """What is left to both limits, and where these bend."""
        if self.effort_limit is None:
            return jnp.zeros(0, pose.r.dtype)
        rate = motion_along(self.coordinate, pose, twist)[1]
        effort = self.gear_ratio * value_at(self.command, t)
        behind, ahead = self._limits(self.effort_limit, rate)
        found = [effort + behind, ahead - effort]
        if self.no_load_rate is not None:
            found += [rate, rate - self.no_load_rate, rate + self.no_load_rate]
        return jnp.stack(found)

    def wrench(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
        return wrench_along(self.coordinate, pose, self._motion(pose, twist, t)[2])

    def outputs(self, pose: Pose, twist: Twist, t: Scalar) -> tuple[Output, ...]:
        """The effort on body j, the joint's coordinate and its rate."""
        is_angle = isinstance(self.coordinate, AbstractAngle)
        return (
            *along_outputs(is_angle, *self._motion(pose, twist, t)),
            self.power(pose, twist, t),
        )


@dataclass(frozen=True, eq=False)
class Motor(AbstractCoordinateForce):
    """A motor in a joint, behind a gearbox, with limits. Without `resistance` the command is its
    torque; with it the motor has a winding, and the command is the voltage.

    Attributes:
        joint: The joint (object or name).
        command: The motor's torque [N·m], or the voltage [V]; a number, a function of time or an
            `Input`.
        gear_ratio: Turns of the motor per turn of the joint [-]; of a displacement [rad/m].
        rotor_inertia: J of the rotor [kg·m²]; the joint's coordinate has the inertia J times the
            square of the gear ratio, as an `Armature` gives it.
        effort_limit: Of what reaches the joint [N·m] or [N]; None for no limit.
        no_load_rate: The joint's rate at which nothing of the limit is left [rad/s] or [m/s]; it
            falls in proportion. Not with a winding, which has that by itself.
        resistance: R of the winding [Ω], or None.
        inductance: L [H].
        constant: k, torque per current [N·m/A], which is the induced voltage per rate too.
        voltage_limit: [V], or None.
        current: At the initial time [A]; zero by default.
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    command: Any = given.value("N·m or V", 0.0)
    gear_ratio: Any = given.number("- or rad/m", 1.0)
    rotor_inertia: Any = given.number("kg·m²", 0.0, bounds=NOT_NEGATIVE)
    effort_limit: Any = given.number("N·m or N", None, bounds=POSITIVE)
    no_load_rate: Any = given.number("rad/s or m/s", None, bounds=POSITIVE)
    resistance: Any = given.number("Ω", None, bounds=POSITIVE)
    inductance: Any = given.number("H", None, bounds=POSITIVE)
    constant: Any = given.number("N·m/A", None)
    voltage_limit: Any = given.number("V", None, bounds=POSITIVE)
    current: Any = given.number("A", None)

    def element(self, *bodies: Body) -> AbstractForce:
        coordinate = self._coordinate(bodies)
        command, ratio = self._value("command"), self._number("gear_ratio")
        limit, rate = self._number_or_none("effort_limit"), self._number_or_none("no_load_rate")
        if rate is not None and limit is None:
            raise ValueError(f"{self.title}: no_load_rate needs effort_limit")
        electric = ("inductance", "constant", "voltage_limit", "current")
        if self.resistance is None:
            extra = [name for name in electric if getattr(self, name) is not None]
            if extra:
                raise ValueError(f"{self.title}: {extra[0]} needs resistance, that of the winding")
            return LimitedEffort(coordinate, command, ratio, limit, rate)
        for name in electric[:2]:
            if getattr(self, name) is None:
                raise ValueError(f"{self.title}: a winding needs {name}")
        if rate is not None:
            raise ValueError(
                f"{self.title}: leave out no_load_rate, which the induced voltage of the winding "
                "makes by itself"
            )
        resistance = self._number("resistance")
        current = 0.0 * resistance if self.current is None else self._number("current")
        return Winding(
            coordinate=coordinate,
            rule=StateRule.held(current[None]),
            command=command,
            gear_ratio=ratio,
            resistance=resistance,
            inductance=self._number("inductance"),
            constant=self._number("constant"),
            voltage_limit=self._number_or_none("voltage_limit"),
            effort_limit=limit,
        )

    def rotor(self, *bodies: Body) -> AlongCoordinate | None:
        inertia = self._number("rotor_inertia")
        # Some methods refuse inertia of joints, also one that is zero.
        if is_concrete(inertia) and inertia == 0.0:
            return None
        seen = self._number("gear_ratio") ** 2 * inertia
        return AlongCoordinate(coordinate=self._coordinate(bodies), inertia=seen)


class Controlled(AbstractAlongCoordinate):
    """A PID controller of a joint's coordinate.

        u = P e + I - D r,   İ = Ki e + (sat u - u)/T,   ṙ = (ẋ - r)/τ,   e = w - x.

    The derivative is that of the coordinate, so that a set point that jumps does not kick.

    Attributes:
        coordinate: x.
        rule: Of I [N·m] or [N] and of r [rad/s] or [m/s].
        set_point: w [rad] or [m].
        proportional, integral, derivative: P, Ki and D.
        filter_time: τ [s].
        limit: Of u [N·m] or [N], or None.
        tracking_time: T [s], by which I is led back while u is at its limit.
    """

    most_iterations: ClassVar[int] = 3
    linear_in_pieces: ClassVar[bool] = True
    rests = False

    coordinate: Angle | Displacement
    rule: StateRule
    set_point: Scalar | Motion
    proportional: Scalar
    integral: Scalar
    derivative: Scalar
    filter_time: Scalar
    limit: Scalar | None
    tracking_time: Scalar

    @property
    def linear(self) -> bool:
        return self.limit is None

    def labels(self) -> tuple[StateLabel, ...]:
        units = ("N·m", "rad/s") if isinstance(self.coordinate, AbstractAngle) else ("N", "m/s")
        return StateLabel("integral", units[0]), StateLabel("filtered_rate", units[1])

    def _asked(self, x: Scalar, z: Float[Array, " s"], t: Scalar) -> tuple[Scalar, Scalar]:
        error = value_at(self.set_point, t) - x
        return error, self.proportional * error + z[0] - self.derivative * z[1]

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        error, asked = self._asked(x, z, t)
        back = (limited(asked, self.limit) - asked) / self.tracking_time
        return jnp.stack([self.integral * error + back, (rate - z[1]) / self.filter_time])

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        return limited(self._asked(x, z, t)[1], self.limit)


@dataclass(frozen=True, eq=False)
class PID(AbstractCoordinateForce):
    """A motor in a joint with a PID controller of its coordinate x, in continuous time: effort
    P e + ∫ Ki e - D ẋ of the error e = set point - x, the rate filtered. Where the effort is at its
    limit the integral is led back (back-calculation). `Controller` is a sampled one.

    Attributes:
        joint: The joint (object or name).
        set_point: Of x [rad] or [m]; a number, a function of time or an `Input`.
        proportional: P [N·m/rad] or [N/m].
        integral: Ki [N·m/(rad·s)] or [N/(m·s)].
        derivative: D [N·m·s/rad] or [N·s/m].
        filter_time: Of the rate [s].
        effort_limit: [N·m] or [N]; None for no limit.
        tracking_time: In which the integral follows an effort at its limit [s].
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.
    """

    set_point: Any = given.value("rad or m", 0.0)
    proportional: Any = given.number("N·m/rad or N/m", 0.0)
    integral: Any = given.number("N·m/(rad·s) or N/(m·s)", 0.0)
    derivative: Any = given.number("N·m·s/rad or N·s/m", 0.0)
    filter_time: Any = given.number("s", 0.01, bounds=POSITIVE)
    effort_limit: Any = given.number("N·m or N", None, bounds=POSITIVE)
    tracking_time: Any = given.number("s", 0.1, bounds=POSITIVE)

    def element(self, *bodies: Body) -> Controlled:
        coordinate = self._coordinate(bodies)
        proportional = self._number("proportional")
        return Controlled(
            coordinate=coordinate,
            rule=StateRule.held(host.zeros(2, default_dtype())),
            set_point=self._value("set_point"),
            proportional=proportional,
            integral=self._number("integral"),
            derivative=self._number("derivative"),
            filter_time=self._number("filter_time"),
            limit=self._number_or_none("effort_limit"),
            tracking_time=self._number("tracking_time"),
        )


class Bristles(AbstractAlongCoordinate):
    """LuGre friction, F = -(σ₀ z + σ₁ ż + σ₂ ẋ) with ż = ẋ - σ₀ |ẋ| z / g(ẋ) and
    g(ẋ) = F_c + (F_s - F_c) exp(-(ẋ/v_s)²).

    Attributes:
        coordinate: x.
        rule: Of the deflection z [rad] or [m].
        stiffness, micro_damping, viscous: σ₀, σ₁ and σ₂.
        coulomb, static: F_c and F_s [N·m] or [N].
        stribeck_rate: v_s [rad/s] or [m/s].
    """

    linear = True
    rests = False

    coordinate: Angle | Displacement
    rule: StateRule
    stiffness: Scalar
    micro_damping: Scalar
    viscous: Scalar
    coulomb: Scalar
    static: Scalar
    stribeck_rate: Scalar

    def labels(self) -> tuple[StateLabel, ...]:
        is_angle = isinstance(self.coordinate, AbstractAngle)
        return (StateLabel("deflection", "rad" if is_angle else "m"),)

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        fades = jnp.exp(-((rate / self.stribeck_rate) ** 2))
        most = self.coulomb + (self.static - self.coulomb) * fades
        return rate - self.stiffness * jnp.abs(rate) * z / most

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        change = self.rates_at(x, rate, z, t)[0]
        return -(self.stiffness * z[0] + self.micro_damping * change + self.viscous * rate)

    def internal_energy(self, z: Float[Array, " s"]) -> Scalar:
        """Of the bristles [J]."""
        return 0.5 * self.stiffness * z[0] ** 2


@dataclass(frozen=True, eq=False)
class LuGre(AbstractCoordinateForce):
    """Friction in a joint with a memory: bristles that bend before they slip. It sticks by a
    stiffness, slips by Coulomb's law with Stribeck's effect, and needs no event.

    Attributes:
        joint: The joint (object or name).
        coulomb: Friction at speed [N·m] or [N].
        static: Friction from which it slips [N·m] or [N].
        stribeck_rate: At which 37 % of the difference is left [rad/s] or [m/s].
        stiffness: Of the bristles, σ₀ [N·m/rad] or [N/m].
        micro_damping: σ₁ [N·m·s/rad] or [N·s/m].
        viscous: σ₂ [N·m·s/rad] or [N·s/m].
        deflection: At the initial time [rad] or [m].
        coordinate: "angle" or "displacement"; the angle by default where the joint has both.

    Reference:
        Canudas de Wit, Olsson, Åström, Lischinsky, "A new model for control of systems with
        friction", IEEE Trans. Automatic Control 40 (1995).
    """

    coulomb: Any = given.number("N·m or N", bounds=POSITIVE)
    static: Any = given.number("N·m or N", bounds=POSITIVE)
    stribeck_rate: Any = given.number("rad/s or m/s", bounds=POSITIVE)
    stiffness: Any = given.number("N·m/rad or N/m", bounds=POSITIVE)
    micro_damping: Any = given.number("N·m·s/rad or N·s/m", 0.0, bounds=NOT_NEGATIVE)
    viscous: Any = given.number("N·m·s/rad or N·s/m", 0.0, bounds=NOT_NEGATIVE)
    deflection: Any = given.number("rad or m", 0.0)

    def element(self, *bodies: Body) -> Bristles:
        coulomb, static = self._number("coulomb"), self._number("static")
        static = require(
            static >= coulomb, static, f"{self.title}: static must not be below coulomb"
        )
        return Bristles(
            coordinate=self._coordinate(bodies),
            rule=StateRule.held(self._number("deflection")[None]),
            stiffness=self._number("stiffness"),
            micro_damping=self._number("micro_damping"),
            viscous=self._number("viscous"),
            coulomb=coulomb,
            static=static,
            stribeck_rate=self._number("stribeck_rate"),
        )
