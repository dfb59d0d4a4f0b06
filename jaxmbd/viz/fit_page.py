"""One HTML page about a fit: what was estimated, how surely, and what is left of each measurement.

Names reach the page only as escaped text; the pictures are SVG inside it, so that it opens
anywhere.
"""

import html
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..files import placed
from ..identification import ExperimentReport, FitReport
from ..identification.posterior import Posterior
from .html_parts import folded, page_of, short, svg, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED, _MODEL, _BAND = "#8a929c", "#2f6fc4", "#2f6fc433"
_LISTED = 40  # correlations and rows of a table that are shown at once
_NORMAL = 1.96  # standard deviations of a normal distribution that hold 95 %


def save_fit_page(report: FitReport, path: str | Path, posterior: Posterior | None) -> None:
    """Write the page; see `jaxmbd.save_report`."""
    with placed(Path(path), "page") as target:
        Path(target).write_text(fit_page(report, posterior), encoding="utf-8")


def fit_page(report: FitReport, posterior: Posterior | None = None) -> str:
    """The text of the page.

    Args:
        report: Of the fit.
        posterior: For intervals and predictive bands; without it intervals are estimates with
            standard errors.
    """
    bands = [None] * len(report.experiments) if posterior is None else posterior.bands()
    body = [
        _head(report),
        "<h2>Estimates</h2>",
        _estimates(report, posterior),
        "<h2>What these data do not say</h2>",
        _undetermined(report),
        "<h2>Correlations</h2>",
        _correlations(report),
        "<h2>Measurements</h2>",
        *(
            _experiment(e, band, report.sigma)
            for e, band in zip(report.experiments, bands, strict=True)
        ),
    ]
    return page_of(f"Fit of {report.mechanism.name}", body)


def _head(report: FitReport) -> str:
    used = [e for e in report.experiments if e.is_used]
    samples = sum(int(np.isfinite(x).sum()) for e in used for x in e.measured.values())
    count = len(report.names)
    noise = (
        "in standard deviations of the given noise"
        if report.problem.experiments[0].measurements.knows_noise
        else f"the noise was estimated from them, {report.sigma:.3g}"
    )
    lines = [
        f"{count} numbers from {samples} samples of {len(used)} experiment"
        f"{'' if len(used) == 1 else 's'}.",
        f"Rms of the weighted residuals: {report.rms:.3g} ({noise}).",
        f"{'Converged' if report.converged else 'Not converged'}: {report.message}",
        f"Processor time: {report.seconds['compile']:.1f} s to compile, "
        f"{report.seconds['run']:.1f} s to run.",
    ]
    warnings = [
        *report.at_bounds,
        *(
            f"{e.name} was not used: its motion could not be computed at the first guesses"
            for e in report.experiments
            if not e.is_used
        ),
    ]
    return "".join(
        [f'<p class="soft">{html.escape(line)}</p>' for line in lines]
        + [f'<p class="warn">{html.escape(line)}</p>' for line in warnings]
    )


def _estimates(report: FitReport, posterior: Posterior | None) -> str:
    values = np.asarray(report.problem.flat_values(report.coordinates))
    errors = np.sqrt(np.diagonal(report.covariance))
    rows = []
    for k, name in enumerate(report.names):
        if posterior is not None:
            low, high = posterior.interval(name)
        else:
            low, high = values[k] - _NORMAL * errors[k], values[k] + _NORMAL * errors[k]
        seen = np.isfinite(errors[k])
        rows.append([
            name,
            f"{values[k]:.6g}",
            f"{errors[k]:.2g}" if seen else "not determined",
            f"{low:.6g} to {high:.6g}" if seen else "",
        ])  # fmt: skip
    heads = ["number", "estimate", "standard error", "95 % interval"]
    return folded(table(heads, rows[:_LISTED]), heads, rows[_LISTED:])


def _undetermined(report: FitReport) -> str:
    if not report.unidentified:
        return (
            "<p>Every combination of the numbers is determined to better than a factor of two.</p>"
        )
    words = [
        "<p>These combinations can change together without the motion showing it; "
        "shares are of relative changes. Measure one of their numbers otherwise, give it a prior, "
        "or choose an experiment that separates them.</p><ul>"
    ]
    for k in report.unidentified:
        shares = ", ".join(
            f"{share:+.2f} {html.escape(name)}"
            for name, share in list(report.combinations[k].items())[:6]
        )
        words.append(f"<li>{shares}</li>")
    return "".join([*words, "</ul>"])


