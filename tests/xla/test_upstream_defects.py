"""Defects of XLA that this package works around, each in the smallest program that shows it.

A test that fails here tells that the installed jaxlib no longer has the defect: once the oldest
allowed version is free of it as well, the place that the test names can go.
"""

import subprocess
import sys

import pytest

from jaxmbd.xla.jaxprs import JAXLIB

# A function called as one part, of which an argument is never used.
_UNUSED = """
import jax, jax.numpy as jnp, numpy as np
from jaxmbd.xla import cpu_fusion

x = np.ones(3)
program = jax.make_jaxpr(lambda x, y: [jnp.sin(x) * jnp.cos(x) + jnp.tan(x)])(x, x)
print(jax.jit(lambda x, y: cpu_fusion._call.bind(x, y, jaxpr=program))(x, x))
"""


@pytest.mark.skipif(JAXLIB != (0, 10), reason="seen with jaxlib 0.10; others were not looked at")
def test_an_argument_that_is_never_used_ends_the_process():
    """Which `cpu_fusion._calls` prevents: it returns arguments as well."""
    done = subprocess.run([sys.executable, "-c", _UNUSED], capture_output=True, timeout=300)
    assert done.returncode < 0, "no longer needed with this jaxlib: `back` in cpu_fusion._calls"
