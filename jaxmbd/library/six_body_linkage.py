"""The six-body linkage of Betsch and Leyendecker: tetrahedra on hinges along edges of a cube."""

import numpy as np
from jaxtyping import Float

from ..model.joints import Revolute
from ..model.mechanism import Mechanism
from ..model.shapes import Tetrahedron

EDGE = 0.1  # of the cube [m]
# A point and the axis of each hinge, in edges of the cube [0, 1] x [0, 1] x [-1, 0].
HINGES = (
    ((0, 1, 0), (0, 0, -1)),
    ((1, 1, 0), (0, -1, 0)),
    ((1, 1, -1), (-1, 0, 0)),
    ((1, 0, -1), (0, 0, 1)),
    ((0, 0, -1), (0, 1, 0)),
    ((0, 0, 0), (1, 0, 0)),
)
_SPAN = np.tan(0.16 * np.pi)  # length of a tetrahedron's edge along a hinge, in edges of the cube


def six_body_linkage(*, rate: float = 30.0) -> Mechanism:
    """A closed loop of the ground and five tetrahedra on six hinges along the edges of a cube
    (Betsch and Leyendecker, section 5.4); one redundant row, one degree of freedom.

    The linkage starts at its cube, every hinge turning at the same rate, which the loop allows
    there. With θ₁ and θ₂ the turns of the first two hinges from the cube, it moves with
    (1 - sin θ₁) (1 + sin θ₂) = 1.

    Args:
        rate: Of the hinges at the start [rad/s].
    """
    m = Mechanism("six_body_linkage")
    omega, v, last = np.zeros(3), np.zeros(3), _hinge(0)[0]
    for k in range(1, 6):
        point, axis = _hinge(k - 1)
        v = v + np.cross(omega, point - last)  # of the point of hinge k
        last, omega = point, omega + rate * axis
        corners = _corners(k)
        center = np.mean(corners, axis=0)
        m.add_body(
            f"body_{k}",
            shape=Tetrahedron(corners - center, density=1000.0),
            r=center,
            omega=omega,
            v=v + np.cross(omega, center - last),
        )
        before = m.ground if k == 1 else f"body_{k - 1}"
        m.add(Revolute(f"hinge_{k}", before, f"body_{k}", point=point, axis=axis))
    point, axis = _hinge(5)
    m.add(Revolute("hinge_6", "body_5", m.ground, point=point, axis=axis))
    return m


def _hinge(k: int) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
    point, axis = HINGES[k]
    return EDGE * np.array(point, float), np.array(axis, float)


def _corners(k: int) -> Float[np.ndarray, "4 3"]:
    """The ends of body k's two edges, which lie along its hinges."""
    ends = []
    for point, axis in (_hinge(k - 1), _hinge(k)):
        ends += [point, point + _SPAN * EDGE * axis]
    return np.array(ends)
