"""Settings that all tests share: double precision, strict promotion, shapes checked at every
annotated call."""

import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
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


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="a long reproduction: run it with -m slow")
    for item in items:
        if item.get_closest_marker("slow"):  # keywords hold the names of folders too
            item.add_marker(skip)
