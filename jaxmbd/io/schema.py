"""The model file format "jaxmbd-1": its fields, checked by pydantic; the published JSON Schema comes from here."""

from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, StrictBool, Tag

from .expressions import Expression

# Squares and fourth powers of such numbers are finite in double precision, and no mechanism has larger ones.
LARGEST = 1e60


def _checked_size(value: float) -> float:
    if abs(value) > LARGEST:
        raise ValueError(f"{value:g} is too large; numbers go up to {LARGEST:g}")
    return value


def _checked_expression(text: str) -> str:
    constant = Expression(text).constant
    if constant is not None:
        _checked_size(constant)
    return text


def _number_or_text(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _moments_or_matrix(value: Any) -> str:
    rows = value if isinstance(value, list | tuple) else []
    return "matrix" if any(isinstance(row, list | tuple) for row in rows) else "moments"


# JSON's true and "3" are no numbers.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_checked_size)]
Vec3 = Annotated[list[Number], Field(min_length=3, max_length=3)]
Vec4 = Annotated[list[Number], Field(min_length=4, max_length=4)]
Mat3 = Annotated[list[Vec3], Field(min_length=3, max_length=3)]
Inertia = Annotated[
    Union[Annotated[Vec3, Tag("moments")], Annotated[Mat3, Tag("matrix")]], Discriminator(_moments_or_matrix)
]
ExpressionText = Annotated[str, AfterValidator(_checked_expression)]
TimeFunction = Annotated[
    Union[Annotated[Number, Tag("number")], Annotated[ExpressionText, Tag("text")]], Discriminator(_number_or_text)
]
Load = Annotated[list[TimeFunction], Field(min_length=3, max_length=3)]
Name = Annotated[str, Field(min_length=1)]
Axis = Literal["x", "y", "z"]
Frame = Literal["global", "body"]


class Strict(BaseModel):
    """Unknown fields are mistakes."""

    model_config = ConfigDict(extra="forbid")


# --- shapes ---


class BoxFile(Strict):
    type: Literal["Box"]
    size: Vec3
    mass: Number | None = None
    density: Number | None = None


class RodFile(Strict):
    type: Literal["Rod"]
    length: Number
    mass: Number
    axis: Axis = "x"


class CylinderFile(Strict):
    type: Literal["Cylinder"]
    radius: Number
    length: Number
    mass: Number | None = None
    density: Number | None = None
    axis: Axis = "z"


class HollowCylinderFile(Strict):
    type: Literal["HollowCylinder"]
    inner_radius: Number
    radius: Number
    length: Number
    mass: Number | None = None
    density: Number | None = None
    axis: Axis = "z"


class SphereFile(Strict):
    type: Literal["Sphere"]
    radius: Number
    mass: Number | None = None
    density: Number | None = None


class ConeFile(Strict):
    type: Literal["Cone"]
    radius: Number
    height: Number
    mass: Number | None = None
    density: Number | None = None
    axis: Axis = "z"


SimpleShape = Annotated[
    Union[BoxFile, RodFile, CylinderFile, HollowCylinderFile, SphereFile, ConeFile], Field(discriminator="type")
]


class CompositePart(Strict):
    shape: SimpleShape
    position: Vec3
    A: Mat3 | None = None


class CompositeFile(Strict):
    type: Literal["Composite"]
    parts: Annotated[list[CompositePart], Field(min_length=1)]


ShapeFile = Annotated[
    Union[BoxFile, RodFile, CylinderFile, HollowCylinderFile, SphereFile, ConeFile, CompositeFile],
    Field(discriminator="type"),
]

# --- bodies ---


class BodyFile(Strict):
    """A body; lengths in m, masses in kg, angles in rad. `r` and `v` are global, `omega` is in the body frame.

    Where `v` or `omega` is left out, assembly finds it.
    """

    name: Name
    mass: Number | None = None
    inertia: Inertia | None = None
    shape: ShapeFile | None = None
    r: Vec3 = [0.0, 0.0, 0.0]
    A: Mat3 | None = None
    quaternion: Vec4 | None = None
    euler: Vec3 | None = None
    v: Vec3 | None = None
    omega: Vec3 | None = None
    allow_unphysical_inertia: StrictBool = False
    comment: str | None = None


# --- joints and drivers ---


class PairFile(Strict):
    name: Name
    body_i: Name
    body_j: Name
    comment: str | None = None


class PointJoint(PairFile):
    type: Literal["Spherical", "Fixed"]
    point: Vec3


class AxisJoint(PairFile):
    type: Literal["Revolute", "Cylindrical", "Translational", "Planar", "PointOnLine"]
    point: Vec3
    axis: Vec3


class UniversalFile(PairFile):
    type: Literal["Universal"]
    point: Vec3
    axis_i: Vec3
    axis_j: Vec3


class DistanceFile(PairFile):
    type: Literal["Distance"]
    point_i: Vec3
    point_j: Vec3
    length: TimeFunction | None = None


class DP1File(Strict):
    type: Literal["DP1"]
    a_i_bar: Vec3
    a_j_bar: Vec3
    f: TimeFunction = 0.0


class DP2File(Strict):
    type: Literal["DP2"]
    a_i_bar: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    f: TimeFunction = 0.0


class DFile(Strict):
    type: Literal["D"]
    s_i_bar: Vec3
    s_j_bar: Vec3
    f: TimeFunction


class CDFile(Strict):
    type: Literal["CD"]
    c: Vec3
    s_i_bar: Vec3
    s_j_bar: Vec3
    f: TimeFunction = 0.0


PrimitiveFile = Annotated[Union[DP1File, DP2File, DFile, CDFile], Field(discriminator="type")]


class ConstraintFile(PairFile):
    """Primitives used directly; their vectors are in the body frames."""

    type: Literal["Constraint"]
    primitives: Annotated[list[PrimitiveFile], Field(min_length=1)]
    point_j_bar: Vec3 | None = None


class RotationDriverFile(PairFile):
    type: Literal["RotationDriver"]
    axis: Vec3
    angle: TimeFunction
    point: Vec3 | None = None


class TranslationDriverFile(PairFile):
    type: Literal["TranslationDriver"]
    axis: Vec3
    displacement: TimeFunction
    point: Vec3 | None = None


class DistanceDriverFile(PairFile):
    type: Literal["DistanceDriver"]
    point_i: Vec3
    point_j: Vec3
    length: TimeFunction


class PoseDriverFile(PairFile):
    type: Literal["PoseDriver"]
    displacement: Load
    rotation: Load
    point: Vec3 | None = None


JointFile = Annotated[
    Union[
        PointJoint,
        AxisJoint,
        UniversalFile,
        DistanceFile,
        ConstraintFile,
        RotationDriverFile,
        TranslationDriverFile,
        DistanceDriverFile,
        PoseDriverFile,
    ],
    Field(discriminator="type"),
]

# --- forces ---


class SpringDamperFile(PairFile):
    type: Literal["SpringDamper"]
    point_i: Vec3
    point_j: Vec3
    stiffness: Number = 0.0
    damping: Number = 0.0
    free_length: Number | None = None
    actuator: TimeFunction | None = None


class TorsionalSpringDamperFile(PairFile):
    type: Literal["TorsionalSpringDamper"]
    axis: Vec3
    stiffness: Number = 0.0
    damping: Number = 0.0
    free_angle: Number = 0.0
    actuator: TimeFunction | None = None


class PointForceFile(Strict):
    type: Literal["PointForce"]
    name: Name
    body: Name
    force: Load
    point: Vec3 | None = None
    frame: Frame = "global"
    comment: str | None = None


class TorqueFile(Strict):
    type: Literal["Torque"]
    name: Name
    body: Name
    torque: Load
    frame: Frame = "global"
    comment: str | None = None


class ViscousFrictionFile(Strict):
    type: Literal["ViscousFriction"]
    name: Name
    joint: Name
    rotational: Number = 0.0
    translational: Number = 0.0
    comment: str | None = None


class ActuatorFile(Strict):
    type: Literal["Actuator"]
    name: Name
    joint: Name
    control: TimeFunction = 0.0
    action: Literal["torque", "force"] | None = None
    comment: str | None = None


ForceFile = Annotated[
    Union[SpringDamperFile, TorsionalSpringDamperFile, PointForceFile, TorqueFile, ViscousFrictionFile, ActuatorFile],
    Field(discriminator="type"),
]


class MechanismFile(Strict):
    """A mechanism; points and axes of joints and forces are global components at the initial pose."""

    model_config = ConfigDict(extra="forbid", title="jaxmbd-1 mechanism")

    format: Literal["jaxmbd-1"]
    name: Name
    description: str | None = None
    gravity: Vec3 = [0.0, 0.0, -9.81]
    bodies: Annotated[list[BodyFile], Field(min_length=1)]
    joints: list[JointFile] = []
    drivers: list[JointFile] = []
    forces: list[ForceFile] = []


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the format."""
    schema = MechanismFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
