"""Outcomes of a run: codes inside the arrays, sentences for people."""

import equinox as eqx


class RESULTS(eqx.Enumeration):
    """What became of a run. Codes travel through `jit` and `vmap`; nothing raises inside a loop."""

    successful = ""
    assembly_failed = (
        "the initial pose cannot be assembled: the joints do not close; check their points and axes, or start closer "
        "to a closed pose"
    )
    newton_max_steps = (
        "Newton's iteration did not converge; reduce the step size, or check for a sudden load, a locking position or "
        "a driver that asks for the impossible"
    )
    singular = (
        "the constraint Jacobian lost rank; a DP1 driver f = cos(angle) is singular at 0 and 180 degrees "
        "(use RotationDriver), or the mechanism has reached a locking or branching position"
    )
    non_finite = "a NaN or an infinity appeared; check forces, user functions and motions at this time"
    step_too_small = (
        "the step size fell below a billionth of the span; the motion has an impact or a locking position there, or "
        "the tolerance is below what rounding allows"
    )
    too_many_steps = "the run used up its steps; allow more with max_steps=, or a larger tolerance"
