"""Mechanisms to MJCF, so that MuJoCo and its viewer open them.

A spanning tree of the joints becomes nested bodies; what closes loops becomes equality constraints.
What MJCF cannot hold is refused by name.
"""

import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TypeAlias, TypeGuard, get_args

import numpy as np

from .. import model as mbd
from ..files import written
from ..model.body import Body
from ..model.joints import AbstractRelation
from ..model.mechanism import Mechanism
from ..model.validation import users_line
from ..rotations import euler_parameters
from ..rotations.types import host
from .mjcf import INITIAL
from .mjcf_writer_forces import write_actions
from .mjcf_writer_parts import Placed, numbers, refusal, texts
from .mjcf_writer_shapes import write_looks
from .model_files import ModelFileError, ModelFileWarning

# Control characters, halves of characters, and what Unicode sets aside.
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LEAST = 1e-14  # MuJoCo refuses masses and inertias at 1e-15

_TreeJoint: TypeAlias = (
    mbd.Fixed
    | mbd.Revolute
    | mbd.Translational
    | mbd.Spherical
    | mbd.Cylindrical
    | mbd.Universal
    | mbd.Planar
)
_Closing: TypeAlias = mbd.Spherical | mbd.Revolute | mbd.Fixed


# Exactly these classes: one derived from them may have other rows.
def _in_tree(part: AbstractRelation) -> TypeGuard[_TreeJoint]:
    return type(part) in get_args(_TreeJoint)


def _closes_loops(part: AbstractRelation) -> TypeGuard[_Closing]:
    return type(part) in get_args(_Closing)


def write_mjcf(mechanism: Mechanism, path: str | Path) -> None:
    """Write a mechanism to an MJCF file, which appears whole or not at all.

    Raises:
        ModelFileError: Something that MJCF cannot hold; the message names the part.
        OSError: The file cannot be written.
    """
    text = mjcf_text(mechanism)
    with written(path, "w", encoding="utf-8") as file:
        file.write(text)


def mjcf_text(mechanism: Mechanism) -> str:
    """The MJCF text of a mechanism; see `write_mjcf`."""
    for beam in mechanism.beams.values():
        raise refusal(beam, "it has no beams with large displacements")
    for event in mechanism.events.values():
        if event.actions:
            raise ModelFileError(
                f"event {event.name!r}: MJCF cannot hold it: it has no events that act"
            )
    root = ET.Element("mujoco", model=mechanism.name)
    compiler = {"angle": "radian", "autolimits": "false", "inertiafromgeom": "false"}
    ET.SubElement(root, "compiler", compiler)
    gravity = numbers(mechanism.gravity, f"mechanism {mechanism.name!r}: gravity")
    ET.SubElement(root, "option", gravity=texts(gravity))
    assets = ET.SubElement(root, "asset")
    world = ET.SubElement(root, "worldbody")
    tendons = ET.SubElement(root, "tendon")
    writer = _Writer(mechanism, assets, tendons, {"ground": world})
    writer.write_bodies()
    writer.write_equalities(ET.SubElement(root, "equality"))
    write_actions(mechanism, root, writer.placed, writer.elements)
    for frame in mechanism.frames.values():
        writer.write_frame(frame)
    key = ET.SubElement(ET.SubElement(root, "keyframe"), "key", name=INITIAL)
    key.attrib |= {"qpos": texts(writer.qpos), "qvel": texts(writer.qvel)}
    controls = root.find("actuator")
    if controls is not None and len(controls):
        key.set("ctrl", texts([float(x.attrib.pop("_control")) for x in controls]))
        states = [float(x.attrib.pop("_activation")) for x in controls if "_activation" in x.attrib]
        if states:
            key.set("act", texts(states))
    for empty in [x for x in root if len(x) == 0 and not x.attrib]:
        root.remove(empty)
    if writer.plain:
        names = ", ".join(map(repr, writer.plain))
        warnings.warn(
            f"MJCF cannot hold the looks of {names}; their mass and motion are written",
            ModelFileWarning,
            stacklevel=users_line(),
        )
    _warn_of_left_out(mechanism)
    _check_characters(root)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _warn_of_left_out(mechanism: Mechanism) -> None:
    """Warn of parts that change no motion and are not in the file."""
    for what, parts in (("sensors", mechanism.sensors), ("events", mechanism.events)):
        if parts:
            warnings.warn(
                f"{what} are not written to MJCF: {', '.join(map(repr, parts))}",
                ModelFileWarning,
                stacklevel=users_line(),
            )


