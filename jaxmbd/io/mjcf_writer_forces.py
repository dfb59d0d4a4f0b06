"""Springs, dampers, rotors, motors, tendons, stops and dry friction of a mechanism in MJCF."""

import dataclasses
import xml.etree.ElementTree as ET

import numpy as np

from .. import model as mbd
from ..model.elements import AbstractElement
from ..model.forces import AbstractJointForce
from ..model.forces.activated import LAG
from ..model.laws import AbstractLawDescription, CoulombFriction, JointLimit
from ..model.mechanism import Mechanism
from ..model.validation import Numbers
from ..rotations.types import host
from .mjcf_writer_parts import Placed, numbers, refusal, texts


def write_actions(
    m: Mechanism, root: ET.Element, placed: dict[str, Placed], bodies: dict[str, ET.Element]
) -> None:
    """Everything that acts in the joints of the tree or between bodies."""
    tendons, actuators = root.find("tendon"), ET.SubElement(root, "actuator")
    assert tendons is not None
    for part in m.forces.values():
        if isinstance(part, mbd.JointSpring):
            _refuse_curved(part, part.effort)
            k, c, rest = (_value(part, x) for x in ("stiffness", "damping", "reference"))
            _spring(part, _joint(part, placed, part.coordinate), k, c, rest)
        elif isinstance(part, mbd.TorsionalSpringDamper):
            _torsion(m, part, placed)
        elif isinstance(part, mbd.ViscousFriction):
            _friction(part, placed)
        elif isinstance(part, mbd.Armature):
            _armature(part, placed)
        elif isinstance(part, mbd.Servo):
            joint = _joint(part, placed, part.coordinate)
            gain = part.stiffness if part.gain is None else part.gain
            _general(actuators, part, {"joint": joint.get("name", "")}, gain)
        elif isinstance(part, mbd.Actuator):
            kind = {"torque": "angle", "force": "displacement"}.get(part.action or "")
            joint = _joint(part, placed, kind)
            _general(actuators, part, {"joint": joint.get("name", "")}, 1.0)
        elif isinstance(part, mbd.FixedTendon):
            _tendon(tendons, actuators, part, placed)
        elif isinstance(part, mbd.SpringDamper):
            _line(tendons, part, m, bodies)
        else:
            raise refusal(part, f"it has no {type(part).__name__}")
    for law in m.laws.values():
        _law(law, placed)


def _value(part: AbstractElement, field: str) -> float:
    return float(numbers(getattr(part, field), f"{part.title}: {field}"))


def _joint(
    part: AbstractJointForce | JointLimit | CoulombFriction,
    placed: dict[str, Placed],
    coordinate: str | None,
) -> ET.Element:
    """The element of a part's joint."""
    found = placed.get(part.joint.name)
    if found is None:
        raise refusal(part, f"joint {part.joint.name!r} is no hinge or slide of the file")
    return found.of(part, coordinate)


def _refuse_curved(part: AbstractElement, characteristic: object) -> None:
    if characteristic is not None:
        raise refusal(part, "its spring is not linear")


def _spring(
    part: AbstractElement, joint: ET.Element, stiffness: float, damping: float, rest: float
) -> None:
    """A spring and a damper in a joint, besides those that it has."""
    if damping:
        joint.set("damping", repr(float(joint.get("damping", "0")) + damping))
    if not stiffness:
        return
    old = float(joint.get("stiffness", "0"))
    if old and float(joint.get("springref", "0")) != rest:
        raise refusal(part, "a joint has one spring")
    joint.set("stiffness", repr(old + stiffness))
    joint.set("springref", repr(rest))


def _torsion(m: Mechanism, part: mbd.TorsionalSpringDamper, placed: dict[str, Placed]) -> None:
    """A torsional spring about the axis of a hinge."""
    _refuse_curved(part, part.torque)
    if part.actuator is not None:
        raise refusal(part, "its actuator is a function of time")
    wanted = {b if isinstance(b, str) else b.name for b in part.targets()}
    axis = np.asarray(part.axis, float) / np.linalg.norm(part.axis)
    for name, found in placed.items():
        joint = m.constraints[name]
        ends = [b if isinstance(b, str) else b.name for b in joint.targets()]
        if set(ends) != wanted or type(joint) is not mbd.Revolute:
            continue
        own = np.asarray(joint.axis, float) / np.linalg.norm(joint.axis)
        if abs(own @ axis) < 1.0 - 1e-12:
            continue
        i = part.body_i if isinstance(part.body_i, str) else part.body_i.name
        # Swapping the bodies and turning the axis round each change the sign of the angle.
        sign = np.sign(own @ axis) * (1.0 if ends[0] == i else -1.0)
        k, c, rest = (_value(part, x) for x in ("stiffness", "damping", "free_angle"))
        _spring(part, found.joints["hinge"], k, c, float(sign * rest))
        return
    raise refusal(part, "there is no hinge about its axis between its bodies")


def _friction(part: mbd.ViscousFriction, placed: dict[str, Placed]) -> None:
    """Viscous friction, in the directions that the joint leaves free."""
    found = placed.get(part.joint.name)
    if found is None:
        raise refusal(part, f"joint {part.joint.name!r} is no joint of the tree")
    if type(part.joint) is mbd.Universal:
        raise refusal(part, "the friction of a universal joint is about its cross")
    for kind, element in found.joints.items():
        c = _value(part, "translational" if kind == "slide" else "rotational")
        element.set("damping", repr(float(element.get("damping", "0")) + c))
    if type(part.joint) is mbd.Planar and _value(part, "translational"):
        raise refusal(part, "friction in a plane")


