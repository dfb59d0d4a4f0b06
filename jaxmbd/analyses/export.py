"""Results as files: NPZ with the arrays of a `Solution` under their own names, CSV with one row per instant."""

import csv
import json
import os
from pathlib import Path

import jax
import numpy as np

from ..model.system import System
from ..results import RESULTS

ARRAYS = ("t", "r", "A", "v", "omega", "a", "alpha", "lam", "iterations")


def result_name(result) -> str:
    """The name of an outcome, such as "successful"."""
    names = {int(getattr(RESULTS, n)._value): n for n in RESULTS._name_to_item}
    return names[int(np.max(np.asarray(result._value)))]


def drawing(system: System) -> dict:
    """What a picture needs to know of a system: names, outlines, joints."""
    return {
        "name": system.name,
        "bodies": list(system.bodies),
        "rows": list(system.row_names),
        "outlines": [[] if s is None else [line.tolist() for line in s.outline()] for s in system.shapes],
        "connections": [
            {
                "name": c.name,
                "kind": c.kind,
                "i": c.i,
                "j": c.j,
                "s_i_bar": np.asarray(c.s_i_bar).tolist(),
                "s_j_bar": np.asarray(c.s_j_bar).tolist(),
                "axis_j_bar": np.asarray(c.axis_j_bar).tolist(),
            }
            for c in system.connections
        ],
        "springs": [
            {"bodies": list(bodies), "s_i_bar": s_i.tolist(), "s_j_bar": s_j.tolist()}
            for stack in system.forces
            if hasattr(stack.force, "free_length")
            for bodies, s_i, s_j in zip(
                stack.bodies, np.asarray(stack.force.s_i_bar), np.asarray(stack.force.s_j_bar), strict=True
            )
        ],
    }


def write_npz(path, solution, system: System | None = None) -> None:
    """Write a solution to an NPZ file.

    The array `stats` holds a JSON text with the numbers of the run and, given a system, its drawing.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    stats = jax.tree.map(lambda x: np.asarray(x).tolist(), solution.stats)
    stats["result"] = result_name(solution.result)
    if system is not None:
        stats["drawing"] = drawing(system)
    arrays = {name: np.asarray(getattr(solution, name)) for name in ARRAYS}
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        np.savez_compressed(
            file, **arrays, result=np.asarray(solution.result._value), stats=np.array(json.dumps(stats))
        )
    os.replace(partial, path)


def write_csv(path, solution, system: System | None = None) -> None:
    """Write a table: t, then r, v, omega, a, alpha of every body, its rotation matrix row by row, multipliers."""
    nb = solution.r.shape[1]
    names = list(system.bodies) if system is not None else [f"body{k}" for k in range(nb)]
    header, columns = ["t"], [np.asarray(solution.t)[:, None]]
    for b, name in enumerate(names):
        for field in ("r", "v", "omega", "a", "alpha"):
            header += [f"{name}.{field}.{axis}" for axis in "xyz"]
            columns.append(np.asarray(getattr(solution, field))[:, b])
        header += [f"{name}.A{m + 1}{n + 1}" for m in range(3) for n in range(3)]
        columns.append(np.asarray(solution.A)[:, b].reshape(-1, 9))
    rows = system.row_names if system is not None else [f"row{k}" for k in range(solution.lam.shape[1])]
    header += [f"lam[{name}]" for name in rows] + ["iterations"]
    columns += [np.asarray(solution.lam), np.asarray(solution.iterations)[:, None]]
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(np.concatenate(columns, axis=1).tolist())
    os.replace(partial, path)
