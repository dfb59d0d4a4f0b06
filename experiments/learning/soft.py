"""The same task in MJX, where the loop is closed by a soft constraint."""

import jax
import jax.numpy as jnp
import numpy as np

from ..control.minimal import Parallelogram
from ..minimal_coordinates import box_inertia
from .problem import Start, cost


def model(h: float):
    """The cart with its poles as a tree, and a connection of the bar to the second pole.

    One iteration of Newton's method solves MuJoCo's constraints exactly, as long as they are
    equalities; a single one can also be differentiated in reverse mode.
    """
    import mujoco
    from mujoco import mjx

    p = Parallelogram()

    def inertial(mass, size, center):
        moments = " ".join(f"{x:.17g}" for x in box_inertia(mass, size))
        return f'<inertial pos="{center}" mass="{mass:.17g}" diaginertia="{moments}"/>'

    pole = inertial(p.pole_mass, p.pole, "0 0 0.4")
    text = (
        f'<mujoco><option timestep="{h}" solver="Newton" iterations="1" ls_iterations="4" '
        'integrator="Euler"><flag contact="disable" eulerdamp="disable"/></option><worldbody>'
        '<body><joint type="slide" axis="1 0 0"/>'
        f"{inertial(p.cart_mass, (0.6, 0.2, 0.1), '0 0 0')}"
        f'<body pos="-0.2 0 0"><joint type="hinge" axis="0 1 0"/>{pole}'
        f'<body name="bar" pos="0 0 0.8"><joint type="hinge" axis="0 1 0"/>'
        f"{inertial(p.bar_mass, (0.5, 0.05, 0.05), '0.2 0 0')}</body></body>"
        f'<body name="right" pos="0.2 0 0"><joint type="hinge" axis="0 1 0"/>{pole}</body></body>'
        '</worldbody><equality><connect body1="bar" body2="right" anchor="0.4 0 0"/></equality>'
        "</mujoco>"
    )
    return mjx.put_model(mujoco.MjModel.from_xml_string(text))


def loss(m, policy, start: Start, *, steps: int):
    """Cost of one run in MJX."""
    from mujoco import mjx

    (x, phi), (v, rate) = start.q, start.v
    data = mjx.make_data(m)
    # Joints: cart, first pole, bar against it, second pole.
    data = data.replace(qpos=jnp.stack([x, phi, -phi, phi]), qvel=jnp.stack([v, rate, -rate, rate]))

    def advance(data, _):
        q, v = data.qpos[:2], data.qvel[:2]
        force = policy(q, v)
        after = mjx.step(m, data.replace(qfrc_applied=jnp.zeros(4).at[0].set(force)))
        return after, (q, v, force)

    _, (q, v, force) = jax.lax.scan(advance, data, None, length=steps)
    return cost(q, v, force, start.until)


def gap(m, policy, start: Start, *, steps: int):
    """The largest distance by which the loop opens in a run [m]."""
    from mujoco import mjx

    (x, phi), (v, rate) = start.q, start.v
    data = mjx.make_data(m).replace(
        qpos=jnp.stack([x, phi, -phi, phi]), qvel=jnp.stack([v, rate, -rate, rate])
    )

    def advance(data, _):
        force = policy(data.qpos[:2], data.qvel[:2])
        after = mjx.step(m, data.replace(qfrc_applied=jnp.zeros(4).at[0].set(force)))
        x, left, bar, right = after.qpos
        tip = jnp.stack([-0.2 + 0.8 * jnp.sin(left), 0.8 * jnp.cos(left)])
        end = tip + 0.4 * jnp.stack([jnp.cos(left + bar), -jnp.sin(left + bar)])
        other = jnp.stack([0.2 + 0.8 * jnp.sin(right), 0.8 * jnp.cos(right)])
        return after, jnp.linalg.norm(end - other)

    _, gaps = jax.lax.scan(advance, data, None, length=steps)
    return jnp.max(gaps)


def installed() -> bool:
    """Whether MJX is there."""
    import importlib.util

    return importlib.util.find_spec("mujoco") is not None and (
        importlib.util.find_spec("mujoco.mjx") is not None
    )


def check(m) -> float:
    """Largest difference of accelerations to the minimal coordinates at a start, relative."""
    from mujoco import mjx

    data = mjx.make_data(m).replace(qpos=jnp.array([0.1, 0.4, -0.4, 0.4]))
    ours = mjx.forward(m, data.replace(qfrc_applied=jnp.zeros(4).at[0].set(7.0))).qacc[:2]
    theirs = Parallelogram(lambda t, q, v: 7.0).accelerations(
        0.0, jnp.array([0.1, 0.4]), jnp.zeros(2)
    )
    return float(np.max(np.abs(np.asarray(ours) - np.asarray(theirs)) / np.abs(np.asarray(theirs))))
