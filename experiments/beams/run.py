"""Geometrically exact beams: closed forms, published values, conservation, derivatives, cost.

python -m experiments beams [--out DIR] [--quick]
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import jaxmbd as mbd

from . import figures, scenes

FREQUENCIES = (3.5160152685, 22.0344915647, 61.6972144153)  # times sqrt(EI / (rho A L⁴))
LIMIT_45 = (15.685, 47.150, 53.475)
BUCKLING = np.pi**2 / 4.0
LATERAL = 4.0126


def tip(model):
    """Where the last node rests."""
    return np.asarray(mbd.equilibrium(*model.build(), max_steps=400).state.r[-1])


def bending(quick):
    """Pure bending to a full circle, and the 45-degree bend."""
    out: dict = {"circle_tip_error": float(np.max(np.abs(tip(scenes.circle(8)))))}
    if not quick:
        slender = scenes.circle(8, scenes.slender())
        out["circle_tip_error_slender"] = float(np.max(np.abs(tip(slender))))
    tips = {n: tip(scenes.bend45(n)) for n in ((4,) if quick else (8, 16, 32))}
    out["bend45_tips"] = {str(n): x.tolist() for n, x in tips.items()}
    if not quick:
        out["bend45_tip_error_32"] = float(np.max(np.abs(tips[32] - np.array(LIMIT_45))))
        steps = [np.linalg.norm(tips[2 * n] - tips[n]) for n in (8, 16)]
        out["bend45_order"] = float(np.log2(steps[0] / steps[1]))
    return out


def frequencies(quick):
    """The first three of the cantilever, against those of Euler and Bernoulli."""
    out = {"frequencies": {}}
    for n in (8,) if quick else (8, 16, 32):
        m, _ = scenes.clamped(scenes.slender(ratio=1e-6), n)
        system, state = m.build()
        squares = np.real(mbd.equilibrium(system, state).stability().stiffness)
        omega = np.sqrt(np.sort(squares))
        section = scenes.slender(ratio=1e-6)
        unit = np.sqrt(section.E * section.I / (section.rho * section.A))
        # A square section: every frequency of bending appears twice.
        errors = [float(omega[2 * k] / unit / f - 1.0) for k, f in enumerate(FREQUENCIES)]
        out["frequencies"][str(n)] = errors
    if not quick:
        last = out["frequencies"]["32"]
        out["frequency_1_relative_error_32"] = abs(last[0])
        out["frequency_3_relative_error_32"] = abs(last[2])
    return out


def lowest(model):
    """The smallest eigenvalue of K y = ω² M y at the equilibrium near the description."""
    system, state = model.build()
    rest = mbd.equilibrium(system, state, unstable=True)
    return float(np.min(np.real(rest.stability().stiffness)))


def buckling_load(build, guess):
    """Where the smallest squared frequency crosses zero."""
    return brentq(lambda p: lowest(build(p)), 0.9 * guess, 1.1 * guess, xtol=1e-9 * guess)


def buckling(quick):
    """Euler's load of the cantilever, and lateral buckling of a strip on edge."""
    out, orders = {}, (8,) if quick else (8, 16, 32)
    column, edge = scenes.slender(), scenes.strip()
    euler = BUCKLING * column.E * column.I
    stiffness = np.array([edge.E * edge.I[0], edge.G * edge.J])
    lateral = LATERAL * np.sqrt(np.prod(stiffness))
    for name, scene, load in (
        ("buckling", scenes.pressed, euler),
        ("lateral_buckling", scenes.edgewise, lateral),
    ):
        found = {n: buckling_load(lambda p, n=n, s=scene: s(p, n), load) for n in orders}
        out[name] = {str(n): float(p / load - 1.0) for n, p in found.items()}
        if not quick:
            out[f"{name}_relative_error_32"] = abs(out[name]["32"])
    return out