def _armature(part: mbd.Armature, placed: dict[str, Placed]) -> None:
    if type(part.joint) is mbd.Spherical:
        found = placed.get(part.joint.name)
        if found is None:
            raise refusal(part, f"joint {part.joint.name!r} is no joint of the tree")
        joint = found.joints["ball"]
    else:
        joint = _joint(part, placed, part.coordinate)
    joint.set("armature", repr(float(joint.get("armature", "0")) + _value(part, "inertia")))


def _general(
    actuators: ET.Element,
    part: mbd.Servo | mbd.Actuator | mbd.FixedTendon,
    target: dict[str, str],
    gain: Numbers,
) -> None:
    """An actuator of affine gain and bias on a joint or a tendon."""
    control = part.control
    if callable(control) or isinstance(control, str):
        raise refusal(part, "its control is a function of time")
    made = ET.SubElement(actuators, "general", {"name": part.name} | target)
    made.set("gainprm", texts(numbers(gain, f"{part.title}: gain")))
    if isinstance(part, mbd.Servo):
        _activated(made, part, gain)
    if isinstance(part, mbd.Servo | mbd.FixedTendon):
        made.set("biastype", "affine")
        bias = (_value(part, "offset"), -_value(part, "stiffness"), -_value(part, "damping"))
        made.set("biasprm", texts(bias))
        for field, name in (("control_range", "ctrl"), ("effort_range", "force")):
            limits = getattr(part, field)
            if limits is not None:
                made.set(f"{name}range", texts(numbers(limits, f"{part.title}: {field}")))
                made.set(f"{name}limited", "true")
    made.set("_control", repr(float(numbers(control, f"{part.title}: control"))))


def _activated(made: ET.Element, servo: mbd.Servo, gain: Numbers) -> None:
    """What a servo has besides an affine law: an activation, and a gain that depends on motion."""
    slopes = [
        0.0 if getattr(servo, x) is None else -_value(servo, x)
        for x in ("stiffness_gain", "damping_gain")
    ]
    if any(slopes):
        made.set("gaintype", "affine")
        made.set("gainprm", texts([numbers(gain, f"{servo.title}: gain"), *slopes]))
    if servo.activation is None:
        return
    lags = servo.activation == LAG
    made.set("dyntype", "filter" if lags else "integrator")
    if lags:
        made.set("dynprm", texts([_value(servo, "time_constant")]))
    if servo.activation_range is not None:
        limits = numbers(servo.activation_range, f"{servo.title}: activation_range")
        made.attrib |= {"actlimited": "true", "actrange": texts(limits)}
    begin = 0.0 if servo.initial_activation is None else _value(servo, "initial_activation")
    made.set("_activation", repr(begin))


def _tendon(
    tendons: ET.Element, actuators: ET.Element, part: mbd.FixedTendon, placed: dict[str, Placed]
) -> None:
    """A fixed tendon; with a motor its spring is the motor's."""
    made = ET.SubElement(tendons, "fixed", name=part.name)
    for joint, c in zip(part.joints, numbers(part.coefficients, part.title), strict=True):
        found = placed.get(joint.name)
        if found is None:
            raise refusal(part, f"joint {joint.name!r} is no hinge or slide of the file")
        label = found.of(part, None).get("name", "")
        ET.SubElement(made, "joint", joint=label, coef=repr(float(c)))
    k, reference = _value(part, "stiffness"), _value(part, "reference")
    if part.control is None and not _value(part, "offset") and part.effort_range is None:
        made.set("stiffness", repr(k))
        made.set("damping", repr(_value(part, "damping")))
        if k:
            made.set("springlength", texts([reference, reference]))
        return
    if reference and k:
        raise refusal(part, "a driven tendon with a reference; give offset instead")
    driven = part if part.control is not None else dataclasses.replace(part, control=0.0)
    _general(actuators, driven, {"tendon": part.name}, part.gain)


def _line(
    tendons: ET.Element, part: mbd.SpringDamper, m: Mechanism, bodies: dict[str, ET.Element]
) -> None:
    """A spring between two points as a spatial tendon."""
    _refuse_curved(part, part.force)
    if part.only is not None:
        raise refusal(part, f"it acts only in {part.only}")
    if part.actuator is not None:
        raise refusal(part, "its actuator is a function of time")
    made = ET.SubElement(tendons, "spatial", name=part.name)
    points = [numbers(x, part.title) for x in (part.point_i, part.point_j)]
    for k, (target, point) in enumerate(zip(part.targets(), points, strict=True)):
        name = target if isinstance(target, str) else target.name
        if name not in bodies:
            raise refusal(part, "it acts on a link without inertia")
        body = m.ground if name == "ground" else m.bodies[name]
        site = f"{part.name} end {k + 1}"
        ET.SubElement(bodies[name], "site", name=site, pos=texts(body.point(host.asarray(point))))
        ET.SubElement(made, "site", site=site)
    free = part.free_length
    free = np.linalg.norm(points[1] - points[0]) if free is None else numbers(free, part.title)
    made.set("stiffness", repr(_value(part, "stiffness")))
    made.set("damping", repr(_value(part, "damping")))
    made.set("springlength", texts([free, free]))


def _law(law: AbstractLawDescription, placed: dict[str, Placed]) -> None:
    if isinstance(law, JointLimit) and not (law.gives_way or np.any(law.restitution)):
        lower, upper = law.lower, law.upper
        if lower is not None and upper is not None:
            joint = _joint(law, placed, law.coordinate)
            joint.attrib |= {"limited": "true", "range": texts([lower, upper])}
            return
    if isinstance(law, CoulombFriction) and not np.any(law.friction):
        joint = _joint(law, placed, law.coordinate)
        joint.set("frictionloss", repr(_value(law, "bound")))
        return
    raise refusal(law, f"a {type(law).__name__} of this kind")
