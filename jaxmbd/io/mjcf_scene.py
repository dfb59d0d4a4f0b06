"""A model that MuJoCo has compiled, and what became of its bodies and joints."""

import dataclasses
from collections.abc import Container
from types import ModuleType
from typing import Any

from ..model.mechanism import Mechanism
from .import_report import ImportReport

GROUND = 0


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A file as MuJoCo has compiled it, at one pose; MuJoCo's own classes have no annotations.

    Attributes:
        mujoco: The module.
        model: Its `MjModel`.
        data: Its `MjData`.
    """

    mujoco: ModuleType
    model: Any
    data: Any

    def place(self) -> None:
        """Compute what the readers ask MuJoCo for: positions, velocities, lengths of tendons."""
        self.mujoco.mj_kinematics(self.model, self.data)
        self.mujoco.mj_comPos(self.model, self.data)
        self.mujoco.mj_comVel(self.model, self.data)
        self.mujoco.mj_tendon(self.model, self.data)

    def name_of(self, kind: str, number: int) -> str:
        """The name of something in the file, or one made of its kind and number."""
        return getattr(self.model, kind)(number).name or f"{kind}{number}"


@dataclasses.dataclass(frozen=True)
class Options:
    """What a reader was asked for.

    Attributes:
        limits: Whether ranges of joints become stops.
        friction: Whether dry friction of joints is read.
        merge_fixed: Whether links fixed to others become part of them.
    """

    limits: bool = False
    friction: bool = False
    merge_fixed: bool = False


@dataclasses.dataclass(frozen=True)
class Scene:
    """A mechanism while it is made from a file.

    Attributes:
        file: What MuJoCo compiled, at the pose that is described.
        m: The mechanism.
        report: What is left out.
        options: What was asked for.
        moving: Whether bodies have velocities.
        owner: The body that each body is part of, itself as a rule; 0 is the ground.
        bodies: Names of the bodies in the mechanism, by MuJoCo's number.
        joints: Names of hinges and slides in the mechanism, by MuJoCo's number.
    """

    file: Compiled
    m: Mechanism
    report: ImportReport
    options: Options
    moving: bool
    owner: list[int]
    bodies: dict[int, str]
    joints: dict[int, str]

    def body(self, number: int) -> str:
        """The name of the body that a body of the file is part of."""
        return self.bodies[self.owner[number]]


def unused(name: str, taken: Container[str]) -> str:
    """The name, or one like it that is not taken."""
    new, k = name, 2
    while new in taken:
        new, k = f"{name} {k}", k + 1
    return new
