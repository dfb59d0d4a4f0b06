"""What a scene is made of: nodes with surfaces, and the camera that sees them."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from .meshes import Surface

LOOK = (22.0, -55.0)  # elevation and azimuth of the camera [degrees]
_FOV = 35.0  # of the camera, from top to bottom [degrees]


@dataclass(frozen=True)
class Part:
    """A surface with its look.

    Attributes:
        mesh: In the frame of its node.
        color: As six hexadecimal digits.
        opacity: 1 for solid.
        metal: Whether it shines as metal does.
    """

    mesh: Surface
    color: str
    opacity: float = 1.0
    metal: bool = False


@dataclass
class Node:
    """A frame with parts.

    Attributes:
        name: Of what is drawn.
        kind: "body", "ground", "joint", "spring", "link", "gap", "frame" or "ghost".
        parts: Surfaces in its frame.
        of: Index of the body that carries it, nb for the ground; None for a frame of its own.
        r, A: Its frame in the body that carries it, or in space.
        motion: Positions (T, 3), rotation matrices (T, 3, 3) and lengths along z (T,) or None, of a
            frame that moves in space.
        extras: What a viewer should know of it.
    """

    name: str
    kind: str
    parts: list[Part] = field(default_factory=list)
    of: int | None = None
    r: np.ndarray = field(default_factory=lambda: np.zeros(3))
    A: np.ndarray = field(default_factory=lambda: np.eye(3))
    motion: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """What a view shows.

    Attributes:
        name: Of the mechanism.
        t: Instants (T,) [s].
        nodes: The bodies first, in their order, then the ground, then everything else.
        up: The unit vector that points up.
        middle: Center of what is drawn [m].
        half: Half the edge of a cube that holds the mechanism [m]; the whole motion, unless it
            travels far.
        outermost: Points that a camera must see, (n, 3) [m].
        reach: Half the edge of a cube that holds the whole motion [m].
        lowest: The lowest height that is drawn, along `up` [m].
        size: Of a joint [m].
    """

    name: str
    t: np.ndarray
    nodes: list[Node]
    up: np.ndarray
    middle: np.ndarray
    half: float
    outermost: np.ndarray
    reach: float
    lowest: float
    size: float


def quaternions(A: np.ndarray) -> np.ndarray:
    """Unit quaternions (x, y, z, w) of rotation matrices (T, 3, 3), each on the side of the one
    before it.
    """
    q = Rotation.from_matrix(A).as_quat()
    flips = np.sign(np.sum(q[1:] * q[:-1], axis=1))
    return q * np.concatenate([[1.0], np.cumprod(np.where(flips == 0.0, 1.0, flips))])[:, None]


def look(scene: Scene, elevation: float, azimuth: float) -> dict[str, Any]:
    """A camera: the direction from what it looks at, target and up, in global components. How far
    away it sees everything depends on the window.
    """
    up = scene.up
    k = int(np.argmax(np.abs(up)))
    side, front = np.eye(3)[(k + 1) % 3], np.eye(3)[(k + 2) % 3]
    # From exactly above, the way up in the picture would have no direction.
    rise, turn = math.radians(min(max(elevation, -89.9), 89.9)), math.radians(azimuth)
    around = math.cos(turn) * side + math.sin(turn) * front
    away = math.cos(rise) * around + math.sin(rise) * up
    return {
        "from": away.tolist(),
        "target": scene.middle.tolist(),
        "up": up.tolist(),
        "fov": _FOV,
    }
