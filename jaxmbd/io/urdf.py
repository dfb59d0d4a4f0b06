"""URDF files of ROS to a `Mechanism`, with loops as exact joints."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .. import model as mbd
from ..model.doubts import let_fly
from ..model.joints import AbstractRelation
from ..model.laws import CoulombFriction, JointLimit
from ..model.mechanism import Mechanism
from ..model.shapes import AbstractShape
from . import xml_tree
from .import_report import ImportReport
from .loops import add_loop
from .model_files import ModelFileError
from .urdf_elements import (
    Loops,
    by_name,
    color_of,
    inertia_of,
    loops_of,
    needed,
    number,
    origin_of,
    vector,
)
from .urdf_geometry import Geometry
from .xml_tree import Element

_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
# Elements of a joint, a link or a robot that say nothing about the motion here.
_QUIET = ("gazebo", "safety_controller", "calibration", "sensor", "ros2_control", "mujoco")
_KNOWN = ("link", "joint", "material", "transmission")


@dataclasses.dataclass(frozen=True)
class UrdfOptions:
    """What `read_urdf` was asked for; see `jaxmbd.from_urdf`."""

    base: str = "fixed"
    loops: Loops = ()
    packages: Mapping[str, str | Path] | None = None
    limits: bool = False
    friction: bool = False
    merge_fixed: bool = False
    strict: bool = True
    anywhere: bool = False


@dataclasses.dataclass
class _Link:
    """A link while the tree is put together; poses are global.

    Attributes:
        element: Of the file.
        r, A: Pose of its frame.
        into: The link that it is part of, itself as a rule; None on the ground.
        mass, center, inertia: Of its inertial element; center and inertia global.
    """

    element: Element
    r: np.ndarray
    A: np.ndarray
    into: str | None
    mass: float
    center: np.ndarray
    inertia: np.ndarray


def read_urdf(source: str | Path, options: UrdfOptions) -> tuple[Mechanism, ImportReport]:
    """The mechanism of a URDF file or text; see `jaxmbd.from_urdf`."""
    if options.base not in ("fixed", "free"):
        raise ValueError(f"base must be 'fixed' or 'free', not {options.base!r}")
    is_text = isinstance(source, str) and source.lstrip().startswith("<")
    path = None if is_text else Path(source)
    root = xml_tree.parse(str(source), "URDF text") if path is None else xml_tree.read(path)
    shown = root.file
    if root.tag != "robot":
        raise root.error("not a URDF file: its root must be <robot>")
    report = ImportReport(shown)
    report.locate(root)
    reader = _Reader(root, path, options, report)
    m = reader.mechanism()
    if not m.bodies:
        raise root.error(
            "nothing in it moves: its root link is part of the ground, and so is all that is fixed "
            "to it. Pass base='free' to mbd.from_urdf for a root link that moves"
        )
    if options.strict and report.refused:
        raise ModelFileError(
            f"{shown}: cannot be read as it moves: {'; '.join(map(str, report.refused))}. Pass "
            "strict=False to leave that out"
        )
    let_fly(m)
    report.describe(m)
    return m, report


class _Reader:
    """One file on its way to a mechanism."""

    def __init__(
        self, root: Element, path: Path | None, options: UrdfOptions, report: ImportReport
    ):
        self.root, self.options, self.report = root, options, report
        folder = None
        if path is not None:
            folder = xml_tree.Folder(path.parent, anywhere=options.anywhere)
        self.looks = Geometry(folder, options.packages or {})
        self.elements = by_name(root, "link")
        self.joints = by_name(root, "joint")
        self.colors = {
            x.get("name"): color_of(x) for x in root.all("material") if x.first("color") is not None
        }
        self.above = self._tree()  # the joint above every link but the root
        self.links: dict[str, _Link] = {}
        self.parts: dict[str | None, list[_Link]] = {}  # of every body
        self.carrying: set[str | None] = set()  # bodies that others are joined to

    def mechanism(self) -> Mechanism:
        """All of it."""
        m = Mechanism(self.root.get("name") or "robot")
        self._place()
        self._merge()
        for link in self.links.values():
            self.parts.setdefault(link.into, []).append(link)
        self.carrying = {
            self._into(j, "parent")
            for j in self.joints.values()
            if self._into(j, "parent") != self._into(j, "child")
        }
        for name, link in self.links.items():
            if link.into == name:
                self._add_body(m, name)
        for joint in self._in_order():
            self._add_joint(m, joint)
        for joint in self.joints.values():
            self._add_mimic(m, joint)
        for name, link in self.links.items():
            body = "ground" if link.into is None else link.into
            m.add(mbd.Frame(name, body, point=tuple(link.r), A=link.A))
        for element in self.root.all("transmission"):
            self._add_transmission(m, element)
        self._close(m)
        self._list_the_rest()
        return m

    # --- the tree ---

    def _tree(self) -> dict[str, Element]:
        above: dict[str, Element] = {}
        for joint in self.joints.values():
            kind = joint.get("type")
            if kind not in _TYPES:
                raise joint.error(
                    f"there is no joint of type {kind!r}; known are {', '.join(_TYPES)}"
                )
            child = self._link_of(joint, "child")
            self._link_of(joint, "parent")
            if child in above:
                raise joint.error(
                    f"link {child!r} has two parents; close loops with loops= instead"
                )
            above[child] = joint
        return above

    def _link_of(self, joint: Element, which: str) -> str:
        element = joint.first(which)
        name = None if element is None else element.get("link")
        if name is None:
            raise joint.error(f"<{which} link=...> is missing")
        if name not in self.elements:
            raise (element or joint).error(f"there is no link {name!r}")
        return name

    def _into(self, joint: Element, which: str) -> str | None:
        """The body that a link of a joint is part of; None for the ground."""
        return self.links[self._link_of(joint, which)].into

    def _in_order(self) -> list[Element]:
        """Joints from the root outwards."""
        children: dict[str, list[Element]] = {}
        for joint in self.joints.values():
            children.setdefault(self._link_of(joint, "parent"), []).append(joint)
        roots = [name for name in self.elements if name not in self.above]
        if not roots:
            raise self.root.error("every link has a parent, so that none can be the root")
        found, todo = [], list(roots)
        for name in todo:
            for joint in children.get(name, []):
                found.append(joint)
                todo.append(self._link_of(joint, "child"))
        if len(found) < len(self.joints):
            lost = next(j for j in self.joints.values() if j not in found)
            raise lost.error("its links are their own ancestors")
        return found

    def _place(self) -> None:
        """The poses of all links with all joints at zero."""
        for name in self.elements:
            if name not in self.above:
                self._add_link(name, np.zeros(3), np.eye(3))
        for joint in self._in_order():
            parent = self.links[self._link_of(joint, "parent")]
            xyz, R = origin_of(joint)
            self._add_link(self._link_of(joint, "child"), parent.r + parent.A @ xyz, parent.A @ R)

    def _add_link(self, name: str, r: np.ndarray, A: np.ndarray) -> None:
        element = self.elements[name]
        inertial = element.first("inertial")
        mass, center, inertia = 0.0, r, np.zeros((3, 3))
        if inertial is not None:
            xyz, R = origin_of(inertial)
            mass = number(needed(inertial, "mass"), "value")
            local = inertia_of(needed(inertial, "inertia"))
            center, turned = r + A @ xyz, A @ R
            inertia = turned @ local @ turned.T
        self.links[name] = _Link(element, r, A, name, mass, center, inertia)

    def _merge(self) -> None:
        """Links that are part of others: on a fixed root, without mass, or where asked for."""
        for name, link in self.links.items():
            joint = self.above.get(name)
            if joint is None:
                alone = link.mass <= 0.0 and self.options.base == "free"
                if self.options.base == "fixed" or alone:
                    link.into = None
                if alone:
                    raise link.element.error("a free base needs mass and inertia")
        for joint in self._in_order():
            name = self._link_of(joint, "child")
            parent = self.links[self._link_of(joint, "parent")]
            link = self.links[name]
            if joint.get("type") == "fixed" and (
                parent.into is None or link.mass <= 0.0 or self.options.merge_fixed
            ):
                link.into = parent.into
                self.report.merged[name] = parent.into or "ground"
        for name, link in self.links.items():
            visual = link.element.first("visual")
            if link.into is None and visual is not None:
                why = "the ground shows nothing; base='free' keeps its root a body that does"
                self.report.ignore("visual", name, why, visual.line, moves=False)

    def _add_body(self, m: Mechanism, name: str) -> None:
        link = self.links[name]
        parts = self.parts[name]
        mass = sum(x.mass for x in parts)
        if mass <= 0.0:
            if name not in self.carrying:
                raise link.element.error("it moves and has no mass (<inertial>)")
            m.add_body(name, massless=True, r=link.r, A=link.A, visuals=self._looks(name, link.r))
            return
        center = np.sum([x.mass * x.center for x in parts], axis=0) / mass
        inertia = np.zeros((3, 3))
        for x in parts:
            d = x.center - center
            inertia += x.inertia + x.mass * (d @ d * np.eye(3) - np.outer(d, d))
        try:
            m.add_body(
                name,
                mass=mass,
                inertia=link.A.T @ inertia @ link.A,
                r=center,
                A=link.A,
                visuals=self._looks(name, center),
                allow_unphysical_inertia=True,  # told below, where it is so
            )
        except ValueError as error:
            raise link.element.error(str(error)) from None
        a, b, c = np.linalg.eigvalsh(inertia)
        if c > (a + b) * (1.0 + 1e-6):
            self.report.notes.append(f"link {name!r}: no body has such moments of inertia")

    # --- looks ---

    def _looks(self, name: str, center: np.ndarray) -> list[mbd.Visual]:
        found = []
        A = self.links[name].A
        for link in self.parts[name]:
            for visual in link.element.all("visual"):
                geometry = needed(visual, "geometry")
                shape = self._shape(geometry)
                if shape is None:
                    continue
                xyz, R = origin_of(visual)
                r, turned = link.r + link.A @ xyz, link.A @ R
                material = visual.first("material")
                color = None
                if material is not None:
                    color = color_of(material) or self.colors.get(material.get("name"))
                found.append(
                    mbd.Visual(shape, position=A.T @ (r - center), A=A.T @ turned, color=color)
                )
        return found

    def _shape(self, geometry: Element) -> AbstractShape | None:
        """The shape of a geometry; None for a mesh that cannot be had, which is left out: meshes of
        URDF are drawn alone, masses stand in `<inertial>`.
        """
        mesh = geometry.first("mesh")
        try:
            return self.looks.shape(geometry)
        except ModelFileError as error:
            if mesh is None:
                raise
            why = str(error).removeprefix(str(mesh.error("")))
            name = mesh.get("filename") or ""
            self.report.ignore("mesh", name, f"it is not drawn: {why}", mesh.line, moves=False)
            return None

    # --- joints ---

    def _add_joint(self, m: Mechanism, joint: Element) -> None:
        name, kind = joint.get("name") or "", joint.get("type")
        parent = self.links[self._link_of(joint, "parent")]
        link = self.links[self._link_of(joint, "child")]
        if link.into == parent.into or kind == "floating":
            return
        i, j, point = parent.into or "ground", link.into or "ground", tuple(link.r)
        if kind == "fixed":
            m.add(mbd.Fixed(name, i, j, point=point))
            return
        axis = np.array(vector(joint.first("axis") or joint, "xyz", (1.0, 0.0, 0.0)))
        if not np.linalg.norm(axis) > 0.0:
            raise joint.error("the axis is zero")
        axis = tuple(link.A @ axis)
        cls = {"prismatic": mbd.Translational, "planar": mbd.Planar}.get(kind or "", mbd.Revolute)
        m.add(cls(name, i, j, point=point, axis=axis))
        if kind != "planar":
            self._act_on(m, joint, m.constraints[name])

    def _act_on(self, m: Mechanism, joint: Element, made: AbstractRelation) -> None:
        """Damping, dry friction and range of a hinge or a slide."""
        name = made.name
        dynamics, limit = joint.first("dynamics"), joint.first("limit")
        damping = friction = 0.0
        if dynamics is not None:
            damping, friction = (number(dynamics, x, 0.0) for x in ("damping", "friction"))
            if damping < 0.0:
                raise dynamics.error(f"damping must not be negative, is {damping:g}")
        if damping:
            m.add(mbd.JointSpring(f"damping of {name}", made, damping=damping))
        if friction and self.options.friction:
            m.add(CoulombFriction(f"friction of {name}", made, bound=friction))
        elif friction:
            why = "its dry friction; pass friction=True for mbd.CoulombFriction"
            self.report.ignore("joint", name, why, joint.line)
        if limit is None or joint.get("type") == "continuous":
            return
        lower, upper = (number(limit, x, 0.0) for x in ("lower", "upper"))
        if lower == upper == 0.0:
            return
        if self.options.limits:
            m.add(JointLimit(f"limit of {name}", made, lower=lower, upper=upper))
        else:
            why = "its range; pass limits=True for stops"
            self.report.ignore("joint", name, why, limit.line)

    def _add_mimic(self, m: Mechanism, joint: Element) -> None:
        mimic = joint.first("mimic")
        if mimic is None:
            return
        name, other = joint.get("name") or "", mimic.get("joint")
        masters = [name]
        while (follows := self._master(masters[-1])) is not None:
            if follows in masters:
                chain = " -> ".join([*masters, follows])
                raise mimic.error(f"joint {name!r} ends up with itself as its master: {chain}")
            masters.append(follows)
        if other not in m.constraints or name not in m.constraints:
            raise mimic.error(f"there is no joint {other!r} that moves")
        ratio, offset = number(mimic, "multiplier", 1.0), number(mimic, "offset", 0.0)
        label = f"mimic of {name}"
        m.add(mbd.Coupler(label, m.constraints[other], name, coefficients=(offset, ratio)))
        self.report.loops.append(label)

    def _master(self, name: str) -> str | None:
        """The joint that a joint mimics, or None."""
        mimic = self.joints[name].first("mimic") if name in self.joints else None
        return None if mimic is None else mimic.get("joint")

    def _add_transmission(self, m: Mechanism, element: Element) -> None:
        """A motor without control for every joint that something drives."""
        for driven in element.all("joint"):
            name = driven.get("name") or ""
            joint = m.constraints.get(name)
            actuator = element.first("actuator")
            label = (actuator.get("name") if actuator is not None else None) or f"motor of {name}"
            if joint is None or not joint.actions:
                self.report.ignore("transmission", label, f"{name!r} is no joint that moves")
            elif label not in m.forces:
                m.add(mbd.Actuator(label, joint))

    # --- loops ---

    def _close(self, m: Mechanism) -> None:
        for k, (first, second, kind) in enumerate(loops_of(self.options.loops, self.report)):
            links = [self._frame(x) for x in (first, second)]
            bodies = [link.into or "ground" for link in links]
            label = f"loop {k + 1}: {first} and {second}"
            frames = [link.A for link in links] if kind == "6d" else None
            add_loop(m, label, bodies, [link.r for link in links], frames)
            self.report.loops.append(label)

    def _frame(self, name: str) -> _Link:
        """A link by its name, or that of the joint above it."""
        if name in self.links:
            return self.links[name]
        if name in self.joints:
            return self.links[self._link_of(self.joints[name], "child")]
        raise ModelFileError(f"{self.root.file}: loops: there is no link or joint {name!r}")

    def _list_the_rest(self) -> None:
        touching = sum(len(x.element.all("collision")) for x in self.links.values())
        if touching:
            why = f"contacts of {touching} shapes are not made; add mbd.Contact where needed"
            self.report.ignore("collision", "", why)
        for element in self.root.children:
            if element.tag not in _KNOWN and element.tag not in _QUIET:
                raise element.error("there is no such element in URDF")
            if element.tag in _QUIET:
                why = "it is not read"
                self.report.ignore(
                    element.tag, element.get("name") or "", why, element.line, moves=False
                )
