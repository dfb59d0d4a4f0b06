"""Bodies: mass, inertia, initial pose and twist."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rotations import euler_angles, euler_parameters, so3
from ..rotations.types import Array, host, library_of
from .shapes import AbstractShape
from .state import Pose
from .validation import (
    Numbers,
    array,
    concrete,
    default_dtype,
    inertia_matrix,
    is_concrete,
    number,
    require,
    shown,
    vector,
    warn_of_degrees,
)

# A matrix farther than this from its transpose's inverse is a mistake, not a rounded rotation.
_MAX_ORTHOGONALITY_DEFECT = 0.1
_ROUNDING = 4.0  # of a matrix that is a rotation already, in units of rounding
_REST = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body as described; made by `Mechanism.add_body`.

    Attributes:
        name: Unique among the bodies of a mechanism.
        mass: [kg], or None for a body that takes part in kinematics only.
        inertia: About the mass center, body frame, (3, 3) [kg·m²], or None.
        r, A, v, omega: Initial pose and twist as in `State`.
        shape: What it looks like, or None.
        is_ground: True for the ground only.
        described: Whether v and omega were given; assembly completes those that were not.
        visuals: The shapes that it shows instead of `shape`, see `Visual`.
    """

    name: str
    mass: Array | None
    inertia: Array | None
    r: Array
    A: Array
    v: Array
    omega: Array
    shape: AbstractShape | None = None
    is_ground: bool = False
    described: tuple[bool, bool] = (True, True)
    visuals: tuple[Any, ...] = ()

    @property
    def massless(self) -> bool:
        """Whether it was described as a link without inertia of its own."""
        return (
            self.mass is not None
            and is_concrete((self.mass, self.inertia))
            and not (np.any(self.mass) or np.any(self.inertia))
        )

    @property
    def pose(self) -> Pose:
        return Pose(self.r, self.A)

    def point(self, p: Array) -> Array:
        """A point given in global components at the initial pose, in the body frame [m]."""
        return self.A.T @ (p - self.r)

    def direction(self, d: Array) -> Array:
        """A direction given in global components at the initial pose, in the body frame."""
        return self.A.T @ d


def ground() -> Body:
    """The ground: the global frame."""
    zero = host.zeros(3, default_dtype())
    return Body(
        "ground", None, None, zero, host.eye(3, dtype=zero.dtype), zero, zero, is_ground=True
    )


def make_body(
    name: str,
    *,
    mass: Numbers | None = None,
    inertia: Numbers | None = None,
    r: Numbers = (0.0, 0.0, 0.0),
    A: Numbers | None = None,
    quaternion: Numbers | None = None,
    euler: Numbers | None = None,
    v: Numbers | None = None,
    omega: Numbers | None = None,
    shape: AbstractShape | None = None,
    allow_unphysical_inertia: bool = False,
    massless: bool = False,
    visuals: Iterable[object] = (),
) -> Body:
    """Check a description and make the body; see `Mechanism.add_body`."""
    what = f"body {name!r}"
    if massless:
        if mass is not None or inertia is not None:
            raise ValueError(f"{what}: give mass and inertia, or massless=True, not both")
        mass, inertia = 0.0, (0.0, 0.0, 0.0)
    elif shape is not None:
        mass = shape.mass if mass is None else mass
        inertia = shape.inertia if inertia is None else inertia
    if (mass is None) != (inertia is None):
        raise ValueError(
            f"{what}: give both mass and inertia (or a shape), or neither for kinematics only"
        )
    matrix = None
    if mass is not None:
        mass = number(mass, f"{what}: mass")
        if not massless:
            mass = require(
                mass > 0.0,
                mass,
                f"{what}: mass must be positive, not {shown(mass)} kg; a link without inertia of "
                "its own says massless=True",
            )
        matrix = inertia_matrix(
            inertia, f"{what}: inertia", allow_unphysical=allow_unphysical_inertia
        )
    return Body(
        name,
        mass,
        matrix,
        vector(r, 3, f"{what}: r"),
        orientation(A, quaternion, euler, what),
        vector(_REST if v is None else v, 3, f"{what}: v"),
        vector(_REST if omega is None else omega, 3, f"{what}: omega"),
        shape,
        described=(v is not None, omega is not None),
        visuals=tuple(visuals),
    )


def orientation(
    A: Numbers | None, quaternion: Numbers | None, euler: Numbers | None, what: str
) -> Array:
    """A rotation matrix from one of three descriptions, projected to SO(3)."""
    if sum(x is not None for x in (A, quaternion, euler)) > 1:
        raise ValueError(f"{what}: give only one of A, quaternion and euler")
    if quaternion is not None:
        p = vector(quaternion, 4, f"{what}: quaternion")
        norm = library_of(p).linalg.norm(p)
        norm = require(norm >= 1e-6, norm, f"{what}: the zero quaternion is no rotation")
        return euler_parameters.to_matrix(p / norm)
    if euler is not None:
        angles = vector(euler, 3, f"{what}: euler")
        warn_of_degrees(angles, f"{what}: euler")
        return euler_angles.to_matrix(angles)
    if A is None:
        return host.eye(3, dtype=default_dtype())
    A = array(A, (3, 3), f"{what}: A")
    defect = abs(A.T @ A - np.eye(3, dtype=A.dtype)).max()
    det = library_of(A).linalg.det(A)
    A = require(
        (defect <= _MAX_ORTHOGONALITY_DEFECT) & (det >= 0.0),
        A,
        f"{what}: A is not a rotation matrix (|AᵀA - I| = {shown(defect)}, det = {shown(det)}); "
        "its columns are the body axes in global components, orthonormal and right-handed",
    )
    known = concrete(defect)
    if known is not None and known <= _ROUNDING * np.finfo(A.dtype).eps:
        return A  # kept to the last bit, so that a file that was written is read back as it was
    return so3.project(A)
