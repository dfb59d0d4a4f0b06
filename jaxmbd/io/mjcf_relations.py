"""Equality constraints, tendons and actuators of a compiled MuJoCo model."""

from typing import Any

import numpy as np

from .. import model as mbd
from .loops import add_loop
from .mjcf_scene import Compiled, Scene, unused


def add_relations(scene: Scene) -> None:
    """Add what acts between bodies besides their joints."""
    model, flags = scene.file.model, scene.file.mujoco.mjtDisableBit
    off = int(model.opt.disableflags)
    if not off & int(flags.mjDSBL_EQUALITY):
        for e in range(model.neq):
            _add_equality(scene, e)
    for t in range(model.ntendon):
        _add_tendon(scene, t)
    if not off & int(flags.mjDSBL_ACTUATION):
        for a in range(model.nu):
            _add_actuator(scene, a)
        _tell_other_limits(scene)


# --- equality constraints ---


def _add_equality(scene: Scene, e: int) -> None:
    mujoco, model, data = scene.file.mujoco, scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    types, kind = mujoco.mjtEq, int(model.eq_type[e])
    tag = types(kind).name.removeprefix("mjEQ_").lower()
    label = unused(model.eq(e).name or f"{tag}{e}", m.constraints)
    if not data.eq_active[e]:
        report.ignore(tag, label, "it is not active")
    elif kind in (types.mjEQ_CONNECT, types.mjEQ_WELD):
        _add_loop(scene, e, label)
    elif kind == types.mjEQ_JOINT:
        _add_joint_equality(scene, e, label)
    elif kind == types.mjEQ_TENDON:
        _add_tendon_equality(scene, e, label)
    else:
        report.refuse(tag, label, "this equality constraint is not supported")


def _add_loop(scene: Scene, e: int, label: str) -> None:
    """A common point, or a weld: an exact joint."""
    mujoco, model, data = scene.file.mujoco, scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    weld = int(model.eq_type[e]) == mujoco.mjtEq.mjEQ_WELD
    numbers = [int(model.eq_obj1id[e]), int(model.eq_obj2id[e])]
    values = model.eq_data[e]
    if int(model.eq_objtype[e]) == mujoco.mjtObj.mjOBJ_SITE:
        points = [np.array(data.site_xpos[s]) for s in numbers]
        frames = [data.site_xmat[s].reshape(3, 3) for s in numbers]
        bodies = [scene.body(int(model.site_bodyid[s])) for s in numbers]
    else:
        local = [values[3:6], values[0:3]] if weld else [values[0:3], values[3:6]]
        turns = [data.xmat[b].reshape(3, 3) for b in numbers]
        points = [data.xpos[b] + R @ x for b, R, x in zip(numbers, turns, local, strict=True)]
        relative = np.zeros(9)
        mujoco.mju_quat2Mat(relative, values[6:10] if weld else np.array([1.0, 0, 0, 0]))
        frames = [turns[0] @ relative.reshape(3, 3), turns[1]]
        bodies = [scene.body(b) for b in numbers]
    if bodies[0] == bodies[1]:
        report.ignore("weld" if weld else "connect", label, "it holds a body to itself")
        return
    report.loops.append(label)
    add_loop(m, label, bodies, points, frames if weld else None)


def _add_joint_equality(scene: Scene, e: int, label: str) -> None:
    """The position of joint 1 as a polynomial of that of joint 2, both from where they are at
    MuJoCo's reference.
    """
    model = scene.file.model
    m, report = scene.m, scene.report
    dependent, other = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
    y_here, y_0 = _position(scene.file, dependent)
    coefficients = np.array(model.eq_data[e][:5], float)
    if other < 0:
        _lock(scene, dependent, coefficients[0] - (y_here - y_0), label)
        return
    x_here, x_0 = _position(scene.file, other)
    shifted = np.polynomial.Polynomial(coefficients)(
        np.polynomial.Polynomial([x_here - x_0, 1.0])
    ).coef
    shifted[0] -= y_here - y_0
    report.loops.append(label)
    first, second = m.constraints[scene.joints[other]], m.constraints[scene.joints[dependent]]
    m.add(mbd.Coupler(label, first, second, coefficients=_trimmed(shifted)))


