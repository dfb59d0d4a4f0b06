"""Random mechanisms of twelve structures, in any unit of length, any direction and under any names.

The numbers of a structure are drawn; its topology is fixed, so that all of them run in one program.
"""

from collections.abc import Callable

import numpy as np

import jaxmbd as mbd


def unit(x):
    return x / np.linalg.norm(x)


def turn_of(q):
    """The rotation matrix of a quaternion, scalar first."""
    w, v = q[0] / np.linalg.norm(q), q[1:] / np.linalg.norm(q)
    skew = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + 2.0 * w * skew + 2.0 * skew @ skew


class Draft:
    """A mechanism in parts of a length, in a frame of its own.

    Attributes:
        m: The mechanism in meters, global.
        rng: Draws the numbers, in the same order whatever the unit, the frame and the names.
    """

    def __init__(self, seed: int, length: float, turn, name: Callable[[str], str], weight=9.81):
        self.rng, self.length, self.turn, self.name = (
            np.random.default_rng(seed),
            length,
            turn,
            name,
        )
        pull = weight * unit(self.rng.normal(size=3))
        self.m = mbd.Mechanism(name("random"), gravity=length * turn @ pull)
        self.ground = self.m.ground

    def direction(self, x):
        """A global direction."""
        return self.turn @ np.asarray(x, float)

    def point(self, x):
        """A global point or vector [m]."""
        return self.length * self.direction(x)

    def drawn(self):
        """A random vector of about one."""
        return self.rng.normal(size=3)

    def axis(self):
        return unit(self.drawn())

    def body(self, name: str, at, *, spin=None, v=None):
        """A box of random size and orientation; `spin` is its angular velocity [rad/s]."""
        mass, edges = self.rng.uniform(0.5, 3.0), self.rng.uniform(0.1, 1.0, 3)
        inertia = mass / 12.0 * (np.sum(edges**2) - edges**2)
        A = turn_of(self.rng.normal(size=4))
        moving = {} if spin is None else {"omega": A.T @ np.asarray(spin)}
        if v is not None:
            moving["v"] = self.point(v)
        return self.m.add_body(
            self.name(name),
            mass=mass,
            inertia=inertia * self.length**2,
            r=self.point(at),
            A=self.turn @ A,
            **moving,
        )

    def joint(self, kind, name: str, i, j, at=None, axis=None, **more):
        if at is not None:
            more["point"] = self.point(at)
        if axis is not None:
            more["axis"] = self.direction(axis)
        return self.m.add(kind(self.name(name), i, j, **more))

    def spring(self, name: str, i, j, p_i, p_j):
        """A spring that is drawn stretched."""
        more = {"stiffness": self.rng.uniform(5.0, 30.0), "free_length": 0.5 * self.length}
        ends = {"point_i": self.point(p_i), "point_j": self.point(p_j)}
        self.m.add(mbd.SpringDamper(self.name(name), i, j, **ends, **more))


def tree(d: Draft):
    """Three hinges, two of them on one body."""
    axis, at = d.axis(), d.drawn()
    a = d.body("a", at + d.drawn(), spin=1.5 * axis)
    d.joint(mbd.Revolute, "root", d.ground, a, at, axis)
    for name in ("b", "c"):
        at = d.drawn()
        body = d.body(name, at + d.drawn())
        d.joint(mbd.Revolute, f"to {name}", a, body, at, d.axis())


def balls(d: Draft):
    """A chain on spherical joints."""
    last, at = d.ground, d.drawn()
    for name in "abc":
        body = d.body(name, at + 0.5 * d.drawn())
        d.joint(mbd.Spherical, f"ball {name}", last, body, at)
        last, at = body, at + d.drawn()


def slides(d: Draft):
    """A slide, and a sleeve that turns and slides on it, held by springs."""
    at = d.drawn()
    a, b = d.body("a", at), d.body("b", at + d.drawn())
    d.joint(mbd.Translational, "slide", d.ground, a, at, d.axis())
    d.joint(mbd.Cylindrical, "sleeve", a, b, at + d.drawn(), d.axis())
    d.spring("first", d.ground, a, d.drawn(), at + d.drawn())
    d.spring("second", a, b, at + d.drawn(), d.drawn())