def _correlations(report: FitReport) -> str:
    count = min(len(report.names), 16)
    matrix = report.correlation[:count, :count]
    rows = []
    for k in range(count):
        cells = "".join(_cell(x) for x in matrix[k])
        rows.append(f"<tr><td>{k + 1}. {html.escape(report.names[k])}</td>{cells}</tr>")
    heads = "".join(f"<th>{k + 1}</th>" for k in range(count))
    more = len(report.names) - count
    note = f'<p class="soft">The first {count} of {len(report.names)} numbers.</p>' if more else ""
    return f'<div class="wide"><table><tr><th></th>{heads}</tr>{"".join(rows)}</table></div>{note}'


def _cell(x: float) -> str:
    if not np.isfinite(x):
        return '<td class="matrix">&ndash;</td>'
    color = "47,111,196" if x > 0.0 else "196,78,47"
    style = f"background: rgba({color},{0.7 * abs(x):.2f})"
    return f'<td class="matrix" style="{style}">{x:.2f}</td>'


def _experiment(e: ExperimentReport, band: dict[str, np.ndarray] | None, sigma: float) -> str:
    rows = [
        [name, e.units[name], f"{e.rms[name]:.4g}", str(int(np.isfinite(x).sum()))]
        for name, x in e.measured.items()
    ]
    parts = [
        f"<h3>{html.escape(e.name)}</h3>",
        table(["quantity", "unit", "rms of measured less model", "samples"], rows),
    ]
    if e.is_used:
        parts += [
            _picture(e, name, None if band is None else band[name], sigma) for name in e.measured
        ]
    return "".join(parts)


def _picture(e: ExperimentReport, name: str, band: np.ndarray | None, sigma: float) -> str:
    """Measured and model, residuals in time, their histogram and their autocorrelation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 2.5), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=[2.2, 1.6, 1.0, 1.0])
    motion, left, spread, memory = axes
    motion.plot(e.t, e.measured[name], ".", ms=2, color=_MEASURED, label="measured")
    motion.plot(e.t, e.predicted[name], lw=1.2, color=_MODEL, label="model")
    if band is not None:
        motion.fill_between(e.t, band[0], band[2], color=_BAND, lw=0, label="95 % band")
    motion.set(xlabel="t [s]", ylabel=f"{short(name)} [{e.units[name]}]")
    motion.legend(fontsize=7, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    residual = -e.weighted[name] / sigma
    there = np.isfinite(residual)
    left.plot(e.t, residual, ".", ms=2, color=_MEASURED)
    left.axhline(0.0, lw=0.8, color="0.3")
    left.set(xlabel="t [s]", ylabel="residual [deviations]")
    r = residual[there]
    spread.hist(r, bins=min(40, max(8, len(r) // 12)), density=True, color=_MEASURED)
    x = np.linspace(-4.0, 4.0, 101)
    spread.plot(x, np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi), lw=1.0, color=_MODEL)
    spread.set(xlabel="residual [deviations]", yticks=[])
    _autocorrelation(memory, r)
    for ax in axes:
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7)
        ax.xaxis.label.set_size(8)
        ax.yaxis.label.set_size(8)
    return svg(figure)


def _autocorrelation(ax: "Axes", r: np.ndarray) -> None:
    """With the limits that 95 % of independent residuals keep."""
    most = max(1, min(40, len(r) // 4))
    total = float(r @ r) or 1.0
    found = [float(r[lag:] @ r[: len(r) - lag]) / total for lag in range(1, most + 1)]
    limit = _NORMAL / np.sqrt(max(len(r), 1))
    ax.axhspan(-limit, limit, color="0.9", lw=0)
    ax.vlines(range(1, most + 1), 0.0, found, color=_MODEL, lw=1.5)
    ax.axhline(0.0, lw=0.8, color="0.3")
    ax.set(xlabel="lag [samples]", ylabel="autocorrelation", ylim=(-1.05, 1.05))