def _position(file: Compiled, j: int) -> tuple[float, float]:
    """The coordinate of a hinge or slide at the pose described, and at MuJoCo's reference."""
    model, data = file.model, file.data
    at = int(model.jnt_qposadr[j])
    return float(data.qpos[at]), float(model.qpos0[at])


def _trimmed(coefficients: np.ndarray) -> tuple[float, ...]:
    """Without zeros of the highest powers."""
    last = int(np.max(np.flatnonzero(coefficients), initial=0))
    return tuple(float(x) for x in coefficients[: max(last + 1, 2)])


def _lock(scene: Scene, j: int, at: float, label: str) -> None:
    """A joint that is held at a coordinate."""
    m, joint = scene.m, scene.m.constraints[scene.joints[j]]
    if isinstance(joint, mbd.Revolute):
        m.add(
            mbd.RotationDriver(
                label, joint.body_i, joint.body_j, axis=joint.axis, angle=repr(float(at))
            )
        )
        return
    assert isinstance(joint, mbd.Translational)  # the only others that a scene has
    m.add(
        mbd.TranslationDriver(
            label,
            joint.body_i,
            joint.body_j,
            point=joint.point,
            axis=joint.axis,
            displacement=repr(float(at)),
        )
    )


# --- tendons ---


def _wrapped(file: Compiled, t: int) -> tuple[list[int], list[float]] | None:
    """Joints and coefficients of a fixed tendon, None for a spatial one."""
    mujoco, model = file.mujoco, file.model
    first, count = int(model.tendon_adr[t]), int(model.tendon_num[t])
    kinds = model.wrap_type[first : first + count]
    if not np.all(kinds == int(mujoco.mjtWrap.mjWRAP_JOINT)):
        return None
    joints = [int(x) for x in model.wrap_objid[first : first + count]]
    return joints, [float(x) for x in model.wrap_prm[first : first + count]]


def _add_tendon(scene: Scene, t: int) -> None:
    model, data = scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    name = scene.file.name_of("tendon", t)
    stiffness, damping = float(model.tendon_stiffness[t]), float(model.tendon_damping[t])
    for what in ("tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_armature"):
        if np.any(getattr(model, what, np.zeros(model.ntendon))[t]):
            report.refuse("tendon", name, f"{what.removeprefix('tendon_')} is not supported")
    if model.tendon_limited[t]:
        report.ignore("tendon", name, "the range of its length")
    if model.tendon_frictionloss[t]:
        report.ignore("tendon", name, "its dry friction (frictionloss)")
    if not (stiffness or damping):
        return
    low, high = (float(x) for x in model.tendon_lengthspring[t])
    if stiffness and high - low > 1e-12:
        report.refuse("tendon", name, "a spring with a dead band (springlength) is not supported")
        return
    found = _wrapped(scene.file, t)
    label = unused(name, m.forces)
    if found is None:
        _add_line_spring(scene, t, label)
        return
    joints, coefficients = found
    m.add(
        mbd.FixedTendon(
            label,
            [m.constraints[scene.joints[j]] for j in joints],
            coefficients=coefficients,
            stiffness=stiffness,
            damping=damping,
            reference=low - float(data.ten_length[t]) if stiffness else 0.0,
            allow_negative=min(stiffness, damping) < 0.0,
        )
    )


def _add_line_spring(scene: Scene, t: int, label: str) -> None:
    """A tendon straight between two sites is a spring on a line."""
    mujoco, model, data = scene.file.mujoco, scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    first, count = int(model.tendon_adr[t]), int(model.tendon_num[t])
    sites = [int(x) for x in model.wrap_objid[first : first + count]]
    straight = np.all(model.wrap_type[first : first + count] == int(mujoco.mjtWrap.mjWRAP_SITE))
    bodies = [scene.body(int(model.site_bodyid[s])) for s in sites] if straight else []
    if len(bodies) != 2 or bodies[0] == bodies[1]:
        report.refuse("spatial", label, "a tendon that is no straight line is not supported")
        return
    stiffness, damping = float(model.tendon_stiffness[t]), float(model.tendon_damping[t])
    m.add(
        mbd.SpringDamper(
            label,
            *bodies,
            point_i=tuple(data.site_xpos[sites[0]]),
            point_j=tuple(data.site_xpos[sites[1]]),
            stiffness=stiffness,
            damping=damping,
            allow_negative=min(stiffness, damping) < 0.0,
            free_length=float(model.tendon_lengthspring[t][0]),
        )
    )


