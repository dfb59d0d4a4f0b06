"""What is true of every mechanism, of random ones: no reference is needed."""

import numpy as np
import pytest
from random_mechanisms import STRUCTURES, draw, turn_of

import jaxmbd as mbd
from jaxmbd.equations.motion import mass_matrix
from jaxmbd.equations.rows import row_sizes

H, STEPS = 2.5e-4, 12
# Of lengths, of angles and of energies: what projection and the conditions of masses leave.
ROUNDING, CONSERVED, ALIKE = 1e-12, 1e-8, 1e-9


def run(system, state):
    """A few steps of fourth order that end on the joints."""
    return mbd.simulate(
        system,
        state,
        h=H,
        steps=STEPS,
        save_every=4,
        integrator=mbd.MuntheKaas(stabilization="projection"),
    )


def moved(sol, length=1.0, back=None):
    """Positions and velocities in parts of the length, in the frame of the description."""
    back = np.eye(3) if back is None else back
    r, A, v, omega = (np.asarray(x) for x in (sol.r, sol.A, sol.v, sol.omega))
    return [r @ back / length, np.einsum("ij,tbjk->tbik", back.T, A), v @ back / length, omega]


def apart(first, second) -> float:
    return max(float(np.max(np.abs(x - y))) for x, y in zip(first, second, strict=True))


def misses(structure, seed, lengths) -> dict[str, tuple[float, float]]:
    """How far one random mechanism is from every property, and how far it may be."""
    system, state = draw(structure, seed)
    start, report = mbd.assemble(system, state)
    found = {
        "closed as described": (float(~report.closed), 0.0),
        "moved by assembly": (float(np.max(report.displacement)), ROUNDING),
        "gaps after assembly": (largest(report.shares), ROUNDING),
    }
    sol = run(system, state)
    size = np.asarray(system.to_natural(row_sizes(mbd.RA(), system)))
    violation = sol.violation()
    fastest = largest(sol.omega) + largest(sol.v / system.length)
    found["gaps"] = largest(np.asarray(violation.position) / size), ROUNDING
    found["rates of gaps"] = (
        largest(np.asarray(violation.velocity) / size),
        ROUNDING * max(1.0, fastest),
    )

    energy = sol.energy()
    exchanged = largest(energy.kinetic) + float(np.ptp(energy.potential))
    found["energy"] = float(np.ptp(energy.total)), CONSERVED * exchanged
    if structure == "afloat":
        momentum = sol.momentum()
        for name in ("linear", "angular"):
            x = np.asarray(getattr(momentum, name))
            found[f"{name} momentum"] = largest(x - x[0]), CONSERVED * largest(x)

    q, _ = mbd.RP().from_state(start)
    M = np.asarray(mass_matrix(mbd.RP(), system, q))
    found["symmetry of M"] = largest(M - np.swapaxes(M, 1, 2)), ROUNDING * largest(M)
    found["definiteness of M"] = -float(np.min(np.linalg.eigvalsh(M))), ROUNDING * largest(M)

    wanted = moved(sol)
    for length in lengths:
        other = run(*draw(structure, seed, length=length))
        found[f"motion at {length:g} m"] = apart(moved(other, length), wanted), ALIKE
    turn = turn_of(np.random.default_rng(seed + 1).normal(size=4))
    other = run(*draw(structure, seed, turn=turn))
    found["motion where all is turned"] = apart(moved(other, back=turn), wanted), ALIKE
    other = run(*draw(structure, seed, name=lambda name: f"{name[::-1]} of another name"))
    found["motion under other names"] = apart(moved(other), wanted), 0.0
    return found


def largest(x) -> float:
    return float(np.max(np.abs(np.asarray(x)), initial=0.0))


def violated(structure, seed, lengths) -> dict[str, tuple[float, float]]:
    found = misses(structure, seed, lengths)
    return {name: (value, limit) for name, (value, limit) in found.items() if not value <= limit}


@pytest.mark.essential
@pytest.mark.parametrize("structure", ["four_bar", "gears"])
def test_some_random_mechanisms_obey_what_all_of_them_do(structure):
    assert violated(structure, 0, (1e-6, 1e6)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_random_mechanisms_obey_what_all_of_them_do(structure):
    lengths = (1e-6, 1e-3, 1e3, 1e6)
    assert {seed: found for seed in range(5) if (found := violated(structure, seed, lengths))} == {}
