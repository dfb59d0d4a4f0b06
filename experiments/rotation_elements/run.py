"""Rotation-matrix elements: the double pendulum of Dumitriu and Margaritescu, and the Stewart
platform they announced.

python -m experiments rotation_elements [--out DIR] [--quick] [--part ...]

Writes results.json, angles.png, multipliers.png, order.png, legs.png, platform.gif, workspace.png
and calibration.png.
"""

import json
import math
import platform
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd import viz

from ..options import parts
from . import figures, pendulum, stewart


def without_nan(x):
    """JSON knows no NaN."""
    if isinstance(x, dict):
        return {k: without_nan(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [without_nan(v) for v in x]
    if isinstance(x, float | np.floating):
        return float(x) if math.isfinite(x) else None
    return x


def double_pendulum(quick, out):
    """Angles, orders, drift, multipliers."""
    t_end = 1.0 if quick else 5.0
    system, sol = pendulum.simulated(pendulum.TABLE_STEP, t_end)
    figures.angles(np.asarray(sol.t), pendulum.angles(sol), out / "angles.png")
    figures.multipliers(
        np.asarray(sol.t), pendulum.multipliers(sol, system), out / "multipliers.png"
    )
    found = {
        "phi_psi": pendulum.table(t_end),
        "multipliers_t0": pendulum.at_start(sol, system),
        "orthogonality_drift": pendulum.drift(sol),
        "one_shot_two_step_rel_diff": pendulum.largest_elimination_gap(10 if quick else 1000),
    }
    orders, studies = {}, {}
    for kind, steps in pendulum.STEPS.items():
        steps = steps[:2] if quick else steps
        # Frozen multipliers break longer runs at coarse steps; half a second shows their order.
        orders[kind], studies[kind] = pendulum.study(
            kind, t_end if kind == "every_stage" else 0.5, steps
        )
    # Both at one time, so that they may be compared.
    steps = pendulum.STEPS["every_stage"][1 : 3 if quick else None]
    studies["every_stage_0.5s"] = pendulum.study("every_stage", 0.5, steps)[1]
    studies["frozen_5s"] = (
        {} if quick else pendulum.study("frozen", 5.0, (1e-2, 5e-3, 2.5e-3, 1.25e-3))[1]
    )
    studies = without_nan(studies)
    figures.order(studies, out / "order.png")
    return found | {"order": orders, "by_step": studies}


def spatial(quick, out):
    """A spatial start."""
    return {"spatial": pendulum.spatial((4e-3, 2e-3) if quick else (8e-3, 4e-3, 2e-3, 1e-3), 0.8)}


def forward(quick, out):
    """The platform by four formulations."""
    variants = ("massless",) if quick else tuple(stewart.VARIANTS)
    names = ("rA",) if quick else ("rA", "rp", "reps")
    found = {v: stewart.forward(v, 1e-3, (2e-3, 1e-3), names) for v in variants}
    found["largest_difference"] = max(x for v in variants for x in found[v]["difference"].values())
    return {"stewart": found}


def timings(quick, out):
    """Two steps against one shot."""
    return {} if quick else {"us_per_step_13_bodies": stewart.timings()}


def inverse(quick, out):
    """Prescribed motion and back."""
    variants = ("massless",) if quick else tuple(stewart.VARIANTS)
    gaps, histories, last = {}, {}, None
    for v in variants:
        gaps[v], histories[v], last = stewart.inverse(v, 2e-3, 0.5 if quick else 1.0)
    figures.legs(histories, out / "legs.png")
    if last is not None and not quick:
        viz.animate(last[1], last[0], out=out / "platform.gif", speed=0.5)
    return {"inverse_dynamics": gaps}


def workspace(quick, out):
    """Reach and singularities."""
    cuts, yaw = stewart.workspace(21 if quick else 161)
    singular = stewart.singular_yaw(yaw[0], yaw[2])
    figures.workspace(cuts, yaw, singular, out / "workspace.png")
    return {
        "workspace": {
            "poses": sum(int(v[1].size) for v in cuts.values()) + len(yaw[0]),
            "share_within_reach": {
                name: float(inside.mean()) for name, (_, inside, _) in cuts.items()
            },
            "singular_yaw_deg": singular,
        }
    }


def calibration(quick, out):
    """Anchors from measured poses."""
    found, details = stewart.calibration(*((20, 10) if quick else (60, 200)))
    figures.calibration(*details, out / "calibration.png")
    return {"calibration": found}


PARTS = {
    part.__name__: part
    for part in (double_pendulum, spatial, forward, timings, inverse, workspace, calibration)
}
Parts = parts(PARTS)


def run(out: Path, quick: bool, *, chosen: Parts = None):
    """Short runs of the smaller platform where `quick`."""
    target = out / "results.json"
    results = json.loads(target.read_text()) if target.exists() and chosen else {}
    results["device"] = f"{jax.devices()[0].device_kind}, {platform.machine()}"
    results["versions"] = {"jax": jax.__version__, "jaxmbd": mbd.__version__}
    for name in tqdm([name for name in PARTS if name in (chosen or PARTS)], unit="part"):
        results |= without_nan(PARTS[name](quick, out))
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    print(f"wrote results.json and the pictures to {out}")
