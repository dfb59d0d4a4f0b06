"""Contact problems solved by Siconos, in a process of a Python that has it (Debian:
python3-siconos): `python oracle.py PROBLEMS.npz ANSWERS.npz`. Needs nothing else of this package.
"""

import sys

import numpy as np


def main(problems: str, answers: str) -> None:
    """Impulses of every problem by the local nonsmooth Newton method with Gauss-Seidel sweeps."""
    import siconos.numerics as numerics

    data, out = np.load(problems), {}
    for k in range(int(data["count"])):
        G, b, mu = (data[f"{name}{k}"] for name in ("matrix", "free", "friction"))
        n = len(mu)
        problem = numerics.FrictionContactProblem(3, n, G, b, mu)
        options = numerics.SolverOptions(numerics.SICONOS_FRICTION_3D_NSGS)
        options.dparam[numerics.SICONOS_DPARAM_TOL] = 1e-12
        options.iparam[numerics.SICONOS_IPARAM_MAX_ITER] = 10_000
        impulses, velocities = np.zeros(3 * n), np.zeros(3 * n)
        failed = numerics.fc3d_nsgs(problem, impulses, velocities, options)
        out[f"impulses{k}"], out[f"failed{k}"] = impulses, bool(failed)
    np.savez(answers, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