def _check_characters(root: ET.Element) -> None:
    """Refuse what XML has no way to write, so that every file is read back."""
    for element in root.iter():
        for text in element.attrib.values():
            found = _NO_CHARACTER.search(text)
            if found is not None:
                raise ModelFileError(
                    f"the name {text!r} cannot be written to MJCF, because XML has no character "
                    f"{found.group()!r}; rename the part"
                )


class _Writer:
    """The tree of bodies on its way into a file."""

    def __init__(
        self,
        m: Mechanism,
        assets: ET.Element,
        tendons: ET.Element,
        elements: dict[str, ET.Element],
    ):
        self.m, self.assets, self.tendons, self.elements = m, assets, tendons, elements
        self.placed: dict[str, Placed] = {}  # joints of the tree by name
        self.qpos: list[float] = []
        self.qvel: list[float] = []
        self.plain: list[str] = []
        self.parent: dict[str, tuple[str, _TreeJoint | None]] = {}  # of a body, and the joint to it
        self._grow()

    def body(self, name: str) -> Body:
        """A body, or the ground."""
        return self.m.ground if name == "ground" else self.m.bodies[name]

    # --- the tree ---

    def _ends(self, joint: AbstractRelation) -> tuple[str, ...]:
        return tuple(b if isinstance(b, str) else b.name for b in joint.targets())

    def _grow(self) -> None:
        """The parent of every body, by joints that MJCF has, in the order of description."""
        joints = [x for x in self.m.constraints.values() if _in_tree(x)]
        reached = ["ground"]
        roots = iter(self.m.bodies)
        while len(reached) <= len(self.m.bodies):
            for near in reached:
                for joint in joints:
                    i, j = self._ends(joint)
                    far = j if i == near else i if j == near else None
                    if far is not None and far not in reached:
                        self.parent[far] = near, joint
                        reached.append(far)
            root = next((b for b in roots if b not in reached), None)
            if root is not None:
                self.parent[root] = "ground", None
                reached.append(root)
        self.order = reached[1:]

    def write_bodies(self) -> None:
        """All bodies with their joints, from the ground outwards, as MuJoCo orders coordinates."""
        children: dict[str, list[str]] = {}
        for name in self.order:
            children.setdefault(self.parent[name][0], []).append(name)

        def visit(name: str, above: str, waiting: list[tuple[str, _TreeJoint | None, str]]) -> None:
            """A body whose parent in the file is `above`; joints that wait belong to it too."""
            parent, joint = self.parent[name]
            waiting = [*waiting, (parent, joint, name)]
            if self.body(name).massless:
                below = children.get(name, [])
                if len(below) != 1 or joint is None:
                    raise refusal(
                        self.body(name), "a link without inertia that joins more than two bodies"
                    )
                visit(below[0], above, waiting)
                return
            element = self._write_body(name, above)
            for parent, joint, child in waiting:
                self._write_joints(element, name, parent, joint, child)
            for child in children.get(name, []):
                visit(child, name, [])

        for name in children.get("ground", []):
            visit(name, "ground", [])

    def _write_body(self, name: str, above: str) -> ET.Element:
        body, base = self.body(name), self.body(above)
        if body.mass is None:
            raise refusal(body, "it has no mass, which MJCF needs")
        r, A = self._pose(body)
        r_above, A_above = self._pose(base)
        element = ET.SubElement(self.elements[above], "body", name=name)
        self.elements[name] = element
        element.set("pos", texts(A_above.T @ (r - r_above)))
        element.set("quat", texts(_quaternion(A_above.T @ A)))
        mass = float(numbers(body.mass, f"body {name!r}: mass"))
        inertia = np.asarray(numbers(body.inertia, f"body {name!r}: inertia"))
        moments = np.linalg.eigvalsh(inertia)
        if moments[0] < _LEAST or mass < _LEAST:
            raise refusal(body, "MuJoCo needs inertia about every axis")
        if moments[2] > moments[0] + moments[1]:
            raise refusal(body, "its inertia violates the triangle inequality")
        inertial = ET.SubElement(element, "inertial", pos="0 0 0", mass=repr(mass))
        if np.array_equal(inertia, np.diag(np.diag(inertia))):
            inertial.set("diaginertia", texts(np.diag(inertia)))
        else:
            order = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
            inertial.set("fullinertia", texts([inertia[k] for k in order]))
        if not write_looks(element, self.assets, body):
            self.plain.append(name)
        return element

    def _pose(self, body: Body) -> tuple[np.ndarray, np.ndarray]:
        what = f"body {body.name!r}"
        return np.asarray(numbers(body.r, what)), np.asarray(numbers(body.A, what))

    # --- joints ---

    def _write_joints(
        self,
        element: ET.Element,
        owner: str,
        parent: str,
        joint: _TreeJoint | None,
        child: str,
    ) -> None:
        """The joints between two bodies; `owner` is the body of the file that they belong to."""
        body = self.body(child)
        if joint is None:
            ET.SubElement(element, "freejoint", name=f"{child} free")
            r, A = self._pose(body)
            self.qpos += [*r, *_quaternion(A)]
            self.qvel += [*np.asarray(body.v), *np.asarray(body.omega)]
            return
        if isinstance(joint, mbd.Fixed):
            return
        i, _ = self._ends(joint)
        sign = 1.0 if i == parent else -1.0  # coordinates are those of body j against body i
        r, A = self._pose(self.body(owner))
        for label, kind, point, axis in _parts(joint, sign):
            made = ET.SubElement(element, "joint", name=label, type=kind)
            made.set("pos", texts(A.T @ (point - r)))
            if axis is None:  # a ball
                self.qpos += [1.0, 0.0, 0.0, 0.0]
                self.qvel += list(self._spin(parent, child))
            else:
                made.set("axis", texts(A.T @ axis))
                self.qpos.append(0.0)
                self.qvel.append(self._rate(parent, child, kind, point, axis))
            self.placed.setdefault(joint.name, Placed({}, sign)).joints[kind] = made

    def _spin(self, parent: str, child: str) -> np.ndarray:
        """Angular velocity of a body against another, in the former."""
        i, j = self.body(parent), self.body(child)
        return np.asarray(j.omega) - np.asarray(j.A).T @ np.asarray(i.A) @ np.asarray(i.omega)

    def _rate(
        self, parent: str, child: str, kind: str, point: np.ndarray, axis: np.ndarray
    ) -> float:
        """Rate of a hinge or slide, from the twists as described."""
        i, j = self.body(parent), self.body(child)
        if kind == "hinge":
            return float(np.asarray(axis) @ np.asarray(j.A) @ self._spin(parent, child))

        def velocity(b: Body) -> np.ndarray:
            return np.asarray(b.v) + np.cross(np.asarray(b.A) @ np.asarray(b.omega), point - b.r)

        return float(axis @ (velocity(j) - velocity(i)))

    # --- what closes loops, and frames ---

    def write_equalities(self, element: ET.Element) -> None:
        """Everything that is no joint of the tree."""
        in_tree = {id(joint) for _, joint in self.parent.values()}
        for part in self.m.constraints.values():
            if id(part) in in_tree:
                continue
            if isinstance(part, mbd.Coupler):
                self._write_coupler(element, part)
                continue
            if isinstance(part, mbd.LinearCoupling):
                self._write_sum(element, part)
                continue
            if not _closes_loops(part):
                where = " that closes a loop" if _in_tree(part) else ""
                raise refusal(part, f"it has no {type(part).__name__}{where}")
            i, j = (("world" if b == "ground" else b) for b in self._ends(part))
            if any(b != "world" and self.body(b).massless for b in (i, j)):
                raise refusal(part, "it closes a loop at a link without inertia")
            # The anchor is given in body 1; the other one follows from the pose described.
            first, second = (i, j) if i != "world" else (j, i)
            r, A = self._pose(self.body(first))
            tag = "weld" if type(part) is mbd.Fixed else "connect"
            point = np.asarray(part.point, float)
            points = [(part.name, point)]
            if type(part) is mbd.Revolute:
                points.append((f"{part.name} axis", point + _unit(part.axis)))
            for label, at in points:
                made = ET.SubElement(element, tag, name=label, body1=first, body2=second)
                if tag == "connect":
                    made.set("anchor", texts(A.T @ (at - r)))

    def _write_coupler(self, element: ET.Element, part: mbd.Coupler) -> None:
        joints = []
        for joint, kind in (
            (part.joint_1, part.coordinate_1),
            (part.joint_2, part.coordinate_2),
        ):
            placed = self.placed.get(joint.name)
            if placed is None:
                raise refusal(part, f"joint {joint.name!r} is no hinge or slide of the file")
            joints.append(placed.of(part, kind).get("name"))
        c = [float(x) for x in numbers(part.coefficients, part.title)]
        if len(c) > 5:
            raise refusal(part, "MJCF holds five coefficients")
        made = ET.SubElement(element, "joint", name=part.name, joint1=joints[1], joint2=joints[0])
        made.set("polycoef", texts([*c, *[0.0] * (5 - len(c))]))

    def _write_sum(self, element: ET.Element, part: mbd.LinearCoupling) -> None:
        """A sum of coordinates as a fixed tendon that is held at its length."""
        made = ET.SubElement(self.tendons, "fixed", name=f"{part.name} sum")
        for joint, c in zip(part.joints, numbers(part.coefficients, part.title), strict=True):
            placed = self.placed.get(joint.name)
            if placed is None:
                raise refusal(part, f"joint {joint.name!r} is no hinge or slide of the file")
            label = placed.of(part, None).get("name", "")
            ET.SubElement(made, "joint", joint=label, coef=repr(float(c)))
        held = ET.SubElement(element, "tendon", name=part.name, tendon1=f"{part.name} sum")
        held.set("polycoef", texts([numbers(part.length, part.title), 0.0, 0.0, 0.0, 0.0]))

    def write_frame(self, frame: mbd.Frame) -> None:
        """A frame as a site."""
        name = frame.body if isinstance(frame.body, str) else frame.body.name
        body = self.body(name)
        on = frame.on(body, 0)
        still = np.max(np.abs(on.s_bar)) < 1e-14 and np.max(np.abs(on.A_bar - np.eye(3))) < 1e-14
        if frame.name == name and still:
            return  # every body of a file comes back with its own frame
        if name not in self.elements:
            raise refusal(frame, "it sits on a link without inertia")
        site = ET.SubElement(self.elements[name], "site", name=frame.name)
        site.set("pos", texts(on.s_bar))
        site.set("quat", texts(_quaternion(np.asarray(on.A_bar))))


