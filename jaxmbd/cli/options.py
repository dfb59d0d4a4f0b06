"""Arguments and options that several commands share, and the objects they stand for."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.analyses.running.checks import check_memory

# Enumerations made from the tables, so that --help lists whatever there is.
FormulationName: Any = StrEnum("FormulationName", {name: name for name in mbd.FORMULATIONS})
IntegratorName: Any = StrEnum("IntegratorName", {name: name for name in mbd.INTEGRATORS})
RA = FormulationName("rA")

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Packaged name, or path of a JSON model file.")
]
TEnd = Annotated[float, typer.Option("--t-end", help="Final time, in seconds.")]
Step = Annotated[float, typer.Option("--h", help="Step size, in seconds.")]
Formulation = Annotated[FormulationName, typer.Option(help="Coordinates of orientation.")]
Integrator = Annotated[
    IntegratorName | None,
    typer.Option(
        help="Step method; by default generalized_alpha, and moreau for stops, dry friction and "
        "contacts."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="A column of the table (.csv), such as 'pin.angle' or '*.power'; repeat for more.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Result file (.npz or .csv).")]
Result = Annotated[Path, typer.Argument(metavar="RESULT", help="Result file (.npz).")]
RhoInf = Annotated[
    float | None, typer.Option(help="generalized_alpha: spectral radius at infinite frequency.")
]
Tableau = Annotated[
    str | None, typer.Option(help="munthe_kaas, runge_kutta: euler, heun, rk3, rk4 or rk5.")
]
Group = Annotated[str | None, typer.Option(help="SO3xR3 or SE3; munthe_kaas also mixed.")]
Projection = Annotated[
    bool,
    typer.Option(
        "--projection", help="Project onto the constraints after every step (velocities, or both)."
    ),
]
NewtonTolerance = Annotated[
    float | None, typer.Option(help="Implicit methods: tolerance of Newton's method.")
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="Choose the steps for this tolerance; rows stay at multiples of --h."),
]


def instants(system: mbd.System, t_end: float, h: float) -> np.ndarray:
    """The instants of rows, every h to the end."""
    steps = mbd.count_steps(h, t_end, None)
    check_memory(system, steps + 1, "take a larger --h")
    return np.arange(steps + 1) * h


def usual(system: mbd.System) -> str:
    """The method that `simulate` chooses."""
    return "moreau" if system.laws else "generalized_alpha"


def integrator_of(name: str, rho_inf, tableau, group, projection: bool, newton_tolerance) -> Any:
    """The method with those options that were given; one that it does not have is refused."""
    method = mbd.INTEGRATORS[name]
    fields = set(method.__dataclass_fields__)
    chosen: dict[str, Any] = {}
    newton = None if newton_tolerance is None else mbd.Newton(newton_tolerance)
    given = {"rho_inf": rho_inf, "tableau": tableau, "group": group, "newton": newton}
    for field, value in given.items():
        if value is not None:
            if field not in fields:
                option = "newton-tolerance" if field == "newton" else field.replace("_", "-")
                others = [n for n, m in mbd.INTEGRATORS.items() if field in m.__dataclass_fields__]
                raise ValueError(
                    f"--{option}: {name} has no such setting; it belongs to {', '.join(others)}"
                )
            chosen[field] = value
    if projection:
        settings = {"velocity_projection": True, "projection": True, "stabilization": "projection"}
        field = next((f for f in settings if f in fields), None)
        if field is None:
            raise ValueError(
                f"--projection: {name} has no such setting; its constraints hold at every step"
            )
        chosen[field] = settings[field]
    return method(**chosen)
