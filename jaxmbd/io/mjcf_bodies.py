"""Bodies, joints, frames and looks of a compiled MuJoCo model."""

import dataclasses
from typing import Any

import numpy as np

from .. import model as mbd
from ..model.laws import CoulombFriction, JointLimit
from ..model.mechanism import Mechanism
from .import_report import ImportReport
from .mjcf_looks import visuals_of

GROUND = 0


@dataclasses.dataclass(frozen=True)
class Options:
    """What a reader was asked for.

    Attributes:
        limits: Whether ranges of joints become stops.
        friction: Whether dry friction of joints is read.
        merge_fixed: Whether links fixed to others become part of them.
    """

    limits: bool = False
    friction: bool = False
    merge_fixed: bool = False


@dataclasses.dataclass
class Scene:
    """What became of MuJoCo's bodies and joints.

    Attributes:
        owner: The body that each body is part of, itself as a rule; 0 is the ground.
        bodies: Names of the bodies in the mechanism, by MuJoCo's number.
        joints: Names of hinges and slides in the mechanism, by MuJoCo's number.
        options: What was asked for.
    """

    owner: list[int]
    bodies: dict[int, str]
    joints: dict[int, str]
    options: Options

    def body(self, number: int) -> str:
        """The name of the body that a body of the file is part of."""
        return self.bodies[self.owner[number]]


def name_of(model: Any, kind: str, number: int) -> str:
    """The name of something in the file, or one made of its kind and number."""
    return getattr(model, kind)(number).name or f"{kind}{number}"


def unused(name: str, taken: Any) -> str:
    """The name, or one like it that is not taken."""
    new, k = name, 2
    while new in taken:
        new, k = f"{name} {k}", k + 1
    return new


def add_bodies(
    mujoco: Any,
    model: Any,
    data: Any,
    m: Mechanism,
    options: Options,
    report: ImportReport,
    *,
    moving: bool,
) -> Scene:
    """Add all bodies at the pose of `data`, and the joints between them."""
    scene = Scene(_owners(model, options), {GROUND: "ground"}, {}, options)
    for b in range(1, model.nbody):
        if scene.owner[b] == b:
            scene.bodies[b] = unused(name_of(model, "body", b), {"ground", *m.bodies})
            _add_body(mujoco, model, data, m, scene, b, report, moving=moving)
            _connect(model, data, m, scene, b, report, moving=moving)
        else:
            report.merged[name_of(model, "body", b)] = scene.body(b)
        if model.body_mocapid[b] >= 0:
            name = name_of(model, "body", b)
            report.refuse("body", name, "mocap bodies are not supported; prescribe a PoseDriver")
    _add_frames(model, data, m, scene)
    return scene


def _owners(model: Any, options: Options) -> list[int]:
    """A link that no joint moves is part of its parent where it has no mass, where that is asked
    for, and on the ground.
    """
    owner = [GROUND]
    for b in range(1, model.nbody):
        above = owner[model.body_parentid[b]]
        fixed = model.body_jntnum[b] == 0 and model.body_mocapid[b] < 0
        light = model.body_mass[b] <= 0.0
        joined = fixed and (above == GROUND or light or options.merge_fixed)
        owner.append(above if joined or model.body_mocapid[b] >= 0 else b)
    return owner