def spin_up(quick):
    """Steady stretch after the spin-up of Simo and Vu-Quoc."""
    n, seconds = (4, 1.0) if quick else (16, 20.0)
    sol = mbd.simulate(
        *mbd.load(f"spin_up_beam:{n}"),
        t_end=seconds,
        h=5e-3,
        save_every=4,
        integrator=mbd.GeneralizedAlpha(),
    )
    stretch = np.linalg.norm(np.asarray(sol.r[:, -1]), axis=1) - 10.0
    late = np.asarray(sol.t) > 16.0
    exact = 36.0 * 1.2 * 1e3 / (3.0 * 2.8e7)
    out = {"spin_up_steady_stretch_exact": exact}
    if not quick:
        out["spin_up_steady_stretch"] = float(np.mean(stretch[late]))
        out["spin_up_relative_error"] = float(abs(np.mean(stretch[late]) / exact - 1.0))
    return out


def flight(quick, steps=None):
    """A free beam by the energy-momentum method."""
    steps = (200 if quick else 100_000) if steps is None else steps
    system, state = scenes.flying().build()
    sol = mbd.simulate(
        system,
        state,
        h=1e-2,
        steps=steps,
        save_every=steps // 100,
        formulation=mbd.Directors(),
        integrator=mbd.EnergyMomentum(newton=mbd.Newton(exact=True, tolerance=1e-14)),
        linear_solver="dense",
    )
    energy, momentum = np.asarray(sol.energy().total), sol.momentum()
    linear, angular = np.asarray(momentum.linear), np.asarray(momentum.angular)
    speed = float(np.asarray(system.mass) @ np.linalg.norm(np.asarray(sol.v[0]), axis=1))
    return {
        "flying_steps": steps,
        "flying_energy_drift": float(np.max(np.abs(energy / energy[0] - 1.0))),
        "flying_linear_momentum_drift": float(np.max(np.abs(linear - linear[0]))) / speed,
        "flying_angular_momentum_drift": float(
            np.max(np.abs(angular - angular[0])) / np.linalg.norm(angular[0])
        ),
        "flying_largest_bend": float(np.max(np.asarray(sol.beam("beam").bend))),
        "flying_strain_energy_share": float(np.max(sol.energy().potential) / energy[0]),
    }


