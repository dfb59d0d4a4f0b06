"""Explicit Runge-Kutta tableaus by name."""

from typing import NamedTuple

import numpy as np


class Tableau(NamedTuple):
    """Coefficients of an explicit method: stage s uses the rates of the stages before it.

    Attributes:
        order: Order of accuracy.
        a: (s, s), strictly lower triangular.
        b: Weights, (s,).
        c: Instants as parts of the step, (s,).
        error: Weights of the stages, and of the rate at the end, in an estimate of the error, (s +
            1,), or None.
    """

    order: int
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    error: np.ndarray | None = None


def _tableau(
    order: int, rows: list[list[float]], b: list[float], error: list[float] | None = None
) -> Tableau:
    a = np.zeros((len(b), len(b)))
    for k, row in enumerate(rows):
        a[k + 1, : len(row)] = row
    return Tableau(order, a, np.array(b), a.sum(axis=1), None if error is None else np.array(error))


TABLEAUS = {
    "euler": _tableau(1, [], [1.0]),
    "heun": _tableau(2, [[1.0]], [0.5, 0.5]),
    "rk3": _tableau(3, [[0.5], [-1.0, 2.0]], [1 / 6, 2 / 3, 1 / 6]),
    "rk4": _tableau(4, [[0.5], [0.0, 0.5], [0.0, 0.0, 1.0]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    # Dormand and Prince 1980; the estimate is the difference of the weights of orders five and
    # four.
    "rk5": _tableau(
        5,
        [
            [1 / 5],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        ],
        [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
        [71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    ),
}
