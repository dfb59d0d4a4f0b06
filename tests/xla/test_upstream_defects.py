"""Defects of XLA that this package works around: where they are, and when a workaround can go.

A defect is looked for in a process of its own, because some of them end it. A test fails where a
defect is gone, or has come, and names the workaround.
"""

import importlib
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
JAXLIB = Version(version("jaxlib"))

# The versions of jaxlib with which the defects were looked for. Others of the same series, such as
# 0.10.0, are expected to behave as these.
TRIED = ("0.8.0", "0.10.1", "0.12.0.1")


@dataclass(frozen=True)
class Defect:
    """A defect of XLA on CPUs.

    Attributes:
        workaround: Module and name of what can go when no allowed version has the defect.
        seen: Those of `TRIED` that have it.
        program: Prints "present" or "absent".
        sign: Of the defect, in what a process writes that fails by it.
        cpus: On which the program runs. XLA counts them when it is imported.
    """

    workaround: str
    seen: tuple[str, ...]
    program: str
    sign: str = "nothing fails"
    cpus: int | None = None


_WAITING = """
import os, threading

def both(A, b):
    return jnp.stack([jnp.linalg.solve(A * (1.0 + k), jnp.sin(b + k)) for k in range(6)])

A = jnp.asarray(np.random.default_rng(0).normal(size=(64, 16, 16)) + 8.0 * np.eye(16))
program = jax.jit(jax.vmap(both)).lower(A, A[..., 0]).compile()
# 300 turns take 0.4 s where they end.
waiting = threading.Timer(10.0, lambda: (print("present", flush=True), os._exit(0)))
waiting.start()
for _ in range(300):
    jax.block_until_ready(program(A, A[..., 0]))
waiting.cancel()
print("absent")
"""

_EMPTY = """
from jaxmbd.xla import cpu_fusion, cpu_rewrites

own = cpu_fusion.rewritten

def without(eqn):
    return None if all(cpu_rewrites.is_empty(v) for v in eqn.outvars) else own(eqn)

cpu_fusion.rewritten = without

def parts(x):
    y = jnp.concatenate([2.0 * x, jnp.sqrt(x)[4:]])
    return jnp.sin(y) * jnp.cos(y), y[4:], jnp.zeros(0) / y[4:]

def both(x):
    return cpu_fusion.one_kernel(parts, x), jnp.linalg.solve(jnp.diag(x), x)

jax.block_until_ready(jax.jit(both)(jnp.arange(1.0, 5.0)))
print("absent")
"""

_UNUSED = """
from jaxmbd.xla import cpu_fusion

def function(x, y):
    return [jnp.sin(x) * jnp.cos(x) + jnp.exp(x)]

def call(x, y):
    return cpu_fusion._call.bind(2.0 * x, 3.0 * y, jaxpr=jax.make_jaxpr(function)(x, y))

jax.block_until_ready(jax.jit(call)(jnp.ones(3), jnp.ones(4)))
print("absent")
"""

_SUMS = """
A = jnp.linspace(0.1, 0.9, 200 * 36).reshape(200, 6, 6)
text = jax.jit(lambda A: jnp.sum(2.0 * A, axis=(0, 1))).lower(A).compile().as_text()
print("present" if "__ynn" in text else "absent")
"""

_SINGLE = """
A = jnp.linspace(0.1, 0.9, 41472, dtype=jnp.float32).reshape(18, 18, 128)

def compiled(reduced):
    return jax.jit(lambda A: reduced(jnp.abs(A), axis=(0, 1)) + 1.0).lower(A).compile().as_text()

print("present" if all("__ynn" in compiled(f) for f in (jnp.sum, jnp.max)) else "absent")
"""

_SUMS_IN_KERNELS = """
from jaxmbd.xla import cpu_fusion

cpu_fusion.rewritten = lambda eqn: None
cpu_fusion._IN_RUN = cpu_fusion._Limits(70_000, 1_000_000)
A, x = jnp.linspace(0.1, 0.9, 200 * 36).reshape(200, 6, 6), jnp.linspace(-1.0, 1.0, 6)

def sums(x):
    scaled = A * x[None, None, :]
    return jnp.concatenate([jnp.sum(scaled**2, axis=-1)[0], jnp.sum(scaled, axis=(0, 1))])

jax.block_until_ready(jax.jit(lambda x: cpu_fusion.one_kernel(sums, x))(x))
print("absent")
"""

