"""The tables of this experiment as Markdown, beside the paper's values."""

PAPER_8 = {  # C1 rA, C1 rE, C2 rA, C2 rE; relative to rp
    "single_pendulum": (2.21, 1.40, 2.63, 1.27),
    "four_link": (2.38, 1.23, 2.55, 1.10),
    "slider_crank": (2.70, 1.47, 2.62, 1.23),
}
PAPER_9 = {  # rp, rA, rE; C1 and C2 agree
    "single_pendulum": (3.82, 3.80, 3.80),
    "four_link": (4.47, 4.50, 4.77),
    "slider_crank": (4.83, 4.70, 4.79),
}
PAPER_10 = {
    "single_pendulum": (2.43, 1.29, 2.46, 1.69),
    "double_pendulum": (2.63, 1.21, 2.39, 1.53),
    "four_link": (2.62, 1.21, 2.41, 1.44),
    "slider_crank": (2.93, 1.31, 2.29, 1.30),
}
NAMES = ("rA", "rp", "reps")


def with_gaps(tree):
    """The results with NaN for the formulation that a quick run leaves out."""
    if not isinstance(tree, dict):
        return tree
    tree = {key: with_gaps(value) for key, value in tree.items()}
    if "rA" in tree and "reps" not in tree:
        tree["reps"] = _nan_like(tree["rA"])
    return tree


def _nan_like(x):
    if isinstance(x, dict):
        return {key: _nan_like(value) for key, value in x.items()}
    return [_nan_like(value) for value in x] if isinstance(x, list) else float("nan")


def number(x, digits=3):
    return "-" if x is None else f"{x:.{digits}g}" if isinstance(x, float) else str(x)


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _speedups(results, key, paper):
    rows = []
    kind = "kinematics" if "kinematics" in key else "dynamics"
    for model, found in results[key].items():
        spread = results[key + "_spread"][model]
        us = results["paper_mode_us_per_step"][kind][model]
        ours = [f"{found[n]:.2f} ± {spread[n]:.2f}" for n in ("rA", "reps")]
        times = " / ".join(f"{us[n]:.1f}" for n in NAMES)
        rows.append([model, *(f"{v:.2f}" for v in paper[model]), *ours, times])
    return table(
        [
            "",
            "C1 rA",
            "C1 rE",
            "C2 rA",
            "C2 rE",
            "here rA",
            "here r-ε",
            "here µs a step, rA / rp / r-ε",
        ],
        rows,
    )


def _rows(results):
    rows = []
    for model, found in results["rows_us_per_step"].items():
        for column in ("single", "gradient"):
            cells = []
            for name in NAMES:
                us = [
                    found.get(f"{name} {kind}", {}).get(column) for kind in ("closed", "automatic")
                ]
                cells.append(" / ".join("-" if x is None else f"{x:.1f}" for x in us))
            closed = results["rows_closed_speedup"][model].get(column)
            if closed is None:
                continue
            ratios = [
                f"{closed[n]['mean']:.2f} ± {closed[n]['spread']:.2f}" if n in closed else "-"
                for n in ("rA", "reps")
            ]
            rows.append([model, column, *cells, *ratios])
    head = ["", "µs a step, by hand / automatic", "rA", "rp", "r-ε"]
    return table([*head, "by hand: rA / rp speed", "r-ε / rp speed"], rows)


def _columns(results, key, batch):
    rows = []
    for model, found in results[key].items():
        for column in ("single", batch, "gradient"):
            us = [found[n][column] for n in NAMES]
            ratios = [f"{us[1] / x:.2f}" for x in (us[0], us[2])]
            rows.append([model, column, *(f"{x:.2f}" for x in us), *ratios])
    return table(
        ["", "", "rA [µs]", "rp [µs]", "r-ε [µs]", "rA / rp speed", "r-ε / rp speed"], rows
    )


def _iterations(results):
    rows = []
    for model, found in results["table9_iterations"].items():
        ours = [number(found[n], 4) for n in ("rp", "rA", "reps")]
        others = ("table9_own_driver", "table9_own_newton")
        more = [" / ".join(number(results[k][model][n], 4) for n in NAMES) for k in others]
        charts = number(results["table9_own_charts"][model].get("reps"), 4)
        rows.append([model, *(f"{v:.2f}" for v in PAPER_9[model]), *ours, charts, *more])
    head = ["", "paper rp", "paper rA", "paper rE", "rp", "rA", "r-ε", "r-ε, own charts"]
    return table(
        head + ["frozen, turning driver, rA / rp / r-ε", "own Newton, rA / rp / r-ε"], rows
    )


def _against_step(results):
    rows = []
    for key, what in (
        ("fig2_iterations", "kinematics (Fig. 2)"),
        ("fig4_iterations", "dynamics (Fig. 4)"),
        ("fig4_tangent", "the same with the exponential's tangent"),
        ("fig4_newton", "dynamics, exact matrix"),
    ):
        for name, values in results[key]["four_link"].items():
            rows.append([what, name, *(number(v, 3) for v in values)])
    return table(["", "", *(f"h = {h:g}" for h in results["fig_steps"])], rows)


def _double_pendulum(results):
    rows = [
        [
            n,
            *(number(v) for v in gaps.values()),
            f"{results['fig3_order']['double_pendulum'][n]:.3f}",
        ]
        for n, gaps in results["fig3_max_dz"]["double_pendulum"].items()
    ]
    return table(["", *(f"h = {h:g} s" for h in results["fig3_steps"]), "order on 0-1 s"], rows)


