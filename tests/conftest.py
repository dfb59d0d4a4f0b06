"""Settings that all tests share: double precision, strict promotion, shapes checked at every annotated call."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
# Compiling takes most of the suite's time and LLVM's optimiser a third of that; the arithmetic is the same.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

with install_import_hook("jaxmbd", "beartype.beartype"):
    import jaxmbd  # noqa: F401

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="a long reproduction: run it with -m slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