def orbit(quick):
    """Steady motion of the flexible slider crank, and its Floquet multipliers by differences of
    simulated periods.
    """
    system, state = mbd.load("flexible_slider_crank:2")
    period, steps = 2.0 * np.pi / 150.0, 40 if quick else 200
    # Velocities stay on the constraints, and steps are solved to rounding.
    method = mbd.GeneralizedAlpha(
        velocity_projection=True, newton=mbd.Newton(tolerance=1e-13, exact=True)
    )
    found = mbd.periodic(system, state, period=period, steps=steps, integrator=method)
    near = mbd.linearize(system, found.state)
    size = np.repeat([1e-6, 1e-3], len(near.coordinates))  # [m or rad], per second

    def ends(x):
        displaced, faster = near.basis @ x[: len(x) // 2], near.basis @ x[len(x) // 2 :]
        pose = jax.vmap(mbd.RA().retract)(found.state.pose, displaced)
        v, omega = found.state.v + faster[:, :3], found.state.omega + faster[:, 3:]
        started, _ = mbd.assemble(system, mbd.State(pose.r, pose.A, v, omega), t=0.0)
        sol = mbd.simulate(system, started, h=period / steps, steps=steps, integrator=method)
        return [np.asarray(near.coordinates_of(s.pose, s.twist)) for s in (sol.at(0), sol.at(-1))]

    pairs = [[ends(sign * x) for sign in (1.0, -1.0)] for x in np.diag(size)]
    first, last = (
        np.stack([plus[k] - minus[k] for plus, minus in pairs], axis=1) / size[:, None]
        for k in (0, 1)
    )
    differences = np.linalg.eigvals(last @ np.linalg.inv(first))
    multipliers = np.asarray(found.multipliers)
    apart = np.abs(multipliers[:, None] - differences[None, :])
    return {
        "periodic_residual": float(found.residual),
        "periodic_largest_multiplier": float(np.max(np.abs(multipliers))),
        "floquet_difference_error": float(max(np.max(np.min(apart, axis=k)) for k in (0, 1))),
    }


def hanging(n, E=2.1e11):
    """A steel cantilever of n elements that falls under gravity."""
    m = mbd.Mechanism("cost")
    section = mbd.Section.rectangle(0.02, 0.01, E=E, rho=7850.0)
    beam = m.add_beam("beam", [(0, 0, 0), (1, 0, 0)], elements=n, section=section)
    m.add(mbd.Fixed("clamp", m.ground, beam.first, point=(0.0, 0.0, 0.0)))
    return m


def cost(n=64, steps=400):
    """Processor time of a step, and of the gradient by Young's modulus."""
    options = {"h": 1e-3, "steps": steps, "integrator": mbd.GeneralizedAlpha()}

    def best(call, *args):
        call(*args)
        times = []
        for _ in range(5):
            start = time.process_time()
            jax.block_until_ready(call(*args))
            times.append(time.process_time() - start)
        return min(times)

    system, state = hanging(n).build()
    run = lambda: mbd.simulate(system, state, save_every=steps, **options).r  # noqa: E731

    def moved(E):
        sol = mbd.simulate(*hanging(n, E).build(), save_every=steps, **options, throw=False)
        return sol.r[-1, -1, 2]

    E = jnp.array(2.1e11)
    forward, gradient = jax.jit(moved), jax.jit(jax.grad(moved))
    ratio = best(gradient, E) / best(forward, E)
    return {"us_per_element_step": best(run) / steps / n * 1e6, "gradient_ratio": ratio}


def loaded(numbers, n=4):
    """Sag, two frequencies and a load factor of a heavy cantilever of a modulus, density and
    length.
    """
    E, rho, length = numbers
    section = mbd.Section(E=E, G=0.5 * E, A=1e-2, I=(1e-5, 2e-5), J=3e-5, rho=rho)

    def clamped(gravity):
        m = mbd.Mechanism("heavy", gravity=gravity)
        end = jnp.stack([length, 0.0 * length, 0.0 * length])
        beam = m.add_beam("beam", jnp.stack([0.0 * end, end]), elements=n, section=section)
        m.add(mbd.Fixed("clamp", m.ground, beam.first, point=(0.0, 0.0, 0.0)))
        return m, beam.last

    system, state = clamped((0.0, 0.0, -9.81))[0].build()
    rest = mbd.equilibrium(system, state)
    frequencies = mbd.modes(system, rest, freedoms=6 * n).frequency[:2]
    column, last = clamped((-9.81, 0.0, 0.0))
    column.add(mbd.PointForce("load", last, force=-100.0 * scenes.X))
    factor = mbd.buckling(*column.build(), freedoms=6 * n).factor
    return jnp.concatenate([rest.state.r[-1, 2:], frequencies, factor])


def derivatives():
    """Of an equilibrium, frequencies and a buckling load by modulus, density and length, against
    differences.
    """
    x = jnp.array([1e7, 1000.0, 1.0])
    values = jax.jit(loaded)
    by_ad = jax.jit(jax.jacfwd(loaded))(x)
    steps = 1e-4 * jnp.diag(x)
    columns = [(values(x + d) - values(x - d)) / (2.0 * d[k]) for k, d in enumerate(steps)]
    wrong = np.max(np.abs(np.asarray(by_ad) / np.stack(columns, axis=1) - 1.0), axis=1)
    return {
        "derivative_of_equilibrium_error": float(wrong[0]),
        "derivative_of_frequency_error": float(max(wrong[1:3])),
        "derivative_of_buckling_error": float(wrong[3]),
    }


def run(out, quick, only: str = ""):
    """Everything, or the parts whose names are given; results.json and pictures.

    Args:
        out: Folder for results and pictures.
        quick: Small and short.
        only: Names of parts, with commas; the other results are kept.
    """
    path = out / "results.json"
    wanted = [part for part in only.split(",") if part]
    results = json.loads(path.read_text(encoding="utf-8")) if wanted and path.exists() else {}
    parts = {
        "bending": lambda: bending(quick),
        "frequencies": lambda: frequencies(quick),
        "buckling": lambda: buckling(quick),
        "spin_up": lambda: spin_up(quick),
        "orbit": lambda: orbit(quick),
        "derivatives": derivatives,
        "cost": lambda: {} if quick else cost(),
        "flight": lambda: flight(quick),
        "figures": lambda: figures.draw(out, quick) or {},
    }
    for name in wanted or parts:
        results.update(parts[name]())
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, value in results.items():
        if not isinstance(value, dict):
            print(f"{name}: {value:.3g}")
