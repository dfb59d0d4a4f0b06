"""The examples of Betsch and Leyendecker, section 5, all packaged; lengths in m, masses in kg."""

from functools import partial

import numpy as np

import jaxmbd as mbd


def precession(t):
    """The mass center of the packaged gyro top at times t, in closed form, (T, 3)."""
    theta, L = np.pi / 3, 0.075
    angle = 10.0 * np.asarray(t)
    return L * np.stack(
        [
            np.sin(theta) * np.sin(angle),
            -np.sin(theta) * np.cos(angle),
            np.full_like(angle, np.cos(theta)),
        ],
        axis=1,
    )


def six_body_chain():
    """The six-body linkage without the hinge that shuts its loop: five bodies in a row."""
    m = mbd.load_mechanism("six_body_linkage")
    del m.constraints["hinge_6"]
    return m


MODELS = {
    "gyro_top": partial(mbd.load_mechanism, "gyro_top"),
    "cylindrical_pair": partial(mbd.load_mechanism, "cylindrical_pair"),
    "planar_pair": partial(mbd.load_mechanism, "planar_pair"),
    "six_body_chain": six_body_chain,
    "six_body_linkage": partial(mbd.load_mechanism, "six_body_linkage"),
}
