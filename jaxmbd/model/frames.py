"""Frames fixed on bodies: sites, tool center points, link frames."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Float

from ..rotations.types import Array, Mat3, Vec3
from . import given
from .body import Body, orientation
from .elements import AbstractElement
from .validation import default_dtype, vector


@dataclass(frozen=True, eq=False)
class Frame(AbstractElement):
    """A frame fixed on a body; `Solution.frame` returns its motion.

    Attributes:
        name: Unique among the frames of a mechanism.
        body: The body (object or name), or the ground.
        point: Its origin, global at the initial pose [m]; the mass center by default.
        A: Its orientation, global at the initial pose, (3, 3): columns are the axes of the frame;
            those of the body by default.
    """

    body: Body | str = given.body()
    point: Any = given.point(None)
    A: Any = given.numbers("-", None)

    what: ClassVar[str] = "frame"

    def targets(self) -> tuple[Body | str, ...]:
        return (self.body,)

    def on(self, body: Body, index: int) -> "FrameOnBody":
        """The frame in numbers on its body, whose index is given."""
        point = body.r if self.point is None else vector(self.point, 3, f"{self.title}: point")
        A = body.A if self.A is None else orientation(self.A, None, None, self.title)
        return FrameOnBody(body.point(point), body.A.T @ A, self.name, index)


class FrameOnBody(eqx.Module):
    """A frame as a system has it.

    Attributes:
        s_bar: Its origin in the body [m].
        A_bar: From frame to body components.
        name: As described.
        body: Index of its body, nb for the ground.
    """

    s_bar: Vec3
    A_bar: Mat3
    name: str = eqx.field(static=True)
    body: int = eqx.field(static=True)


class FrameMotion(eqx.Module):
    """The motion of a frame.

    Attributes:
        r: Position of its origin, (T, 3) [m], global.
        A: From frame to global components, (T, 3, 3).
        v: Velocity of the origin, (T, 3) [m/s], global.
        omega: Angular velocity, (T, 3) [rad/s], in the frame.
        a: Acceleration of the origin, (T, 3) [m/s²], global.
        alpha: Rate of omega, (T, 3) [rad/s²], in the frame.
    """

    r: Float[Array, "*T 3"]
    A: Float[Array, "*T 3 3"]
    v: Float[Array, "*T 3"]
    omega: Float[Array, "*T 3"]
    a: Float[Array, "*T 3"]
    alpha: Float[Array, "*T 3"]


def frame_motion(
    frame: FrameOnBody,
    xp: ModuleType,
    r: Array | np.ndarray,
    A: Array | np.ndarray,
    v: Array | np.ndarray,
    omega: Array | np.ndarray,
    a: Array | np.ndarray,
    alpha: Array | np.ndarray,
) -> FrameMotion:
    """The motion of a frame from that of its body, `xp` being NumPy or JAX's."""
    A_bar, s_bar = xp.asarray(frame.A_bar), xp.asarray(frame.s_bar)

    def spin(x: Array | np.ndarray) -> Any:
        return xp.einsum("...ij,...j->...i", A, x)

    s, w, e = spin(xp.broadcast_to(s_bar, r.shape)), spin(omega), spin(alpha)
    return FrameMotion(
        r + s,
        A @ A_bar,
        v + xp.cross(w, s),
        omega @ A_bar,
        a + xp.cross(e, s) + xp.cross(w, xp.cross(w, s)),
        alpha @ A_bar,
    )


def still(rows: int, dtype: DTypeLike | None = None) -> tuple[np.ndarray, ...]:
    """The motion of the ground: r, A, v, omega, a, alpha over some rows."""
    dtype = dtype or default_dtype()
    zero = np.zeros((rows, 3), dtype)
    return zero, np.broadcast_to(np.eye(3, dtype=dtype), (rows, 3, 3)), zero, zero, zero, zero
