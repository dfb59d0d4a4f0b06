"""Independent reference solutions: scipy's integrator on equations written without this package's
mechanics.
"""

import numpy as np
from scipy.integrate import solve_ivp

GRAVITY = 9.81


def tilde(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def matrix_of(p):
    """Rotation matrix of a unit quaternion, scalar first."""
    e0, e = p[0], p[1:]
    return (2 * e0**2 - 1) * np.eye(3) + 2 * (np.outer(e, e) + e0 * tilde(e))


def double_pendulum(t):
    """Z of the second bar of the packaged double pendulum at times t, from the planar equations in
    two angles.
    """
    m1, m2, J1, J2, L1, l1, l2, g = 78.0, 39.0, 104.01625, 13.008125, 4.0, 2.0, 1.0, GRAVITY

    def rate(t, y):
        a, b, da, db = y
        c, s = np.cos(a - b), np.sin(a - b)
        M = np.array(
            [[m1 * l1**2 + J1 + m2 * L1**2, m2 * L1 * l2 * c], [m2 * L1 * l2 * c, m2 * l2**2 + J2]]
        )
        f = np.array(
            [
                -m2 * L1 * l2 * s * db**2 - g * (m1 * l1 + m2 * L1) * np.cos(a),
                m2 * L1 * l2 * s * da**2 - g * m2 * l2 * np.cos(b),
            ]
        )
        return np.concatenate([[da, db], np.linalg.solve(M, f)])

    y = solve_ivp(
        rate, (0, t[-1]), [0, -np.pi / 2, 0, 0], t_eval=t, method="DOP853", rtol=1e-12, atol=1e-12
    ).y
    return 4 * np.sin(y[0]) + np.sin(y[1])


def bar_pendulum(t):
    """Angles (T, 2) of the packaged bar pendulum to the vertical at times t [rad] (Dumitriu,
    Margaritescu, Eq. 26).
    """
    m, length, a, g = 0.108, 0.2, 0.02, GRAVITY
    C, ml2 = m * (length**2 + a**2) / 12, m * length**2

    def rate(t, y):
        phi, psi, dphi, dpsi = y
        c, s = np.cos(phi - psi), np.sin(phi - psi)
        M = np.array([[C + 1.25 * ml2, 0.5 * ml2 * c], [0.5 * ml2 * c, C + 0.25 * ml2]])
        f = np.array(
            [
                -0.5 * ml2 * s * dpsi**2 - 1.5 * m * g * length * np.sin(phi),
                0.5 * ml2 * s * dphi**2 - 0.5 * m * g * length * np.sin(psi),
            ]
        )
        return np.concatenate([[dphi, dpsi], np.linalg.solve(M, f)])

    start = [np.pi / 9, np.pi / 18, 0, 0]
    return (
        solve_ivp(rate, (0, t[-1]), start, t_eval=t, method="DOP853", rtol=1e-13, atol=1e-14)
        .y[:2]
        .T
    )


def spherical_chain(masses, inertias, to_center, to_next, A0, omega0, t_end, gravity=GRAVITY):
    """A chain of bodies on ball joints, the first at the origin, gravity along -z: Kane's equations
    in quaternions.

    Args:
        masses: (n,) [kg].
        inertias: (n, 3, 3) about the mass centers, body frames [kg·m²].
        to_center: (n, 3) from the joint of a body to its mass center, body frame [m].
        to_next: (n, 3) from the joint of a body to the joint of the next one, body frame [m].
        A0: (n, 3, 3) rotation matrices at the start, all the identity times a known rotation.
        omega0: (n, 3) rates at the start, body frame [rad/s].
        t_end: [s].
        gravity: [m/s²].

    Returns:
        Mass centers (n, 3), rotation matrices (n, 3, 3), rates (n, 3) at t_end.
    """
    n = len(masses)

    def poses(y):
        p = y[: 4 * n].reshape(n, 4)
        A = np.stack([A0[k] @ matrix_of(p[k] / np.linalg.norm(p[k])) for k in range(n)])
        return p, A, y[4 * n :].reshape(n, 3)

    def rate(t, y):
        p, A, w = poses(y)
        W = np.einsum("kij,kj->ki", A, w)  # global
        # arms[i][k]: the vector that body k contributes to the position of mass center i
        arms = [
            [A[k] @ (to_next[k] if k < i else to_center[k]) for k in range(i + 1)] for i in range(n)
        ]
        M, f = np.zeros((3 * n, 3 * n)), np.zeros(3 * n)
        for i in range(n):
            centripetal = sum(np.cross(W[k], np.cross(W[k], arms[i][k])) for k in range(i + 1))
            load = masses[i] * (np.array([0, 0, -gravity]) - centripetal)
            for k in range(i + 1):
                f[3 * k : 3 * k + 3] += np.cross(arms[i][k], load)
                for m in range(i + 1):
                    M[3 * k : 3 * k + 3, 3 * m : 3 * m + 3] -= (
                        masses[i] * tilde(arms[i][k]) @ tilde(arms[i][m])
                    )
            J = A[i] @ inertias[i] @ A[i].T
            M[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] += J
            f[3 * i : 3 * i + 3] -= np.cross(W[i], J @ W[i])
        W_dot = np.linalg.solve(M, f).reshape(n, 3)
        w_dot = np.einsum(
            "kji,kj->ki", A, W_dot
        )  # d/dt of body components: the transport term vanishes
        p_dot = [
            0.5 * np.concatenate([[-q[1:] @ x], q[0] * x + np.cross(q[1:], x)])
            for q, x in zip(p, w, strict=True)
        ]
        return np.concatenate([np.ravel(p_dot), w_dot.ravel()])

    y0 = np.concatenate([np.tile([1.0, 0, 0, 0], n), np.ravel(omega0)])
    y = solve_ivp(rate, (0, t_end), y0, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    _, A, w = poses(y)
    joints = np.concatenate([np.zeros((1, 3)), np.cumsum(np.einsum("kij,kj->ki", A, to_next), 0)])[
        :n
    ]
    return joints + np.einsum("kij,kj->ki", A, to_center), A, w


def crank_of(state):
    """The crank's angle [rad] and rate [rad/s] in an assembled state of the packaged free slider
    crank.
    """
    turned = np.asarray(state.A[0]) @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0.0]]).T
    return np.arctan2(turned[2, 1], turned[1, 1]), float(state.omega[0, 0])


