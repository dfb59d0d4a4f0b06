"""The yardstick: one implicit Euler step of rA in tight NumPy, vectorized over rows, frozen
quasi-Newton, LAPACK's LU.

It integrates the same mechanisms by the same equations as the package and is used to judge speed as
a ratio in one run.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import lu_factor, lu_solve

CONSTANTS = {"DP1": (0, 0, 0, 1), "DP2": (0, 1, 0, 1), "D": (2, 1, 1, 0.5), "CD": (0, 0, 0, 0)}
NEXT, LAST = [1, 2, 0], [2, 0, 1]


def cross(x, y):
    return x[..., NEXT] * y[..., LAST] - x[..., LAST] * y[..., NEXT]


def skew(x):
    K = np.zeros((*x.shape[:-1], 3, 3))
    K[..., 0, 1], K[..., 0, 2], K[..., 1, 2] = -x[..., 2], x[..., 1], -x[..., 0]
    K[..., 1, 0], K[..., 2, 0], K[..., 2, 1] = x[..., 2], -x[..., 1], x[..., 0]
    return K


def expm(theta):
    x = np.sqrt(np.sum(theta**2, -1))[:, None, None]
    x = np.maximum(x, 1e-30)
    K = skew(theta)
    return np.eye(3) + np.sin(x) / x * K + 2 * (np.sin(x / 2) / x) ** 2 * (K @ K)


class NumpySystem:
    """The arrays of a `jaxmbd.System` in NumPy, with the drivers' turning vectors tabulated at the
    instants `ts`.
    """

    def __init__(self, system, ts):
        self.nb = system.nb
        self.mass, self.J = np.asarray(system.mass), np.asarray(system.inertia)
        self.gravity = np.asarray(system.gravity)
        self.blocks, self.i, self.j = [], *system.row_bodies.T
        for stack in system.constraints:
            fields = {k: np.asarray(v) for k, v in vars(stack.primitive).items() if v is not None}
            turning = []
            for d in stack.driven:
                table = jax.vmap(lambda t, stack=stack: stack.at(t).primitive.a_i_bar)(
                    jnp.asarray(ts)
                )
                turning.append((np.array(d.rows), np.asarray(table)[:, np.array(d.rows)]))
            self.blocks.append((type(stack.primitive).__name__, fields, *stack.index.T, turning))
        self.m = len(self.i)
        self.cols = np.stack([self.i, self.j], 1)[:, :, None] * 6 + np.arange(
            6
        )  # ground's columns come last

    def rows_and_phi(self, r, A, n):
        """Dense rows (m, 6 nb) and constraint values (m,)."""
        rows, values = [], []
        for kind, f, i, j, turning in self.blocks:
            r_i, r_j, A_i, A_j = r[i], r[j], A[i], A[j]
            turn = lambda A, x: (A @ x[:, :, None])[:, :, 0]  # noqa: E731
            back = lambda A, x: (x[:, None, :] @ A)[:, 0]  # noqa: E731
            if kind == "DP1":
                a_i_bar = f["a_i_bar"].copy()
                for at, table in turning:
                    a_i_bar[at] = table[n]
                a_i, a_j = turn(A_i, a_i_bar), turn(A_j, f["a_j_bar"])
                g, x = np.zeros_like(a_i), (a_i_bar, back(A_i, a_j), f["a_j_bar"], back(A_j, a_i))
                value = np.sum(a_i * a_j, 1)
            elif kind == "CD":
                c = f["c"]
                s_i, s_j = f["s_i_bar"], f["s_j_bar"]
                g, x = c, (-s_i, back(A_i, c), s_j, back(A_j, c))
                value = np.sum(c * (r_j + turn(A_j, s_j) - r_i - turn(A_i, s_i)), 1)
            else:
                d = r_j + turn(A_j, f["s_j_bar"]) - r_i - turn(A_i, f["s_i_bar"])
                if kind == "DP2":
                    g = turn(A_i, f["a_i_bar"])
                    u = back(A_i, d + turn(A_i, f["s_i_bar"]))
                    x = (f["a_i_bar"], u, f["s_j_bar"], back(A_j, g))
                    value = np.sum(g * d, 1)
                else:
                    g = 2 * d
                    x = (-2 * f["s_i_bar"], back(A_i, d), 2 * f["s_j_bar"], back(A_j, d))
                    value = np.sum(d * d, 1)
            rows.append(np.concatenate([-g, cross(x[0], x[1]), g, cross(x[2], x[3])], 1))
            values.append(value - f["f"])
        dense = np.zeros((self.m, 6 * (self.nb + 1)))
        np.put_along_axis(dense, self.cols.reshape(self.m, 12), np.concatenate(rows), 1)
        return dense[:, : 6 * self.nb], np.concatenate(values)

    def step(self, r, A, u, a, lam, instant, h, tolerance):
        """One step; returns the new motion and the number of iterations."""
        n = 6 * self.nb

        def place(a):
            u1 = u + h * a
            return (
                np.vstack([r + h * u1[:, :3], np.zeros((1, 3))]),
                np.concatenate([A @ expm(h * u1[:, 3:]), np.eye(3)[None]]),
                u1,
            )

        r1, A1, u1 = place(a)
        rows, phi = self.rows_and_phi(r1, A1, instant)
        K = np.zeros((n + self.m, n + self.m))
        w = u1[:, 3:]
        spin = self.J + h * (skew(w) @ self.J - skew((self.J @ w[:, :, None])[:, :, 0]))
        for b in range(self.nb):
            k = 6 * b
            K[k, k] = K[k + 1, k + 1] = K[k + 2, k + 2] = self.mass[b]
            K[k + 3 : k + 6, k + 3 : k + 6] = spin[b]
        K[:n, n:], K[n:, :n] = rows.T, rows
        factors = lu_factor(K, check_finite=False)
        previous = np.inf
        iterations = 0
        while iterations < 30:
            iterations += 1
            w = u1[:, 3:]
            Jw = (self.J @ w[:, :, None])[:, :, 0]
            Ja = (self.J @ a[:, 3:, None])[:, :, 0]
            balance = (
                np.hstack(
                    [self.mass[:, None] * (a[:, :3] - self.gravity), Ja + cross(w, Jw)]
                ).ravel()
                + rows.T @ lam
            )
            delta = lu_solve(factors, -np.concatenate([balance, phi / h**2]), check_finite=False)
            a, lam = a + delta[:n].reshape(-1, 6), lam + delta[n:]
            r1, A1, u1 = place(a)
            size = h * h * np.max(np.abs(delta[:n]))
            ratio = size / previous if np.isfinite(previous) else 0.5
            if (ratio < 1 and ratio / (1 - ratio) * size <= tolerance) or size <= 0.1 * tolerance:
                break
            rows, phi = self.rows_and_phi(r1, A1, instant)
            previous = size
        return r1[:-1], A1[:-1], u1, a, lam, iterations