def cardan(d: Draft):
    """A universal joint, and a hinge on what hangs on it."""
    at, axis = d.drawn(), d.axis()
    a = d.body("a", at + d.drawn())
    other = unit(np.cross(axis, d.drawn()))
    more = {"axis_i": d.direction(axis), "axis_j": d.direction(other)}
    d.joint(mbd.Universal, "cross", d.ground, a, at, **more)
    b = d.body("b", at + d.drawn())
    d.joint(mbd.Revolute, "hinge", a, b, at + d.drawn(), d.axis())


def table(d: Draft):
    """A body on a plane that carries another one on a ball."""
    at, normal = d.drawn(), d.axis()
    a = d.body("a", at, spin=2.0 * normal)
    b = d.body("b", at + d.drawn())
    d.joint(mbd.Planar, "plane", d.ground, a, at, normal)
    d.joint(mbd.Spherical, "ball", a, b, at + d.drawn())


def four_bar(d: Draft):
    """A loop of parallel hinges in space: three rows too many."""
    axis = d.axis()
    x = unit(np.cross(axis, d.drawn()))
    y, at = np.cross(axis, x), d.drawn()
    ground, crank, rod, rocker = d.rng.uniform([1.8, 0.4, 1.5, 1.4], [2.2, 0.6, 1.9, 1.6])
    angle = d.rng.uniform(0.3, 2.8)
    p = np.array([crank * np.cos(angle), crank * np.sin(angle)])
    span = np.array([ground, 0.0]) - p
    far = np.linalg.norm(span)
    along = (rod**2 - rocker**2 + far**2) / (2.0 * far)
    off = np.array([-span[1], span[0]]) / far * np.sqrt(rod**2 - along**2)
    s = p + span / far * along + off
    where = [at, *(at + q[0] * x + q[1] * y for q in (p, s)), at + ground * x]
    hinges = [q + d.rng.normal() * axis for q in where]
    last = d.ground
    for k, name in enumerate(("crank", "rod", "rocker")):
        spin = 1.0 * axis if k == 0 else None
        body = d.body(name, 0.5 * (where[k] + where[k + 1]) + d.rng.normal() * axis, spin=spin)
        d.joint(mbd.Revolute, f"hinge {k}", last, body, hinges[k], axis)
        last = body
    d.joint(mbd.Revolute, "hinge 3", last, d.ground, hinges[3], axis)


def ladder(d: Draft):
    """A parallelogram with a rocker too many."""
    axis = d.axis()
    x = unit(np.cross(axis, d.drawn()))
    along = d.rng.uniform(0.5, 1.0) * (x + d.rng.uniform(0.3, 1.5) * np.cross(axis, x))
    at = d.drawn()
    bar = d.body("bar", at + along + d.drawn())
    for k in range(3):
        foot = at + 0.8 * k * x
        spin = 0.7 * axis if k == 0 else None
        rocker = d.body(f"rocker {k}", foot + 0.5 * along + d.rng.normal() * axis, spin=spin)
        d.joint(mbd.Revolute, f"foot {k}", d.ground, rocker, foot, axis)
        d.joint(mbd.Revolute, f"head {k}", rocker, bar, foot + along, axis)


def spatial(d: Draft):
    """Two cranks about skew axes, and a rod on balls between them."""
    pivots = [np.zeros(3), 3.0 * d.axis()]
    ends = [pivot + d.drawn() for pivot in pivots]
    arms = []
    for k, name in enumerate(("crank", "rocker")):
        axis = unit(np.cross(ends[k] - pivots[k], d.drawn()))
        spin = 0.5 * axis if k == 0 else None
        arms.append(d.body(name, 0.5 * (pivots[k] + ends[k]), spin=spin))
        d.joint(mbd.Revolute, f"hinge {name}", d.ground, arms[k], pivots[k], axis)
    rod = d.body("rod", 0.5 * (ends[0] + ends[1]))
    for k in range(2):
        d.joint(mbd.Spherical, f"ball {k}", arms[k], rod, ends[k])


