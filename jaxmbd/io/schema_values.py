"""Values in model files: numbers, vectors, functions of time, and inputs, checked by pydantic."""

from typing import Annotated, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from ..model.expressions import Expression

# Squares and fourth powers of such numbers are finite in double precision, and no mechanism has
# larger ones.
LARGEST = 1e60


def checked_size(value: float) -> float:
    """A number that is not absurdly large.

    Raises:
        ValueError: It is.
    """
    if abs(value) > LARGEST:
        raise ValueError(f"{value:g} is too large; numbers go up to {LARGEST:g}")
    return value


def _checked_expression(text: str) -> str:
    constant = Expression(text).constant
    if constant is not None:
        checked_size(constant)
    return text


def _number_or_text(value: object) -> str:
    return "text" if isinstance(value, str) else "number"


def _kind_of_function(value: object) -> str:
    return "an input" if isinstance(value, dict | InputFile) else _number_or_text(value)


def _parts_or_input(value: object) -> str:
    return "an input" if isinstance(value, dict | InputFile) else "parts"


def _moments_or_matrix(value: object) -> str:
    rows = value if isinstance(value, list | tuple) else []
    return "matrix" if any(isinstance(row, list | tuple) for row in rows) else "moments"


# JSON's true and "3" are no numbers.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(checked_size)]


Vec3 = Annotated[list[Number], Field(min_length=3, max_length=3)]


Vec4 = Annotated[list[Number], Field(min_length=4, max_length=4)]


Triangle = Annotated[
    list[Annotated[int, Field(strict=True, ge=0)]], Field(min_length=3, max_length=3)
]


Mat3 = Annotated[list[Vec3], Field(min_length=3, max_length=3)]


Inertia = Annotated[
    Union[Annotated[Vec3, Tag("moments")], Annotated[Mat3, Tag("matrix")]],
    Discriminator(_moments_or_matrix),
]


ExpressionText = Annotated[str, AfterValidator(_checked_expression)]


Name = Annotated[str, Field(min_length=1)]


Axis = Literal["x", "y", "z"]


class Strict(BaseModel):
    """Unknown fields are mistakes."""

    model_config = ConfigDict(extra="forbid")


class InputFile(Strict):
    """A number, or several, that whoever runs the mechanism gives by name."""

    input: Name
    size: Annotated[int, Field(strict=True, ge=1)] | None = None
    unit: str = "-"
    default: Number | None = None


PlainFunction = Annotated[
    Union[Annotated[Number, Tag("number")], Annotated[ExpressionText, Tag("text")]],
    Discriminator(_number_or_text),
]


TimeFunction = Annotated[
    Union[
        Annotated[Number, Tag("number")],
        Annotated[ExpressionText, Tag("text")],
        Annotated[InputFile, Tag("an input")],
    ],
    Discriminator(_kind_of_function),
]


Load = Annotated[
    Union[
        Annotated[Annotated[list[PlainFunction], Field(min_length=3, max_length=3)], Tag("parts")],
        Annotated[InputFile, Tag("an input")],
    ],
    Discriminator(_parts_or_input),
]
