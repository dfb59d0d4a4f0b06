"""The same scenes in MuJoCo and the same contact problems in Siconos, where they are installed."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxmbd.complementarity import LawProblem, solve_laws

from . import scenes
from .scenes import G

_SCENE = """
<mujoco>
 <option timestep="{h}" gravity="{gx} 0 {gz}" integrator="{integrator}" cone="elliptic"
  impratio="10" tolerance="1e-14" iterations="200"/>
 <worldbody>
  <geom name="floor" type="plane" size="0 0 1" condim="{condim}" friction="{mu} 0 0" {solref}/>
  <body name="b" pos="0 0 {z}"><freejoint/>
   <geom type="{kind}" size="{size}" mass="1" condim="{condim}" friction="{mu} 0 0" {solref}/>
  </body>
 </worldbody>
</mujoco>
"""


def installed() -> bool:
    return importlib.util.find_spec("mujoco") is not None


def _run(seconds, h, *, v=(0.0, 0.0, 0.0), **numbers):
    """Heights, places and energy of the body's mass center at every step."""
    import mujoco

    defaults = {"gx": 0.0, "gz": -G, "integrator": "implicitfast", "condim": 3, "solref": ""}
    model = mujoco.MjModel.from_xml_string(_SCENE.format(**defaults | numbers, h=h))
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data = mujoco.MjData(model)
    data.qvel[:3] = v
    rows = []
    for _ in range(round(seconds / h)):
        mujoco.mj_step(model, data)
        rows.append([*data.qpos[:3], data.energy[0] + data.energy[1]])
    return np.array(rows)


def side_by_side(quick):
    """Creep, lift, energy and derivatives of MuJoCo, by its defaults and with ten times as much
    weight on friction (`impratio`).
    """
    import mujoco

    seconds = 1.0 if quick else 10.0
    box = {"kind": "box", "size": "0.1 0.1 0.05", "z": 0.05}
    angle = np.arctan(0.3093)
    slope = {"gx": G * np.sin(angle), "gz": -G * np.cos(angle)}
    held = _run(seconds, 1e-3, mu=0.35, **box, **slope)
    cube = _run(1.5, 1e-3, v=(6.0, 0, 0), mu=0.5, kind="box", size="0.1 0.1 0.1", z=0.1)
    # A spring without damping gives back all energy.
    hard = {"solref": 'solref="-100000 0"', "integrator": "RK4", "condim": 1, "mu": 0.0}
    ball = {"kind": "sphere", "size": "0.1"} | hard
    bounced = _run(seconds, 1e-3, z=1.1, **ball)
    flying = bounced[bounced[:, 2] > 0.15, 3]  # the energy does not count the spring of a contact

    def height(z):
        return _run(1.0, 1e-3, z=z + 0.1, **ball)[-1, 2] - 0.1

    slope_exact = _difference(lambda z: scenes.bouncing_height(1.0, 1.0, z), 1e-6)
    return {
        "version": mujoco.__version__,
        "creep": float(np.abs(held[-1, 0] - held[99, 0])),
        "creep_seconds": seconds - 0.1,
        "lift": float(np.max(cube[:, 2]) - 0.1),
        "sinks_by": float(0.1 - np.min(cube[:, 2])),
        "stops_off_by": float(abs(cube[-1, 0] - 36.0 / G)),
        "energy_drift": float(np.max(np.abs(flying / flying[0] - 1.0))),
        "slope_of_height": {f"{d:g}": _difference(height, d) for d in (1e-2, 1e-4, 1e-6)},
        "slope_of_height_exact": slope_exact,
    }


def _difference(function, step, at=1.0):
    return float((function(at + step) - function(at - step)) / (2.0 * step))


def siconos() -> str | None:
    """A Python that has Siconos."""
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            test = [python, "-c", "import siconos.numerics"]
            if subprocess.run(test, capture_output=True).returncode == 0:
                return python
    return None


def agreement(problems):
    """How far velocities after the impulses are from those that Siconos finds, relative to the
    largest before; by set of problems, {name: [Laws]}.
    """
    python = siconos()
    if python is None:
        return {}
    solve = jax.jit(lambda laws: solve_laws(laws, jnp.zeros(laws.width), LawProblem()))
    out = {}
    for name, laws in problems.items():
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / f) for f in ("problems.npz", "answers.npz")]
            arrays = {"count": np.array(len(laws))}
            for k, one in enumerate(laws):
                arrays |= {f"matrix{k}": one.matrix, f"free{k}": one.free}
                arrays[f"friction{k}"] = one.friction
            np.savez(files[0], **{n: np.asarray(x) for n, x in arrays.items()})
            oracle = Path(__file__).with_name("oracle.py")
            subprocess.run([python, str(oracle), *files], check=True, capture_output=True)
            answers = dict(np.load(files[1]))
        apart, left, theirs, ours = [], [], 0, 0
        for k, one in enumerate(laws):
            P, outcome = solve(one)
            ours += not bool(outcome.converged)
            theirs += bool(answers[f"failed{k}"])
            if outcome.converged and not answers[f"failed{k}"]:
                G, b = np.asarray(one.matrix), np.asarray(one.free)
                away = G @ (np.asarray(P) - answers[f"impulses{k}"])
                apart.append(np.max(np.abs(away)) / np.max(np.abs(b)))
                mu = np.asarray(one.friction)
                left.append([law_gap(G, b, mu, x) for x in (P, answers[f"impulses{k}"])])
        out[name] = {
            "problems": len(laws),
            "failures": ours,
            "failures_of_siconos": theirs,
            "compared": len(apart),
            "equal_to_1e-6": int(np.sum(np.array(apart) < 1e-6)),
            "median_difference": float(np.median(apart)),
            "unequal": _unequal(np.array(apart) >= 1e-6, np.array(left)),
        }
    return out


def law_gap(G, b, mu, impulses):
    """By how much impulses miss Coulomb's law with unilateral contacts, relative to the largest
    velocity before; nothing of this package.

    With u = G P + b it is the distance of every contact's impulse from its projection: of the
    normal part on what presses, of the rest on the disc of radius μ P_N, each times the contact's
    own stiffness of G.
    """
    P, scale = np.asarray(impulses).reshape(-1, 3), np.max(np.abs(b))
    u, worst = (G @ P.reshape(-1) + b).reshape(-1, 3), 0.0
    for k, (p, v, m) in enumerate(zip(P, u, mu, strict=True)):
        weight = np.trace(G[3 * k : 3 * k + 3, 3 * k : 3 * k + 3]) / 3.0
        normal = p[0] - max(p[0] - v[0] / weight, 0.0)
        moved, radius = p[1:] - v[1:] / weight, m * max(p[0], 0.0)
        length = np.linalg.norm(moved)
        tangent = p[1:] - moved * min(1.0, radius / max(length, 1e-300))
        worst = max(worst, weight * abs(normal), weight * np.linalg.norm(tangent))
    return float(worst / scale)


def _unequal(differs, left):
    """Of the unequal answers: how many obey the law on both sides, and the largest gap of each."""
    if not differs.any():
        return {"count": 0}
    ours, theirs = left[differs].T
    return {
        "count": int(differs.sum()),
        "both_obey_the_law_to_1e-9": int(np.sum((ours < 1e-9) & (theirs < 1e-9))),
        "largest_gap": float(ours.max()),
        "largest_gap_of_siconos": float(theirs.max()),
    }
