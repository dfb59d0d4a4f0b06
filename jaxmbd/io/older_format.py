"""The model format of the paper's codes: bodies by number, constraints as single primitives.

Bodies have `id, name, r, r_dot, A, omega`, constraints `type` DP1, DP2, D or CD with `a_bar_i,
a_bar_j, s_bar_p_i, s_bar_q_j, c` as the type needs, and `f` (with `f_dot, f_ddot`) as strings in t.
The ground is the body with the name "ground" or the id 0, and has nothing else. Masses are absent
there: `mass`, `inertia` and `gravity` are accepted as extensions; without them only kinematics is
possible.
"""

from typing import Annotated, Literal, Union

import jax.numpy as jnp
import numpy as np
from pydantic import BeforeValidator, Field, StrictInt, StrictStr

from .. import model
from ..model.expressions import Expression, shown, time_function
from ..model.mechanism import Mechanism
from ..model.motions import jet
from .schema_values import Inertia, Mat3, Name, Number, PlainFunction, Strict, Vec3

_OUR_NAMES = {
    "a_bar_i": "a_i_bar",
    "a_bar_j": "a_j_bar",
    "s_bar_p_i": "s_i_bar",
    "s_bar_q_j": "s_j_bar",
    "c": "c",
}
_INSTANTS = (0.13, 0.71, 1.37)  # at which given derivatives are compared [s]
_REST = [0.0, 0.0, 0.0]
_GROUND = {
    "r": _REST,
    "A": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "r_dot": _REST,
    "omega": _REST,
}


def _checked_id(value: object) -> int | str:
    if type(value) is not int and type(value) is not str:
        raise ValueError(f"must be an integer or a string, not {shown(value)}")
    return value


Id = Annotated[Union[StrictInt, StrictStr], BeforeValidator(_checked_id)]


class OlderBody(Strict):
    """A body; all but `name` and `id` is absent on the ground."""

    name: Name
    id: Id
    r: Vec3 | None = None
    A: Mat3 | None = None
    r_dot: Vec3 | None = None
    omega: Vec3 | None = None
    mass: Number | None = None
    inertia: Inertia | None = None
    comment: str | None = None


class OlderConstraint(Strict):
    """What every constraint has."""

    name: Name | None = None
    body_i: Id
    body_j: Id
    f: PlainFunction = 0.0
    f_dot: PlainFunction | None = None
    f_ddot: PlainFunction | None = None
    comment: str | None = None


class OlderDP1(OlderConstraint):
    type: Literal["DP1"]
    a_bar_i: Vec3
    a_bar_j: Vec3


class OlderDP2(OlderConstraint):
    type: Literal["DP2"]
    a_bar_i: Vec3
    s_bar_p_i: Vec3
    s_bar_q_j: Vec3


class OlderD(OlderConstraint):
    type: Literal["D"]
    s_bar_p_i: Vec3
    s_bar_q_j: Vec3


class OlderCD(OlderConstraint):
    type: Literal["CD"]
    c: Vec3
    s_bar_p_i: Vec3
    s_bar_q_j: Vec3


Row = Annotated[Union[OlderDP1, OlderDP2, OlderD, OlderCD], Field(discriminator="type")]


class OlderFile(Strict):
    """The whole file."""

    name: Name = "mechanism"
    description: str | None = None
    comment: str | None = None
    gravity: Vec3 = [0.0, 0.0, -9.81]
    bodies: Annotated[list[OlderBody], Field(min_length=1)]
    constraints: list[Row]


def is_older_format(data: dict) -> bool:
    """Whether a parsed file looks like the older format."""
    return "format" not in data and "constraints" in data and "bodies" in data


def read_older_format(data: dict) -> tuple[Mechanism, list[str]]:
    """The mechanism, and sentences about what in the file was ignored.

    Raises:
        ValueError: A part makes no sense; the message names it.
    """
    file = OlderFile.model_validate(data)
    m = Mechanism(file.name, gravity=file.gravity)
    names: dict[int | str, str] = {}
    for body in file.bodies:
        if body.id in names:
            raise ValueError(
                f"body {body.name!r}: the id {shown(body.id)} is taken by {names[body.id]!r}"
            )
        if body.name == "ground" or body.id == 0:
            _check_ground(body)
            names[body.id] = "ground"
        else:
            names[body.id] = body.name
            _add_body(m, body)
    names.setdefault(0, "ground")
    names.setdefault("ground", "ground")
    used: dict[str, int] = {}
    remarks: list[str] = []
    for k, row in enumerate(file.constraints):
        name = row.name or f"constraint {k + 1}"
        used[name] = used.get(name, 0) + 1
        unique = (
            name if used[name] == 1 else f"{name} ({used[name]})"
        )  # names need not be unique there
        m.add(_constraint(row, unique, names))
        remarks += _wrong_derivatives(row, f"constraint {unique!r}")
    return m, remarks


def _check_ground(body: OlderBody) -> None:
    moved = [key for key, value in _GROUND.items() if getattr(body, key) not in (None, value)]
    moved += [key for key in ("mass", "inertia") if getattr(body, key) is not None]
    if moved:
        what = (
            "the ground" if body.name == "ground" else "the body with the id 0 is the ground, which"
        )
        raise ValueError(
            f"body {body.name!r}: {what} does not move and has no mass; leave out "
            f"{', '.join(moved)}"
        )


def _add_body(m: Mechanism, body: OlderBody) -> None:
    for key in ("r", "A"):
        if getattr(body, key) is None:
            raise ValueError(f"body {body.name!r}: the field {key!r} is missing")
    assert body.r is not None
    m.add_body(
        body.name,
        mass=body.mass,
        inertia=body.inertia,
        r=body.r,
        A=body.A,
        v=body.r_dot,
        omega=body.omega,
        # The published inertias violate the triangle inequality, and this format is theirs.
        allow_unphysical_inertia=True,
    )


def _constraint(row: Row, name: str, names: dict[int | str, str]) -> model.Constraint:
    bodies = []
    for key in ("body_i", "body_j"):
        number = getattr(row, key)
        if number not in names:
            raise ValueError(
                f"constraint {name!r}: {key} is {shown(number)}, but no body has that id"
            )
        bodies.append(names[number])
    vectors = {
        ours: getattr(row, theirs) for theirs, ours in _OUR_NAMES.items() if hasattr(row, theirs)
    }
    primitive = getattr(model, row.type)(**vectors, f=time_function(row.f))
    return model.Constraint(name, *bodies, primitives=[primitive])


def _wrong_derivatives(row: Row, what: str) -> list[str]:
    """Derivatives are taken by JAX; those in the file are only checked, because some published ones
    are wrong.
    """
    f, remarks = time_function(row.f), []
    ts = [jnp.asarray(t) for t in _INSTANTS]
    for key, order in (("f_dot", 1), ("f_ddot", 2)):
        value = getattr(row, key)
        if value is None:
            continue
        given = time_function(value)
        theirs = [given(t) for t in ts] if isinstance(given, Expression) else [given] * len(ts)
        ours = [jet(f, t)[order] for t in ts] if isinstance(f, Expression) else [0.0] * len(ts)
        if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-6, equal_nan=True):
            remarks.append(
                f"{what}: {key} = {shown(value)} is not the derivative of f = {shown(row.f)}; it "
                "is ignored, and JAX takes the derivatives"
            )
    return remarks
