"""A Stewart platform with driven legs that follows a moving pose."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...analyses import Carry, observe, set_joints
from ...model import (
    Body,
    Cylinder,
    Input,
    Mechanism,
    PointOnLine,
    Servo,
    Universal,
)
from ...model.state import State
from ...model.system import System
from ...rotations import so3
from ...rotations.types import Scalar
from ..environment import Environment

HOME = np.array([0.0, 0.0, 0.6])  # of the platform's mass center [m]
PLATFORM_MASS, LEG_MASS = 20.0, 1.0  # [kg]
FORCE, STIFFNESS, DAMPING = 200.0, 2000.0, 100.0  # of a leg [N], [N/m], [N·s/m]
SHIFT, TILT, RATE = 0.06, 0.15, 2.0  # of targets: largest [m], [rad], angular frequency [rad/s]
_LEG = 0.4  # of a cylinder [m]
_LEGS = range(1, 7)


def _joints() -> tuple[Float[np.ndarray, "6 3"], Float[np.ndarray, "6 3"]]:
    """Joints on the base and on the platform at home, global, (6, 3) each [m]."""

    def circle(radius: float, degrees: list[float]) -> np.ndarray:
        angles = np.radians(degrees)
        return radius * np.stack([np.cos(angles), np.sin(angles), np.zeros(6)], axis=1)

    base = circle(0.5, [15.0, 105.0, 135.0, 225.0, 255.0, 345.0])
    return base, HOME + circle(0.3, [45.0, 75.0, 165.0, 195.0, 285.0, 315.0])


def _add_leg(m: Mechanism, k: int, low: np.ndarray, high: np.ndarray, platform: Body) -> None:
    """A cylinder on a universal joint; a point of the platform slides along its axis."""
    n = (high - low) / np.linalg.norm(high - low)
    tangent = np.array([-low[1], low[0], 0.0]) / np.linalg.norm(low)
    pin = np.cross(tangent, n)
    pin = pin / np.linalg.norm(pin)
    A = np.stack([pin, np.cross(n, pin), n], axis=1)
    shape, r = Cylinder(0.03, _LEG, mass=LEG_MASS), low + 0.5 * _LEG * n
    cylinder = m.add_body(f"cylinder {k}", shape=shape, r=r, A=A)
    m.add(Universal(f"foot {k}", m.ground, cylinder, point=low, axis_i=tangent, axis_j=pin))
    m.add(PointOnLine(f"leg {k}", cylinder, platform, point=high, axis=n))


def target_pose(
    goal: Float[Array, "2 6"], t: Scalar
) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
    """The target at a time: position [m] and rotation vector from the home pose [rad].

    Args:
        goal: Amplitudes in m and rad, and phases in rad, of (x, y, z) and of the rotation vector.
        t: Time [s].
    """
    amplitudes, phases = goal
    place = amplitudes * jnp.sin(RATE * t + phases)
    return jnp.asarray(HOME, place.dtype) + place[:3], place[3:]


def stewart() -> Environment:
    """Follow a moving pose with a platform of 20 kg on six legs. A leg is a cylinder of 1 kg on a
    universal joint, along whose axis a motor pushes a joint of the platform; its rod counts as part
    of the platform. Seven bodies in closed loops, six degrees of freedom.

    - Action, (6,): forces of the motors, from -1 to 1 of 200 N, beside a spring of 2000 N/m, a
      damper of 100 N·s/m and a constant push that carries the platform at home.
    - Goal, (2, 6): amplitudes, up to 0.06 m and 0.15 rad, and phases [rad] of the target's
      position and rotation vector, which are sinusoidal at 2 rad/s.
    - Observation, (30,): displacements [m] and speeds [m/s] of the six legs; velocity [m/s] and
      angular velocity [rad/s, body frame] of the platform; error of its position [m] and the
      rotation vector of the error of its orientation [rad, body frame]; velocity of the target:
      rates of its position [m/s] and of its rotation vector [rad/s].
    - Reward: -(position error / 0.1 m)² - (orientation error / 0.25 rad)² - 0.01 |action|².
    - Beginning: at rest, legs up to 3 cm from home; the loops are assembled.
    - Termination: an error of 0.4 m or of 1 rad.
    - Time: 20 ms an action, in 2 steps; 100 actions an episode.
    """
    m = Mechanism("stewart")
    platform = m.add_body("platform", shape=Cylinder(0.3, 0.04, mass=PLATFORM_MASS), r=HOME)
    base, top = _joints()
    for k, low, high in zip(_LEGS, base, top, strict=True):
        _add_leg(m, k, low, high, platform)
        steep = (high - low)[2] / np.linalg.norm(high - low)
        m.add(
            Servo(
                f"motor {k}",
                f"leg {k}",
                control=Input(f"force {k}"),
                gain=FORCE,
                stiffness=STIFFNESS,
                damping=DAMPING,
                offset=9.81 * PLATFORM_MASS / (6.0 * steep),
            )
        )
    system, state = m.build()
    lengths = [f"leg {k}.displacement" for k in _LEGS]
    speeds = [f"leg {k}.speed" for k in _LEGS]
    body = system.bodies.index("platform")

    def begin(key: Array) -> State:
        drawn = jax.random.uniform(key, (6,), minval=-0.03, maxval=0.03, dtype=system.dtype)
        return set_joints(system, state, {f"leg {k}": drawn[k - 1] for k in _LEGS})

    def goal(key: Array) -> Array:
        size, phase = jax.random.uniform(key, (2, 6), dtype=system.dtype)
        largest = jnp.repeat(jnp.asarray([SHIFT, TILT], system.dtype), 3)
        return jnp.stack([largest * size, 2.0 * jnp.pi * phase])

    def errors(carry: Carry, goal: Array) -> tuple[Array, Array]:
        r, turn = target_pose(goal, carry.t)
        now = carry.state
        return now.r[body] - r, so3.log(so3.exp(turn).T @ now.A[body])

    def observed(system: System, carry: Carry, goal: Array) -> Array:
        now = carry.state
        _, rate = jax.jvp(lambda t: target_pose(goal, t), (carry.t,), (jnp.ones_like(carry.t),))
        legs = observe(system, carry, lengths + speeds)
        twist = now.v[body], now.omega[body]
        return jnp.concatenate([legs, *twist, *errors(carry, goal), *rate])

    def reward(system: System, before: Carry, action: Array, after: Carry, goal: Array) -> Array:
        shift, turn = errors(after, goal)
        cost = jnp.sum(shift**2) / 0.1**2 + jnp.sum(turn**2) / 0.25**2
        return -cost - 0.01 * jnp.sum(action**2)

    def terminated(system: System, carry: Carry, goal: Array) -> Array:
        shift, turn = errors(carry, goal)
        return (jnp.sum(shift**2) > 0.4**2) | (jnp.sum(turn**2) > 1.0)

    return Environment(
        system,
        begin,
        observed,
        reward,
        low=-np.ones(6),
        high=np.ones(6),
        h=0.01,
        substeps=2,
        horizon=100,
        terminated=terminated,
        goal=goal,
    )
