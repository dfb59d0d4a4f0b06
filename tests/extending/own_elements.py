"""One of everything that a user may add, each as it would stand in the user's own file."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd import given
from jaxmbd.integrators import Motion
from jaxmbd.solvers import NewtonInfo


class OnParabola(mbd.AbstractPrimitive):
    """A point of body j stays on the parabola z = curvature x² in the frame of body i."""

    point: Any
    curvature: Any = 1.0

    def geometry(self, pose_i, pose_j):
        x, _, z = pose_i.A.T @ (pose_j.r + pose_j.A @ self.point - pose_i.r)
        return z - self.curvature * x**2


class SameHeight(mbd.AbstractPrimitive):
    """The mean height of two bodies above a third one is prescribed: a row on three bodies."""

    f: Any = 0.0

    def geometry(self, pose_i, pose_j, pose_k):
        return 0.5 * (pose_i.r[2] + pose_j.r[2]) - pose_k.r[2]


class KnifeEdge(mbd.AbstractVelocityPrimitive):
    """A point of body j moves only along a direction of body j, in the plane of body i."""

    point: Any
    across: Any

    def rate(self, poses, twists):
        (_, pose), (_, twist) = poses, twists
        v = twist.v + pose.A @ jnp.cross(twist.omega, self.point)
        return v @ (pose.A @ self.across)


@dataclass(frozen=True, eq=False)
class Slot(mbd.AbstractConstraint):
    """A pin of body j in a slot of body i, both in one plane: a joint of two rows."""

    point: Any = given.point()
    axis: Any = given.axis()
    normal: Any = given.axis()

    def rows(self, i, j):
        p, axis, normal = self._point(), self._axis(), self._axis("normal")
        s_i, s_j = i.point(p), j.point(p)
        across = jnp.cross(axis, normal)
        return [
            ("in the plane", mbd.DP2(i.direction(normal), s_i, s_j)),
            ("in the slot", mbd.DP2(i.direction(across), s_i, s_j)),
        ]


class Cubic(mbd.AbstractForce):
    """A pull towards the global origin, stiffness |r|² r, on one body."""

    stiffness: Any

    def wrench(self, pose, twist, t):
        r = pose.r[0]
        return -self.stiffness * (r @ r) * r[None], jnp.zeros((1, 3), r.dtype)

    def invariants(self, pose):
        return (pose.r[0] @ pose.r[0])[None]

    def stored(self, invariants):
        return 0.25 * self.stiffness * invariants[0] ** 2

    def dissipative(self):
        return eqx.tree_at(lambda f: f.stiffness, self, jnp.zeros_like(self.stiffness))


@dataclass(frozen=True, eq=False)
class CubicPull(mbd.AbstractForceDescription):
    """The description of `Cubic`."""

    body: Any = given.body()
    stiffness: Any = given.number("N/m³", 1.0)

    def targets(self):
        return (self.body,)

    def element(self, *bodies):
        return Cubic(self._number("stiffness"))


class SymplecticEuler(mbd.AbstractIntegrator):
    """u ← u + h a(q, u), q ← q ⊕ h u: an explicit method of first order, projected onto the
    constraints."""

    name = "symplectic_euler"

    def step(self, formulation, system, motion, t, h, active=True):
        from jaxmbd.equations.index1 import (
            closest_position,
            closest_velocity,
            dynamic_accelerations,
        )

        u = motion.u + h * motion.a
        q = closest_position(formulation, system, jax.vmap(formulation.retract)(motion.q, h * u), t)
        u = closest_velocity(formulation, system, q, u, t)
        a, lam = dynamic_accelerations(formulation, system, q, u, t)
        fine = jnp.all(jnp.isfinite(a))
        no = jnp.zeros((), bool)
        return Motion(q, u, a, lam), NewtonInfo(jnp.ones((), int), fine, jnp.zeros(()), no, no, no)


class TwoAxes(mbd.AbstractFormulation):
    """Coordinates (r, two columns of A), nine per body: the third column is their cross product."""

    name = "two_axes"
    size = 9
    normalizations = 3
    regular_mass = False

    def coordinates(self, pose):
        return jnp.concatenate([pose.r, pose.A[:, 0], pose.A[:, 1]])

    def pose(self, q):
        x, y = q[3:6], q[6:9]
        return mbd.Pose(q[:3], jnp.stack([x, y, jnp.cross(x, y)], axis=1))

    def rates(self, q, v, omega):
        turn = self.pose(q).A @ _skew(omega)
        return jnp.concatenate([v, turn[:, 0], turn[:, 1]])

    def _turn(self, q, u):
        """The rate of A from those of its first two columns."""
        return jax.jvp(lambda x: self.pose(x).A, (q,), (u,))[1]

    def twist(self, q, u):
        W = self.pose(q).A.T @ self._turn(q, u)
        return mbd.Twist(
            u[:3], 0.5 * jnp.stack([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]])
        )

    def accelerations(self, q, u, a, alpha):
        W = _skew(self.twist(q, u).omega)
        second = self.pose(q).A @ (_skew(alpha) + W @ W)
        return jnp.concatenate([a, second[:, 0], second[:, 1]])

    def physical_accelerations(self, q, u, a):
        # ω is a function of q and u: its rate along (u, a).
        omega_dot = jax.jvp(lambda q, u: self.twist(q, u).omega, (q, u), (u, a))[1]
        return a[:3], omega_dot

    def generalized(self, q, force, torque):
        return jax.vjp(lambda u: (self.twist(q, u).v, self.twist(q, u).omega), jnp.zeros_like(q))[
            1
        ]((force, torque))[0]

    def retract(self, q, delta):
        return q + delta

    def normalization(self, q):
        x, y = q[3:6], q[6:9]
        return jnp.stack([0.5 * (x @ x) - 0.5, 0.5 * (y @ y) - 0.5, x @ y])


def _skew(w):
    return jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def read_table(path):
    """A file format of the user's: lines "name mass x y z" of point masses that fall."""
    m = mbd.Mechanism(path.stem)
    for line in path.read_text(encoding="utf-8").splitlines():
        name, mass, *r = line.split()
        m.add_body(name, mass=float(mass), inertia=(1e-3, 1e-3, 1e-3), r=[float(x) for x in r])
    return m


def write_table(mechanism, path):
    """The same, written."""
    lines = [
        f"{b.name} {float(b.mass)!r} " + " ".join(map(repr, np.asarray(b.r).tolist()))
        for b in mechanism.bodies.values()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
