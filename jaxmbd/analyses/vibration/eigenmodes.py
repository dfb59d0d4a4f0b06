"""Eigenmodes of small motions, and a mode as a motion to be shown."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ...formulations import RA
from ...model.compiled import compiled_once
from ...model.readable import readable
from ...model.state import Pose, State, Twist
from ...model.system import System
from ...model.validation import as_jax
from ...outcomes import RESULTS
from ...results.saved_rows import Row, make_solution
from ...results.solution import Solution


class Modes(eqx.Module):
    """Eigenmodes of small motions; one of each conjugate pair, slowest first.

    Attributes:
        eigenvalues: (n,) [1/s].
        vectors: In the minimal coordinates and speeds, (p + f, n), or in coordinates alone; None
            for damped modes under `jit`.
        frequency: |imaginary part| / 2π, (n,) [Hz].
        damping_ratio: -real part / |eigenvalue|, (n,); negative where the mode grows.
        shapes: Displacements of all bodies, (n, nb, 6): of the mass centers [m], global, and turns
            [rad], body frame; None for damped modes under `jit`.
        state: Where the bodies are in between.
    """

    eigenvalues: Complex[np.ndarray | Array, " n"]
    vectors: Complex[np.ndarray | Array, "x n"] | None
    frequency: Float[np.ndarray | Array, " n"]
    damping_ratio: Float[np.ndarray | Array, " n"]
    shapes: Complex[np.ndarray | Array, "n nb 6"] | None
    state: State | None = None

    def __repr__(self) -> str:
        from ..summaries import of_modes

        return readable(self, of_modes)

    def motion(self, k: int, system: System, *, size: float = 0.1, frames: int = 25) -> Solution:
        """One period of a mode as a solution, for `jaxmbd.viz.animate` and `snapshot`; of one
        second where the mode does not oscillate. Damping is left out.

        Args:
            k: Which mode.
            system: The mechanism.
            size: The largest displacement, in parts of the system's length, or turn [rad].
            frames: Number of rows, the first and the last being the same.
        """
        if self.shapes is None or self.state is None:
            raise ValueError("motion: this mode carries no shape")
        shape, state = np.asarray(self.shapes[k]), self.state
        largest = np.max(np.abs(shape) * _shape_weights(system))
        phase = np.exp(2j * np.pi * np.linspace(0.0, 1.0, frames))
        moves = np.real(phase[:, None, None] * shape) * (size / (largest if largest else 1.0))
        frequency = float(self.frequency[k])
        t = np.linspace(0.0, 1.0 / frequency if frequency > 0.0 else 1.0, frames)
        return _shown(system, state, as_jax(moves, system.dtype), as_jax(t, system.dtype))


def _shape_weights(system: System) -> np.ndarray:
    """Factors that make displacements comparable with turns, (6,)."""
    return np.array([1.0 / float(system.length)] * 3 + [1.0] * 3)


def _shown(
    system: System, state: State, moves: Float[Array, "T nb 6"], t: Float[Array, " T"]
) -> Solution:
    poses = _displaced(state.pose, moves)
    T, nb = moves.shape[:2]
    zero = jnp.zeros((T, nb, 3), t.dtype)
    twist, whole = Twist(zero, zero), jnp.zeros(T, int)
    lam = jnp.full((T, system.nc), jnp.nan, t.dtype)
    angles = jnp.broadcast_to(system.turns(), (T, system.turns().size))
    row = Row(poses, twist, zero, zero, lam, angles, jnp.zeros((T, 0), t.dtype), whole, {})
    return make_solution(t, row, RESULTS.successful, {}, system)


@compiled_once
def _displaced(pose: Pose, moves: Float[Array, "T nb 6"]) -> Pose:
    return jax.vmap(lambda d: jax.vmap(RA().retract)(pose, d))(moves)