def slider_crank(d: Draft):
    """A crank whose rod pushes a slide that a spring holds."""
    axis, at = d.axis(), d.drawn()
    end = at + unit(np.cross(axis, d.drawn()))
    far = at + 3.0 * unit(np.cross(axis, d.drawn()))
    crank = d.body("crank", 0.5 * (at + end), spin=0.8 * axis)
    rod, slide = d.body("rod", 0.5 * (end + far)), d.body("slide", far + 0.2 * d.drawn())
    d.joint(mbd.Revolute, "main", d.ground, crank, at, axis)
    d.joint(mbd.Spherical, "crank pin", crank, rod, end)
    d.joint(mbd.Spherical, "gudgeon pin", rod, slide, far)
    d.joint(mbd.Translational, "guide", d.ground, slide, far, unit(far - at))
    d.spring("spring", d.ground, slide, far + d.drawn(), far)


def gears(d: Draft):
    """Bevel gears on a carrier that turns."""
    apex, a_i = d.drawn(), d.axis()
    a_j = unit(a_i + 1.2 * unit(np.cross(a_i, d.drawn())))
    ratio = -d.rng.uniform(0.6, 1.6)
    line = d.rng.uniform(0.5, 1.0) * unit(a_i - ratio * a_j)
    centers = [apex + (line @ a) * a for a in (a_i, a_j)]
    axis = d.axis()
    arm = d.body("arm", apex + d.drawn(), spin=0.6 * axis)
    d.joint(mbd.Revolute, "shaft", d.ground, arm, apex, axis)
    wheels = [d.body(name, center) for name, center in zip("ij", centers, strict=True)]
    for name, wheel, center, a in zip("ij", wheels, centers, (a_i, a_j), strict=True):
        d.joint(mbd.Revolute, f"bearing {name}", arm, wheel, center, a)
    more = {"axis_i": d.direction(a_i), "axis_j": d.direction(a_j), "ratio": ratio}
    d.joint(mbd.Gear, "mesh", *wheels, **more)
    d.spring("spring", arm, wheels[0], apex + d.drawn(), centers[0] + d.drawn())


def drives(d: Draft):
    """A nut on a screw, and a rack on a pinion that is the screw's shaft."""
    axis, at = d.axis(), d.drawn()
    along = unit(np.cross(axis, d.drawn()))
    radius, lead = d.rng.uniform(0.2, 0.5), d.rng.uniform(0.3, 0.8)
    shaft = d.body("shaft", at + d.drawn(), spin=1.2 * axis)
    nut, rack = d.body("nut", at + d.drawn()), d.body("rack", at + d.drawn())
    d.joint(mbd.Revolute, "bearing", d.ground, shaft, at, axis)
    d.joint(mbd.Screw, "thread", shaft, nut, at, axis, lead=lead * d.length)
    d.joint(mbd.Translational, "guide", d.ground, nut, at, axis)
    d.joint(mbd.Translational, "rail", d.ground, rack, at, along)
    more = {"along": d.direction(along), "radius": radius * d.length}
    d.joint(mbd.RackAndPinion, "teeth", rack, shaft, at, axis, **more)


def afloat(d: Draft):
    """Nothing on the ground: three bodies, a ball, a rod of fixed length and a spring."""
    at = d.drawn()
    a = d.body("a", at, spin=d.drawn(), v=d.drawn())
    b, c = d.body("b", at + d.drawn()), d.body("c", at + d.drawn())
    d.joint(mbd.Spherical, "ball", a, b, at + d.drawn())
    ends = {"point_i": d.point(at + d.drawn()), "point_j": d.point(at + d.drawn())}
    d.joint(mbd.Distance, "rod", b, c, **ends)
    d.spring("spring", c, a, at + d.drawn(), at + d.drawn())


STRUCTURES = {
    f.__name__: f
    for f in (
        tree,
        balls,
        slides,
        cardan,
        table,
        four_bar,
        ladder,
        spatial,
        slider_crank,
        gears,
        drives,
        afloat,
    )
}


def draw(structure: str, seed: int, *, length=1.0, turn=None, name=str):
    """The system and the described state of a random mechanism of some structure.

    Args:
        structure: One of `STRUCTURES`.
        seed: Of its numbers.
        length: The unit in which they are lengths [m].
        turn: Rotation matrix of the whole, gravity included.
        name: What parts are called, from their names here.
    """
    weight = 0.0 if structure == "afloat" else 9.81
    d = Draft(seed, length, np.eye(3) if turn is None else turn, name, weight)
    STRUCTURES[structure](d)
    return d.m.build()
