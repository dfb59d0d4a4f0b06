"""Arguments and options that several commands share, and the objects they stand for."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.analyses.running.checks import check_memory

# Enumerations made from the tables, so that --help lists whatever there is.
FormulationName: Any = StrEnum("FormulationName", {name: name for name in mbd.FORMULATIONS})
IntegratorName: Any = StrEnum("IntegratorName", {name: name for name in mbd.INTEGRATORS})
RA = FormulationName("rA")

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Packaged name, or path of a model file (.json, .xml of MuJoCo, .urdf).",
    ),
]
ModelOfResult = Annotated[
    str | None,
    typer.Option("--model", help="The model that RESULT is of, where the file does not hold it."),
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
        help="A column of the table (.csv), such as 'pin.angle [deg]' or '*.power'; repeat for "
        "more.",
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
Until = Annotated[
    str | None,
    typer.Option(
        help="End where a quantity passes a value, 'pin.angle > 0.3'; the instant is the last row."
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="Choose the steps for this tolerance; rows stay at multiples of --h."),
]

Given = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        metavar="NAME=VALUE",
        help="What an input of the model is: a number or, in simulate, an expression of the time "
        "t, such as 'motor=5*sin(t)'; parts of a vector with commas. Repeat for more.",
    ),
]


def instants(system: mbd.System, t_end: float, h: float) -> np.ndarray:
    """The instants of rows, every h to the end."""
    steps = mbd.count_steps(h, t_end, None)
    check_memory(system, steps + 1, "take a larger --h")
    return np.arange(steps + 1) * h


def usual(system: mbd.System) -> str:
    """The method that `simulate` chooses."""
    return "moreau" if system.laws else "generalized_alpha"


def integrator_of(
    name: str,
    rho_inf: float | None,
    tableau: str | None,
    group: str | None,
    projection: bool,
    newton_tolerance: float | None,
) -> mbd.AbstractIntegrator:
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


def given_functions(system: mbd.System, texts: list[str] | None) -> dict[str, Any] | None:
    """What the model's inputs are over time, from NAME=VALUE texts; None for none."""
    found = {name: _function(parts) for name, parts in _given(system, texts).items()}
    return found or None


def with_given(system: mbd.System, texts: list[str] | None) -> mbd.System:
    """The system whose inputs are held at the numbers of NAME=VALUE texts."""
    if not system.inputs:
        _given(system, texts)
        return system
    values = {}
    for name, parts in _given(system, texts).items():
        constants = [part.constant for part in parts]
        if None in constants:
            raise ValueError(
                f"--given: input {name!r} must be a number here, which does not change"
            )
        values[name] = constants if len(constants) > 1 else constants[0]
    for label in system.inputs:
        if label.name not in values:
            continue
        if label.drives:
            values[label.name] = (np.asarray(values[label.name]),) + (np.zeros(label.shape),) * 2
        else:
            values[label.name] = np.asarray(values[label.name])
    return system.with_inputs(values)


def _given(system: mbd.System, texts: list[str] | None) -> dict[str, list[mbd.Expression]]:
    found: dict[str, list[mbd.Expression]] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--given: {text!r} is not NAME=VALUE, such as motor=2.5")
        found[name.strip()] = [mbd.Expression(part) for part in _parts(value)]
    known = [label.name for label in system.inputs]
    for name in found:
        if name not in known:
            have = ", ".join(known) or "none"
            raise ValueError(f"--given: {system.name} has no input {name!r}; its inputs are {have}")
    needed = [label.name for label in system.inputs if label.default is None]
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(
            f"{system.name} has the input{'s' if missing[1:] else ''} {', '.join(missing)}: say "
            f"what they are, such as --given {missing[0]}=0"
        )
    return found


def _parts(text: str) -> list[str]:
    """The text divided at its commas, but for those in parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _function(parts: list[mbd.Expression]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return lambda t: jnp.stack([jnp.asarray(part(t), t.dtype) for part in parts])
