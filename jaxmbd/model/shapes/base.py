"""What a shape is, and what shapes share."""

import abc
import dataclasses
import inspect
import math
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from ...rotations.types import Array, Mat3, Scalar, library_of
from .. import given
from ..collision.narrow import Balls
from ..surfaces import AXES, Surface
from ..validation import Numbers, number

_KINDS: dict[str, type["AbstractShape"]] = {}


class AbstractShape(eqx.Module):
    """A homogeneous solid with its body frame at the mass center; to be derived from.

    A class says all of its shape. Fields declared with `given` are arguments of its constructor
    under the same names, beside `mass`, and `density` where it takes one: model files and their
    schema follow from them.

    Class attributes:
        looks_alone: Whether it may be described without mass, for its looks alone.
    """

    looks_alone: ClassVar[bool] = False

    mass: eqx.AbstractVar[Scalar]

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        known = _KINDS.get(cls.__name__)
        if (
            known is not None
            and known.__module__ != cls.__module__
            and known.__module__.startswith(__package__ or "")
        ):
            raise TypeError(f"{cls.__name__} is the name of a shape of jaxmbd; choose another name")
        _KINDS[cls.__name__] = cls

    @property
    @abc.abstractmethod
    def inertia(self) -> Mat3:
        """Inertia matrix about the mass center, (3, 3) [kg·m²], body frame."""

    @abc.abstractmethod
    def outline(self) -> list[np.ndarray]:
        """Polylines (k, 3) [m] in the body frame that show the shape."""

    def surface(self, faces: int) -> Surface | None:
        """Its surface in the body frame, round parts with so many faces around; None where it is
        drawn by its outline.
        """
        return None

    def balls(self) -> Balls | None:
        """Points with radii that touch on its behalf whatever has no pair of its own with it (see
        `register_pair`): corners, ends, centers; None where there are none.
        """
        return None

    @classmethod
    def declared(cls) -> dict[str, tuple[given.Spec, dataclasses.Field]]:
        """The fields that describe it in files, without its mass."""
        return given.specs(cls)

    @classmethod
    def for_looks(cls, **fields: Numbers | str) -> "AbstractShape":
        """The shape of these fields whose mass does not count."""
        make: Any = cls
        return make(**fields) if cls.looks_alone else make(**fields, mass=0.0)


def shape_kinds() -> dict[str, type[AbstractShape]]:
    """All concrete classes of shapes by name, those of users included."""
    return {name: cls for name, cls in _KINDS.items() if not inspect.isabstract(cls)}


def mass_of(
    name: str, mass: Numbers | None, density: Numbers | None, volume: Scalar | int
) -> Scalar:
    """The mass that is given, or that of the volume [m³]."""
    if (mass is None) == (density is None):
        raise ValueError(f"{name}: give either mass or density")
    return (
        number(mass, f"{name}: mass")
        if mass is not None
        else number(density, f"{name}: density") * volume
    )


def axial(axis: str, along: Scalar, across: Scalar) -> Mat3:
    """An inertia matrix by the moments about an axis and across it."""
    diagonal = [across, across, across]
    diagonal[AXES[axis]] = along
    xp = library_of(along, across)
    return xp.diag(xp.stack(diagonal))


def stacked(values: list) -> Array:
    """Numbers or arrays with a leading axis."""
    return library_of(*values).stack(values)


def axis_field(default: str) -> Any:
    """The declaration of a body axis."""
    return given.choice(*AXES, default=default, static=True)


def check_axis(name: str, axis: str) -> None:
    """Refuse what is no body axis."""
    if axis not in AXES:
        raise ValueError(f"{name}: axis must be 'x', 'y' or 'z', not {axis!r}")


# --- outlines, drawn along z and turned cyclically so that z becomes the axis ---


def turned(points: np.ndarray, axis: str) -> np.ndarray:
    """Points (n, 3) along an axis instead of z."""
    return np.roll(points, AXES[axis] - 2, axis=-1)


def circle(radius: float, z: float, axis: str, count: int = 25) -> np.ndarray:
    """A circle about an axis."""
    s = np.linspace(0.0, 2.0 * math.pi, count)
    return turned(np.stack([radius * np.cos(s), radius * np.sin(s), np.full(count, z)], 1), axis)


def side_lines(
    r0: float, z0: float, r1: float, z1: float, axis: str, count: int = 4
) -> list[np.ndarray]:
    """Straight lines between two circles about an axis."""
    lines = []
    for s in np.arange(count) * 2.0 * math.pi / count:
        c, d = math.cos(s), math.sin(s)
        lines.append(turned(np.array([[r0 * c, r0 * d, z0], [r1 * c, r1 * d, z1]]), axis))
    return lines
