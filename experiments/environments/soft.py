"""The same five-bar in MJX: a tree of hinges, closed by a soft `connect`."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbd.learning.environments.five_bar import (
    BASE,
    CRANK_MASS,
    DAMPING,
    KNEE,
    RADIUS,
    ROD_MASS,
    TIP,
    TORQUE,
)

from ..minimal_coordinates import box_inertia

WIDTH = 0.03  # of the bars [m]


def installed() -> bool:
    """Whether MJX can be imported."""
    try:
        from mujoco import mjx  # noqa: F401
    except ImportError:
        return False
    return True


def _bar(p, q, mass, name, inside):
    """A body at p with a hinge about -y and a bar to q, and what hangs on it."""
    length, turn = np.linalg.norm(q - p), -np.degrees(np.arctan2(*(q - p)[::-1]))
    moments = " ".join(f"{x:.17g}" for x in box_inertia(mass, (length, WIDTH, WIDTH)))
    middle = 0.5 * (q - p)
    return (
        f'<joint type="hinge" axis="0 -1 0"{name}/>'
        f'<inertial pos="{middle[0]:.17g} 0 {middle[1]:.17g}" euler="0 {turn:.17g} 0" '
        f'mass="{mass}" diaginertia="{moments}"/>{inside}'
    )


def described(h: float) -> str:
    """The mechanism for MuJoCo at a step. The time constant of the loop is the shortest that it
    admits, 2 h, which at 10 ms is its default.

    One iteration of Newton's method solves MuJoCo's constraints exactly, as long as they are
    equalities.
    """
    tree = ""
    for side, mirror in (("left", np.array([-1.0, 1.0])), ("right", np.ones(2))):
        base, knee = mirror * BASE, mirror * KNEE
        rod = _bar(knee, TIP, ROD_MASS, "", "")
        place = knee - base
        inside = f'<body name="{side}" pos="{place[0]:.17g} 0 {place[1]:.17g}">{rod}</body>'
        crank = _bar(base, knee, CRANK_MASS, f' damping="{DAMPING}"', inside)
        tree += f'<body pos="{base[0]:.17g} 0 {base[1]:.17g}">{crank}</body>'
    left = TIP - KNEE * np.array([-1.0, 1.0])
    return (
        f'<mujoco><option timestep="{h}" gravity="0 0 0" solver="Newton" iterations="1" '
        'ls_iterations="4" integrator="Euler"><flag contact="disable"/></option><worldbody>'
        f'{tree}</worldbody><equality><connect body1="left" body2="right" '
        f'anchor="{left[0]:.17g} 0 {left[1]:.17g}" solref="{2.0 * h} 1"/></equality></mujoco>'
    )


def model(h: float):
    """The mechanism in MJX."""
    import mujoco
    from mujoco import mjx

    return mjx.put_model(mujoco.MjModel.from_xml_string(described(h)))


def tips(q):
    """The end of the left and of the right rod, (2, 2) [m], from the four joint angles (left crank,
    left knee, right crank, right knee), by plane geometry.
    """
    found = []
    for crank, knee, mirror in ((q[0], q[1], np.array([-1.0, 1.0])), (q[2], q[3], np.ones(2))):
        base, elbow = mirror * BASE, mirror * KNEE
        found.append(base + _turned(crank, elbow - base) + _turned(crank + knee, TIP - elbow))
    return jnp.stack(found)


def _turned(angle, v):
    """A vector of x and z turned about -y, from x to z."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * v[0] - s * v[1], s * v[0] + c * v[1]])


def played(m, start, target, actions, substeps: int):
    """Rewards, and joint angles after each action."""
    from mujoco import mjx

    data = mjx.make_data(m)
    data = data.replace(qpos=start, qvel=jnp.zeros(4))

    def one(data, action):
        # Torques of the motors on the cranks; the knees have none.
        torque = TORQUE * jnp.stack([action[0], 0.0 * action[0], action[1], 0.0 * action[0]])
        data = data.replace(qfrc_applied=torque)
        data = jax.lax.fori_loop(0, substeps, lambda _, d: mjx.step(m, d), data)
        away = jnp.mean(tips(data.qpos), axis=0) - target
        reward = -jnp.sum(away**2) / RADIUS**2 - 0.01 * jnp.sum(action**2)
        return data, (reward, data.qpos)

    return jax.lax.scan(one, data, actions)[1]


def timed(program, *given, repeats: int) -> tuple[float, float, Any]:
    """Processor time of compilation and of one run, the least of some [s]; and what comes out."""
    began = time.process_time()
    compiled = jax.jit(program).lower(*given).compile()
    compiling = time.process_time() - began
    took, found = [], None
    for _ in range(repeats):
        began = time.process_time()
        found = jax.block_until_ready(compiled(*given))
        took.append(time.process_time() - began)
    return compiling, min(took), found