def _add_body(mujoco, model, data, m, scene: Scene, b: int, report, *, moving: bool) -> None:
    name = scene.bodies[b]
    parts = [k for k in range(model.nbody) if scene.owner[k] == b]
    masses = np.array([model.body_mass[k] for k in parts])
    A = data.xmat[b].reshape(3, 3)
    centers = np.array([data.xipos[k] for k in parts])
    carries = masses.sum() <= 0.0  # what it moves is welded to it
    center = np.array(data.xpos[b]) if carries else masses @ centers / masses.sum()
    inertia = np.zeros((3, 3))
    for k, d in zip(parts, centers - center, strict=True):
        R = A.T @ data.ximat[k].reshape(3, 3)
        d = A.T @ d
        inertia += R @ np.diag(model.body_inertia[k]) @ R.T
        inertia += model.body_mass[k] * (d @ d * np.eye(3) - np.outer(d, d))
    twist = {}
    if moving:
        omega, v = _velocity(mujoco, model, data, b)
        v = v + np.cross(omega, center - data.xipos[b])
        twist = {"v": v, "omega": A.T @ omega}
    looks = [x for k in parts for x in visuals_of(mujoco, model, data, k, center, A)]
    if carries:
        m.add_body(name, massless=True, r=center, A=A, visuals=looks, **twist)
        return
    m.add_body(
        name,
        mass=masses.sum(),
        inertia=0.5 * (inertia + inertia.T),
        r=center,
        A=A,
        visuals=looks,
        allow_unphysical_inertia=True,  # MuJoCo has its own switch for that
        **twist,
    )
    for k in parts:
        if model.body_gravcomp[k]:
            lift = -model.body_gravcomp[k] * model.body_mass[k] * np.array(model.opt.gravity)
            force = unused(f"gravcomp of {name_of(model, 'body', k)}", m.forces)
            m.add(mbd.PointForce(force, name, force=tuple(lift), point=tuple(data.xipos[k])))


