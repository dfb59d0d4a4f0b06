"""The model file format "jaxmbd-1", checked by pydantic; the published JSON Schema comes from here.

Bodies are written out; joints, drivers, forces, primitives and shapes are what their classes
declare.
"""

import dataclasses
import functools
import inspect
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    Tag,
    create_model,
)

from ..model.beams import Beam
from ..model.elements import AbstractElement, kinds
from ..model.expressions import shown
from ..model.forces import AbstractForceDescription
from ..model.frames import Frame
from ..model.given import Kind, Spec, primitive_specs, specs, summary
from ..model.joints import AbstractRelation
from ..model.laws import AbstractLawDescription
from ..model.primitives import primitives
from ..model.sensors import AbstractSensor
from ..model.shapes import AbstractShape, Composite, shape_kinds
from .event_files import EventFile
from .schema_values import (
    Axis,
    Inertia,
    InputFile,
    Load,
    Mat3,
    Name,
    Number,
    Strict,
    TimeFunction,
    Triangle,
    Vec3,
    Vec4,
    checked_size,
)

# --- shapes ---


class CylinderFile(Strict):
    """A `HollowCylinder` without a bore."""

    type: Literal["Cylinder"]
    radius: Number
    length: Number
    mass: Number | None = None
    density: Number | None = None
    axis: Axis = "z"


# --- bodies ---


class _Body(Strict):
    """A body; lengths in m, masses in kg, angles in rad. `r` and `v` are global, `omega` is in the
    body frame.

    Where `v` or `omega` is left out, assembly finds it.
    """

    name: Name
    mass: Number | None = None
    inertia: Inertia | None = None
    massless: StrictBool = False
    r: Vec3 = [0.0, 0.0, 0.0]
    A: Mat3 | None = None
    quaternion: Vec4 | None = None
    euler: Vec3 | None = None
    v: Vec3 | None = None
    omega: Vec3 | None = None
    allow_unphysical_inertia: StrictBool = False
    comment: str | None = None


# --- beams ---


def _one_or_two(value: object) -> str:
    return "two" if isinstance(value, list | tuple) else "one"


Pair = Annotated[
    Union[
        Annotated[Number, Tag("one")],
        Annotated[list[Number], Field(min_length=2, max_length=2), Tag("two")],
    ],
    Discriminator(_one_or_two),
]


class SectionFile(Strict):
    """A section: moduli in Pa, area in m², second moments about y and z and the torsion constant in
    m⁴, density in kg/m³, shear correction factors along y and z.
    """

    E: Number
    G: Number
    A: Number
    I: Pair  # noqa: E741
    J: Number
    rho: Number
    shear: Pair = 1.0


# --- elements: joints, drivers, forces and primitives, as their classes declare them ---


