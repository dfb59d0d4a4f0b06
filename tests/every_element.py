"""A mechanism, and one of every kind of element for it by one number, which may be traced."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

X, Y, Z, ZERO = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
END = (1.0, 0.0, 0.0)
TURN = (0.0, 2 * np.pi)


def mechanism():
    """Two equal balls on the x axis, with a revolute and a prismatic joint to the ground."""
    m = mbd.Mechanism("of traced numbers")
    for k, name in enumerate("ab"):
        m.add_body(name, shape=mbd.Sphere(0.1, mass=1.0), r=(0.5 + k, 0.0, 0.0))
    m.add(mbd.Revolute("pin", "ground", "a", point=ZERO, axis=Y))
    m.add(mbd.Translational("slide", "ground", "b", point=ZERO, axis=X))
    return m


def three(w):
    return lambda t: jnp.stack([w * t, 0.1 * t, w * t**2])


def circle(w):
    return lambda s: w * jnp.stack([jnp.cos(s), jnp.sin(s), jnp.zeros_like(s)])


def of_bodies(kind, **fields):
    """Between the ground and body b; fields are functions of the traced number, or fixed."""
    return lambda w: kind(
        "part", "ground", "b", **{k: f(w) if callable(f) else f for k, f in fields.items()}
    )


def of_joint(kind, joint="pin", **fields):
    return lambda w: kind("part", joint, **{k: f(w) for k, f in fields.items()})


def point(w):
    return jnp.stack([0.0 * w, 0.0 * w, 0.1 * w])


def along_x(w):
    return jnp.stack([w, 0.1 * w, 0.0 * w])


def along_y(w):
    return jnp.stack([0.1 * w, w, 0.0 * w])


def along_z(w):
    return jnp.stack([0.0 * w, 0.1 * w, w])


def number(w):
    return w


def small(w):
    return 0.5 * w


def function(w):
    return lambda t: w * t


def pair(w):
    return jnp.stack([w, 2.0 * w])


def table(w):
    return [[0.0, w, 3.0 * w], [0.0, w, 2.0 * w]]


def push(w):
    return lambda pose, twist, t: (-w * twist.v, 0.0 * twist.v)


# Every kind of element by its name, some of them in several ways, with all their numbers and
# functions by one that is traced; built, never run.
ELEMENTS = {
    "Actuator": of_joint(mbd.Actuator, control=function),
    "Armature": of_joint(mbd.Armature, inertia=number),
    "Belt": of_bodies(mbd.Belt, axis_i=along_y, point_i=point, radius_i=small, radius_j=number),
    "Cam": of_bodies(mbd.Cam, curve=circle, axis=Z, point=lambda w: (2.0 * w, 0.0, 0.0)),
    "Clearance": of_bodies(
        mbd.Clearance, play=small, radius=small, point=point, friction=small, restitution=small
    ),
    "Clearance with stiffness": of_bodies(
        mbd.Clearance,
        play=small,
        radius=small,
        point=point,
        friction=small,
        slip_speed=small,
        stiffness=number,
        exponent=number,
    ),
    "Constraint": lambda w: mbd.Constraint(
        "part", "ground", "b", primitives=[mbd.CD(along_x(w), point(w), point(w), function(w))]
    ),
    "DistanceSensor": of_bodies(
        mbd.DistanceSensor, point_i=point, gain=number, bias=number, delay=number
    ),
    "Encoder": of_joint(
        mbd.Encoder,
        resolution=small,
        gain=number,
        noise_density=small,
        period=number,
        delay=number,
    ),
    "ForceTorque": of_joint(mbd.ForceTorque, gain=number, bias=number),
    "IMU": lambda w: mbd.IMU("part", "b", point=point(w), gain=w, bias=jnp.stack([w] * 6)),
    "Contact": lambda w: mbd.Contact(
        "part",
        "b",
        "ground",
        points=[END],
        radius=w,
        point=point(w),
        normal=along_z(w),
        friction=w,
        restitution=w,
    ),
    "Contact with stiffness": lambda w: mbd.Contact(
        "part",
        "b",
        "ground",
        points=[END],
        radius=w,
        point=point(w),
        normal=along_z(w),
        friction=w,
        slip_speed=w,
        stiffness=w,
        damping=w,
        exponent=w,
    ),
    "Bushing": of_bodies(
        mbd.Bushing,
        point=point,
        stiffness=lambda w: [w, 2.0 * w, w],
        rotational_stiffness=number,
        damping=number,
        rotational_damping=lambda w: [w, 2.0 * w, w],
        preload=lambda w: [w, 2.0 * w, w],
    ),
    "CoulombFriction": of_joint(mbd.CoulombFriction, bound=number, friction=small, radius=small),
    "Coupler": lambda w: mbd.Coupler("part", "pin", "slide", coefficients=pair(w)),
    "CurveContact": of_bodies(
        mbd.CurveContact, point=point, curve=circle, axis=Z, radius=small, friction=small
    ),
    "CurveContact with stiffness": of_bodies(
        mbd.CurveContact,
        point=point,
        curve=circle,
        axis=Z,
        radius=small,
        friction=small,
        slip_speed=small,
        stiffness=number,
    ),
    "CurveOnCurve": of_bodies(mbd.CurveOnCurve, curve=circle, curve_j=circle, axis=Z, closed=True),
    "Cylindrical": of_bodies(mbd.Cylindrical, point=point, axis=along_x),
    "Distance": of_bodies(mbd.Distance, point_i=point, point_j=END, length=function),
    "DistanceDriver": of_bodies(mbd.DistanceDriver, point_i=point, point_j=END, length=function),
    "Fixed": of_bodies(mbd.Fixed, point=point),
    "Frame": lambda w: mbd.Frame("part", "b", point=point(w)),
    "FixedTendon": lambda w: mbd.FixedTendon(
        "part", ["pin", "slide"], coefficients=pair(w), control=function(w), gain=w, stiffness=w
    ),
    "Gear": of_bodies(
        mbd.Gear, axis_i=along_y, point_i=point, ratio=lambda w: -w, pressure_angle=small
    ),
    "Gear, bevel": of_bodies(
        mbd.Gear,
        axis_i=Z,
        axis_j=X,
        point_i=Z,
        point_j=lambda w: jnp.stack([w, 0.0 * w, 0.0 * w]),
        ratio=lambda w: -w,
        pressure_angle=small,
    ),
    "Gear, worm": of_bodies(
        mbd.Gear,
        axis_i=Y,
        axis_j=X,
        point_i=Z,
        point_j=ZERO,
        ratio=number,
        radius_i=small,
        pressure_angle=small,
    ),
    "HydraulicCylinder": of_bodies(
        mbd.HydraulicCylinder,
        point_i=point,
        point_j=END,
        area=number,
        volume=number,
        nominal_flow=small,
        supply=number,
        opening=function,
        pressure=number,
    ),
    "JointLimit": of_joint(mbd.JointLimit, lower=lambda w: -w, upper=number, restitution=small),
    "JointLimit with stiffness": of_joint(
        mbd.JointLimit, lower=lambda w: -w, stiffness=number, damping=number, exponent=number
    ),
    "JointSpring": of_joint(mbd.JointSpring, stiffness=number, damping=number, reference=number),
    "JointSpring with a table": of_joint(mbd.JointSpring, effort=table, damping=number),
    "JointSpring, of any sign": lambda w: mbd.JointSpring(
        "part", "pin", stiffness=w, damping=w, allow_negative=True
    ),
    "KnifeEdge": of_bodies(mbd.KnifeEdge, point=point, axis=along_x),
    "Lock": lambda w: mbd.Lock("part", "pin", at=w),
    "Lock with a switch": lambda w: mbd.Lock("part", "pin", at=w, active=False),
    "SpringDamper with a switch": lambda w: mbd.SpringDamper(
        "part", "ground", "b", point_i=point(w), point_j=END, stiffness=w, active=True
    ),
    "LinearCoupling": lambda w: mbd.LinearCoupling(
        "part", ["pin", "slide"], coefficients=pair(w), length=w
    ),
    "LuGre": of_joint(
        mbd.LuGre,
        coulomb=number,
        static=lambda w: 2.0 * w,
        stribeck_rate=number,
        stiffness=number,
        micro_damping=number,
        viscous=number,
        deflection=small,
    ),
    "Maxwell": of_bodies(
        mbd.Maxwell,
        point_i=point,
        point_j=END,
        stiffness=number,
        damping=number,
        parallel_stiffness=number,
        elongation=small,
    ),
    "Motor": of_joint(mbd.Motor, command=function, gear_ratio=number, effort_limit=number),
    "Motor with a winding": of_joint(
        mbd.Motor,
        command=function,
        gear_ratio=number,
        resistance=number,
        inductance=number,
        constant=number,
        current=small,
        rotor_inertia=number,
    ),
    "Muscle": of_bodies(
        mbd.Muscle,
        point_i=point,
        point_j=END,
        excitation=function,
        max_force=number,
        optimal_length=number,
        slack_length=small,
        pennation=small,
        max_velocity=number,
        tau_activation=number,
        tau_deactivation=number,
        activation=small,
    ),
    "NoSlip": of_bodies(mbd.NoSlip, axis=Y, radius_i=small, radius_j=small, point_i=point),
    "Planar": of_bodies(mbd.Planar, point=point, axis=along_x),
    "PID": of_joint(
        mbd.PID,
        set_point=function,
        proportional=number,
        integral=number,
        derivative=number,
        filter_time=number,
        tracking_time=number,
    ),
    "PointForce": lambda w: mbd.PointForce("part", "b", force=three(w), point=point(w)),
    "PointOnCurve": of_bodies(
        mbd.PointOnCurve, curve=circle, axis=Z, point=point, offset=small, span=TURN
    ),
    "PointOnLine": of_bodies(mbd.PointOnLine, point=point, axis=along_x),
    "PointOnSurface": of_bodies(
        mbd.PointOnSurface, point=point, surface=lambda w: lambda p: p[2] - w * p[0], offset=small
    ),
    "PoseDriver": of_bodies(mbd.PoseDriver, displacement=three, rotation=three, point=point),
    "RackAndPinion": of_bodies(
        mbd.RackAndPinion, axis=along_z, along=X, radius=number, pressure_angle=small
    ),
    "Revolute": of_bodies(mbd.Revolute, point=point, axis=along_x),
    "RollingDisc": of_bodies(
        mbd.RollingDisc, point=lambda w: (0.0, 0.0, -w), axis=Y, radius=number, tyre_radius=small
    ),
    "RollingSphere": of_bodies(mbd.RollingSphere, point=lambda w: (0.0, 0.0, -w), radius=number),
    "RotationDriver": of_bodies(mbd.RotationDriver, axis=along_y, angle=function),
    "Screw": of_bodies(mbd.Screw, point=point, axis=along_x, lead=number),
    "Servo with a lag": of_joint(
        mbd.Servo,
        control=number,
        stiffness=number,
        damping_gain=small,
        activation=lambda _: "lag",
        time_constant=number,
        activation_range=pair,
    ),
    "Servo with limits": of_joint(
        mbd.Servo, control=number, stiffness=number, control_range=pair, effort_range=pair
    ),
    "Servo": of_joint(mbd.Servo, control=function, gain=number, stiffness=number, damping=number),
    "Spherical": of_bodies(mbd.Spherical, point=point),
    "SpringDamper": of_bodies(
        mbd.SpringDamper, point_i=point, point_j=END, stiffness=number, actuator=function
    ),
    "SpringDamper that only pulls": of_bodies(
        mbd.SpringDamper, point_i=point, point_j=END, stiffness=number, only="tension"
    ),
    "SpringDamper with a table": of_bodies(
        mbd.SpringDamper, point_i=point, point_j=END, force=table, only="tension"
    ),
    "SpringDamper with a function": lambda w: mbd.SpringDamper(
        "part", "ground", "b", point_i=point(w), point_j=END, force=lambda x, v: w * x + v
    ),
    "StateSpace": lambda w: mbd.StateSpace(
        "part",
        "pin",
        A=[[-w, 0.0], [1.0, -2.0 * w]],
        B=[w, 0.0],
        C=pair(w),
        D=w,
        command=function(w),
        source="rate",
        initial=pair(w),
        effort_limit=w,
    ),
    "Torque": lambda w: mbd.Torque("part", "b", torque=three(w), frame="body"),
    "TorsionalSpringDamper": of_bodies(
        mbd.TorsionalSpringDamper, axis=X, stiffness=number, free_angle=number, actuator=function
    ),
    "TorsionalSpringDamper with a table": of_bodies(
        mbd.TorsionalSpringDamper, axis=X, torque=table, free_angle=number
    ),
    "TransferFunction": of_joint(
        mbd.TransferFunction,
        numerator=pair,
        denominator=lambda w: [w, 2.0, w],
        command=function,
        effort_limit=number,
    ),
    "TranslationDriver": of_bodies(mbd.TranslationDriver, axis=along_x, displacement=function),
    "Translational": of_bodies(mbd.Translational, point=point, axis=along_x),
    "Universal": of_bodies(mbd.Universal, point=point, axis_i=Y, axis_j=Z),
    "UserForce": lambda w: mbd.UserForce("part", ["b"], push(w)),
    "ViscousFriction": of_joint(mbd.ViscousFriction, rotational=number),
}