def _velocity(mujoco, model, data, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Angular velocity and velocity of the mass center, global."""
    found = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, b, found, 0)
    return found[:3], found[3:]


_FREE, _BALL, _SLIDE, _HINGE = range(4)


def _connect(model, data, m, scene: Scene, b: int, report, *, moving: bool) -> None:
    """The joints between a body and its parent; several follow each other by links without
    inertia, the first being the one next to the parent.
    """
    parent, name = scene.body(int(model.body_parentid[b])), scene.bodies[b]
    joints = list(range(model.body_jntadr[b], model.body_jntadr[b] + model.body_jntnum[b]))
    if not joints:
        label = unused(f"{name} fixed", m.constraints)
        m.add(mbd.Fixed(label, parent, name, point=tuple(data.xpos[b])))
        return
    for k, j in enumerate(joints):
        kind, last = int(model.jnt_type[j]), k == len(joints) - 1
        if kind == _FREE:
            _check_free(model, j, report)
            return
        body = name
        if not last:
            body = _add_link(model, data, m, name, parent, j, moving=moving)
        label = unused(name_of(model, "joint", j), m.constraints)
        point, axis = tuple(data.xanchor[j]), tuple(data.xaxis[j])
        if kind == _BALL:
            joint = m.add(mbd.Spherical(label, parent, body, point=point))
        else:
            cls = mbd.Revolute if kind == _HINGE else mbd.Translational
            joint = m.add(cls(label, parent, body, point=point, axis=axis))
            scene.joints[j] = label
        _act_on_joint(model, data, m, scene, j, joint, report)
        parent = body


def _add_link(model, data, m, name: str, parent: str, j: int, *, moving: bool) -> str:
    """A link without inertia after one of several joints of a body."""
    label = unused(f"{name} after {name_of(model, 'joint', j)}", m.bodies)
    point, A = _after_joint(model, data, j)
    twist = {}
    if moving:
        above = m.ground if parent == "ground" else m.bodies[parent]
        omega, rate = above.A @ above.omega, data.qvel[model.jnt_dofadr[j]]
        v = above.v + np.cross(omega, data.xanchor[j] - above.r)
        if model.jnt_type[j] == _HINGE:
            omega = omega + rate * data.xaxis[j]
        elif model.jnt_type[j] == _SLIDE:
            # The anchor that MuJoCo tells is where the joint was before it slid.
            v = above.v + np.cross(omega, point - above.r) + rate * data.xaxis[j]
        twist = {"v": v, "omega": A.T @ omega}
    m.add_body(label, massless=True, r=point, A=A, **twist)
    return label


def _after_joint(model, data, j: int) -> tuple[np.ndarray, np.ndarray]:
    """A place and the axes of a body's frame as they would be with its joints up to j alone."""
    b = int(model.jnt_bodyid[j])
    A = data.xmat[model.body_parentid[b]].reshape(3, 3) @ _matrix(model.body_quat[b])
    point = np.array(data.xanchor[j])
    for k in range(int(model.body_jntadr[b]), j + 1):
        at, kind = int(model.jnt_qposadr[k]), int(model.jnt_type[k])
        if kind == _BALL:
            A = A @ _matrix(data.qpos[at : at + 4])
        elif kind == _HINGE:
            half = 0.5 * (data.qpos[at] - model.qpos0[at])
            A = A @ _matrix(np.append(np.cos(half), np.sin(half) * model.jnt_axis[k]))
        elif k == j:
            point = point + (data.qpos[at] - model.qpos0[at]) * data.xaxis[j]
    return point, A


def _matrix(quaternion: Any) -> np.ndarray:
    """The rotation matrix of a quaternion, scalar first."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _check_free(model: Any, j: int, report: ImportReport) -> None:
    name, dof = name_of(model, "joint", j), int(model.jnt_dofadr[j])
    dofs = slice(dof, dof + 6)
    for what, values in (
        ("armature", model.dof_armature[dofs]),
        ("damping", model.dof_damping[dofs]),
        ("frictionloss", model.dof_frictionloss[dofs]),
        ("stiffness", model.jnt_stiffness[j : j + 1]),
    ):
        if np.any(values):
            report.refuse("joint", name, f"{what} of a free joint is not supported")


def _act_on_joint(model, data, m, scene: Scene, j: int, joint, report) -> None:
    """Spring, damper, rotor, stops and dry friction of a joint."""
    name, dof = joint.name, int(model.jnt_dofadr[j])
    ball = int(model.jnt_type[j]) == _BALL
    q = 0.0 if ball else float(data.qpos[model.jnt_qposadr[j]])
    stiffness, damping = float(model.jnt_stiffness[j]), float(model.dof_damping[dof])
    curved = [
        np.any(getattr(model, field, np.zeros(1))[k])
        for field, k in (("jnt_stiffnesspoly", j), ("dof_dampingpoly", dof), ("jnt_springyield", j))
        if hasattr(model, field)
    ]
    if any(curved):
        report.refuse("joint", name, "a spring or damper that is not linear is not supported")
    if ball:
        if stiffness:
            report.refuse("joint", name, "the spring of a ball joint is not supported")
        if damping:
            label = unused(f"damping of {name}", m.forces)
            m.add(mbd.ViscousFriction(label, joint, rotational=damping))
    elif stiffness or damping:
        rest = float(model.qpos_spring[model.jnt_qposadr[j]])
        label = unused(f"spring of {name}", m.forces)
        m.add(
            mbd.JointSpring(
                label,
                joint,
                stiffness=stiffness,
                damping=damping,
                reference=rest - q,
                allow_negative=min(stiffness, damping) < 0.0,
            )
        )
    armature = float(model.dof_armature[dof])
    if armature:
        m.add(mbd.Armature(unused(f"armature of {name}", m.forces), joint, inertia=armature))
    if model.jnt_limited[j]:
        if ball or not scene.options.limits:
            why = "the range of a ball joint" if ball else "its range; pass limits=True for stops"
            report.ignore("joint", name, why)
        else:
            lower, upper = (float(x) - q for x in model.jnt_range[j])
            m.add(JointLimit(unused(f"limit of {name}", m.laws), joint, lower=lower, upper=upper))
    loss = float(model.dof_frictionloss[dof])
    if loss:
        if ball or not scene.options.friction:
            why = "of a ball joint" if ball else "; pass friction=True for mbd.CoulombFriction"
            report.ignore("joint", name, f"its dry friction (frictionloss){why}")
        else:
            m.add(CoulombFriction(unused(f"friction of {name}", m.laws), joint, bound=loss))


def _add_frames(model: Any, data: Any, m: Mechanism, scene: Scene) -> None:
    """Sites, and the frames of all links of the file."""
    for s in range(model.nsite):
        if model.site(s).name:
            body = scene.body(int(model.site_bodyid[s]))
            A = data.site_xmat[s].reshape(3, 3)
            name = model.site(s).name
            m.add(mbd.Frame(name, body, point=tuple(data.site_xpos[s]), A=A))
    for b in range(1, model.nbody):
        name = unused(name_of(model, "body", b), m.frames)
        A = data.xmat[b].reshape(3, 3)
        m.add(mbd.Frame(name, scene.body(b), point=tuple(data.xpos[b]), A=A))
