"""How much XLA optimizes: options of the compiler that were measured."""

import functools
import os

import jax

# Level 1 leaves out a sixth of the compilation and no speed; level 0 leaves out more than half,
# and a step of a small mechanism then takes five times as long.
EFFORTS: dict[str, dict[str, bool | int]] = {
    "quick": {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
    "balanced": {"xla_backend_optimization_level": 1},
    "full": {},
}
_PREFERENCES = ("auto", "quick", "fast")


def preference() -> str:
    """How to compile: the environment variable JAXMBD_COMPILE, "auto", "quick" or "fast"."""
    chosen = os.environ.get("JAXMBD_COMPILE", "auto")
    if chosen not in _PREFERENCES:
        raise ValueError(f"JAXMBD_COMPILE must be auto, quick or fast, not {chosen!r}")
    return chosen


def chosen_options(effort: str = "balanced") -> dict[str, bool | int]:
    """`compiler_options` of the effort, or of what JAXMBD_COMPILE asks for in its place."""
    return compiler_options({"auto": effort, "quick": "quick", "fast": "full"}[preference()])


@functools.cache
def compiler_options(effort: str) -> dict[str, bool | int]:
    """Options for `jax.jit`; none on accelerators, and what a version does not know is left out."""
    if jax.default_backend() != "cpu":
        return {}
    known = {}
    for name, value in EFFORTS[effort].items():
        try:
            jax.jit(lambda x: x, compiler_options={name: value})(0.0)
            known[name] = value
        except Exception:  # each version of JAX has an error of its own for an unknown option
            continue
    return known