def _add_tendon_equality(scene: Scene, e: int, label: str) -> None:
    """The length of a fixed tendon is held, or follows that of another one in proportion."""
    model, data = scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    held, other = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
    coefficients = np.array(model.eq_data[e][:5], float)
    weights: dict[int, float] = {}
    length = coefficients[0]
    for t, share in ((held, 1.0), (other, -coefficients[1])):
        if t < 0:
            continue
        found = _wrapped(scene.file, t)
        if found is None or (other >= 0 and np.any(coefficients[2:])):
            why = "only fixed tendons can be held at a length, or in proportion to each other"
            report.refuse("tendon", label, why)
            return
        length -= share * float(data.ten_length[t] - model.tendon_length0[t])
        for j, c in zip(*found, strict=True):
            weights[j] = weights.get(j, 0.0) + share * c
    joints = [m.constraints[scene.joints[j]] for j in weights]
    report.loops.append(label)
    m.add(mbd.LinearCoupling(label, joints, coefficients=tuple(weights.values()), length=length))


# --- actuators ---


def _add_actuator(scene: Scene, a: int) -> None:
    """A motor or a servo along a joint or a fixed tendon: its force is gain u + b0 + b1 length + b2
    speed, in which the gain may depend on length and speed, and an activation may stand for u.
    """
    mujoco, model, data = scene.file.mujoco, scene.file.model, scene.file.data
    m, report = scene.m, scene.report
    name = scene.file.name_of("actuator", a)
    why = _not_affine(scene.file, a)
    if why:
        report.refuse("actuator", name, why)
        return
    gear, affine = float(model.actuator_gear[a][0]), mujoco.mjtGain.mjGAIN_AFFINE
    g0, g1, g2 = (float(x) for x in model.actuator_gainprm[a][:3])
    if int(model.actuator_gaintype[a]) != int(affine):
        g1 = g2 = 0.0
    b0, b1, b2 = (float(x) for x in model.actuator_biasprm[a][:3])
    if int(model.actuator_biastype[a]) != int(mujoco.mjtBias.mjBIAS_AFFINE):
        b0 = b1 = b2 = 0.0
    acts, limits = _activation(scene.file, a), _limits(scene.file, a, gear)
    target, label = int(model.actuator_trnid[a][0]), unused(name, m.forces)
    tendon = int(model.actuator_trntype[a]) == int(mujoco.mjtTrn.mjTRN_TENDON)
    if not tendon and target not in scene.joints:
        report.refuse("actuator", name, "only hinges and slides can be driven")
        return
    # Coordinates count from the pose of the description, and MuJoCo's lengths from elsewhere.
    here = float(data.ten_length[target] if tendon else _position(scene.file, target)[0])
    law: dict[str, Any] = {
        "control": float(data.ctrl[a]),
        "gain": gear * g0 + gear**2 * g1 * here,
        "stiffness": -(gear**2) * b1,
        "damping": -(gear**2) * b2,
        "allow_negative": max(b1, b2) > 0.0,
        "offset": gear * b0 + gear**2 * b1 * here,
    }
    if not tendon:
        if g1 or g2:
            law |= {"stiffness_gain": -(gear**2) * g1, "damping_gain": -(gear**2) * g2}
        limits |= _joint_limits(scene.file, target, limits)
        m.add(mbd.Servo(label, m.constraints[scene.joints[target]], **law, **limits, **acts))
        return
    found = _wrapped(scene.file, target)
    if found is None or acts or g1 or g2:
        why = "a spatial tendon cannot be driven"
        if found is not None:
            why = "an actuator with states or a gain that depends on the motion drives joints only"
        report.refuse("actuator", name, why)
        return
    joints, coefficients = found
    parts = [m.constraints[scene.joints[j]] for j in joints]
    m.add(mbd.FixedTendon(label, parts, coefficients=coefficients, **law, **limits))


