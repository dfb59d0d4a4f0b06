"""A leg with a closed loop that hops."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...analyses import Carry, observe, set_joints
from ...model import (
    Armature,
    Box,
    Contact,
    Frame,
    Input,
    JointLimit,
    JointSpring,
    Mechanism,
    Motor,
    Revolute,
    Translational,
)
from ...model.state import State
from ...model.system import System
from ..environment import Environment
from .bars import add_bar, in_space

LINK, BEND = 0.25, np.radians(40.0)  # thigh and shank [m], from the vertical as described
# The rocker's ends, from the hip, and from the knee along the shank [m]: with these the foot stays
# within 8 mm of the vertical through the hip for bends from 20 to 60 degrees.
PIVOT, ANKLE = np.array([0.095, -0.069]), 0.06
SOLE = 0.02  # radius of the foot [m]
TORQUE, NO_LOAD = 8.0, 25.0  # of the motor [N·m], [rad/s]
SPRING, REST = 30.0, np.radians(-14.5)  # [N·m/rad], carries the weight at the described bend
LOWEST = 0.15  # of the hip above the ground [m]


def hopping_leg() -> Environment:
    """Hop on the spot: a body of 2 kg on a vertical slide, and below it a leg of thigh, shank and
    rocker, which make a four-bar with the body. One motor at the hip bends and stretches it, beside
    a spring that carries the weight. Two degrees of freedom while it stands or flies.

    The foot touches the ground as a ball with stiffness, so that motions have gradients.

    - Action, (1,): torque of the motor, from -1 to 1 of 8 N·m, about what carries the weight; it
      falls linearly with the rate and is nothing at 25 rad/s. Positive actions stretch the leg.
    - Observation, (5,): "slide.displacement" [m] of the body from standing height, "slide.speed"
      [m/s], "hip.angle" [rad] from standing, negative where the leg is stretched, "hip.rate"
      [rad/s], "foot.r.z" [m], the height of the center of the foot's ball.
    - Reward: height of the foot above the ground / 0.1 m - 0.01 action². A leg that stands gets
      nothing, however far it stretches.
    - Beginning: at rest in the air, 5 to 15 cm above standing height, hip up to 0.1 rad bent or
      stretched; the loop is assembled.
    - Termination: the hip is less than 0.15 m above the ground.
    - Time: 20 ms an action, in 10 steps; 100 actions an episode.
    """
    hip = np.array([0.0, 2.0 * LINK * np.cos(BEND) + SOLE])
    knee = hip - LINK * np.array([np.sin(BEND), np.cos(BEND)])
    along = np.array([np.sin(BEND), -np.cos(BEND)])
    foot, ankle, pivot = knee + LINK * along, knee + ANKLE * along, hip + PIVOT

    m = Mechanism("hopping_leg")
    body = m.add_body("body", shape=Box((0.2, 0.1, 0.1), mass=2.0), r=in_space(hip))
    add_bar(m, "thigh", hip, knee, mass=0.2)
    add_bar(m, "rocker", pivot, ankle, mass=0.1, width=0.015)
    shank = add_bar(m, "shank", knee, foot, mass=0.15)
    m.add(Translational("slide", m.ground, body, point=in_space(hip), axis=(0, 0, 1)))
    # A positive angle of the hip bends the leg.
    for name, i, j, point in (
        ("hip", "body", "thigh", hip),
        ("pivot", "body", "rocker", pivot),
        ("knee", "thigh", "shank", knee),
        ("ankle", "rocker", "shank", ankle),
    ):
        m.add(Revolute(name, i, j, point=in_space(point), axis=(0, 1, 0)))
    m.add(Frame("foot", shank, point=in_space(foot)))
    m.add(
        Motor(
            "motor",
            "hip",
            command=Input("torque"),
            gear_ratio=-TORQUE,
            effort_limit=TORQUE,
            no_load_rate=NO_LOAD,
        )
    )
    m.add(JointSpring("spring", "hip", stiffness=SPRING, damping=0.2, reference=REST))
    m.add(Armature("rotor", "hip", inertia=0.02))
    lower, upper = np.radians((-18.0, 25.0))
    m.add(JointLimit("stop", "hip", lower=lower, upper=upper, stiffness=2000.0, damping=0.2))
    m.add(
        Contact(
            "ground",
            shank,
            m.ground,
            points=[in_space(foot)],
            radius=SOLE,
            friction=0.6,
            stiffness=1e5,
            damping=0.5,
            slip_speed=0.05,
        )
    )
    system, state = m.build()

    def begin(key: Array) -> State:
        height, bend = jax.random.uniform(key, (2,), dtype=system.dtype)
        return set_joints(
            system, state, {"slide": 0.05 + 0.1 * height, "hip": 0.1 * (2.0 * bend - 1.0)}
        )

    def reward(system: System, before: Carry, action: Array, after: Carry) -> Array:
        return (observe(system, after, "foot.r.z") - SOLE) / 0.1 - 0.01 * jnp.sum(action**2)

    def terminated(system: System, carry: Carry) -> Array:
        return observe(system, carry, "body.r.z") < LOWEST

    return Environment(
        system,
        begin,
        ["slide.displacement", "slide.speed", "hip.angle", "hip.rate", "foot.r.z"],
        reward,
        low=[-1.0],
        high=[1.0],
        h=2e-3,
        substeps=10,
        horizon=100,
        terminated=terminated,
    )
