"""What the writers of MJCF share: numbers as texts, refusals, joints of the tree."""

import dataclasses
import xml.etree.ElementTree as ET

import numpy as np

from ..model.body import Body
from ..model.elements import AbstractElement
from ..model.validation import is_concrete
from .model_files import ModelFileError


@dataclasses.dataclass
class Placed:
    """A joint of the tree in the file.

    Attributes:
        joints: Its elements by type, "hinge", "slide" or "ball"; of several hinges the last.
        sign: Minus one where the file turns body i against body j.
    """

    joints: dict[str, ET.Element]
    sign: float

    def of(self, part: AbstractElement, coordinate: str | None) -> ET.Element:
        """The element of the coordinate that a part acts on."""
        kinds = {"angle": ("hinge",), "displacement": ("slide",)}.get(
            coordinate or "", ("hinge", "slide")
        )
        found = next((self.joints[k] for k in kinds if k in self.joints), None)
        if found is None:
            raise refusal(part, "its joint has no such coordinate in MJCF")
        return found


def refusal(part: Body | AbstractElement, why: str) -> ModelFileError:
    """The error of a part that MJCF cannot hold."""
    title = getattr(part, "title", None) or f"body {part.name!r}"
    return ModelFileError(f"{title}: MJCF cannot hold it: {why}")


def numbers(value: object, what: str) -> np.ndarray:
    """A number or an array of them, in double precision."""
    if not is_concrete(value):
        raise ModelFileError(f"{what} is traced by JAX: save outside jit, vmap and grad")
    array = np.asarray(value, float)
    if not np.all(np.isfinite(array)):
        raise ModelFileError(f"{what} is no finite number: {value!r}")
    return array


def texts(values: object) -> str:
    """Numbers as MJCF writes them, to the last bit."""
    return " ".join(repr(float(x)) for x in np.asarray(values, float).reshape(-1))
