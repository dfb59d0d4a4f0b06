"""How every part of this experiment is replayed: by another integrator at a tenth of the step."""

import numpy as np

import jaxmbd as mbd

METHOD = mbd.GeneralizedAlpha(rho_inf=0.8)
REPLAY = mbd.BDF2()
FINER = 10  # steps of the replay in a step of the training


def replayed(built, h, steps):
    """The motion of a system and state by another integrator at a tenth of the step, same rows."""
    return mbd.simulate(
        *built, h=h / FINER, steps=steps * FINER, save_every=FINER, integrator=REPLAY, throw=False
    )


def pole_angle(sol, near=0.0):
    """Angle of the pole of the cart-pole over time, 0 where it hangs, over any number of turns;
    that of the start is the one nearest to `near`.
    """
    A = np.asarray(sol.A)
    s, c = -A[..., 1, 0, 2], A[..., 1, 2, 2]
    sin, cos = s * np.cos(near) - c * np.sin(near), c * np.cos(near) + s * np.sin(near)
    return near + np.unwrap(np.arctan2(sin, cos), axis=-1)


def from_upright(angle):
    """How far an angle of the cart-pole's pole is from standing [degrees], of any turn."""
    return np.degrees(np.abs((np.asarray(angle) % (2.0 * np.pi)) - np.pi))


def largest(x):
    return float(np.max(np.abs(np.asarray(x))))