def _activation(file: Compiled, a: int) -> dict[str, Any]:
    """What a servo needs to know of an actuator's activation; nothing where it has none."""
    mujoco, model, data = file.mujoco, file.model, file.data
    dynamics = mujoco.mjtDyn
    kind = int(model.actuator_dyntype[a])
    if kind == int(dynamics.mjDYN_NONE):
        return {}
    found: dict[str, Any] = {"activation": "integrator"}
    if kind != int(dynamics.mjDYN_INTEGRATOR):
        tau = max(float(model.actuator_dynprm[a][0]), float(mujoco.mjMINVAL))
        found = {"activation": "lag", "time_constant": tau}
    if model.actuator_actlimited[a]:
        found["activation_range"] = tuple(float(x) for x in model.actuator_actrange[a])
    found["initial_activation"] = float(data.act[model.actuator_actadr[a]])
    return found


def _limits(file: Compiled, a: int, gear: float) -> dict[str, Any]:
    """The ranges of an actuator's control, and of what it gives to its joint or tendon."""
    mujoco, model = file.mujoco, file.model
    found = {}
    clamps = not int(model.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
    if clamps and model.actuator_ctrllimited[a]:
        found["control_range"] = tuple(float(x) for x in model.actuator_ctrlrange[a])
    if model.actuator_forcelimited[a]:
        found["effort_range"] = tuple(sorted(gear * float(x) for x in model.actuator_forcerange[a]))
    return found


def _joint_limits(file: Compiled, joint: int, limits: dict) -> dict[str, Any]:
    """The range of a joint's actuator forces, where one actuator alone acts there."""
    model = file.model
    if not model.jnt_actfrclimited[joint] or _drivers_of(file, joint) != [True]:
        return {}
    lower, upper = (float(x) for x in model.jnt_actfrcrange[joint])
    if "effort_range" in limits:
        inner = limits["effort_range"]
        lower, upper = (float(np.clip(x, lower, upper)) for x in inner)
    return {"effort_range": (lower, upper)}


def _drivers_of(file: Compiled, joint: int) -> list[bool]:
    """Of each actuator that acts in a joint, whether it does so by itself and not by a tendon."""
    mujoco, model = file.mujoco, file.model
    found = []
    for a in range(model.nu):
        kind, target = int(model.actuator_trntype[a]), int(model.actuator_trnid[a][0])
        if kind == int(mujoco.mjtTrn.mjTRN_TENDON):
            wrapped = _wrapped(file, target)
            found += [False] * (wrapped is not None and joint in wrapped[0])
        elif kind in (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)):
            found += [True] * (target == joint)
    return found


def _tell_other_limits(scene: Scene) -> None:
    """Joints whose range of actuator forces no servo takes over."""
    model = scene.file.model
    report = scene.report
    for j in range(model.njnt):
        if model.jnt_actfrclimited[j] and _drivers_of(scene.file, j) not in ([], [True]):
            why = "the range of actuator forces (actuatorfrcrange) of several actuators or a tendon"
            report.ignore("joint", scene.file.name_of("joint", j), why)


def _not_affine(file: Compiled, a: int) -> str:
    """Why an actuator is none of those that are read, or nothing."""
    mujoco, model = file.mujoco, file.model
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[a])).name.removeprefix("mjTRN_")
    if transmission not in ("JOINT", "JOINTINPARENT", "TENDON"):
        return f"a transmission by {transmission.lower()} is not supported"
    dynamics, gain = int(model.actuator_dyntype[a]), int(model.actuator_gaintype[a])
    if int(mujoco.mjtDyn.mjDYN_MUSCLE) == dynamics or int(mujoco.mjtGain.mjGAIN_MUSCLE) == gain:
        return (
            "MuJoCo's muscle has curves of its own; leave it out with strict=False and add an "
            "mbd.Muscle between two points"
        )
    known_dynamics = ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT")
    if dynamics not in [int(getattr(mujoco.mjtDyn, f"mjDYN_{x}")) for x in known_dynamics]:
        return "activation dynamics of its own kind (dyntype) are not supported"
    if gain not in (int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE)):
        return "a gain of its own kind (gaintype) is not supported"
    bias = int(model.actuator_biastype[a])
    if bias not in (int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)):
        return "this bias is not supported"
    if int(model.actuator_actnum[a]) > 1:
        return "an actuator with several states is not supported"
    for what in ("armature", "damping", "dampingpoly"):
        values = getattr(model, f"actuator_{what}", None)
        if values is not None and np.any(values[a]):
            return f"{what} of an actuator is not supported; give it to the joint"
    return ""
