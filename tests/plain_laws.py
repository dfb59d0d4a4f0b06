"""The laws of contact, stops and dry friction in their plain form."""

import numpy as np

from jaxmbd.complementarity import Laws


def broken(laws: Laws, P) -> float:
    """How far impulses are from the laws in their plain form, relative to the largest velocity."""
    P = np.asarray(P)
    v = np.asarray(laws.matrix) @ P + np.asarray(laws.free)
    n, m = 3 * laws.contacts, 3 * laws.contacts + laws.stops
    size = np.max(np.abs(laws.free))
    diagonal = np.diag(np.asarray(laws.matrix))
    impulse = size / diagonal  # of the same size as P
    worst = 0.0

    def add(*lacks):
        nonlocal worst
        worst = max(worst, *lacks)

    # A residual of r gives products of r with an impulse, which may be many units.
    for k in range(laws.contacts):
        at = slice(3 * k, 3 * k + 3)
        unit = size / np.mean(diagonal[at])
        p, w, mu = P[at] / unit, v[at] / size, float(laws.friction[k])
        large = max(1.0, np.linalg.norm(p))
        slip = np.linalg.norm(w[1:])
        add(-p[0], -w[0], abs(p[0] * w[0]) / large, np.linalg.norm(p[1:]) - mu * p[0])
        # Friction opposes slip with all it has.
        add(np.linalg.norm(mu * max(p[0], 0.0) * w[1:] + slip * p[1:]) / large)
    for k in range(n, m):
        p, w = P[k] / impulse[k], v[k] / size
        add(-p, -w, abs(p * w) / max(1.0, p))
    for k, bound in zip(range(m, len(P)), np.asarray(laws.bound), strict=True):
        p, w, most = P[k] / impulse[k], v[k] / size, bound / impulse[k]
        add(abs(p) - most, abs(most * w + abs(w) * p) / max(1.0, abs(p)))
    return worst
