"""What several tests need: random poses, finite differences, independent reference solutions."""

import itertools
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from experiments.reference_solutions import matrix_of
from jaxmbd.rotations import so3

FORMULATIONS = [mbd.RA(), mbd.RP(), mbd.REps()]
ALL_FORMULATIONS = [*FORMULATIONS, mbd.Directors(), mbd.RotationElements()]
VARIANTS = [
    mbd.RA(rows="automatic"),
    mbd.RP(rows="closed"),
    mbd.RP(rows="closed", inertia_forces="lagrange"),
    mbd.RP(inertia_forces="lagrange"),
    mbd.REps(rows="closed"),
]
ROUNDOFF = 1e-10  # derivatives of expressions of order ten, in double precision


def each_once(*axes):
    """The product of some lists for `parametrize`: cells of a diagonal that meets every value run
    in the quick suite, all others with -m slow."""
    quick = {tuple(k % len(axis) for axis in axes) for k in range(max(map(len, axes)))}
    cells = itertools.product(*(range(len(axis)) for axis in axes))
    return [
        pytest.param(
            *(axis[k] for axis, k in zip(axes, cell, strict=True)),
            marks=() if cell in quick else pytest.mark.slow,
        )
        for cell in cells
    ]


def first_quick(values):
    """Values for `parametrize` of which all but the first are left to -m slow, where another test
    of the quick suite sees the same law in them."""
    first, *others = values
    return [first, *(pytest.param(x, marks=pytest.mark.slow) for x in others)]


def name_of(x) -> str:
    """For `ids`."""
    if isinstance(x, str):
        return x
    options = [str(v) for v in vars(x).values() if isinstance(v, str)] if x in VARIANTS else []
    return " ".join([getattr(x, "name", type(x).__name__), *options])


def vec(rng, n=3):
    return jnp.array(rng.normal(size=n))


def rotation(rng):
    return so3.exp(vec(rng))


def random_state(rng, nb) -> mbd.State:
    return mbd.State(
        jnp.array(rng.normal(size=(nb, 3))),
        jnp.stack([rotation(rng) for _ in range(nb)]),
        jnp.array(rng.normal(size=(nb, 3))),
        jnp.array(rng.normal(size=(nb, 3))),
    )


def central_difference(f, x, step=1e-6):
    """Derivative of a scalar function of one number."""
    return (f(x + step) - f(x - step)) / (2 * step)


def slope(h, error) -> float:
    """Fitted order of an error against step sizes."""
    return float(np.polyfit(np.log(h), np.log(np.asarray(error, float)), 1)[0])


def run_at(system, state, h, steps, formulation, pieces=1, **kw):
    """The solution at `pieces` instants of a run of `steps` steps, by the first-order method."""
    kw = {"integrator": mbd.ImplicitEuler()} | kw
    each = steps // pieces
    return mbd.simulate(
        system,
        state,
        h=h,
        steps=steps,
        save_every=each,
        formulation=formulation,
        **kw,
    )


class ImpatientBar:
    """A progress bar that is interrupted, as by Ctrl-C, when a third piece has been done."""

    def __init__(self, **_):
        self.updates = 0

    def update(self, _):
        self.updates += 1
        if self.updates == 3:
            raise KeyboardInterrupt

    write = set_description = reset = close = lambda self, *_: None


class CompilationCounter(logging.Handler):
    """Counts the programs that JAX compiles inside a `with` block: `programs` are those of steps,
    `every` are all that it lowers, `built` those that XLA compiles; `names` are those of functions.
    """

    def __enter__(self):
        self.programs = self.every = self.built = 0
        self.names = set()
        self._loggers = {
            logging.getLogger(f"jax._src.{name}"): True
            for name in ("interpreters.pxla", "dispatch")
        }
        for logger in self._loggers:
            logger.addHandler(self)
            self._loggers[logger], logger.propagate = logger.propagate, False
        jax.config.update("jax_log_compiles", True)
        return self

    def __exit__(self, *_):
        jax.config.update("jax_log_compiles", False)
        for logger, propagate in self._loggers.items():
            logger.removeHandler(self)
            logger.propagate = propagate

    def emit(self, record):
        message = record.getMessage()
        self.every += "Compiling" in message
        self.built += "Finished XLA compilation" in message
        self.names |= set(re.findall(r"Compiling (?:jit\()?(\w+)", message))
        self.programs += any(
            f"Compiling jit({name})" in message or f"Compiling {name}" in message
            for name in ("start_run", "advance", "march")
        )


# --- independent reference solutions, by scipy and without this package's mechanics -------------


def top_reference(J_pivot, mass, s_center, gravity, omega0, t_end):
    """A body with a fixed point: (A, omega) at t_end from Euler's equations about that point and
    quaternions.

    J_pivot about the fixed point and s_center from it to the mass center, body frame; A = I at the
    start.
    """

    def rate(t, y):
        p, w = y[:4] / np.linalg.norm(y[:4]), y[4:]
        torque = np.cross(s_center, mass * matrix_of(p).T @ gravity)
        w_dot = np.linalg.solve(J_pivot, torque - np.cross(w, J_pivot @ w))
        p_dot = 0.5 * np.concatenate([[-p[1:] @ w], p[0] * w + np.cross(p[1:], w)])
        return np.concatenate([p_dot, w_dot])

    y0 = np.concatenate([[1.0, 0, 0, 0], omega0])
    y = solve_ivp(rate, (0, t_end), y0, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    return matrix_of(y[:4] / np.linalg.norm(y[:4])), y[4:]


def quick_experiment(name, out: Path, *options: str, file: str = "results.json") -> dict:
    """The results of an experiment's quick run in a process of its own, written to `out`."""
    command = [sys.executable, "-m", "experiments", name, "--quick", "--out", str(out), *options]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((out / file).read_text())
