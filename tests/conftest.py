"""Settings that all tests share: double precision, strict promotion, shapes checked at every
annotated call."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# Threads of two workers wait for each other in busy loops: a small SVD takes a second, not 5 ms.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# XLA writes a line about the processor for every program that it reads from the cache.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Compiling takes most of the suite's time. Without LLVM's optimizer and with XLA's older code
# generator it takes less than half; the arithmetic is the same. An option that XLA does not know
# would end the process, so it is tried first.
_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
if "XLA_FLAGS" not in os.environ:
    trial = [sys.executable, "-c", "import jax; jax.devices()"]
    known = (
        subprocess.run(
            trial, env=os.environ | {"XLA_FLAGS": _FLAGS}, capture_output=True
        ).returncode
        == 0
    )
    os.environ["XLA_FLAGS"] = _FLAGS if known else _FLAGS.split()[0]

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# All workers and child processes share what is compiled.
# One program for short and for long runs: under these flags they would be the same, compiled twice.
os.environ.setdefault("JAXMBD_COMPILE", "quick")
os.environ.setdefault("JAXMBD_CACHE", str(Path(__file__).parents[1] / ".cache" / "programs"))

with install_import_hook("jaxmbd", "beartype.beartype"):
    import jaxmbd

jaxmbd.enable_compilation_cache()

import numpy as np
import pytest
import shares


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


@pytest.fixture(autouse=True)
def _programs_are_let_go():
    """A process may hold 65 thousand memory maps; thousands of compiled programs fill them, and XLA
    crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > 20_000:
        jax.clear_caches()


# What a test took when all were last measured, in seconds of processor time; quick ones are left
# out. `pytest -m "slow or not slow" --record-durations` writes it anew. With these bounds the suite
# takes half an hour on two slow cores; most of what it took before were tests that nobody had
# measured, and such as were marked as essential and had grown.
_DURATIONS = Path(__file__).with_name("durations.json")
_QUICK, _LONGEST, _ESSENTIAL = 2.0, 3.0, 20.0


def pytest_addoption(parser):
    parser.addoption("--record-durations", action="store_true", help=f"write {_DURATIONS.name}")
    share = {"type": shares.parsed, "metavar": "K/N"}
    parser.addoption("--share", **share, help="run the K-th of N parts of the slow tests too")


def _spent() -> float:
    """Processor time of this process and of its children [s]."""
    return sum(os.times()[:4])


def _name(item) -> str:
    return re.sub(r"@\w+$", "", item.nodeid)  # without the group of workers


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as slow what takes long: of every test function the cheapest variant stays, and all that
    are quick; functions that take longer altogether stay where they are marked as essential, unless
    they take very long.
    """
    known = json.loads(_DURATIONS.read_text(encoding="utf-8")) if _DURATIONS.exists() else {}
    cheapest: dict[str, float] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            function, took = item.nodeid.split("[")[0], known.get(_name(item), 0.0)
            cheapest[function] = min(took, cheapest.get(function, took))
    named = any("::" in argument for argument in config.args)
    for item in items:
        took, function = known.get(_name(item), 0.0), item.nodeid.split("[")[0]
        stays = took <= _QUICK or (took == cheapest.get(function) and took <= _LONGEST)
        stays = stays or (took <= _ESSENTIAL and item.get_closest_marker("essential"))
        if not stays and not named:
            item.add_marker(pytest.mark.slow)
    if config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="takes long: run it with -m slow")
    share = config.option.share
    for item in items:
        # Keywords hold the names of folders too.
        if item.get_closest_marker("slow") and not (share and shares.is_in(_name(item), share)):
            item.add_marker(skip)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    item.user_properties.append(("began", _spent()))
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    began = dict(item.user_properties)["began"]
    item.user_properties.append(("took", _spent() - began))


def pytest_runtest_logreport(report):
    took, name = dict(report.user_properties).get("took"), re.sub(r"@\w+$", "", report.nodeid)
    if report.skipped:
        _SKIPPED.add(name)
    if took is not None and report.when == "teardown" and name not in _SKIPPED:
        _RECORDED[name] = round(took, 1)


def pytest_sessionfinish(session):
    """On the process that hands out the tests."""
    if session.config.getoption("record_durations", False) and not hasattr(
        session.config, "workerinput"
    ):
        known = json.loads(_DURATIONS.read_text(encoding="utf-8")) if _DURATIONS.exists() else {}
        known = known | _RECORDED
        slow = {name: took for name, took in sorted(known.items()) if took > _QUICK}
        _DURATIONS.write_text(json.dumps(slow, indent=0) + "\n", encoding="utf-8")


_RECORDED: dict[str, float] = {}
_SKIPPED: set[str] = set()
