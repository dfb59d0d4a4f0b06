"""The bicycle: stability over speed, nonlinear runs that keep their energy, and gradients of its
critical speeds by its geometry.

python -m experiments bicycle [--out DIR] [--quick]
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.library import whipple_bicycle

from . import figures
from .stability import as_numbers, critical_speed, eigenvalues, first_weave_speed, matrix

PUBLISHED = {"weave": 4.29238253634111, "capsize": 6.02426201538837}
NUMBERS = {
    "wheelbase": 1.02,
    "trail": 0.08,
    "steer_tilt": np.pi / 10,
    "front_radius": 0.35,
    "frame_mass": 85.0,
}


def benchmark():
    """Eigenvalues and critical speeds of the published bicycle, with derivatives beside central
    differences.
    """
    numbers = as_numbers(**NUMBERS)
    out = {
        "eigenvalues_0": pairs(eigenvalues(numbers | as_numbers(speed=0.0))),
        "eigenvalues_5": pairs(eigenvalues(numbers | as_numbers(speed=5.0))),
        "derivatives": {},
        "differences": {},
    }
    for which, start in (("weave", 4.2), ("capsize", 6.1)):
        speed, slope = critical_speed(numbers, which, start)
        out[f"{which}_speed"] = speed
        out["derivatives"][which] = slope
        out["differences"][which] = {
            name: difference(numbers, name, which, speed) for name in NUMBERS
        }
    return out


def pairs(values):
    return [[float(x.real), float(x.imag)] for x in values]


def difference(numbers, name, which, speed):
    """The derivative of a critical speed by fourth-order central differences."""
    step = 1e-3 * NUMBERS[name]

    def at(k):
        moved = numbers | as_numbers(**{name: NUMBERS[name] + k * step})
        return critical_speed(moved, which, speed)[0]

    return (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * step)


def over_speed(quick):
    """Eigenvalues over the speed."""
    speeds = np.linspace(0.0, 10.0, 11 if quick else 201)
    numbers = as_numbers(**NUMBERS)
    matrices = jax.vmap(lambda v: matrix(numbers | {"speed": v}))(jnp.asarray(speeds))
    return {"speeds": speeds.tolist(), "values": [pairs(v) for v in np.linalg.eigvals(matrices)]}


def nonlinear(quick):
    """The bicycle pushed sideways at 4.6 m/s: it weaves, finds a new heading, and keeps its
    energy.
    """
    seconds = 0.5 if quick else 5.0
    out = {}
    system, state = whipple_bicycle(4.6, roll_rate=0.5).build()
    for h in (4e-3, 2e-3) if quick else (4e-3, 2e-3, 1e-3):
        sol = mbd.simulate(system, state, t_end=seconds, h=h, save_every=round(20e-3 / h))
        energy = np.asarray(sol.energy().total)
        roll, steer = angles(sol)
        out[f"{h:g}"] = {
            "t": np.asarray(sol.t).tolist(),
            "roll": roll.tolist(),
            "steer": steer.tolist(),
            "roll_rate": np.asarray(sol.omega[:, 1, 0]).tolist(),
            "path": np.asarray(sol.r[:, 0, :2]).tolist(),
            "speed": np.linalg.norm(sol.v[:, 0, :2], axis=1).tolist(),
            "energy": (energy - energy[0]).tolist(),
            "normal_force": np.asarray(sol.normal_forces()["front_contact"]).tolist(),
        }
    return out


def angles(sol):
    """Lean of the frame and angle of the steering [rad]."""
    frame = np.asarray(sol.A[:, 1])
    return np.arcsin(np.clip(frame[:, 2, 1], -1.0, 1.0)), np.asarray(sol.joint("steer").angle)


def design(quick):
    """A bicycle without a rider, made stable at a lower speed by its geometry: descent along the
    exact gradient of its weave speed, within bounds that a frame builder would accept.
    """
    x = {"wheelbase": 1.02, "trail": 0.08, "steer_tilt": np.pi / 10, "front_radius": 0.35}
    low = {"wheelbase": 0.9, "trail": 0.02, "steer_tilt": 0.1, "front_radius": 0.3}
    high = {"wheelbase": 1.2, "trail": 0.2, "steer_tilt": 0.5, "front_radius": 0.37}
    history = []

    def weave(x, start):
        return critical_speed(as_numbers(**x), "weave", start, rider=False)

    speed, slope = weave(x, first_weave_speed(as_numbers(**x), rider=False))
    history.append({"speed": speed} | x)
    step = 0.1  # of the range of every number
    for _ in tqdm(range(2 if quick else 40), desc="descent", leave=False):
        span = {n: high[n] - low[n] for n in x}
        direction = {n: -slope[n] * span[n] for n in x}
        # Only what is not at its bound can move.
        free = {
            n: d
            for n, d in direction.items()
            if not (x[n] <= low[n] and d < 0.0) and not (x[n] >= high[n] and d > 0.0)
        }
        size = np.sqrt(sum(d * d for d in free.values()))
        if size < 1e-6:
            break
        moved = {
            n: float(np.clip(x[n] + step * span[n] * free.get(n, 0.0) / size, low[n], high[n]))
            for n in x
        }
        new, new_slope = weave(moved, speed)
        if new < speed:
            x, speed, slope = moved, new, new_slope
            history.append({"speed": speed} | x)
        else:
            step *= 0.5
            if step < 1e-3:
                break
    return history


def growth_over_speed(history, quick):
    """The largest real part of all eigenvalues over the speed, of the first and the last design:
    the bicycle is stable where it is negative.
    """
    speeds = np.linspace(1.0, 6.0, 11 if quick else 201)
    out = {"speeds": speeds.tolist()}
    for when, design in (("before", history[0]), ("after", history[-1])):
        numbers = as_numbers(**{n: x for n, x in design.items() if n != "speed"})
        matrices = jax.vmap(lambda v, n=numbers: matrix(n | {"speed": v}, rider=False))(
            jnp.asarray(speeds)
        )
        largest = np.linalg.eigvals(np.asarray(matrices)).real.max(axis=1)
        stable = speeds[largest < 0.0]
        out[when] = largest.tolist()
        out[f"stable_{when}"] = [float(stable.min()), float(stable.max())] if stable.size else None
    return out


def run(out, quick):
    """Everything; results.json and pictures."""
    results = benchmark()
    path = out / "results.json"

    def keep():
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    keep()
    results["over_speed"] = over_speed(quick)
    keep()
    results["nonlinear"] = nonlinear(quick)
    keep()
    results["design"] = design(quick)
    results["design_growth"] = growth_over_speed(results["design"], quick)
    keep()
    figures.draw(results, out)
    for which, published in PUBLISHED.items():
        speed = results[f"{which}_speed"]
        print(f"{which} speed {speed:.14f} m/s, published {published} ({speed - published:+.1e})")
        worst = max(
            abs(results["derivatives"][which][n] / d - 1.0)
            for n, d in results["differences"][which].items()
        )
        print(f"  derivatives against differences: within {worst:.1e}")
    first, last = results["design"][0]["speed"], results["design"][-1]["speed"]
    print(f"without a rider: weave speed {first:.3f} -> {last:.3f} m/s")
    for when in ("before", "after"):
        print(f"  stable {when}: {results['design_growth'][f'stable_{when}']} m/s")
