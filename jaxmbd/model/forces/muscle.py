"""A Hill-type muscle with a rigid tendon between two points: the numeric element and its
description.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...rotations.types import Array, Scalar, Vec3, library_of
from .. import given
from ..body import Body
from ..motions import Motion, is_motion, value_at
from ..state import Pose, Twist
from ..validation import FRACTION, NOT_NEGATIVE, POSITIVE, Bounds
from .along_states import AbstractAlongLine, AbstractLineForce
from .stateful import StateLabel, StateRule

# Three bells of the active force, b₁ exp(-(λ - b₂)²/2(b₃ + b₄ λ)²), one in a column.
_BELLS = np.array(
    [
        [0.8150671134243542, 0.433004984392647, 0.1],
        [1.055033428970575, 0.716775413397760, 1.0],
        [0.162384573599574, -0.029947116970696, 0.353553390593274],
        [0.063303448465465, 0.200356847296188, 0.0],
    ]
)
_NARROW = 0.01  # a width below which a bell is zero to rounding at any λ
_D1, _D2, _D3, _D4 = -0.3211346127989808, -8.149, -0.374, 0.8825327733249912
_SHAPE, _STRAIN, _SHORTEST = 4.0, 0.6, 0.2  # of the passive force
_STEEPNESS = 10.0
_PENNATION = Bounds(least=0.0, most=1.5, text="must lie in [0, 1.5] rad")


def active_force(stretch: Scalar) -> Scalar:
    """By the length of the fibers over their optimal length, 1 at 1."""
    b1, b2, b3, b4 = _BELLS.astype(stretch.dtype)
    width = b3 + b4 * stretch
    width = jnp.where(jnp.abs(width) > _NARROW, width, _NARROW)
    return jnp.sum(b1 * jnp.exp(-0.5 * ((stretch - b2) / width) ** 2))


def velocity_factor(rate: Scalar) -> Scalar:
    """By the rate of the fibers over the largest rate of shortening: 0 at -1, 1 at 0."""
    return _D1 * jnp.arcsinh(_D2 * rate + _D3) + _D4


def passive_force(stretch: Scalar) -> Scalar:
    """By the length of the fibers over their optimal length: 0 at 0.2, 1 at 1.6."""
    least = np.exp(_SHAPE * (_SHORTEST - 1.0) / _STRAIN)
    rise = jnp.exp(_SHAPE * (stretch - 1.0) / _STRAIN) - least
    return rise / (np.exp(_SHAPE) - least)


def passive_energy(stretch: Scalar) -> Scalar:
    """The integral of `passive_force` from 0.2."""
    least = np.exp(_SHAPE * (_SHORTEST - 1.0) / _STRAIN)
    grown = jnp.exp(_SHAPE * (stretch - 1.0) / _STRAIN) - least
    area = _STRAIN / _SHAPE * grown - least * (stretch - _SHORTEST)
    return area / (np.exp(_SHAPE) - least)


class HillMuscle(AbstractAlongLine):
    """Fibers in series with a rigid tendon; see `Muscle` for the formulas.

    Attributes:
        s_i_bar, s_j_bar: Its points in bodies i and j [m].
        rule: Of the activation a [-].
        excitation: e, a number or a motion [-].
        max_force: F [N].
        optimal_length: l₀ of the fibers [m].
        slack_length: Of the tendon [m].
        width: Of the fibers across the tendon [m].
        max_rate: The largest rate of shortening of the fibers [m/s].
        tau_activation, tau_deactivation: [s].
    """

    s_i_bar: Vec3
    s_j_bar: Vec3
    rule: StateRule
    excitation: Scalar | Motion
    max_force: Scalar
    optimal_length: Scalar
    slack_length: Scalar
    width: Scalar
    max_rate: Scalar
    tau_activation: Scalar
    tau_deactivation: Scalar

    def labels(self) -> tuple[StateLabel, ...]:
        return (StateLabel("activation", "-"),)

    def rates_at(
        self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar
    ) -> Float[Array, " s"]:
        missing = jnp.clip(value_at(self.excitation, t), 0.0, 1.0) - z
        share = 0.5 + 0.5 * jnp.tanh(_STEEPNESS * missing)
        # A method may leave [0, 1] where a step is longer than these times; it comes back.
        factor = 0.5 + 1.5 * jnp.clip(z, 0.0, 1.0)
        up, down = 1.0 / (self.tau_activation * factor), factor / self.tau_deactivation
        return (share * up + (1.0 - share) * down) * missing

    def _fibers(self, x: Scalar) -> tuple[Array, Scalar, Scalar]:
        """Whether the tendon is taut; the length of the fibers over the optimal one, and the cosine
        of their angle.
        """
        along = x - self.slack_length
        taut = along > 0.0
        along = jnp.where(taut, along, self.optimal_length)
        length = jnp.sqrt(along**2 + self.width**2)
        return taut, length / self.optimal_length, along / length

    def effort(self, x: Scalar, rate: Scalar, z: Float[Array, " s"], t: Scalar) -> Scalar:
        taut, stretch, cosine = self._fibers(x)
        active = z[0] * active_force(stretch) * velocity_factor(cosine * rate / self.max_rate)
        pull = self.max_force * cosine * (active + passive_force(stretch))
        return jnp.where(taut, pull, 0.0)

    def potential(self, pose: Pose) -> Scalar:
        """Of the passive fibers [J]."""
        zero = jnp.zeros_like(pose.r)
        x, _ = self.motion(pose, Twist(zero, zero))
        taut, stretch, _ = self._fibers(x)
        stretch = jnp.where(taut, stretch, self.width / self.optimal_length)
        return self.max_force * self.optimal_length * passive_energy(stretch)


@dataclass(frozen=True, eq=False)
class Muscle(AbstractLineForce):
    """A Hill-type muscle between two points, with a rigid tendon.

        pull = F cos α (a f_L(l/l₀) f_V(l̇/(v l₀)) + f_P(l/l₀))

    The fibers of length l are in series with a tendon of constant length. They keep
    their width across it, l sin α = l₀ sin α₀. With λ = l/l₀ and ν = l̇/(v l₀)

        f_L(λ) = Σ b₁ₖ exp(-(λ - b₂ₖ)²/2(b₃ₖ + b₄ₖ λ)²),   k = 1, 2, 3
        f_V(ν) = d₁ ln(d₂ν + d₃ + √((d₂ν + d₃)² + 1)) + d₄
        f_P(λ) = (exp(4 (λ - 1)/0.6) - c)/(exp(4) - c),   c = exp(4 (0.2 - 1)/0.6)

    with b₁ = (0.81507, 0.43300, 0.1), b₂ = (1.05503, 0.71678, 1), b₃ = (0.16238, -0.02995,
    0.35355), b₄ = (0.06330, 0.20036, 0), d = (-0.32113, -8.149, -0.374, 0.88253). These have
    f_L(1) = f_V(0) = 1, f_V(-1) = 0, f_P(0.2) = 0 and f_P(1.6) = 1. Beyond its largest rate of
    shortening an active muscle brakes. Where the points are closer than the length of the tendon,
    the pull is zero.

    The activation a follows the excitation e, limited to [0, 1], and stays in [0, 1] as long as a
    step resolves its time constants:

        ȧ = (s/(τ_a (½ + 3a/2)) + (1 - s)(½ + 3a/2)/τ_d) (e - a),   s = ½ + ½ tanh(10 (e - a))

    The elastic energy of f_P is a potential energy.

    Attributes:
        body_i, body_j: The bodies (objects or names); either may be the ground.
        point_i, point_j: Origin and insertion, global at the initial pose [m].
        excitation: e [-]; a number from 0 to 1, a function of time or an `Input`.
        max_force: F, isometric at the optimal length [N].
        optimal_length: l₀ of the fibers [m].
        slack_length: Of the tendon [m].
        pennation: α₀, the angle between fibers and tendon at the optimal length [rad].
        max_velocity: v, the largest rate of shortening in optimal lengths per second [1/s].
        tau_activation, tau_deactivation: τ_a and τ_d [s].
        activation: At the initial time [-].

    Reference:
        De Groote, Kinney, Rao, Fregly, "Evaluation of direct collocation optimal control problem
        formulations for solving the muscle redundancy problem", Ann. Biomed. Eng. 44 (2016), with
        the constants of f_L and f_V and the offset of f_P as corrected in OpenSim's
        DeGrooteFregly2016Muscle. There the steepness in s is 0.1, which nearly averages both time
        constants; with 10 each keeps its meaning.
    """

    max_force: Any = given.number("N", bounds=POSITIVE)
    optimal_length: Any = given.number("m", bounds=POSITIVE)
    slack_length: Any = given.number("m", 0.0, bounds=NOT_NEGATIVE)
    pennation: Any = given.number("rad", 0.0, bounds=_PENNATION)
    max_velocity: Any = given.number("1/s", 10.0, bounds=POSITIVE)
    excitation: Any = given.value("-", 0.0)
    tau_activation: Any = given.number("s", 0.01, bounds=POSITIVE)
    tau_deactivation: Any = given.number("s", 0.04, bounds=POSITIVE)
    activation: Any = given.number("-", 0.0, bounds=FRACTION)

    def element(self, *bodies: Body) -> HillMuscle:
        s_i, s_j, _ = self._points(bodies)
        optimal, pennation = self._number("optimal_length"), self._number("pennation")
        excitation = self._value("excitation")
        if not is_motion(excitation):
            excitation = FRACTION.required(excitation, f"{self.title}: excitation")
        return HillMuscle(
            s_i_bar=s_i,
            s_j_bar=s_j,
            rule=StateRule.held(self._number("activation")[None]),
            excitation=excitation,
            max_force=self._number("max_force"),
            optimal_length=optimal,
            slack_length=self._number("slack_length"),
            width=optimal * library_of(pennation).sin(pennation),
            max_rate=self._number("max_velocity") * optimal,
            tau_activation=self._number("tau_activation"),
            tau_deactivation=self._number("tau_deactivation"),
        )
