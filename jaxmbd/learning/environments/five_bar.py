"""A planar five-bar arm that reaches for a target."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...analyses import Carry, observe, set_joints
from ...model import Frame, Input, JointSpring, Mechanism, Motor, Revolute
from ...model.state import State
from ...model.system import System
from ..environment import Environment
from .bars import add_bar, in_space

# Of the right half, x and z [m]; the left half is its mirror image.
BASE, KNEE, TIP = np.array([0.3, 0.0]), np.array([0.55, 0.433]), np.array([0.0, 1.0144])
CRANK_MASS, ROD_MASS = 0.5, 0.4  # [kg]
TORQUE, DAMPING = 2.0, 0.2  # of a motor [N·m], of a driven joint [N·m·s/rad]
TARGET, RADIUS = (0.0, 0.85), 0.25  # of the disc in which targets lie [m]


def five_bar() -> Environment:
    """Reach a target with the tip of a five-bar: two cranks of 0.5 m on hinges 0.6 m apart and two
    rods of 0.8 m, which meet at the tip. A closed loop of four bodies in the plane of x and z with
    two degrees of freedom, without gravity.

    - Action, (2,): torques of the motors on the left and on the right crank, from -1 to 1 of 2 N·m.
    - Observation, (8,): "left.angle", "right.angle" [rad] of the cranks from their symmetric pose,
      "left.rate", "right.rate" [rad/s], "tip.r.x", "tip.r.z" [m], and the goal.
    - Goal, (2,): x and z of the target [m], uniform in a disc of 0.25 m, all of it within reach.
    - Reward: -(distance / 0.25 m)² - 0.01 |action|².
    - Beginning: at rest, cranks up to 0.4 rad from the symmetric pose; the loop is assembled.
    - Termination: a crank that turns faster than 30 rad/s.
    - Time: 40 ms an action, in 4 steps; 40 actions an episode.
    """
    m = Mechanism("five_bar", gravity=(0.0, 0.0, 0.0))
    for side, mirror in (("left", np.array([-1.0, 1.0])), ("right", np.ones(2))):
        crank, rod, base, knee = f"{side} crank", f"{side} rod", mirror * BASE, mirror * KNEE
        add_bar(m, crank, base, knee, mass=CRANK_MASS)
        add_bar(m, rod, knee, TIP, mass=ROD_MASS)
        m.add(Revolute(side, m.ground, crank, point=in_space(base), axis=(0, -1, 0)))
        m.add(Revolute(f"{side} knee", crank, rod, point=in_space(knee), axis=(0, -1, 0)))
    tip = in_space(TIP)
    m.add(Revolute("wrist", "left rod", "right rod", point=tip, axis=(0, -1, 0)))
    m.add(Frame("tip", "left rod", point=tip))
    for side in ("left", "right"):
        command = Input(f"{side} torque")
        m.add(Motor(f"{side} motor", side, command=command, gear_ratio=TORQUE, effort_limit=TORQUE))
        m.add(JointSpring(f"{side} friction", side, damping=DAMPING))
    system, state = m.build()

    def begin(key: Array) -> State:
        left, right = 0.4 * jax.random.uniform(key, (2,), minval=-1.0, dtype=system.dtype)
        return set_joints(system, state, {"left": left, "right": right})

    def goal(key: Array) -> Array:
        radius, turn = jax.random.uniform(key, (2,), dtype=system.dtype)
        around = jnp.stack([jnp.cos(2.0 * jnp.pi * turn), jnp.sin(2.0 * jnp.pi * turn)])
        return jnp.asarray(TARGET, system.dtype) + RADIUS * jnp.sqrt(radius) * around

    def reward(system: System, before: Carry, action: Array, after: Carry, goal: Array) -> Array:
        away = observe(system, after, ["tip.r.x", "tip.r.z"]) - goal
        return -jnp.sum(away**2) / RADIUS**2 - 0.01 * jnp.sum(action**2)

    def terminated(system: System, carry: Carry, goal: Array) -> Array:
        return jnp.any(jnp.abs(observe(system, carry, ["left.rate", "right.rate"])) > 30.0)

    return Environment(
        system,
        begin,
        ["left.angle", "right.angle", "left.rate", "right.rate", "tip.r.x", "tip.r.z"],
        reward,
        low=[-1.0, -1.0],
        high=[1.0, 1.0],
        h=0.01,
        substeps=4,
        horizon=40,
        terminated=terminated,
        goal=goal,
    )
