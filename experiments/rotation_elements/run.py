"""Rotation-matrix elements: the double pendulum of Dumitriu and Margaritescu, and the Stewart
platform they announced.

python experiments/rotation_elements/run.py --out DIR [--quick] [--parts ...]

Writes results.json, angles.png, multipliers.png, order.png, legs.png, platform.gif, workspace.png
and calibration.png.
"""

import argparse
import json
import math
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # reference solutions

import jax
import numpy as np
import pendulum
import stewart
from tqdm import tqdm

import figures
import jaxmbd as mbd
from jaxmbd import viz


def without_nan(x):
    """JSON knows no NaN."""
    if isinstance(x, dict):
        return {k: without_nan(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [without_nan(v) for v in x]
    if isinstance(x, float | np.floating):
        return float(x) if math.isfinite(x) else None
    return x


def double_pendulum(args):
    """Angles, orders, drift, multipliers."""
    t_end = 1.0 if args.quick else 5.0
    system, sol = pendulum.simulated(pendulum.TABLE_STEP, t_end)
    figures.angles(np.asarray(sol.t), pendulum.angles(sol), args.out / "angles.png")
    figures.multipliers(
        np.asarray(sol.t), pendulum.multipliers(sol, system), args.out / "multipliers.png"
    )
    found = {
        "phi_psi": pendulum.table(t_end),
        "multipliers_t0": pendulum.at_start(sol, system),
        "orthogonality_drift": pendulum.drift(sol),
        "one_shot_two_step_rel_diff": pendulum.largest_elimination_gap(10 if args.quick else 1000),
    }
    orders, studies = {}, {}
    for kind, steps in pendulum.STEPS.items():
        steps = steps[:2] if args.quick else steps
        # Frozen multipliers break longer runs at coarse steps; half a second shows their order.
        orders[kind], studies[kind] = pendulum.study(
            kind, t_end if kind == "every_stage" else 0.5, steps
        )
    studies["frozen_5s"] = (
        {} if args.quick else pendulum.study("frozen", 5.0, (1e-2, 5e-3, 2.5e-3, 1.25e-3))[1]
    )
    studies = without_nan(studies)
    figures.order(studies, args.out / "order.png")
    return found | {"order": orders, "by_step": studies}


def spatial(args):
    """A spatial start."""
    return {
        "spatial": pendulum.spatial((4e-3, 2e-3) if args.quick else (8e-3, 4e-3, 2e-3, 1e-3), 0.8)
    }


def forward(args):
    """The platform by four formulations."""
    variants = ("massless",) if args.quick else tuple(stewart.VARIANTS)
    names = ("rA",) if args.quick else ("rA", "rp", "reps")
    found = {v: stewart.forward(v, 1e-3, (2e-3, 1e-3), names) for v in variants}
    found["largest_difference"] = max(x for v in variants for x in found[v]["difference"].values())
    return {"stewart": found}


def timings(args):
    """Two steps against one shot."""
    return {} if args.quick else {"us_per_step_13_bodies": stewart.timings()}


def inverse(args):
    """Prescribed motion and back."""
    variants = ("massless",) if args.quick else tuple(stewart.VARIANTS)
    gaps, histories, last = {}, {}, None
    for v in variants:
        gaps[v], histories[v], last = stewart.inverse(v, 2e-3, 0.5 if args.quick else 1.0)
    figures.legs(histories, args.out / "legs.png")
    if last is not None and not args.quick:
        viz.animate(last[1], last[0], out=args.out / "platform.gif", speed=0.5)
    return {"inverse_dynamics": gaps}


def workspace(args):
    """Reach and singularities."""
    cuts, yaw = stewart.workspace(21 if args.quick else 161)
    singular = stewart.singular_yaw(yaw[0], yaw[2])
    figures.workspace(cuts, yaw, singular, args.out / "workspace.png")
    return {
        "workspace": {
            "poses": sum(int(v[1].size) for v in cuts.values()) + len(yaw[0]),
            "share_within_reach": {
                name: float(inside.mean()) for name, (_, inside, _) in cuts.items()
            },
            "singular_yaw_deg": singular,
        }
    }


def calibration(args):
    """Anchors from measured poses."""
    found, details = stewart.calibration(*((20, 10) if args.quick else (60, 200)))
    figures.calibration(*details, args.out / "calibration.png")
    return {"calibration": found}


PARTS = (double_pendulum, spatial, forward, timings, inverse, workspace, calibration)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.__name__ for part in PARTS]
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for results.json and the pictures"
    )
    parser.add_argument("--quick", action="store_true", help="short runs of the smaller platform")
    parser.add_argument(
        "--parts", nargs="+", choices=names, default=names, help="default: all; renews only these"
    )
    args = parser.parse_args(argv)
    mbd.enable_x64()
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / "results.json"
    results = (
        json.loads(target.read_text()) if target.exists() and len(args.parts) < len(PARTS) else {}
    )
    results["device"] = f"{jax.devices()[0].device_kind}, {platform.machine()}"
    results["versions"] = {"jax": jax.__version__, "jaxmbd": mbd.__version__}
    for part in tqdm([p for p in PARTS if p.__name__ in args.parts], unit="part"):
        results |= without_nan(part(args))
        target.write_text(json.dumps(results, indent=1) + "\n")
        jax.clear_caches()
    print(f"wrote results.json and the pictures to {args.out}")


if __name__ == "__main__":
    main()