def _default_method(results):
    rows = []
    for method, found in results["default_method"].items():
        for key in ("largest_error", "error_at_1_s"):
            values = [f"{x:.2e}" for x in found[key].values()]
            rows.append([method.replace("_", "-"), key.replace("_", " "), *values])
    counts = next(iter(results["default_method"].values()))["largest_error"]
    return table(["", "", *(f"{n} steps" for n in counts)], rows)


def _order(results):
    rows = []
    for model in results["order_velocity"]:
        for level in ("velocity", "acceleration"):
            found = results[f"order_{level}"][model]
            rows.append([model, level, *(f"{found[n]:.3f}" for n in NAMES)])
    return table(["", "", "rA", "rp", "r-ε"], rows)


def _operations(results):
    rows = []
    for model, found in results["operations"].items():
        for n in NAMES:
            o = found[n]
            rows.append(
                [
                    model,
                    n,
                    str(o["unknowns"]),
                    *(
                        f"{o[part]['flops'] / 1e3:.1f}"
                        for part in ("residual", "matrix", "exact_matrix", "jacobian")
                    ),
                    f"{o['factor_flops'] / 1e3:.1f}",
                    f"{o['residual']['transcendentals']:.0f}",
                    f"{results['flops_per_step'][model][n] / 1e3:.0f}",
                    f"{results['bytes_per_step'][model][n] / 1e3:.0f}",
                ]
            )
    head = [
        "",
        "",
        "unknowns",
        "residual",
        "quasi matrix",
        "exact matrix",
        "Jacobian",
        "LU",
        "sines etc. a residual",
    ]
    return table(head + ["kflop a step", "kB a step"], rows)


def _spatial(results):
    rows = []
    for model, found in results["spatial"].items():
        for n in NAMES:
            f = found[n]
            rows.append(
                [
                    model,
                    n,
                    f"{f['us_per_step']:.1f}",
                    *(
                        f"{e:.2e}"
                        for e in (
                            f["position_error"][0],
                            f["position_error"][-1],
                            f["rate_error"][-1],
                        )
                    ),
                    f"{f['order_position']:.3f}",
                    f"{f['order_rate']:.3f}",
                ]
            )
    head = [
        "",
        "",
        "µs a step",
        "position error, largest h [m]",
        "smallest h [m]",
        "rate error, smallest h [rad/s]",
    ]
    return table(head + ["order, position", "order, rate"], rows)


def _conditioning(results):
    rows = []
    for model, found in results["condition"].items():
        for n in NAMES:
            rows += [
                [model, n, kind, *(f"{x:.1e}" for x in found[n][kind])]
                for kind in ("scaled", "unscaled")
            ]
    h = next(iter(results["condition"].values()))["h"]
    return table(["", "", "rows", *(f"h = {x:g}" for x in h)], rows)


def _singularity(results):
    found = results["singularity"]
    rows = []
    for k, miss in enumerate(found["miss"]):
        errors = [number(found[n]["angle_error"][k], 2) for n in ("rA", "rp", "reps", "one chart")]
        rows.append(
            [
                f"{miss:g}",
                *errors,
                *(f"{found[n]['condition_max'][k]:.1e}" for n in ("reps", "one chart")),
            ]
        )
    head = [
        "miss [rad]",
        "error rA [rad]",
        "rp",
        "r-ε, charts",
        "r-ε, one chart",
        "condition, charts",
        "one chart",
    ]
    return table(head, rows)


def report(results, batch):
    """All tables of which the results hold the numbers."""
    parts = {
        "Table 8: speed relative to rp, kinematics "
        "(the paper's drivers, frozen iteration, tolerance 1e-10)": (
            "table8_kinematics_speedup",
            lambda: _speedups(results, "table8_kinematics_speedup", PAPER_8),
        ),
        "Table 9: iterations of the position analysis": (
            "table9_iterations",
            lambda: _iterations(results),
        ),
        "Table 10: speed relative to rp, dynamics (frozen iteration, Θ = 1e-3)": (
            "table10_dynamics_speedup",
            lambda: _speedups(results, "table10_dynamics_speedup", PAPER_10),
        ),
        "Rows by hand and automatic rows: the paper's mode, and a gradient of a rollout": (
            "rows_us_per_step",
            lambda: _rows(results),
        ),
        "Dynamics in the package's own Newton: single, batch (a member), gradient (reverse mode)": (
            "us_per_step",
            lambda: _columns(results, "us_per_step", f"batch{batch}"),
        ),
        "Kinematics in the package's own Newton": (
            "kinematics_us_per_step",
            lambda: _columns(results, "kinematics_us_per_step", f"batch{batch}"),
        ),
        "Operations of one step of dynamics, thousands": (
            "operations",
            lambda: _operations(results),
        ),
        "Figures 2 and 4: mean iterations of the four link against the step": (
            "fig2_iterations",
            lambda: _against_step(results),
        ),
        "Figure 3: largest |Δz| of the double pendulum's second bar [m]": (
            "fig3_max_dz",
            lambda: _double_pendulum(results),
        ),
        "Double pendulum over one second, rA: error of z of the second bar [m]": (
            "default_method",
            lambda: _default_method(results),
        ),
        "Figures 5 to 7: observed order, truth from kinematics": (
            "order_velocity",
            lambda: _order(results),
        ),
        "Spatial mechanisms with freedoms": ("spatial", lambda: _spatial(results)),
        "Condition number of the iteration matrix": ("condition", lambda: _conditioning(results)),
        "Passing the singularity of Euler angles": ("singularity", lambda: _singularity(results)),
    }
    results = with_gaps(results)
    machine = f"{results['device']}, jax {results['versions']['jax']}"
    text = f"# Tables\n\nWritten by `run.py` on {machine}.\n"
    for title, (key, make) in parts.items():
        if key in results:
            text += f"\n## {title}\n\n{make()}"
    return text
