"""Which rows belong to which law: contacts first, then stops, then dry friction."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ..rotations.types import Array

CONTACT_ROWS = 3  # along the normal, and two across it; stops and dry friction have one


@dataclass(frozen=True)
class RowOrder:
    """How many places each kind of law has, and where their rows stand among all.

    Attributes:
        contacts, stops, dry: Numbers of places.
    """

    contacts: int
    stops: int
    dry: int

    @property
    def places(self) -> int:
        """Of all laws."""
        return self.contacts + self.stops + self.dry

    @property
    def width(self) -> int:
        """Rows of all laws."""
        return CONTACT_ROWS * self.contacts + self.stops + self.dry

    @property
    def of_contacts(self) -> slice:
        """Rows of contacts."""
        return slice(0, CONTACT_ROWS * self.contacts)

    @property
    def of_stops(self) -> slice:
        """Rows of stops."""
        first = self.of_contacts.stop
        return slice(first, first + self.stops)

    @property
    def of_dry(self) -> slice:
        """Rows of dry friction."""
        first = self.of_stops.stop
        return slice(first, first + self.dry)

    @property
    def by_contact(self) -> Int[np.ndarray, "contacts 3"]:
        """The rows of every contact, along the normal first."""
        return np.arange(self.of_contacts.stop).reshape(-1, CONTACT_ROWS)

    @property
    def normal(self) -> Int[np.ndarray, " places"]:
        """The row of every place that is the rate of its gap."""
        return np.concatenate([self.by_contact[:, 0], np.arange(self.of_stops.start, self.width)])

    @property
    def is_contact(self) -> np.ndarray:
        """Which places are contacts, (places,)."""
        return np.arange(self.places) < self.contacts

    @property
    def has_gap(self) -> np.ndarray:
        """Which places have a gap, (places,): all but those of dry friction."""
        return np.arange(self.places) < self.contacts + self.stops

    def of_rows(self, each: Array) -> Array:
        """Numbers of places, (places,), repeated for their rows, (width,)."""
        n = self.contacts
        return jnp.concatenate([jnp.repeat(each[:n], CONTACT_ROWS), each[n:]])
