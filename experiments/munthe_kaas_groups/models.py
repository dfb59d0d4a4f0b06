"""The four examples of Mueller and Terze as mechanisms, and the free slider crank for the
work-precision diagram.
"""

import numpy as np

import jaxmbd as mbd

G = (0.0, 0.0, -9.81)
BOX = {"mass": 2.7, "inertia": (0.0028125, 0.0095625, 0.01125)}  # 0.2 x 0.1 x 0.05 m of aluminium


def heavy_top():
    """A box on a spherical joint, spun at 70 rad/s without gravity (section 5.1)."""
    s, omega = np.array([0.5, 0.0, 0.0]), np.pi * np.array([0.0, 20.0, 10.0])
    m = mbd.Mechanism("heavy_top", gravity=(0, 0, 0))
    m.add_body(
        "top", mass=21.6, inertia=(0.36, 0.306, 0.09), r=s, omega=omega, v=np.cross(omega, s)
    )
    m.add(mbd.Spherical("pivot", m.ground, "top", point=(0, 0, 0)))
    return m


def double_pendulum():
    """Two boxes in a row on spherical joints (section 5.2)."""
    omega_1, omega_2 = np.array([10.0, 0, 0]), np.pi * np.array([10.0, 10.0, 20.0])
    m = mbd.Mechanism("spherical_double_pendulum", gravity=G)
    m.add_body("body_1", r=(0.1, 0, 0), omega=omega_1, **BOX)
    m.add_body("body_2", r=(0.3, 0, 0), omega=omega_2, v=np.cross(omega_2, [0.1, 0, 0]), **BOX)
    m.add(mbd.Spherical("ground_joint", m.ground, "body_1", point=(0, 0, 0)))
    m.add(mbd.Spherical("middle_joint", "body_1", "body_2", point=(0.2, 0, 0)))
    return m


def floating_pair(*, at_rest):
    """Two boxes on one spherical joint, free in space (section 5.3).

    The paper leaves the translation open: the left end of body 1 starts at rest, or the whole has
    no momentum.
    """
    omega_1, omega_2 = np.array([0.0, 0, -10.0]), np.array([1.0, -1.0, 2 * np.pi])
    v_1 = np.cross(omega_1, [0.1, 0, 0])
    v_2 = np.cross(omega_1, [0.2, 0, 0]) + np.cross(omega_2, [0.1, 0, 0])
    if not at_rest:
        v_1, v_2 = v_1 - 0.5 * (v_1 + v_2), v_2 - 0.5 * (v_1 + v_2)
    m = mbd.Mechanism(
        "floating_pair_at_rest" if at_rest else "floating_pair_no_momentum", gravity=(0, 0, 0)
    )
    m.add_body("body_1", r=(0.1, 0, 0), omega=omega_1, v=v_1, **BOX)
    m.add_body("body_2", r=(0.3, 0, 0), omega=omega_2, v=v_2, **BOX)
    m.add(mbd.Spherical("joint", "body_1", "body_2", point=(0.2, 0, 0)))
    return m


def closed_loop():
    """Two boxes between two ground joints 0.3 m apart and an apex, all spherical (section 5.4;
    numbers ours).
    """
    apex, right = np.array([0.15, np.sqrt(0.0175), 0.0]), np.array([0.3, 0.0, 0.0])
    m = mbd.Mechanism("closed_loop", gravity=G)
    for name, foot, end, spin in (
        ("body_1", np.zeros(3), apex, 20.0),
        ("body_2", right, apex, -30.0),
    ):
        along = (end - foot) if name == "body_1" else (foot - end)
        e = along / np.linalg.norm(along)
        A = np.column_stack([e, [-e[1], e[0], 0.0], [0.0, 0.0, 1.0]])
        omega, center = np.array([5.0, 0, 0]) + spin * e, 0.5 * (foot + end)
        m.add_body(name, r=center, A=A, omega=A.T @ omega, v=np.cross(omega, center - foot), **BOX)
    m.add(mbd.Spherical("ground_joint_1", m.ground, "body_1", point=(0, 0, 0)))
    m.add(mbd.Spherical("apex_joint", "body_1", "body_2", point=apex))
    m.add(mbd.Spherical("ground_joint_2", m.ground, "body_2", point=right))
    return m


EXAMPLES = {
    "heavy_top": heavy_top,
    "double_pendulum": double_pendulum,
    "floating_pair_at_rest": lambda: floating_pair(at_rest=True),
    "floating_pair_no_momentum": lambda: floating_pair(at_rest=False),
    "closed_loop": closed_loop,
}
PRECISION = {
    "heavy_top": heavy_top,
    "double_pendulum": double_pendulum,
    "slider_crank_free": lambda: mbd.load_mechanism("slider_crank_free"),
}
