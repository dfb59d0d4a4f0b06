"""Examples of the page "Extending"."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd import given

mbd.enable_x64()

# %% AbstractConstraint


@dataclass(frozen=True, eq=False)
class PinInSlot(mbd.AbstractConstraint):
    """A pin of body j in a slot of body i along `axis`, in the plane with `normal`."""

    point: Any = given.point()
    axis: Any = given.axis()
    normal: Any = given.axis()

    def rows(self, i, j):
        point, axis, normal = self._point(), self._axis(), self._axis("normal")
        across = jnp.cross(axis, normal)
        s_i, s_j = i.point(point), j.point(point)
        return [
            ("in the plane", mbd.DP2(i.direction(normal), s_i, s_j)),
            ("in the slot", mbd.DP2(i.direction(across), s_i, s_j)),
        ]


m = mbd.Mechanism("Scotch yoke")
y = (0.0, 1.0, 0.0)
crank = m.add_body("crank", shape=mbd.Box((0.1, 0.02, 0.02), mass=0.2), r=(0.05, 0, 0))
yoke = m.add_body("yoke", shape=mbd.Box((0.02, 0.02, 0.3), mass=0.5), r=(0.1, 0, 0))
m.add(mbd.Revolute("bearing", m.ground, crank, point=(0.0, 0.0, 0.0), axis=y))
m.add(mbd.Translational("guide", m.ground, yoke, point=(0, 0, 0), axis=(1, 0, 0)))
m.add(PinInSlot("slot", yoke, crank, point=(0.1, 0.0, 0.0), axis=(0, 0, 1), normal=y))

# %% AbstractCoupling, Coupled


@dataclass(frozen=True, eq=False)
class SquareCoupling(mbd.AbstractCoupling):
    """The coordinate of joint 2 is the square of that of joint 1, times a factor."""

    factor: Any = given.number("m/rad²")

    def rows(self, *bodies):
        first, second = self._coordinates(bodies)
        coefficients = jnp.stack([0.0, 0.0, self._number("factor")])
        return [("square", mbd.Coupled(first, second, coefficients))]


m = mbd.Mechanism("lifting cam")
shaft = m.add_body("shaft", shape=mbd.Cylinder(0.02, 0.1, mass=1.0))
table = m.add_body("table", shape=mbd.Box((0.2, 0.2, 0.02), mass=3.0), r=(0, 0, 0.3))
m.add(mbd.Revolute("bearing", m.ground, shaft, point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.Translational("column", m.ground, table, point=(0, 0, 0.3), axis=(0, 0, 1)))
m.add(SquareCoupling("lift", "bearing", "column", factor=0.05))
print(mbd.mobility(*m.build()).freedoms)  # 1

# %% AbstractPrimitive


class OnCatenary(mbd.AbstractPrimitive):
    """A point of body j hangs on the curve z = a cosh(x/a) in the frame of body i."""

    point: Any  # in body j [m]
    size: Any  # a [m]

    def geometry(self, pose_i, pose_j):
        x, _, z = pose_i.A.T @ (pose_j.r + pose_j.A @ self.point - pose_i.r)
        return z - self.size * jnp.cosh(x / self.size)


m = mbd.Mechanism("cable car")
cabin = m.add_body("cabin", mass=1500.0, inertia=(2e3, 2e3, 1e3), r=(0.0, 0.0, 397.0))
carriage = OnCatenary(point=(0.0, 0.0, 3.0), size=400.0)
m.add(mbd.Constraint("cable", m.ground, cabin, primitives=[carriage]))

# %% AbstractVelocityPrimitive


class Blade(mbd.AbstractVelocityPrimitive):
    """A point of body j does not move across a direction of that body."""

    point: Any  # in body j [m]
    across: Any  # in body j [-]

    def rate(self, poses, twists):
        (_, pose), (_, twist) = poses, twists
        v = twist.v + pose.A @ jnp.cross(twist.omega, self.point)
        return v @ (pose.A @ self.across)


m = mbd.Mechanism("sled")
sled = m.add_body("sled", shape=mbd.Box((1.5, 0.5, 0.3), mass=40.0), v=(2, 0, 0))
m.add(mbd.Planar("snow", m.ground, sled, point=(0, 0, 0), axis=(0, 0, 1)))
runner = Blade(point=(-0.5, 0.0, 0.0), across=(0.0, 1.0, 0.0))
m.add(mbd.Constraint("runner", m.ground, sled, primitives=[runner]))

# %% AbstractForce, AbstractForceDescription, Output


class Wind(mbd.AbstractForce):
    """A force k |w| w by the wind w that a body feels."""

    drag: Any
    wind: Any

    def wrench(self, pose, twist, t):
        felt = self.wind[None] - twist.v
        return self.drag * jnp.linalg.norm(felt) * felt, jnp.zeros((1, 3))

    def outputs(self, pose, twist, t):
        force, _ = self.wrench(pose, twist, t)
        felt = jnp.linalg.norm(self.wind - twist.v[0])
        return (
            mbd.Output("wind", "m/s", felt),
            mbd.Output.vector("force", "N", force[0]),
            self.power(pose, twist, t),
        )


@dataclass(frozen=True, eq=False)
class WindLoad(mbd.AbstractForceDescription):
    """Wind on a body."""

    body: Any = given.body()
    drag: Any = given.number("N·s²/m²")
    wind: Any = given.vector("m/s")

    def targets(self):
        return (self.body,)

    def element(self, body):
        return Wind(self._number("drag"), jnp.asarray(self.wind))


m = mbd.Mechanism("balloon")
balloon = m.add_body("balloon", shape=mbd.Sphere(1.0, mass=5.0))
m.add(WindLoad("wind", balloon, drag=0.9, wind=(6.0, 0.0, 0.0)))
names = [name for name in mbd.quantities(m.build()[0]) if name.startswith("wind.")]
print(names)  # ['wind.wind', 'wind.force.x', ..., 'wind.power']

# %% AbstractIntegrator, Motion
from jaxmbd.equations.index1 import (
    closest_position,
    closest_velocity,
    dynamic_accelerations,
)
from jaxmbd.integrators import Motion
from jaxmbd.solvers import NewtonInfo


class SemiImplicitEuler(mbd.AbstractIntegrator):
    """u ← u + h a, q ← q ⊕ h u, then projected: of first order."""

    name = "semi_implicit_euler"

    def step(self, formulation, system, motion, t, h, active=True):
        u = motion.u + h * motion.a
        q = jax.vmap(formulation.retract)(motion.q, h * u)
        q = closest_position(formulation, system, q, t)
        u = closest_velocity(formulation, system, q, u, t)
        a, lam = dynamic_accelerations(formulation, system, q, u, t)
        no = jnp.zeros((), bool)
        fine = jnp.all(jnp.isfinite(a))
        info = NewtonInfo(jnp.ones((), int), fine, jnp.zeros(()), no, no, no)
        return Motion(q, u, a, lam), info


m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=SemiImplicitEuler())
print(sol["pin.angle"][-1])  # 0.308, to be 0.293: of first order

# %% PoseJet
pose = mbd.Pose(r=jnp.array([1.0, 0.0, 0.0]), A=jnp.eye(3))
jet = mbd.RA().pose_jet(pose)  # a PoseJet in the six numbers (dr, dtheta) of `RA`
turned = jet.at(jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.1]))
print(turned.A[1, 0])  # 0.1, the sine of 0.1 to second order

# %% TurnJet
angle = 0.1
q = jnp.array([1.0, 0.0, 0.0, np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)])
jet = mbd.RP().turn_jet(q)  # a TurnJet in the four Euler parameters
rate = 0.5 * jnp.array([-np.sin(0.5 * angle), 0.0, 0.0, np.cos(0.5 * angle)])  # by the angle
print((jet.first @ rate)[1, 0])  # 0.995, the cosine of 0.1

# %% Sensor
m = mbd.Mechanism("turntable")
table = m.add_body("table", mass=2.0, inertia=(0.02, 0.02, 0.04))
m.add(mbd.Revolute("pin", m.ground, table, point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.Encoder("encoder", "pin", resolution=0.01, bias=0.2))
system, state = m.build()
(encoder,) = system.sensors  # each a Sensor
print(encoder.reading(np.array([[0.1234]])))  # [[0.32]]: with its bias, in whole steps

# %% BeamLabel
m = mbd.Mechanism("cantilever")
steel = mbd.Section.rectangle(0.03, 0.004, E=2.1e11, rho=7850.0)
blade = m.add_beam("blade", [(0, 0, 0), (0.8, 0, 0)], section=steel, elements=4)
m.add(mbd.Fixed("clamp", m.ground, blade.first, point=(0, 0, 0)))
(label,) = m.build()[0].beams  # each a BeamLabel
print(label.name, label.nodes, label.extents)  # blade (0, 1, 2, 3, 4) [0.03  0.004]

# %% Core
capsule = mbd.Capsule(0.05, 0.3, mass=1.0)
core = capsule.core()  # a Core: the pairs of capsules need no more of them
print(core.half_bar, core.radius)  # [0.   0.   0.15] 0.05

# %% AbstractShape, Surface, Balls


class Pyramid(mbd.AbstractShape):
    """A solid pyramid on a square base, its tip along z."""

    edge: Any = given.number("m")
    height: Any = given.number("m")
    mass: Any

    def __init__(self, edge, height, *, mass):
        self.edge, self.height = np.float64(edge), np.float64(height)
        self.mass = np.float64(mass)

    @property
    def inertia(self):
        across = self.edge**2 / 20 + 3 * self.height**2 / 80
        return self.mass * np.diag([across, across, self.edge**2 / 10])

    def corners(self):
        """From the mass center, a quarter of the height above the base, (5, 3) [m]."""
        e, h = self.edge / 2, self.height / 4
        base = [(-e, -e, -h), (e, -e, -h), (e, e, -h), (-e, e, -h)]
        return np.array([*base, (0.0, 0.0, 3 * h)])

    def outline(self):
        c = self.corners()
        return [c[[0, 1, 2, 3, 0]], c[[0, 4, 2]], c[[1, 4, 3]]]

    def surface(self, faces):  # for pictures
        sides = [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)]
        return mbd.Surface(self.corners(), np.array([*sides, (0, 2, 1), (0, 3, 2)]))

    def balls(self):  # for contacts
        return mbd.Balls.of(list(self.corners()), 0.0)


m = mbd.Mechanism("paperweight")
glass = Pyramid(0.06, 0.05, mass=0.15)
weight = m.add_body("weight", shape=glass, r=(0.0, 0.0, 0.1), omega=(1.0, 2.0, 0.0))
m.add(mbd.Contact("table", weight, m.ground, friction=0.4))

# %% AbstractPair, register_pair, Plane


class Pebble(mbd.AbstractShape):
    """A solid ellipsoid by its half axes."""

    half: Any = given.vector("m")
    mass: Any

    def __init__(self, half, *, mass):
        self.half, self.mass = np.asarray(half, float), np.float64(mass)

    @property
    def inertia(self):
        squares = self.half**2
        return self.mass / 5.0 * np.diag(squares.sum() - squares)

    def outline(self):
        s = np.linspace(0.0, 2.0 * np.pi, 25)
        return [self.half * np.stack([np.cos(s), np.sin(s), 0.0 * s], axis=1)]


class PebbleAndPlane(mbd.AbstractPair):
    """The point of an ellipsoid that is deepest in a plane."""

    half: Any
    plane: mbd.Plane

    places = 1

    def witness(self, pose):
        n = pose.A[1] @ self.plane.n_bar
        p = pose.r[1] + pose.A[1] @ self.plane.s_bar
        n_bar = pose.A[0].T @ n
        reach = jnp.sqrt(jnp.sum((self.half * n_bar) ** 2))
        on_i = pose.r[0] - pose.A[0] @ (self.half**2 * n_bar) / reach
        gap = (on_i - p) @ n
        return gap[None], n[None], on_i[None], (on_i - gap * n)[None]


def touching(pebble, plane):
    """The pair of two surfaces."""
    return PebbleAndPlane(pebble.half, plane)


mbd.register_pair(Pebble, mbd.Plane, touching)
m = mbd.Mechanism("rocking pebble")
stone = Pebble((0.05, 0.03, 0.02), mass=0.3)
pebble = m.add_body("pebble", shape=stone, r=(0.0, 0.0, 0.02), omega=(0.0, 2.0, 0.0))
m.add(mbd.Contact("table", pebble, m.ground, friction=0.5))

# %% AbstractContact, AbstractNormalForce, AbstractSlidingFriction


class LinearSpring(mbd.AbstractNormalForce):
    """F = k δ + c δ dδ/dt."""

    stiffness: Any
    damping: Any

    def elastic(self, depth):
        return self.stiffness * jnp.maximum(depth, 0.0)

    def lost(self, depth, speed):
        return self.damping * speed * jnp.maximum(depth, 0.0)

    def energy(self, depth):
        return 0.5 * self.stiffness * jnp.maximum(depth, 0.0) ** 2


class OilFilm(mbd.AbstractSlidingFriction):
    """Friction c w against the sliding velocity w, whatever the load."""

    rate: Any

    def force(self, push, slip):
        return jnp.where(push > 0.0, -self.rate, 0.0) * slip

    def slides(self, push, drag):
        return drag > 0.0


@dataclass(frozen=True, eq=False)
class LubricatedContact(mbd.AbstractContact):
    """Contact with a linear spring and a film of oil."""

    spring: Any = given.number("N/m")
    damper: Any = given.number("N·s/m²", 0.0)
    oil: Any = given.number("N·s/m", 0.0)

    gives_way: ClassVar[bool] = True

    def normal_force(self):
        return LinearSpring(self._number("spring"), self._number("damper"))

    def sliding_friction(self):
        return OilFilm(self._number("oil"))


m = mbd.Mechanism("puck on an oiled plate")
disc = mbd.Cylinder(0.04, 0.02, mass=0.2)
puck = m.add_body("puck", shape=disc, r=(0.0, 0.0, 0.01), v=(1.0, 0.0, 0.0))
m.add(LubricatedContact("plate", puck, m.ground, spring=2e4, oil=0.5))

# %% HuntCrossley
rubber = mbd.HuntCrossley(*map(jnp.asarray, (1e6, 0.4, 1.5)))
depth, speed = jnp.array([-1e-3, 1e-3, 1e-3]), jnp.array([0.5, 0.5, -0.5])
print(rubber.force(depth, speed))  # [ 0.   37.95 25.3 ] N: open, going in, coming out

# %% SmoothedCoulomb
friction = mbd.SmoothedCoulomb(coefficient=jnp.array(0.3), slip_speed=jnp.array(0.01))
push, slip = jnp.array(100.0), jnp.array([0.5, 0.0, 0.0])  # [N], [m/s]
print(friction.force(push, slip))  # [-29.99 0. 0.] N
