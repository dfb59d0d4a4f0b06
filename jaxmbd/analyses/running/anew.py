"""A motion that goes on with other joints: velocities after the impact, and the method started
anew.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...equations.index1 import velocity_jump
from ...formulations import AbstractFormulation
from ...integrators import AbstractIntegrator, Motion
from ...model.system import System
from ...rotations.types import Scalar


def started_anew(
    method: tuple[AbstractFormulation, AbstractIntegrator],
    systems: tuple[System, System],
    motion: Motion,
    times: tuple[Scalar, Scalar],
    restitution: Float[Array, " m"] | None = None,
) -> Motion:
    """The motion at an instant from which it follows other equations, with velocities and
    accelerations that satisfy these.

    Args:
        method: Coordinates and step method.
        systems: With the rows that take part in the impact, and with those that hold afterwards.
        motion: That was reached.
        times: The instant, and the length of the next step [s].
        restitution: Of all rows in the impact, (m,), see `velocity_jump`.
    """
    (formulation, integrator), (strikes, system), (t, h) = method, systems, times
    change, _, _ = velocity_jump(formulation, strikes, motion.q, motion.u, t, restitution)
    begin = dataclasses.replace(motion, u=motion.u + change)
    begin = integrator.anew(formulation, system, begin, t, h)
    # As loops and branches need it.
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), begin, motion)
