"""The examples of Betsch and Leyendecker, section 5, as mechanisms; lengths in m, masses in kg."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import jaxmbd as mbd
from jaxmbd.model.shapes import AbstractShape

G = 9.81


def gyro_top():
    """A cone on its tip in steady precession (section 5.1)."""
    H, R, theta, precession = 0.1, 0.05, np.pi / 3, 10.0
    mass, L = 2700 * np.pi * R**2 * H / 3, 0.75 * H
    J1, J3 = 3 * mass / 80 * (4 * R**2 + H**2), 3 * mass / 10 * R**2
    M1 = J1 + mass * L**2
    spin = mass * G * L / (J3 * precession) + (M1 - J3) / J3 * precession * np.cos(theta)  # Eq. 165
    A = np.array([[1, 0, 0], [0, np.cos(theta), -np.sin(theta)], [0, np.sin(theta), np.cos(theta)]])
    omega = precession * np.array([0, 0, 1.0]) + spin * A[:, 2]
    m = mbd.Mechanism("gyro_top", gravity=(0, 0, -G))
    r = L * A[:, 2]
    shape = mbd.Cone(R, H, mass=mass)
    m.add_body(
        "top",
        mass=mass,
        inertia=(J1, J1, J3),
        r=r,
        A=A,
        omega=A.T @ omega,
        v=np.cross(omega, r),
        shape=shape,
    )
    m.add(mbd.Spherical("tip", m.ground, "top", point=(0, 0, 0)))
    return m


def precession(t):
    """The mass center of the gyro top at times t, in closed form, (T, 3)."""
    theta, L = np.pi / 3, 0.075
    angle = 10.0 * np.asarray(t)
    return L * np.stack(
        [
            np.sin(theta) * np.sin(angle),
            -np.sin(theta) * np.cos(angle),
            np.full_like(angle, np.cos(theta)),
        ],
        axis=1,
    )


def cylindrical_pair():
    """A sleeve on a shaft in free flight (section 5.2)."""
    omega_1, slide, turn = np.array([1.0, 1.5, 0.0]), 35.5, -100.0
    r_2, n = np.array([0, 0, -11.0]), np.array([0, 0, 1.0])
    v_1 = np.array([0, 50.0, 0])
    m = mbd.Mechanism("cylindrical_pair", gravity=(0, 0, 0))
    shaft, sleeve = (
        mbd.Cylinder(2, 30, axis="z", mass=4),
        mbd.HollowCylinder(2, 3, 6, axis="z", mass=3),
    )
    m.add_body("shaft", mass=4, inertia=(304, 304, 8), v=v_1, omega=omega_1, shape=shaft)
    m.add_body(
        "sleeve",
        mass=3,
        inertia=(18.75, 18.75, 19.5),
        r=r_2,
        v=v_1 + np.cross(omega_1, r_2) + slide * n,
        omega=omega_1 + turn * n,
        shape=sleeve,
    )
    m.add(mbd.Cylindrical("pair", "shaft", "sleeve", point=r_2, axis=n))
    return m


def planar_pair():
    """A pyramid that slides on a plate in free flight (section 5.3)."""
    omega_1, slide, turn = np.array([-20.0, -20.0, 10.0]), np.array([150.0, -120.0, 0.0]), 60.0
    r_1, r_2, n = np.array([5.0, 5, 5]), np.array([-2.0, -2, 6.25]), np.array([0, 0, 1.0])
    m = mbd.Mechanism("planar_pair", gravity=(0, 0, 0))
    plate = mbd.Box((16, 16, 0.5), mass=5)
    m.add_body(
        "plate", mass=5, inertia=(5125 / 48, 5125 / 48, 640 / 3), r=r_1, omega=omega_1, shape=plate
    )
    # From Eq. 142; rho of the pyramid is along n.
    v_2 = np.cross(omega_1, r_2 - r_1) + slide
    m.add_body(
        "pyramid", mass=2, inertia=(43 / 40, 43 / 40, 4 / 5), r=r_2, v=v_2, omega=omega_1 + turn * n
    )
    m.add(mbd.Planar("pair", "plate", "pyramid", point=r_2 - n, axis=n))
    return m


# Hinges along the edges of a cube: a point and the axis of each (section 5.4).
LENGTH = 0.1
HINGES = (
    ((0, 1, 0), (0, 0, -1)),
    ((1, 1, 0), (0, -1, 0)),
    ((1, 1, -1), (-1, 0, 0)),
    ((1, 0, -1), (0, 0, 1)),
    ((0, 0, -1), (0, 1, 0)),
    ((0, 0, 0), (1, 0, 0)),
)


class Tetrahedron(AbstractShape):
    """A solid tetrahedron of density 1000 by its corners from the mass center, (4, 3) [m]."""

    corners: Float[Array, "4 3"]
    mass: Float[Array, ""]

    def __init__(self, corners):
        self.corners = jnp.asarray(corners)
        self.mass = 1000 * jnp.abs(jnp.linalg.det(self.corners[1:] - self.corners[0])) / 6

    @property
    def inertia(self) -> Float[Array, "3 3"]:
        spread = (
            self.mass / 20 * self.corners.T @ self.corners
        )  # the second moment of a solid tetrahedron
        return jnp.trace(spread) * jnp.eye(3) - spread

    def outline(self) -> list[np.ndarray]:
        return [np.asarray(self.corners)[[0, 1, 2, 3, 0, 2]], np.asarray(self.corners)[[1, 3]]]


def tetrahedron(k):
    """Center and shape of body k of the linkage: a solid between two edges of length a L, along its
    hinges.
    """
    a, corners = np.tan(0.16 * np.pi), []
    for point, axis in (HINGES[k - 1], HINGES[k]):
        p = LENGTH * np.array(point, float)
        corners += [p, p + a * LENGTH * np.array(axis, float)]
    center = np.mean(corners, axis=0)
    return center, Tetrahedron(np.array(corners) - center)


def six_body_chain(*, closed=False, rate=30.0):
    """Five bodies of the linkage in a row on hinges from the ground; with `closed`, the sixth hinge
    shuts the loop.

    All joints turn at `rate` at the start, which the loop allows at its cube: dθ2/dθ1 = 1.
    """
    m = mbd.Mechanism("six_body_linkage" if closed else "six_body_chain", gravity=(0, 0, -G))
    omega, v_point, at = np.zeros(3), np.zeros(3), LENGTH * np.array(HINGES[0][0], float)
    for k in range(1, 6):
        point, axis = LENGTH * np.array(HINGES[k - 1][0], float), np.array(HINGES[k - 1][1], float)
        v_point = v_point + np.cross(omega, point - at)
        at, omega = point, omega + rate * axis
        center, shape = tetrahedron(k)
        m.add_body(
            f"body_{k}",
            r=center,
            omega=omega,
            v=v_point + np.cross(omega, center - at),
            shape=shape,
        )
        m.add(
            mbd.Revolute(
                f"hinge_{k}",
                m.ground if k == 1 else f"body_{k - 1}",
                f"body_{k}",
                point=point,
                axis=axis,
            )
        )
    if closed:
        point, axis = LENGTH * np.array(HINGES[5][0], float), HINGES[5][1]
        m.add(mbd.Revolute("hinge_6", "body_5", m.ground, point=point, axis=axis))
    return m


MODELS = {
    "gyro_top": gyro_top,
    "cylindrical_pair": cylindrical_pair,
    "planar_pair": planar_pair,
    "six_body_chain": six_body_chain,
    "six_body_linkage": lambda: six_body_chain(closed=True),
}