_INVARIANT = """
from jax import lax

def function(x, flag):
    def turn(state):
        return jnp.zeros((), bool), lax.fori_loop(0, 7, lambda _, y: jnp.cos(y) * x, x)

    return lax.while_loop(lambda state: state[0], turn, (flag, -x))[1]

text = jax.jit(function).lower(jnp.ones(3), jnp.zeros((), bool)).compile().as_text()
bodies = [line.split("body=")[1].split(",")[0] for line in text.splitlines() if " while(" in line]
assert len(bodies) == 2
# The inner loop is in the body of the outer one, or has been taken out of it.
inner = [part.strip().split(" ")[0] for part in text.split("\\n\\n") if " while(" in part]
print("absent" if set(inner) & set(bodies) else "present")
"""

DEFECTS = {
    "batches of LAPACK's operations wait for each other for ever": Defect(
        "jaxmbd.linalg.lapack:_one_at_a_time", ("0.10.1",), _WAITING, cpus=2
    ),
    "on one CPU, nothing is translated after an empty part of a kernel": Defect(
        "jaxmbd.xla.cpu_rewrites:empty_array",
        ("0.10.1", "0.12.0.1"),
        _EMPTY,
        "No registered implementation",
        cpus=1,
    ),
    "a function with an argument that it does not use ends the process": Defect(
        "jaxmbd.xla.cpu_fusion:_calls", TRIED, _UNUSED, "slice_to_buffer_table_index_"
    ),
    "sums over large arrays are given to a slower library": Defect(
        "jaxmbd.xla.jaxprs:compiled_sum", ("0.12.0.1",), _SUMS
    ),
    "in single precision, sums and extremes are given to that library too": Defect(
        "jaxmbd.xla.cpu_fusion:_EXTREMES", ("0.10.1", "0.12.0.1"), _SINGLE
    ),
    "sums that are given to a library fail in a kernel": Defect(
        "jaxmbd.xla.cpu_fusion:_IN_RUN",
        ("0.12.0.1",),
        _SUMS_IN_KERNELS,
        "Fusion kind not implemented",
    ),
    "what is the same in every turn is done where a loop has no turn": Defect(
        "jaxmbd.xla.lazy_cond:where_needed", TRIED, _INVARIANT
    ),
}

_CPUS = "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{}])\n"
_START = "import jax, jax.numpy as jnp, numpy as np; jax.config.update('jax_enable_x64', True)\n"


def _is_present(defect):
    # As users run it, without what the suite sets for itself.
    own = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS" and not k.startswith("JAXMBD_")}
    program = _START + defect.program
    if defect.cpus is not None:
        program = _CPUS.format(defect.cpus) + program
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env=own,
    )
    if done.returncode:
        assert defect.sign in done.stderr, done.stderr
        return True
    return done.stdout.split()[-1] == "present"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="defects of XLA on CPUs")
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_in_the_versions_in_which_it_was_seen(name):
    defect = DEFECTS[name]
    same = [x for x in TRIED if Version(x).release[:2] == JAXLIB.release[:2]]
    assert same, f"look for the defects with jaxlib {JAXLIB}, and enter it in TRIED and in `seen`"
    present, expected = _is_present(defect), same[0] in defect.seen
    assert present == expected, (
        f"{name}: {'came' if present else 'is gone'} with jaxlib {JAXLIB}; change `seen`, and "
        f"remove {defect.workaround} when no allowed version has it"
    )


@pytest.mark.parametrize("name", DEFECTS)
def test_every_workaround_is_there_and_serves_a_version_that_is_allowed(name):
    defect = DEFECTS[name]
    module, attribute = defect.workaround.split(":")
    assert hasattr(importlib.import_module(module), attribute)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bounds,) = [x for x in project["dependencies"] if x.startswith("jaxlib")]
    allowed = SpecifierSet(bounds.removeprefix("jaxlib"))
    assert any(allowed.contains(x) for x in defect.seen), f"remove {defect.workaround}"


def test_a_version_with_wrong_results_is_not_allowed():
    """The last elements were wrong by almost 1 % with jaxlib 0.10.2, and with it alone."""
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(3, 3)), rng.normal(size=(16385, 3))
    found = jax.jit(jax.vmap(lambda x: jnp.sum((A @ x) ** 2)))(x)
    np.testing.assert_allclose(found, np.sum((x @ A.T) ** 2, axis=1), rtol=1e-12)
