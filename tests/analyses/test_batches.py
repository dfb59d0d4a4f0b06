"""Batches: chunks, several devices, several processes, failing members, interruption."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

WORKER = Path(__file__).parent / "batch_worker.py"


def start(out, *arguments, devices=1):
    flags = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, str(WORKER), str(out), *map(str, arguments)]
    return subprocess.Popen(
        command, env=os.environ | {"XLA_FLAGS": flags}, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


def test_four_devices_and_two_processes_give_the_numbers_of_one(tmp_path):
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    one, four = start(tmp_path / "one.npz"), start(tmp_path / "four.npz", devices=4)
    finish(one)
    finish(four)
    pair = [start(tmp_path / f"pair{k}.npz", k, 2, port) for k in range(2)]
    for process in pair:
        finish(process)
    results = {
        name: dict(np.load(tmp_path / f"{name}.npz")) for name in ("one", "four", "pair0", "pair1")
    }
    assert results["four"]["devices"] == 4
    assert results["pair0"]["processes"] == 2 and results["pair0"]["devices"] == 2
    for name, data in results.items():
        assert data["r"].shape == (10, 3, 3), name
        np.testing.assert_allclose(data["r"], results["one"]["r"], rtol=0, atol=1e-14)


def simple(factor):
    return {"square": factor["x"] ** 2, "sum": jnp.sum(factor["y"])}


def test_chunks_cover_every_member_once_and_keep_the_order():
    x, y = np.arange(11.0), np.ones((11, 3)) * np.arange(11.0)[:, None]
    for chunk in (1, 4, 11, 100):
        out = mbd.run_batch(simple, {"x": x, "y": y}, chunk=chunk, progress=False)
        np.testing.assert_array_equal(out["square"], x**2)
        np.testing.assert_array_equal(out["sum"], 3 * x)
    with pytest.raises(ValueError, match="one common leading axis"):
        mbd.run_batch(simple, {"x": x, "y": y[:5]}, progress=False)


def test_an_interruption_keeps_the_members_done():
    seen = []

    def stop(result):
        seen.append(len(result["sum"]))
        if len(seen) == 2:
            raise KeyboardInterrupt

    out = mbd.run_batch(
        simple, {"x": np.arange(9.0), "y": np.ones((9, 3))}, chunk=3, progress=False, on_chunk=stop
    )
    np.testing.assert_array_equal(out["square"], np.arange(6.0) ** 2)


def test_one_bad_member_leaves_the_others_alone():
    system, state = mbd.load("double_pendulum")

    def member(h):
        sol = mbd.simulate(system, state, h=h, steps=10, save_every=10)
        return sol.r[-1], sol.result == mbd.RESULTS.successful

    h = np.array([1e-3, np.nan, 2e-3])
    r, good = mbd.run_batch(member, h, progress=False)
    assert good.tolist() == [True, False, True]
    assert np.all(np.isnan(r[1])) and np.all(np.isfinite(r[[0, 2]]))
    alone = mbd.simulate(system, state, h=2e-3, steps=10, save_every=10)
    np.testing.assert_allclose(r[2], alone.r[-1], atol=1e-14)


def test_gradients_of_a_batch_are_those_of_its_members():
    system, state = mbd.load("double_pendulum")
    import jax

    def height(factor):
        heavier = eqx.tree_at(lambda s: s.mass, system, system.mass * jnp.stack([1.0, factor]))
        return mbd.simulate(heavier, state, h=1e-3, steps=10, save_every=10).r[-1, 1, 2]

    slopes = mbd.run_batch(jax.grad(height), np.array([0.5, 2.0, 1.3]), chunk=2, progress=False)
    np.testing.assert_allclose(slopes[1], jax.jit(jax.grad(height))(2.0), rtol=1e-10)
