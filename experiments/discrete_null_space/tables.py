"""The tables of README.md from results.json, in Markdown.

python -m experiments.discrete_null_space.tables
"""

import json
from pathlib import Path

PAPER = {  # constrained and reduced scheme, as printed in Tables II to V
    "gyro_top": (("1.6e4", "1.6e7", "1.6e10"), ("8", "8", "8")),
    "cylindrical_pair": (("3.6e11", "3.6e14", "3.6e17"), ("360", "358", "358")),
    "planar_pair": (("4.8e10", "4.6e13", "4.6e16"), ("730", "800", "800")),
    "six_body_linkage": (("1.6e5", "1.5e8", "1.5e11"), ("19", "10", "58")),
}
SCHEMES = ("constrained", "reduced", "generalized_alpha")


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _largest(row, key):
    return [f"{row[s][key]:.0e}" if key in row[s] else "-" for s in SCHEMES]


def _conservation(found):
    rows = []
    for name, row in found.items():
        each = [(name, row, f"{row['schemes_max_difference']:.0e}")]
        if "figure_17" in row:
            each.append((f"{name}, Fig. 17", row["figure_17"], "-"))
        for label, values, gap in each:
            rows.append(
                [
                    label,
                    f"{values['h']}",
                    " / ".join(_largest(values, "energy_rel_dev_max")),
                    " / ".join(_largest(values, "angular_momentum_rel_dev_max")),
                    gap,
                ]
            )
    return table(["example", "step [s]", "energy", "angular momentum", "schemes differ"], rows)


def _conditions(found):
    rows = []
    for name, (constrained, reduced) in PAPER.items():
        row = found[name]
        for k, h in enumerate(row["condition_constrained"]):
            values = [
                row[f"condition_{key}"][h]
                for key in (
                    "constrained",
                    "scaled",
                    "equilibrated",
                    "reduced",
                    "reduced_start",
                    "reduced_equilibrated",
                )
            ]
            texts = [f"{x:.3g}" for x in values]
            rows.append([name, h, constrained[k], *texts[:3], reduced[k], *texts[3:]])
    head = ["", "step [s]", "constrained, paper", "as printed", "as solved", "equilibrated"]
    return table([*head, "reduced, paper", "at the solution", "at μ = 0", "unit diagonal"], rows)


def _left_out(found):
    loops = found["six_body_linkage"]["by_row_left_out"]
    rows = [
        [name, *(f"{x:.2g}" for x in both["constrained"].values())]
        + [f"{x:.3g}" for x in both["reduced"].values()]
        for name, both in loops.items()
    ]
    constrained, reduced = PAPER["six_body_linkage"]
    rows.append(["the paper", *constrained, *reduced])
    steps = list(loops["e3"]["constrained"])
    return table(
        ["left out", *(f"constrained, {h}" for h in steps), *(f"reduced, {h}" for h in steps)],
        rows,
    )


def _costs(found):
    rows = []
    for name, row in found.items():
        if "cost" not in row:
            continue
        cost = row["cost"]
        each = [cost[s] for s in SCHEMES]
        rows.append(
            [
                f"{name}, {cost['seconds']:g} s",
                " / ".join(str(cost["unknowns"][s]) for s in SCHEMES),
                " / ".join(f"{list(x['us_per_step'].values())[-1]:.0f}" for x in each),
                " / ".join(f"{list(x['relative_error'].values())[-1]:.1e}" for x in each),
                " / ".join(f"{x['ms_for_error']:.1f}" for x in each),
            ]
        )
    return table(
        ["", "unknowns", "µs a step", "error at the shortest step", "ms for an error of 1e-4"], rows
    )


def _long_runs(found):
    methods = list(next(iter(found.values()))["long_run"])
    rows = []
    for name, row in found.items():
        cells = []
        for m in methods:
            run = row["long_run"][m]
            short = "" if run["seconds_reached"] > 99.9 else f" (to {run['seconds_reached']:.3g} s)"
            cells.append(f"{run['energy_rel_dev_max']:.0e}{short}")
        rows.append([name, *cells])
    return table(["", *methods], rows)


def main():
    found = json.loads((Path(__file__).parent / "results.json").read_text())
    for part in (_conservation, _conditions, _left_out, _costs, _long_runs):
        print(part(found))


if __name__ == "__main__":
    main()
