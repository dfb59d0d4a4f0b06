"""What is asked for where steps are chosen for a tolerance."""

from typing import Any

import equinox as eqx


class Adaptive(eqx.Module):
    """Steps chosen for a tolerance: `simulate(..., step=mbd.Adaptive(1e-6), save_at=ts)`.

    Steps are free of the times of the rows: positions and velocities between two steps are
    interpolated to sixth order. Accelerations and multipliers of every row solve the equations of
    motion at its positions and velocities, so they are as accurate as the motion, whatever the
    method. Derivatives hold the chosen steps fixed.

    An event that acts ends a step: the instant is the root of a step from the same beginning, so
    that constraints hold there to the step's own tolerance, and the run starts anew with a small
    step.

    A compiled run reserves memory for `max_steps` rows, and in a batch every element takes that
    many turns, most of
    them idle: choose it near what is needed there.

    Attributes:
        tolerance: On the estimated error that one step adds: of positions relative to the system's
            length, of rotations [rad], and of velocities relative to those lengths over the
            motion's own time.
        h0: First step [s]; by default from the accelerations at the start.
        max_steps: Largest number of steps, refused ones included; an event that acts takes six.
    """

    tolerance: Any = 1e-6
    h0: Any = None
    max_steps: int = eqx.field(static=True, default=4096)