def _checked_numbers(value: object) -> Any:
    if isinstance(value, list):
        return [_checked_numbers(x) for x in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number or lists of numbers, not {shown(value)}")
    return checked_size(float(value))


_ANNOTATIONS: dict[Kind, Any] = {
    Kind.BODY: Name,
    Kind.BODIES: list[Name],
    Kind.JOINT: Name,
    Kind.JOINTS: Annotated[list[Name], Field(min_length=1)],
    Kind.VECTOR: Vec3,
    Kind.NUMBER: Number,
    Kind.NUMBERS: Annotated[Any, AfterValidator(_checked_numbers)],
    Kind.FLAG: StrictBool,
    Kind.SWITCH: StrictBool | InputFile,
    Kind.MOTION: TimeFunction,
    Kind.VALUE: TimeFunction,
    Kind.LOAD: Load,
    Kind.CHARACTERISTIC: Annotated[
        list[Annotated[list[Number], Field(min_length=2)]], Field(min_length=2, max_length=2)
    ],
    Kind.CURVE: Annotated[list[Load], Field(min_length=2)] | Load,
}


def _annotation(spec: Spec) -> Any:
    if spec.kind is Kind.CHOICE:
        return Literal[spec.options]
    if spec.kind in (Kind.POINTS, Kind.TRIANGLES):
        least, most = spec.lengths
        of = Vec3 if spec.kind is Kind.POINTS else Triangle
        return Annotated[list[of], Field(min_length=least, max_length=most)]
    if spec.kind is Kind.PRIMITIVES:
        return Annotated[list[_tagged(_primitive_files())], Field(min_length=1)]
    return _ANNOTATIONS[spec.kind]


def _fields(specs: dict[str, tuple[Spec, dataclasses.Field]]) -> dict[str, Any]:
    """Declared fields as those of a pydantic model."""
    fields = {}
    for name, (spec, field) in specs.items():
        annotation = _annotation(spec)
        if field.default is dataclasses.MISSING:
            fields[name] = (annotation, ...)
        elif field.default is None:
            fields[name] = (annotation | None, None)
        else:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            fields[name] = (annotation, default)
    return fields


def _beam_file() -> type[BaseModel]:
    """Beams have no types; their nodes "NAME.0", ... may be named where bodies are."""
    return create_model(
        "BeamFile",
        __base__=_Named,
        __doc__=summary(Beam),
        section=(SectionFile, ...),
        elements=(StrictInt | None, None),
        **_fields(specs(Beam)),
    )


def _tagged(models: list[type[BaseModel]]) -> Any:
    """One of several models, told apart by their type."""
    return (
        Annotated[Union[tuple(models)], Field(discriminator="type")]
        if len(models) > 1
        else models[0]
    )


def _optional(annotation: Any) -> tuple[Any, None]:
    """A field that may be left out."""
    return annotation | None, None


def _any_shape() -> Any:
    """One of the shapes that are known now; composites hold no composites."""
    found = [_shape_file(cls) for cls in shape_kinds().values() if cls.declared()]
    simple = _tagged([CylinderFile, *found])
    part: Any = create_model(
        "CompositePart",
        __base__=Strict,
        shape=(simple, ...),
        position=(Vec3, ...),
        A=(Mat3 | None, None),
    )
    parts: Any = Annotated[list[part], Field(min_length=1)]
    composite = create_model(
        "CompositeFile",
        __base__=Strict,
        __doc__=summary(Composite),
        type=(Literal["Composite"], ...),
        parts=(parts, ...),
    )
    return _tagged([CylinderFile, *found, composite])


def _shape_file(cls: type[AbstractShape]) -> type[BaseModel]:
    """A shape by the fields that its class declares, and what its constructor takes for a mass."""
    taken = inspect.signature(cls).parameters
    masses: dict[str, Any] = {
        name: (Number, ...) if taken[name].default is inspect.Parameter.empty else _optional(Number)
        for name in ("mass", "density")
        if name in taken
    }
    return _file_of(cls, cls.declared(), Strict, masses)


def _body_file() -> type[BaseModel]:
    shape = _any_shape()
    color = Annotated[list[Number], Field(min_length=3, max_length=4)]
    visual: Any = create_model(
        "VisualFile",
        __base__=Strict,
        __doc__="A shape that a body shows, in the body frame; its mass does not count.",
        shape=(shape, ...),
        position=(Vec3, [0.0, 0.0, 0.0]),
        A=(Mat3 | None, None),
        color=_optional(color),
    )
    return create_model(
        "BodyFile",
        __base__=_Body,
        __doc__=_Body.__doc__,
        shape=_optional(shape),
        visuals=(list[visual], []),  # pyright: ignore[reportInvalidTypeForm]
    )


def _primitive_files() -> list[type[BaseModel]]:
    found = [cls for cls in primitives().values() if cls.in_files]
    return [_file_of(cls, primitive_specs(cls), Strict) for cls in found]


def _element_files(base: type) -> list[type[BaseModel]]:
    found = [cls for cls in kinds(base).values() if cls.in_files]
    return [_file_of(cls, specs(cls), _Named) for cls in found]


def _file_of(
    cls: type,
    declared: dict[str, tuple[Spec, dataclasses.Field]],
    base: type[BaseModel],
    more: dict[str, Any] | None = None,
) -> type[BaseModel]:
    # Elements come and go in a session; pydantic's model follows the class that has the name now.
    tag: dict[str, Any] = {"type": (Literal[cls.__name__], ...)}
    return create_model(
        f"{cls.__name__}File",
        __base__=base,
        __doc__=summary(cls),
        **tag,
        **_fields(declared),
        **(more or {}),
    )


class _Named(Strict):
    name: Name
    comment: str | None = None


class _Mechanism(Strict):
    """A mechanism; points and axes of joints and forces are global components at the initial
    pose.
    """

    model_config = ConfigDict(extra="forbid", title="jaxmbd-1 mechanism")

    format: Literal["jaxmbd-1"]
    name: Name
    description: str | None = None
    gravity: Vec3 = [0.0, 0.0, -9.81]


def mechanism_file() -> type[BaseModel]:
    """The format with every joint, driver, force, primitive and shape that is known now, those of
    users included.
    """
    known = kinds(AbstractElement), primitives(), shape_kinds()
    return _mechanism_file(*(tuple(found.values()) for found in known))


@functools.lru_cache(maxsize=8)
def _mechanism_file(*known: tuple[type, ...]) -> type[BaseModel]:
    bases = (
        AbstractRelation,
        AbstractForceDescription,
        AbstractLawDescription,
        Frame,
        AbstractSensor,
    )
    joints, forces, laws, frames, sensors = (list[_tagged(_element_files(x))] for x in bases)
    body: Any = _body_file()
    beam: Any = _beam_file()
    return create_model(
        "MechanismFile",
        __base__=_Mechanism,
        __doc__=_Mechanism.__doc__,
        bodies=(list[body], ...),  # pyright: ignore[reportInvalidTypeForm]
        joints=(joints, []),
        drivers=(joints, []),
        forces=(forces, []),
        laws=(laws, []),
        frames=(frames, []),
        sensors=(sensors, []),
        beams=(list[beam], []),  # pyright: ignore[reportInvalidTypeForm]
        events=(list[EventFile], []),
    )


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the format."""
    schema = mechanism_file().model_json_schema()
    for described in (schema, *schema["$defs"].values()):
        if "description" in described:
            paragraphs = described["description"].split("\n\n")
            described["description"] = "\n\n".join(" ".join(p.split()) for p in paragraphs)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
