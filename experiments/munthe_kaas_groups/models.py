"""The four examples of Mueller and Terze, all packaged, and the free slider crank for the
work-precision diagram.
"""

from functools import partial

import numpy as np

import jaxmbd as mbd


def floating_pair_without_momentum():
    """The floating pair (section 5.3), whose translation the paper leaves open, without momentum as
    a whole.
    """
    m = mbd.load_mechanism("floating_pair")
    v_1, v_2 = (np.asarray(body.v) for body in m.bodies.values())  # of equal masses
    mean = 0.5 * (v_1 + v_2)
    return m.with_values({"bodies.body_1.v": v_1 - mean, "bodies.body_2.v": v_2 - mean})


def on_moving_base(rate=0.0, speed=0.0):
    """The floating pair with a first body a million times as heavy, which turns about the vertical
    at `rate` [rad/s] and travels at `speed` [m/s]; the second spins on it as in section 5.2.
    """
    m = mbd.load_mechanism("floating_pair")
    base, spinning = (f"bodies.body_{k}" for k in (1, 2))
    turning, travel = np.array([0.0, 0.0, rate]), np.array([0.0, speed, 0.0])
    omega, arm = np.array([10 * np.pi, 10 * np.pi, 20 * np.pi]), np.array([0.1, 0.0, 0.0])
    body = m.bodies["body_1"]
    return m.with_values(
        {
            f"{base}.mass": 1e6 * body.mass,
            f"{base}.inertia": 1e6 * np.asarray(body.inertia),
            f"{base}.omega": turning,
            f"{base}.v": travel,
            f"{spinning}.omega": omega,
            f"{spinning}.v": travel + np.cross(turning, arm) + np.cross(omega, arm),
        }
    )


EXAMPLES = {
    "heavy_top": partial(mbd.load_mechanism, "heavy_top"),
    "double_pendulum": partial(mbd.load_mechanism, "spherical_double_pendulum"),
    "floating_pair_at_rest": partial(mbd.load_mechanism, "floating_pair"),
    "floating_pair_no_momentum": floating_pair_without_momentum,
    "closed_loop": partial(mbd.load_mechanism, "three_bar_loop"),
}
PRECISION = {
    "heavy_top": EXAMPLES["heavy_top"],
    "double_pendulum": EXAMPLES["double_pendulum"],
    "slider_crank_free": partial(mbd.load_mechanism, "slider_crank_free"),
}


def chain_of(system, state):
    """The heavy top or the spherical double pendulum, as `spherical_chain` takes them."""
    r, A = np.asarray(state.r), np.asarray(state.A)
    joints = np.zeros_like(r)
    for k in range(1, len(r)):
        joints[k] = joints[k - 1] + 2.0 * (r[k - 1] - joints[k - 1])  # halfway is the mass center
    arms = np.einsum("kji,kj->ki", A, r - joints)
    return {
        "masses": np.asarray(system.mass),
        "inertias": np.asarray(system.inertia),
        "to_center": arms,
        "to_next": 2.0 * arms,
        "A0": A,
        "omega0": np.asarray(state.omega),
        "gravity": -float(system.gravity[2]),
    }
