"""What joints, drivers and forces have in common as parts of a description, and the table of all
kinds of them.
"""

import abc
import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ..rotations.types import Array
from ..xla.descriptions import describable
from . import given
from .body import Body
from .expressions import Components, Expression
from .functions import numbers_of_shape, traced_shape
from .motions import hoist
from .validation import default_dtype, is_concrete, number, vector

_KINDS: dict[str, type["AbstractElement"]] = {}


@describable
@dataclass(frozen=True, eq=False)
class AbstractElement(abc.ABC):
    """A part of a mechanism, on bodies. A class derived from it is known to model files by its name
    at once.

    Attributes:
        name: Unique among the parts of a mechanism.

    Class attributes:
        what: "joint", "driver" or "force", for messages.
        in_files: Whether its declared fields are all of it, so that a file can hold it.
    """

    name: str

    what: ClassVar[str] = "element"
    in_files: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        known = _KINDS.get(cls.__name__)
        if (
            known is not None
            and known.__module__ != cls.__module__
            and known.__module__.startswith(__package__ or "")
        ):
            raise TypeError(
                f"{cls.__name__} is the name of an element of jaxmbd; choose another name"
            )
        _KINDS[cls.__name__] = cls

    @abc.abstractmethod
    def targets(self) -> tuple[Body | str, ...]:
        """The bodies it acts on."""

    @property
    def title(self) -> str:
        """As messages call it: "driver 'motor'"."""
        return f"{self.what} {self.name!r}"

    def check_numbers(self) -> None:
        """Refuse numbers outside the bounds that their fields declare, as far as they are known.

        Raises:
            ValueError: There is one; the message names it.
        """
        for field, (spec, _) in given.specs(type(self)).items():
            value = getattr(self, field)
            if spec.bounds is not None and value is not None and is_concrete(value):
                self._number(field)

    def _number(self, field: str) -> Array:
        """A field that is one number, within the bounds that it is declared with."""
        what = f"{self.title}: {field}"
        value = number(getattr(self, field), what)
        bounds = given.specs(type(self))[field][0].bounds
        if bounds is None or (bounds.unless and getattr(self, bounds.unless)):
            return value
        return bounds.required(value, what)

    def _motion(self, value: object, field: str, shape: tuple[int, ...] = ()) -> Any:
        """A function of time, checked, its numbers visible to JAX (`hoist`): once, so that rows
        that share it share its program. A text becomes an expression.
        """
        what, t = f"{self.title}: {field}", np.zeros((), default_dtype())
        if isinstance(value, str):
            value = Expression(value)
        if not callable(value):
            raise ValueError(f"{what} must be a function of time, not {value!r}")
        numbers_of_shape(traced_shape(lambda t: jnp.asarray(value(t)), (t,), what), shape, what)
        return hoist(value, t)

    def _motion_of_three(self, value: object, field: str) -> Any:
        """A function of time with three components, also from three texts or numbers, checked."""
        if isinstance(value, list | tuple):
            value = Components.of(value, f"{self.title}: {field}")
        return self._motion(value, field, (3,))

    def _load(self, value: object, field: str) -> Any:
        """Three numbers, or a function of time with three components, checked."""
        if isinstance(value, list | tuple) and any(isinstance(x, str) for x in value):
            return self._motion_of_three(value, field)
        return (
            self._motion(value, field, (3,))
            if callable(value)
            else vector(value, 3, f"{self.title}: {field}")
        )


def kinds(base: type) -> dict[str, type]:
    """All concrete classes of elements derived from `base`, by name, those of users included."""
    return {
        name: cls
        for name, cls in _KINDS.items()
        if issubclass(cls, base) and not (inspect.isabstract(cls) or name.startswith("Abstract"))
    }
