"""Commands that describe models: list, schema, info."""

import json

import numpy as np
import typer

import jaxmbd as mbd
from jaxmbd.model.given import summary

from .app import app
from .console import add_row, busy, new_table, out, say
from .options import Model, with_given

_LISTED = 40  # rows of a table; the rest is counted


@app.command("list")
def list_models() -> None:
    """List the packaged mechanisms."""
    from jaxmbd.library import GENERATORS, SIZED, names

    table = new_table("name", "bodies", "rows", "what it is")
    for name in names():
        m = mbd.load_mechanism(name)
        system, _ = m.build()
        what = summary(GENERATORS[name]) if name in GENERATORS else _description(name)
        add_row(
            table, f"{name}[:N]" if name in SIZED else name, str(system.nb), str(system.nc), what
        )
    out.print(table)


def _description(name: str) -> str:
    from importlib import resources

    text = (resources.files("jaxmbd.library") / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text).get("description") or ""


@app.command()
def schema() -> None:
    """Print the JSON Schema of model files."""
    from jaxmbd.io import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def info(model: Model) -> None:
    """Show bodies, joints, degrees of freedom and redundant joints of MODEL."""
    from jaxmbd.analyses.running.start_checks import warn_of_changes

    system, state = mbd.load(model)
    if system.inputs:
        zeros = [f"{x.name}={','.join('0' * x.width)}" for x in system.inputs]
        names = ", ".join(f"{x.name} [{x.unit}]" for x in system.inputs)
        say(f"inputs, held at zero here: {names}")
        system = with_given(system, zeros)
    with busy(f"assembling {system.name}"):
        assembled, report = mbd.assemble(system, state)
    closed = bool(report.closed)
    gravity = ", ".join(f"{x:g}" for x in np.asarray(system.gravity))
    say(f"{system.name}: gravity ({gravity}) m/s²")
    bodies = new_table(
        "body", "mass [kg]", "principal moments [kg·m²]", "assembly moved [m]", "turned [rad]"
    )
    for k, name in enumerate(system.bodies[:_LISTED]):
        known = name not in system.massless
        moments = (
            ", ".join(f"{x:.4g}" for x in np.linalg.eigvalsh(np.asarray(system.inertia[k])))
            if known
            else "none"
        )
        mass = f"{float(system.mass[k]):.4g}" if known else "none"
        add_row(
            bodies,
            name,
            mass,
            moments,
            f"{float(report.displacement[k]):.1e}",
            f"{float(report.rotation[k]):.1e}",
        )
    out.print(bodies)
    _and_more(len(system.bodies), "bodies")
    names = [*system.bodies, "ground"]
    joints = new_table("joint", "kind", "bodies", "rows", "violation")
    violation = np.asarray(report.violation)
    for c in system.connections[:_LISTED]:
        gap = float(np.max(np.abs(violation[list(c.rows)])))
        add_row(
            joints, c.name, c.kind, f"{names[c.i]} - {names[c.j]}", str(len(c.rows)), f"{gap:.1e}"
        )
    out.print(joints)
    _and_more(len(system.connections), "joints")
    if system.laws:
        laws = new_table("law", "kind", "bodies", "places")
        for stack in system.laws:
            for name, pair in zip(stack.names, stack.bodies, strict=True):
                add_row(
                    laws, name, stack.kind, " - ".join(names[b] for b in pair), str(stack.places)
                )
        out.print(laws)
    say(f"linear systems: {system.linear_solver.replace('_', '-')}")
    if not closed:
        raise ValueError(
            f"mechanism {system.name!r} cannot be assembled: see the column 'violation'"
        )
    warn_of_changes(system, state, assembled, report)
    _report_mobility(mbd.mobility(system, assembled))


def _and_more(count: int, what: str) -> None:
    if count > _LISTED:
        say(f"... and {count - _LISTED} more {what}")


def _report_mobility(m: mbd.Mobility) -> None:
    condition = f", condition of the Jacobian {m.condition:.1f}" if np.isfinite(m.condition) else ""
    positions = (
        f" of the velocities and {m.position_freedoms} of the positions"
        if m.position_freedoms != m.freedoms
        else ""
    )
    say(
        f"{m.coordinates} coordinates, {m.rows} rows of rank {m.rank}: {m.freedoms} freedom(s)"
        f"{positions}, {m.redundant_rows} redundant row(s){condition}"
    )
    for found in m.redundant_sets[:_LISTED]:
        say(
            f"redundant: {len(found.rows)} row(s) in the loop of {', '.join(found.joints)}; could "
            "go: " + "; ".join(found.rows)
        )
    _and_more(len(m.redundant_sets), "redundant sets")
