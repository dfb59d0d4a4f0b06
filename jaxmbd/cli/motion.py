"""Commands that compute motions and efforts: kinematics, simulate, inverse-dynamics."""

from typing import Annotated, Any

import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.analyses.inverse_dynamics import effort_units

from .app import app
from .console import add_row, busy, new_table, out, say
from .files import check_columns, check_out, keep, write_columns
from .options import (
    RA,
    Columns,
    Formulation,
    Given,
    Group,
    Integrator,
    Model,
    NewtonTolerance,
    Out,
    Projection,
    RhoInf,
    Step,
    Tableau,
    TEnd,
    Tolerance,
    Until,
    given_functions,
    instants,
    integrator_of,
    usual,
    with_given,
)


@app.command()
def kinematics(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    formulation: Formulation = RA,
    given: Given = None,
    column: Columns = None,
) -> None:
    """Move a fully driven MODEL and write the motion."""
    check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    check_columns(out_file, system, column)
    ts, held = instants(system, t_end, h), with_given(system, given)
    keep(
        lambda: mbd.kinematics(
            held, state, ts, formulation=mbd.FORMULATIONS[formulation](), progress=True
        ),
        system,
        out_file,
        column,
        None if given else model,  # a file has no place for them
    )


@app.command()
def simulate(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    formulation: Formulation = RA,
    integrator: Integrator = None,
    save_every: Annotated[int, typer.Option(help="Save every k-th step.")] = 1,
    rho_inf: RhoInf = None,
    tableau: Tableau = None,
    group: Group = None,
    projection: Projection = False,
    newton_tolerance: NewtonTolerance = None,
    tolerance: Tolerance = None,
    until: Until = None,
    given: Given = None,
    column: Columns = None,
) -> None:
    """Integrate MODEL in time and write the motion."""
    check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    check_columns(out_file, system, column)
    method = integrator_of(
        integrator or usual(system), rho_inf, tableau, group, projection, newton_tolerance
    )
    options: dict[str, Any] = {"formulation": mbd.FORMULATIONS[formulation](), "integrator": method}
    if tolerance is None:
        inputs = given_functions(system, given)
        solution = keep(
            lambda: _reached(
                mbd.simulate(
                    system,
                    state,
                    t_end=t_end,
                    h=h,
                    inputs=inputs,
                    until=until,
                    save_every=save_every,
                    progress=True,
                    **options,
                )
            ),
            system,
            out_file,
            column,
            model,
        )
        _say_when(solution, until)
        return
    if save_every != 1:
        raise ValueError(
            "--save-every is for fixed steps; with --tolerance rows are at multiples of --h"
        )
    ts, held = instants(system, t_end, h), with_given(system, given)

    def adaptive() -> mbd.Solution:
        with busy(f"simulating {system.name}"):
            step = mbd.Adaptive(tolerance)
            return _reached(
                mbd.simulate(held, state, step=step, save_at=ts, until=until, **options)
            )

    solution = keep(adaptive, system, out_file, column, None if given else model)
    say(
        f"{int(solution.stats['accepted_steps'])} steps, {int(solution.stats['rejected_steps'])} "
        "rejected"
    )
    _say_when(solution, until)


_MOST = 20  # events that are listed


def _say_when(solution: mbd.Solution, until: str | None) -> None:
    """When the events of a run happened, if there are any."""
    if solution.events is None:
        return
    table = solution.events.table()
    for t, name in table[:_MOST]:
        say(f"{name}: at t = {t:.9g} s")
    if len(table) > _MOST:
        say(f"and {len(table) - _MOST} more")
    if until is not None and until not in [name for _, name in table]:
        say(f"{until}: did not happen")


def _reached(solution: mbd.Solution) -> mbd.Solution:
    """Without the rows after an event that ended the run."""
    if not bool(solution.result == mbd.RESULTS.ended_by_event):
        return solution
    reached = int(np.isfinite(np.asarray(solution.r[:, 0, 0])).sum())
    return solution.rows(slice(0, reached))


@app.command("inverse-dynamics")
def inverse_dynamics(
    model: Model,
    out_file: Out,
    t_end: TEnd = 3.0,
    h: Step = 1e-3,
    actuator: Annotated[
        list[str] | None,
        typer.Option(
            "--actuator", "-a", help="An actuator that makes the motion; repeat for more."
        ),
    ] = None,
    formulation: Formulation = RA,
    given: Given = None,
) -> None:
    """Find the efforts of drivers, or of actuators in their place, that MODEL's motion takes."""
    check_out(out_file, (".npz", ".csv"))
    system, state = mbd.load(model)
    system = with_given(system, given)
    ts = instants(system, t_end, h)
    with busy(f"inverse dynamics of {system.name} at {len(ts)} instants"):
        found = mbd.inverse_dynamics(
            system, state, ts, actuators=actuator, formulation=mbd.FORMULATIONS[formulation]()
        )
    power = found.power
    columns, units = {"t": np.asarray(found.solution.t)}, {"t": "s"}
    for name, (of_effort, of_rate) in effort_units(system, actuator).items():
        columns |= {
            f"{name}.effort": np.asarray(found.efforts[name]),
            f"{name}.rate": np.asarray(found.rates[name]),
            f"{name}.power": np.asarray(power[name]),
        }
        units |= {
            f"{name}.effort": of_effort,
            f"{name}.rate": of_rate,
            f"{name}.power": "W",
        }
    write_columns(out_file, columns, units)
    table = new_table("effort of", "smallest", "largest", "mean power [W]")
    for name, effort in found.efforts.items():
        values = np.asarray(effort)
        add_row(
            table,
            name,
            f"{values.min():.4g}",
            f"{values.max():.4g}",
            f"{np.mean(np.asarray(power[name])):.4g}",
        )
    out.print(table)
    say(f"{system.name}: {len(ts)} rows to t = {ts[-1]:g} s; wrote {out_file}")