def free_slider_crank(phi0, rate0, t_end):
    """Crank angle, its rate and the slider's x at t_end of the packaged slider crank without its
    driver.

    One freedom: Lagrange's equation ½ I' φ̇² + I φ̈ + V' = 0 with I(φ) and V(φ) from the
    closed-form geometry.
    """
    crank, rod, slider = 1e-4, (0.5, np.array([4e-3, 4e-4, 4e-3])), 2.0

    def geometry(phi):
        ball = np.array([0.0, 0.1 - 0.08 * np.sin(phi), 0.12 + 0.08 * np.cos(phi)])
        x = np.sqrt(0.3**2 - ball[1] ** 2 - ball[2] ** 2)
        end = np.array([x, 0.0, 0.0])
        e1 = (end - ball) / 0.3
        e2 = np.cross([1.0, 0, 0], e1)
        e2 /= np.linalg.norm(e2)
        return (ball + end) / 2, np.stack([e1, e2, np.cross(e1, e2)], 1), x

    def inertia(phi, d=1e-3):
        # Derivatives by the angle: central differences of eighth order, right to about 1e-13 here.
        c = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
        up, down = ([geometry(phi + s * k * d) for k in (1, 2, 3, 4)] for s in (1, -1))
        r, A, x = (
            sum(ck * (u[m] - v[m]) for ck, u, v in zip(c, up, down, strict=True)) / d
            for m in range(3)
        )
        spin = geometry(phi)[1].T @ A
        w = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        return crank + rod[0] * r @ r + rod[1] @ w**2 + slider * x**2, rod[0] * GRAVITY * r[2]

    def rate(t, y):
        phi, phi_dot = y
        (moment, V_prime), d = inertia(phi), 1e-3
        c = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
        moment_prime = (
            sum(
                ck * (inertia(phi + k * d)[0] - inertia(phi - k * d)[0])
                for k, ck in enumerate(c, 1)
            )
            / d
        )
        return [phi_dot, -(0.5 * moment_prime * phi_dot**2 + V_prime) / moment]

    phi, phi_dot = solve_ivp(
        rate, (0, t_end), [phi0, rate0], method="DOP853", rtol=1e-11, atol=1e-12
    ).y[:, -1]
    return phi, phi_dot, geometry(phi)[2]
