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