def _parts(joint: _TreeJoint, sign: float) -> list[tuple[str, str, np.ndarray, np.ndarray | None]]:
    """Name, type, place and axis of the joints of MuJoCo that a joint is, the outermost first."""
    name, point = joint.name, np.asarray(numbers(joint.point, joint.title))
    if isinstance(joint, mbd.Spherical):
        return [(name, "ball", point, None)]
    if isinstance(joint, mbd.Universal):
        first, second = sign * _unit(joint.axis_i), sign * _unit(joint.axis_j)
        pair = (first, second) if sign > 0.0 else (second, first)
        return [(f"{name} {k + 1}", "hinge", point, axis) for k, axis in enumerate(pair)]
    assert not isinstance(joint, mbd.Fixed)
    axis = sign * _unit(numbers(joint.axis, joint.title))
    if isinstance(joint, mbd.Revolute):
        return [(name, "hinge", point, axis)]
    if isinstance(joint, mbd.Translational):
        return [(name, "slide", point, axis)]
    if isinstance(joint, mbd.Cylindrical):
        return [(f"{name} slide", "slide", point, axis), (name, "hinge", point, axis)]
    across = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    across = across / np.linalg.norm(across)
    return [
        (f"{name} slide 1", "slide", point, across),
        (f"{name} slide 2", "slide", point, np.cross(axis, across)),
        (name, "hinge", point, axis),
    ]


def _unit(x: object) -> np.ndarray:
    x = np.asarray(x, float)
    return x / np.linalg.norm(x)


def _quaternion(A: np.ndarray) -> np.ndarray:
    return np.asarray(euler_parameters.from_matrix(host.asarray(A, float)))
