"""Elements between two points that have states: a spring and a damper in series, a hydraulic
cylinder; the numeric elements and, below each, its description.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3, library_of
from .. import given
from ..body import Body
from ..motions import Motion, value_at
from ..state import Pose, Twist
from ..validation import NOT_NEGATIVE, POSITIVE
from .along_states import AbstractAlongLine, AbstractLineForce
from .stateful import StateLabel, StateRule

_LAMINAR = 1.0  # [Pa], see `TwoChambers`


class SeriesOfSpringAndDamper(AbstractAlongLine):
    """A spring k and a damper c in series, whose damper is x longer than at first, with a spring K
    beside them: pull k (L - L₀ - x) + K (L - L₀), ẋ = k (L - L₀ - x)/c.

    Attributes:
        s_i_bar, s_j_bar: Its points in bodies i and j [m].
        rule: Of x [m].
        stiffness, damping, parallel: k, c and K.
        free_length: L₀ [m].
    """

    linear = True

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
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        return self.stiffness * (x - self.free_length - z) / self.damping

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        longer = x - self.free_length
        return self.stiffness * (longer - z[0]) + self.parallel * longer

    def potential(self, pose: Pose) -> Scalar:
        """Of both springs [J]."""
        zero = jnp.zeros_like(pose.r)
        length, _ = self.motion(pose, Twist(zero, zero))
        longer = length - self.free_length
        series = longer - self.rule.past[0]
        return 0.5 * (self.stiffness * series**2 + self.parallel * longer**2)


@dataclass(frozen=True, eq=False)
class Maxwell(AbstractLineForce):
    """A spring and a damper in series between two points, as in viscoelastic mounts: stiff in
    fast motion, soft in slow motion; with a spring in parallel, the standard linear solid.

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
            s_i_bar=s_i,
            s_j_bar=s_j,
            rule=StateRule.held(self._number("elongation")[None]),
            stiffness=self._number("stiffness"),
            damping=self._number("damping"),
            parallel=self._number("parallel_stiffness"),
            free_length=length if self.free_length is None else self._number("free_length"),
        )


class TwoChambers(AbstractAlongLine):
    """A double-acting cylinder of length L with a valve of four edges.

    Its opening is o = opening + gain (set length - L), and

        ṗ_a = E (o Q(Δp_a) - A_a L̇)/V_a,   ṗ_b = E (-o Q(Δp_b) + A_b L̇)/V_b,   Q = Q_n √Δp.

    Where o is positive, chamber a is open to the supply and b to the tank, else the other way
    round. The chambers push by A_a p_a - A_b p_b.

    Attributes:
        s_i_bar, s_j_bar: Its points in bodies i and j [m].
        rule: Of the pressures p_a and p_b [Pa].
        opening: A number or a motion [-].
        gain: [1/m].
        set_length: A number or a motion [m].
        areas: A_a and A_b, (2,) [m²].
        volumes: V_a and V_b, (2,) [m³].
        bulk_modulus: E [Pa].
        nominal_flow: Q_n [m³/(s·√Pa)].
        supply, tank: Their pressures [Pa].
        damping: [N·s/m].
    """

    rests = False

    s_i_bar: Vec3
    s_j_bar: Vec3
    rule: StateRule
    opening: Scalar | Motion
    gain: Scalar
    set_length: Scalar | Motion
    areas: Float[Array, "2"]
    volumes: Float[Array, "2"]
    bulk_modulus: Scalar
    nominal_flow: Scalar
    supply: Scalar
    tank: Scalar
    damping: Scalar

    def labels(self) -> tuple[StateLabel, ...]:
        return StateLabel("pressure_a", "Pa"), StateLabel("pressure_b", "Pa")

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        missing = value_at(self.set_length, t) - x
        opening = (value_at(self.opening, t) + self.gain * missing) * np.array([1.0, -1.0])
        fall = jnp.where(opening > 0.0, self.supply - z, z - self.tank)
        # A root whose slope at zero is finite, as that of laminar flow: below a pascal.
        flow = opening * self.nominal_flow * fall / jnp.sqrt(jnp.sqrt(fall**2 + _LAMINAR**2))
        grows = self.areas * rate * np.array([1.0, -1.0])
        return self.bulk_modulus * (flow - grows) / self.volumes

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        return self.areas[1] * z[1] - self.areas[0] * z[0] + self.damping * rate


@dataclass(frozen=True, eq=False)
class HydraulicCylinder(AbstractLineForce):
    """A double-acting hydraulic cylinder between two points, with compressible oil in its two
    chambers and a proportional valve, optionally controlled by a set length.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Where it is attached, global at the initial pose [m].
        area: Of the piston, on which chamber a pushes [m²].
        rod_side_area: Of the ring on which chamber b pushes [m²]; the same by default.
        volume: Of each chamber with its hose [m³], taken as constant.
        bulk_modulus: Of the oil [Pa].
        nominal_flow: Through the open valve, per root of the pressure drop [m³/(s·√Pa)].
        supply, tank: Pressures of the pump and of the tank [Pa].
        opening: Of the valve, from -1 to 1; a number, a function of time or an `Input`. Where it is
            positive the cylinder gets longer.
        gain: What the valve opens per length that is missing [1/m].
        set_length: The length that is wanted [m]; a number, a function of time or an `Input`; the
            initial length by default.
        damping: Of the piston [N·s/m].
        pressure: In both chambers at the initial time [Pa].
    """

    area: Any = given.number("m²", bounds=POSITIVE)
    volume: Any = given.number("m³", bounds=POSITIVE)
    nominal_flow: Any = given.number("m³/(s·√Pa)", bounds=POSITIVE)
    supply: Any = given.number("Pa")
    tank: Any = given.number("Pa", 0.0)
    rod_side_area: Any = given.number("m²", None, bounds=POSITIVE)
    bulk_modulus: Any = given.number("Pa", 1.4e9, bounds=POSITIVE)
    opening: Any = given.value("-", 0.0)
    gain: Any = given.number("1/m", 0.0)
    set_length: Any = given.value("m", None)
    damping: Any = given.number("N·s/m", 0.0, bounds=NOT_NEGATIVE)
    pressure: Any = given.number("Pa", 0.0)

    def element(self, *bodies: Body) -> TwoChambers:
        s_i, s_j, length = self._points(bodies)
        area, pressure = self._number("area"), self._number("pressure")
        ring = area if self.rod_side_area is None else self._number("rod_side_area")
        xp = library_of(area, ring, pressure)
        volume = self._number("volume")
        return TwoChambers(
            s_i_bar=s_i,
            s_j_bar=s_j,
            rule=StateRule.held(xp.stack([pressure, pressure])),
            opening=self._value("opening"),
            gain=self._number("gain"),
            set_length=length if self.set_length is None else self._value("set_length"),
            areas=xp.stack([area, ring]),
            volumes=library_of(volume).stack([volume, volume]),
            bulk_modulus=self._number("bulk_modulus"),
            nominal_flow=self._number("nominal_flow"),
            supply=self._number("supply"),
            tank=self._number("tank"),
            damping=self._number("damping"),
        )
