"""Energies and momenta of a motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..formulations import RA
from ..model.compiled import Compiled
from ..model.state import State, Twist
from ..model.system import System
from ..model.validation import is_concrete
from .moment import Moment


class Energy(eqx.Module):
    """Kinetic, potential (gravity and springs) and total energy, (T,) each [J]."""

    kinetic: Float[Array, " T"]
    potential: Float[Array, " T"]

    @property
    def total(self) -> Float[Array, " T"]:
        if is_concrete((self.kinetic, self.potential)):  # compiles nothing
            return jax.device_put(np.asarray(self.kinetic) + np.asarray(self.potential))
        return self.kinetic + self.potential


class Momentum(eqx.Module):
    """Linear momentum [kg·m/s] and angular momentum about the global origin [kg·m²/s], (T, 3) each,
    global.
    """

    linear: Float[Array, "T 3"]
    angular: Float[Array, "T 3"]


@Compiled
def energies(
    system: System, states: State, moments: Moment
) -> tuple[Float[Array, " T"], Float[Array, " T"]]:
    """Kinetic and potential energy at all instants; springs that are switched off have none."""

    def one(state: State, moment: Moment) -> tuple[Float[Array, ""], Float[Array, ""]]:
        pose = RA().with_ground(state.pose)
        zero = jnp.zeros((1, 3), system.dtype)
        v, omega = (jnp.concatenate([x, zero]) for x in (state.v, state.omega))
        kinetic = system.kinetic(pose, Twist(v, omega))
        return kinetic, moment.of(system, state).potential(pose)

    return jax.vmap(one)(states, moments)


@Compiled
def momenta(system: System, states: State) -> tuple[Float[Array, "T 3"], Float[Array, "T 3"]]:
    """Linear and angular momentum at all instants."""

    def one(state: State) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        linear = system.mass[:, None] * state.v
        spin = jnp.einsum("bij,bjk,bk->bi", state.A, system.inertia, state.omega)
        return jnp.sum(linear, 0), jnp.sum(jnp.cross(state.r, linear) + spin, 0)

    return jax.vmap(one)(states)
