"""Single precision as a mode of its own, and the check that no step is called successful at which
joints do not close."""

import json
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.equations import closing, index3, index3_newton

EPS = float(jnp.finfo(jnp.float32).eps)


def narrow(tree):
    """A tree of arrays in single precision."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)


def ends(system, state, factors, steps, **options):
    """Places, the largest violation in lengths, and the outcome of members of different mass."""

    def member(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * factor)
        sol = mbd.simulate(heavier, state, steps=steps, save_every=steps, h=1e-3, **options)
        open_by = closing.violation(mbd.RA(), heavier, sol.at(1).pose)
        return sol.r[-1], open_by, sol.result == mbd.RESULTS.successful

    return jax.jit(jax.vmap(member))(factors)


@pytest.mark.parametrize("name", ["double_pendulum", "four_bar"])
def test_a_batch_in_single_precision_agrees_with_double(name):
    """XLA gave a sum of such a batch to a library, which a kernel cannot call."""
    system, state = mbd.load(name)
    factors = jnp.linspace(0.8, 1.2, 64)
    r, _, good = ends(*narrow((system, state)), factors.astype(jnp.float32), 20)
    truth, *_ = ends(system, state, factors, 20)
    assert r.dtype == jnp.float32 and np.all(good)
    np.testing.assert_allclose(r, truth, atol=20 * EPS * float(system.length))


@pytest.mark.parametrize("formulation", [mbd.RA(), mbd.RP()], ids=["rA", "rp"])
def test_a_light_mechanism_with_redundant_rows_runs_in_single_precision(formulation):
    """Its regularization was so large that it hid slow directions: steps did not converge."""
    system, state = narrow(mbd.load("slider_crank"))
    sol = mbd.simulate(system, state, steps=100, h=1e-3, formulation=formulation)
    assert float(np.mean(sol.iterations[1:])) < 2.0
    assert int(sol.stats["undetermined_steps"]) == 0
    assert float(np.max(np.abs(sol.violation(system).position))) < 1e-6


class _Nothing(eqx.Module):
    """Factors by which there is nothing to correct."""

    factors: object

    @property
    def regularization(self):
        return self.factors.regularization

    def solve(self, b):
        return 0.0 * self.factors.solve(b)

    def solve_transpose(self, b):
        return 0.0 * self.factors.solve_transpose(b)

    def solve_rows(self, b, *, transpose=False):
        return self.factors.solve_rows(b, transpose=transpose)


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_inaccurate_factors_are_told(single, monkeypatch):
    """Corrections that are small because factors are wrong look like convergence; the constraints
    at the end of the step tell."""
    system, state = mbd.load("heavy_top")
    if single:
        system, state = narrow((system, state))
    assert not system.has_loops
    exact = index3_newton.factorize
    monkeypatch.setattr(index3_newton, "factorize", lambda *a, **kw: _Nothing(exact(*a, **kw)))

    def run(limit):
        newton = mbd.Newton(fallbacks=False, max_steps=limit)  # a program of its own for each

        @jax.jit
        def outcome(state):
            integrator = mbd.GeneralizedAlpha(newton=newton)
            sol = mbd.simulate(system, state, steps=400, h=1e-3, integrator=integrator)
            return sol.result, jnp.max(jnp.abs(sol.violation(system).position))

        return outcome(state)

    result, _ = run(11)
    assert result == mbd.RESULTS.newton_max_steps
    monkeypatch.setattr(index3, "closes", lambda *_: True)
    result, violation = run(12)
    assert result == mbd.RESULTS.successful and violation > 1e-3  # as it was before


@pytest.mark.parametrize(
    "count", [pytest.param(256, marks=pytest.mark.essential), pytest.param(10**6)]
)
@pytest.mark.parametrize("bits", ["64", "32"])
def test_of_many_members_none_is_wrong_and_successful(bits, count):
    """As users compile them; a bound of 1e-12 and of 1e-5 lengths."""
    own = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS" and not k.startswith("JAXMBD_")}
    worker = Path(__file__).with_name("million_members.py")
    done = subprocess.run(
        [sys.executable, str(worker), "double_pendulum", bits, str(count)],
        capture_output=True,
        text=True,
        env=own,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["precision"], found["members"]) == (f"float{bits}", count)
    assert found["wrong_and_successful"] == found["failed"] == 0
