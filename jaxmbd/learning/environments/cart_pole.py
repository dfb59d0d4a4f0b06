"""A pole on a cart that a motor with a limit drives."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...analyses import Carry, observe, set_joints
from ...model import Box, Cylinder, Input, Mechanism, Motor, Revolute, Translational
from ...model.state import State
from ...model.system import System
from ..environment import Environment

_EFFORT, _NO_LOAD = 10.0, 4.0  # [N], [m/s]
_RAIL = 2.0  # from the middle to an end [m]
_FALLEN = 0.6  # [rad]


def cart_pole() -> Environment:
    """Balance a pole of 1 m on a cart on a rail of 4 m; two degrees of freedom.

    - Action, (1,): effort of the motor, from -1 to 1 of 10 N. What is left of it falls linearly
      with the speed of the cart and is nothing at 4 m/s.
    - Observation, (4,): "rail.displacement" [m], "rail.speed" [m/s], "pivot.angle" [rad] from
      upright, "pivot.rate" [rad/s].
    - Reward: cos(angle) - 0.1 displacement² - 0.001 action², at most 1.
    - Beginning: at rest, up to 0.5 m from the middle and 0.2 rad from upright.
    - Termination: beyond 0.6 rad, or 2 m from the middle.
    - Time: 20 ms an action, in 2 steps; 250 actions an episode.
    """
    m = Mechanism("cart_pole")
    cart = m.add_body("cart", shape=Box((0.3, 0.2, 0.1), mass=1.0))
    pole = m.add_body("pole", shape=Cylinder(0.02, 1.0, mass=0.2), r=(0.0, 0.0, 0.5))
    m.add(Translational("rail", m.ground, cart, point=(0, 0, 0), axis=(1, 0, 0)))
    m.add(Revolute("pivot", cart, pole, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(
        Motor(
            "motor",
            "rail",
            command=Input("effort"),
            gear_ratio=_EFFORT,
            effort_limit=_EFFORT,
            no_load_rate=_NO_LOAD,
        )
    )
    system, state = m.build()

    def begin(key: Array) -> State:
        place, angle = jax.random.uniform(key, (2,), minval=-1.0, dtype=system.dtype)
        return set_joints(system, state, {"rail": 0.5 * place, "pivot": 0.2 * angle})

    def reward(system: System, before: Carry, action: Array, after: Carry) -> Array:
        place, angle = observe(system, after, ["rail.displacement", "pivot.angle"])
        return jnp.cos(angle) - 0.1 * place**2 - 1e-3 * jnp.sum(action**2)

    def terminated(system: System, carry: Carry) -> Array:
        place, angle = observe(system, carry, ["rail.displacement", "pivot.angle"])
        return (jnp.abs(angle) > _FALLEN) | (jnp.abs(place) > _RAIL)

    return Environment(
        system,
        begin,
        ["rail.displacement", "rail.speed", "pivot.angle", "pivot.rate"],
        reward,
        low=[-1.0],
        high=[1.0],
        h=0.01,
        substeps=2,
        horizon=250,
        terminated=terminated,
    )
