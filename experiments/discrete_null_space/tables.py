"""The tables of README.md from results.json, in Markdown.

python -m experiments.discrete_null_space.tables
"""

import json
from pathlib import Path


def main():
    found = json.loads((Path(__file__).parent / "results.json").read_text())
    print(
        "| example | step [s] | energy, constrained | reduced | momentum, constrained | reduced | "
        "schemes differ |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, row in found.items():
        both = [row[s] for s in ("constrained", "reduced")]
        energy = " | ".join(f"{x['energy_rel_dev_max']:.0e}" for x in both)
        momentum = " | ".join(
            f"{x['angular_momentum_rel_dev_max']:.0e}"
            if "angular_momentum_rel_dev_max" in x
            else "-"
            for x in both
        )
        print(
            f"| {name} | {row['h']} | {energy} | {momentum} | {row['schemes_max_difference']:.0e} |"
        )
    print(
        "\n| condition numbers | step [s] | constrained, as printed | as solved | reduced "
        "|\n|---|---|---|---|---|"
    )
    for name, row in found.items():
        for h in row.get("condition_constrained", ()):
            values = [row[f"condition_{k}"][h] for k in ("constrained", "scaled", "reduced")]
            print(f"| {name} | {h} | " + " | ".join(f"{x:.3g}" for x in values) + " |")
    methods = list(next(iter(found.values()))["long_run"])
    print("\n| energy deviation over 100 s at 1 ms; us a step | " + " | ".join(methods) + " |")
    print("|---|" + "---|" * len(methods))
    for name, row in found.items():
        cells = []
        for m in methods:
            run = row["long_run"][m]
            cost = f"{row['us_per_step'][m]:.0f}" if m in row["us_per_step"] else "not timed"
            short = "" if run["seconds_reached"] > 99.9 else f" (to {run['seconds_reached']:.3g} s)"
            cells.append(f"{run['energy_rel_dev_max']:.0e}{short}; {cost}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
