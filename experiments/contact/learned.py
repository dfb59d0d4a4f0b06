"""Laws that are identified from a noisy throw."""

import numpy as np

import jaxmbd as mbd

STEPS, H = 150, 1e-2


def identified():
    """Friction and restitution of a tossed ball from its place with noise of 1 mm."""

    def toss(friction, restitution):
        m = mbd.Mechanism("toss")
        b = m.add_body(
            "ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.6), v=(1.5, 0, 1.0), omega=(0, 3, 0)
        )
        m.add(mbd.Contact("floor", b, m.ground, friction=friction, restitution=restitution))
        return m

    truth = {"friction": 0.05, "restitution": 0.7}
    sol = mbd.simulate(*toss(**truth).build(), h=H, steps=STEPS)
    rng = np.random.default_rng(0)
    place = {
        f"ball.r.{axis}": np.asarray(sol.r[:, 0, k]) + 1e-3 * rng.normal(size=sol.t.size)
        for axis, k in (("x", 0), ("z", 2))
    }
    report = mbd.fit(
        toss(0.03, 0.6),  # more friction would end all slip, and no derivative would see it
        {
            "laws.floor.friction": mbd.Bounded(0.0, 0.5),
            "laws.floor.restitution": mbd.Bounded(0.0, 1.0),
        },
        mbd.Measurements(sol.t, place, sigma=1e-3),
        h=H,
        progress=False,
    )
    return report, truth
