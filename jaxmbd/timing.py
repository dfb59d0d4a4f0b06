"""What tracing and compiling took, program by program, from JAX's own monitoring."""

from collections import defaultdict
from dataclasses import dataclass

import jax.monitoring

_STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "traced",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowered",
    "/jax/core/compile/backend_compile_duration": "compiled",
}


@dataclass
class Spent:
    """Seconds that the programs of one name took."""

    traced: float = 0.0
    lowered: float = 0.0
    compiled: float = 0.0  # or read, where programs are kept

    @property
    def total(self) -> float:
        return self.traced + self.lowered + self.compiled


def watch() -> dict[str, Spent]:
    """Programs that this process compiles from now on, by name."""
    programs: dict[str, Spent] = defaultdict(Spent)

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        stage = _STAGES.get(event)
        if stage is not None:
            name = str(kwargs.get("fun_name", "?")).removeprefix("jit(").removesuffix(")")
            setattr(programs[name], stage, getattr(programs[name], stage) + duration_secs)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return programs
