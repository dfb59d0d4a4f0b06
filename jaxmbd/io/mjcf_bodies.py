"""Bodies, joints, frames and looks of a compiled MuJoCo model."""

import numpy as np

from .. import model as mbd
from ..model.joints import AbstractRelation
from ..model.laws import CoulombFriction, JointLimit
from ..model.mechanism import Mechanism
from .import_report import ImportReport
from .mjcf_looks import visuals_of
from .mjcf_scene import GROUND, Compiled, Options, Scene, unused


def add_bodies(
    file: Compiled, m: Mechanism, options: Options, report: ImportReport, *, moving: bool
) -> Scene:
    """Add all bodies at the pose of the file's data, and the joints between them."""
    model, owner = file.model, _owners(file, options)
    scene = Scene(file, m, report, options, moving, owner, {GROUND: "ground"}, {})
    for b in range(1, model.nbody):
        if owner[b] == b:
            scene.bodies[b] = unused(file.name_of("body", b), {"ground", *m.bodies})
            _add_body(scene, b)
            _connect(scene, b)
        else:
            report.merged[file.name_of("body", b)] = scene.body(b)
        if model.body_mocapid[b] >= 0:
            name = file.name_of("body", b)
            report.refuse("body", name, "mocap bodies are not supported; prescribe a PoseDriver")
    _add_frames(scene)
    return scene


def _owners(file: Compiled, options: Options) -> list[int]:
    """A link that no joint moves is part of its parent where it has no mass, where that is asked
    for, and on the ground.
    """
    model = file.model
    owner = [GROUND]
    for b in range(1, model.nbody):
        above = owner[model.body_parentid[b]]
        fixed = model.body_jntnum[b] == 0 and model.body_mocapid[b] < 0
        light = model.body_mass[b] <= 0.0
        joined = fixed and (above == GROUND or light or options.merge_fixed)
        owner.append(above if joined or model.body_mocapid[b] >= 0 else b)
    return owner


def _add_body(scene: Scene, b: int) -> None:
    model, data = scene.file.model, scene.file.data
    m = scene.m
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
    if scene.moving:
        omega, v = _velocity(scene.file, b)
        v = v + np.cross(omega, center - data.xipos[b])
        twist = {"v": v, "omega": A.T @ omega}
    looks = [x for k in parts for x in visuals_of(scene.file, k, center, A)]
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
            force = unused(f"gravcomp of {scene.file.name_of('body', k)}", m.forces)
            m.add(mbd.PointForce(force, name, force=tuple(lift), point=tuple(data.xipos[k])))


def _velocity(file: Compiled, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Angular velocity and velocity of the mass center, global."""
    mujoco, model, data = file.mujoco, file.model, file.data
    found = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, b, found, 0)
    return found[:3], found[3:]


_FREE, _BALL, _SLIDE, _HINGE = range(4)


def _connect(scene: Scene, b: int) -> None:
    """The joints between a body and its parent; several follow each other by links without
    inertia, the first being the one next to the parent.
    """
    model, data = scene.file.model, scene.file.data
    m = scene.m
    parent, name = scene.body(int(model.body_parentid[b])), scene.bodies[b]
    joints = list(range(model.body_jntadr[b], model.body_jntadr[b] + model.body_jntnum[b]))
    if not joints:
        label = unused(f"{name} fixed", m.constraints)
        m.add(mbd.Fixed(label, parent, name, point=tuple(data.xpos[b])))
        return
    for k, j in enumerate(joints):
        kind, last = int(model.jnt_type[j]), k == len(joints) - 1
        if kind == _FREE:
            _check_free(scene, j)
            return
        body = name
        if not last:
            body = _add_link(scene, name, parent, j)
        label = unused(scene.file.name_of("joint", j), m.constraints)
        point, axis = tuple(data.xanchor[j]), tuple(data.xaxis[j])
        if kind == _BALL:
            m.add(mbd.Spherical(label, parent, body, point=point))
        else:
            cls = mbd.Revolute if kind == _HINGE else mbd.Translational
            m.add(cls(label, parent, body, point=point, axis=axis))
            scene.joints[j] = label
        _act_on_joint(scene, j, m.constraints[label])
        parent = body


def _add_link(scene: Scene, name: str, parent: str, j: int) -> str:
    """A link without inertia after one of several joints of a body."""
    model, data = scene.file.model, scene.file.data
    m = scene.m
    label = unused(f"{name} after {scene.file.name_of('joint', j)}", m.bodies)
    point, A = _after_joint(scene.file, j)
    twist = {}
    if scene.moving:
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


def _after_joint(file: Compiled, j: int) -> tuple[np.ndarray, np.ndarray]:
    """A place and the axes of a body's frame as they would be with its joints up to j alone."""
    model, data = file.model, file.data
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


def _matrix(quaternion: np.ndarray) -> np.ndarray:
    """The rotation matrix of a quaternion, scalar first."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _check_free(scene: Scene, j: int) -> None:
    model = scene.file.model
    report = scene.report
    name, dof = scene.file.name_of("joint", j), int(model.jnt_dofadr[j])
    dofs = slice(dof, dof + 6)
    for what, values in (
        ("armature", model.dof_armature[dofs]),
        ("damping", model.dof_damping[dofs]),
        ("frictionloss", model.dof_frictionloss[dofs]),
        ("stiffness", model.jnt_stiffness[j : j + 1]),
    ):
        if np.any(values):
            report.refuse("joint", name, f"{what} of a free joint is not supported")


def _act_on_joint(scene: Scene, j: int, joint: AbstractRelation) -> None:
    """Spring, damper, rotor, stops and dry friction of a joint."""
    model, data = scene.file.model, scene.file.data
    m, report = scene.m, scene.report
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


def _add_frames(scene: Scene) -> None:
    """Sites, and the frames of all links of the file."""
    model, data = scene.file.model, scene.file.data
    m = scene.m
    for s in range(model.nsite):
        if model.site(s).name:
            body = scene.body(int(model.site_bodyid[s]))
            A = data.site_xmat[s].reshape(3, 3)
            name = model.site(s).name
            m.add(mbd.Frame(name, body, point=tuple(data.site_xpos[s]), A=A))
    for b in range(1, model.nbody):
        name = unused(scene.file.name_of("body", b), m.frames)
        A = data.xmat[b].reshape(3, 3)
        m.add(mbd.Frame(name, scene.body(b), point=tuple(data.xpos[b]), A=A))
