"""Weighted residuals of a mechanism by public functions of the package, and the fit of many noise
draws as one batch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import jaxmbd as mbd
from jaxmbd.identification.sampling import predicted

UNSEEN = 1e-8  # relative singular values below are directions that the data do not see


class Model:
    """Predictions over the noise as a function of unrestricted coordinates z.

    Args:
        mechanism: With the values at which z starts.
        free: Paths with their restrictions, as `mbd.fit` takes them.
        data: Names, times and noise of the samples.
        motion: From a system and a state to a solution.
    """

    def __init__(self, mechanism, free, data: mbd.Measurements, motion: Callable):
        self.mechanism, self.free, self.data, self.motion = mechanism, dict(free), data, motion
        known = mechanism.values()
        z, self._unravel = ravel_pytree({p: x.inverse(known[p]) for p, x in self.free.items()})
        self.start = np.asarray(z)

    def values(self, z) -> dict[str, Any]:
        z = self._unravel(z)
        return {path: transform(z[path]) for path, transform in self.free.items()}

    def flat_values(self, z):
        return ravel_pytree(self.values(z))[0]

    def predicted(self, z):
        """Predictions over the deviation of the noise, flat."""
        system, state = self.mechanism.with_values(self.values(z)).build()
        names, t = list(self.data.values), jnp.asarray(self.data.t)
        found, _ = predicted(system, self.motion(system, state), names, t)
        return (found / jnp.asarray(self.data.deviations())).ravel()


def standard_errors(model: Model, z, jacobian):
    """Of the flat values, infinite where the data do not see them."""
    _, s, Vt = jnp.linalg.svd(jacobian, full_matrices=False)
    seen = s > UNSEEN * s[0]
    spread = (jax.jacfwd(model.flat_values)(z) @ Vt.T) ** 2
    variance = spread @ jnp.where(seen, 1.0 / jnp.where(seen, s, 1.0) ** 2, 0.0)
    hidden = spread @ jnp.where(seen, 0.0, 1.0) > 1e-12 * jnp.sum(spread, axis=1)
    return jnp.where(hidden, jnp.inf, jnp.sqrt(variance))


def refined(model: Model, z, y, iterations: int):
    """Levenberg-Marquardt steps from z to samples y over their noise.

    Returns:
        The estimates (flat values), their standard errors, and the length of the next Gauss-Newton
        step in standard errors: zero at the optimum.
    """

    def linearized(z):
        return jax.jacfwd(lambda z: (model.predicted(z),) * 2, has_aux=True)(z)

    def step(jacobian, residuals, damping):
        U, s, Vt = jnp.linalg.svd(jacobian, full_matrices=False)
        seen = s > UNSEEN * s[0]
        gain = jnp.where(seen, s, 0.0) / (jnp.where(seen, s, 1.0) ** 2 + damping)
        return -Vt.T @ (gain * (U.T @ residuals)), jnp.linalg.norm(
            jnp.where(seen, U.T @ residuals, 0.0)
        )

    def improve(_, carry):
        z, damping = carry
        jacobian, predicted = linearized(z)
        trial = z + step(jacobian, predicted - y, damping)[0]
        cost, new = (jnp.sum((x - y) ** 2) for x in (predicted, model.predicted(trial)))
        better = new < cost
        return jnp.where(better, trial, z), jnp.where(better, 0.1 * damping, 10.0 * damping + 1.0)

    z, _ = jax.lax.fori_loop(0, iterations, improve, (z, jnp.zeros((), z.dtype)))
    jacobian, predicted = linearized(z)
    left = step(jacobian, predicted - y, 0.0)[1]
    return model.flat_values(z), standard_errors(model, z, jacobian), left


def covered(model: Model, z, truth, clean, *, draws: int, iterations: int, seed: int = 7):
    """How often the 95 % intervals of fits to fresh noise contain the truth.

    Args:
        model: Of the fit.
        z: Its optimum, where every draw starts.
        truth: Flat values, (n,).
        clean: Samples without noise over the deviation of the noise.
        draws: Of the noise.
        iterations: Levenberg-Marquardt steps of every draw.
        seed: Of the noise.

    Returns:
        `covered` (n,), shares; `seen` (n,); spread and mean of the errors in standard errors; the
        largest step left; how many draws gave no numbers.
    """
    noise = np.random.default_rng(seed).normal(size=(draws, clean.size))
    start = jnp.asarray(z)
    estimates, errors, left = mbd.run_batch(
        lambda e: refined(model, start, clean + e, iterations), noise, chunk=50, progress=False
    )
    good = np.all(np.isfinite(estimates), axis=1)
    seen = np.all(np.isfinite(errors[good]), axis=0)
    ratio = (estimates[good] - truth) / np.where(seen, errors[good], 1.0)
    return {
        "draws": draws,
        "failed_draws": int(draws - good.sum()),
        "seen": seen,
        "covered": np.mean(np.abs(ratio) < 1.959964, axis=0),
        "mean": ratio.mean(axis=0),
        "spread": ratio.std(axis=0, ddof=1),
        "step_left_in_standard_errors": np.quantile(left[good], [0.5, 1.0]),
    }
