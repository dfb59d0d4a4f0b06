"""What a law is: gaps that must not become negative, and velocities on which impulses act."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ...complementarity import CONTACT_ROWS
from ...rotations.types import Array, Scalar
from ..body import Body
from ..elements import AbstractElement
from ..forces.base import AbstractForce
from ..joints import AbstractConstraint
from ..stacking import each
from ..state import Pose, Twist
from ..validation import NOT_NEGATIVE, RESTITUTION, concrete, number
from .hunt_crossley import HuntCrossley

CONTACT, STOP, DRY = KINDS = "contact", "stop", "dry"  # in the order of their rows


class AbstractLaw(eqx.Module):
    """The numeric element of a law on two bodies, with n places where it acts.

    Class attributes:
        kind: CONTACT (three velocities at each place, along the normal first), STOP (one) or DRY
            (one).
    """

    kind: ClassVar[str]

    @property
    def units(self) -> tuple[str, str]:
        """Of gaps and of forces."""
        return "m", "N"

    @property
    @abc.abstractmethod
    def places(self) -> int:
        """N."""

    @abc.abstractmethod
    def gaps(self, pose: Pose) -> Float[Array, " n"]:
        """Distances that must not become negative [m] or [rad]; zero for friction, which always
        acts.

        `pose` has a leading axis over the two bodies.
        """

    def gap_size(self, length: Scalar) -> Scalar:
        """What its gaps are compared with: a mechanism's length [m], or one radian."""
        return length

    @abc.abstractmethod
    def rates(self, pose: Pose, twist: Twist) -> Float[Array, "n k"]:
        """The velocities on which the impulses act, linear in the twists; the first one is the rate
        of the gap.
        """

    def rates_along(self, frame: Pose, pose: Pose, twist: Twist) -> Float[Array, "n k"]:
        """The rates in the directions that they have at another pose, `frame`."""
        return self.rates(pose, twist)

    @property
    def holds(self) -> bool:
        """Whether `held` chooses what may touch."""
        return False

    def held(self, before: Pose, after: Pose) -> "AbstractLaw":
        """The law for a step between two poses, where what may touch is chosen once."""
        return self

    def bounces(self) -> Float[Array, " n"]:
        """Restitution at every place [-]."""
        return jnp.zeros(self.places)

    def frictions(self) -> Float[Array, " n"]:
        """Coefficient of friction of every contact [-]."""
        return jnp.zeros(self.places)

    def bound(self) -> Scalar:
        """Constant part of the bound of dry friction [N] or [N·m]."""
        return jnp.zeros(())

    def share(self) -> Scalar:
        """Dry friction per unit of the joint's force [-] or [m]."""
        return jnp.zeros(())

    def possible(self) -> Bool[Array, ""]:
        """Whether its numbers are those of a law, also where they were changed after it was built;
        the same bounds as of the fields of descriptions.
        """
        dry = jnp.concatenate([self.frictions(), jnp.stack([self.bound(), self.share()])])
        return jnp.all(NOT_NEGATIVE.hold(dry)) & jnp.all(RESTITUTION.hold(self.bounces()))


class LawStack(eqx.Module):
    """Laws of equal structure: `law` has a leading axis n, `bodies` (n, 2) are static indices.

    Attributes:
        joints: For each law the rows of the joint whose force bounds it, in the order of
            `Solution.lam`; none for the others.
    """

    law: Any
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    joints: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def kind(self) -> str:
        """CONTACT, STOP or DRY."""
        return self.law.kind

    @property
    def rows_of_place(self) -> int:
        """Velocities on which impulses act at one place."""
        return CONTACT_ROWS if self.kind == CONTACT else 1

    @property
    def places(self) -> int:
        """Of one law."""
        return self.law.places

    @property
    def index(self) -> np.ndarray:
        """Body indices, (n, 2); the ground is nb."""
        return np.array(self.bodies, int).reshape(len(self.bodies), 2)

    @property
    def members(self) -> Any:
        """The laws, with a leading axis."""
        return self.law

    def each(self, function, *args):
        """`function(law, *args of that law)` for all laws, with a leading axis of laws."""
        return each(self.law, function, *args)


@dataclass(frozen=True, eq=False)
class AbstractLawDescription(AbstractElement):
    """A law, as described; to be derived from.

    It is its fields, declared with `given`, the two bodies it acts on (`targets`), and the numeric
    `element` on them.
    """

    what: ClassVar[str] = "law"

    @abc.abstractmethod
    def element(self, *bodies: Body) -> AbstractLaw | AbstractForce:
        """The numeric element on those bodies, a force where it gives way; data that make no sense
        are refused here.
        """

    @property
    def gives_way(self) -> bool:
        """Whether it has a stiffness, and is a force then."""
        return getattr(self, "stiffness", None) is not None

    def carrier(self) -> AbstractConstraint | None:
        """The joint whose force bounds it, if one does."""
        return None

    def _compliance(self, usual_exponent: float) -> HuntCrossley | None:
        """The force of a part that gives way; None for a rigid one."""
        if not self.gives_way:
            self._refuse(("damping", "exponent"), f"is of a {self.what} with stiffness")
            return None
        self._refuse(
            ("restitution",),
            f"is of a rigid {self.what}; with stiffness it bounces as its damping lets it",
        )
        usual = getattr(self, "exponent", None) is None
        exponent = number(usual_exponent, "exponent") if usual else self._number("exponent")
        return HuntCrossley(self._number("stiffness"), self._number("damping"), exponent)

    def _refuse(self, fields: tuple[str, ...], why: str) -> None:
        """Raise where one of the fields is given, that is neither None nor a known zero."""
        for field in fields:
            value = getattr(self, field, None)
            if value is not None and (concrete(value) is None or np.any(np.asarray(value) != 0)):
                raise ValueError(f"{self.title}: {field} {why}; leave {field} out")
