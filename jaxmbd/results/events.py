"""Events of a run: which happened, and when."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..model.names import unknown
from ..model.readable import counted, known, readable


class EventTimes(eqx.Module):
    """Instants of the events of a run; `events["shut"]` are those of one of them.

    Attributes:
        names: Of the events.
        t: Instants of each, increasing, NaN beyond the last, (E, most) [s]; they have derivatives.
        counts: How many of each, (E,).
        grazed: Steps in which each may have touched its value without passing it, (E,).
    """

    names: tuple[str, ...] = eqx.field(static=True)
    t: Float[Array, "*batch E most"]
    counts: Int[Array, "*batch E"]
    grazed: Int[Array, "*batch E"]

    def __getitem__(self, name: str) -> Float[Array, "*batch most"]:
        """Instants of one event [s], NaN beyond the last; outside `jit` and without a batch as many
        as there were.

        Raises:
            ValueError: There is no such event.
        """
        if name not in self.names:
            raise ValueError(unknown("event", "events", name, list(self.names)))
        k = self.names.index(name)
        if known(self.counts) and np.ndim(self.counts) == 1:
            return self.t[k, : int(np.asarray(self.counts)[k])]
        return self.t[..., k, :]

    def table(self) -> list[tuple[float, str]]:
        """All instants [s] with the names, in the order of time; outside `jit`, of one run."""
        t, counts = np.asarray(self.t), np.asarray(self.counts)
        found = [
            (float(t[k, m]), name)
            for k, name in enumerate(self.names)
            for m in range(int(counts[k]))
        ]
        return sorted(found)

    def __repr__(self) -> str:
        return readable(self, _described)


def _described(events: EventTimes) -> str:
    if not known(events.counts) or np.ndim(events.counts) != 1:
        return f"EventTimes: {', '.join(events.names)}"
    rows = [f"  {t:.9g} s  {name}" for t, name in events.table()]
    return "\n".join([f"EventTimes: {counted(len(rows), 'event')}", *rows])


def latest(events: EventTimes, t: Float[Array, " T"]) -> Float[Array, "T E"]:
    """The last instant of each event up to some times, (T, E) [s], NaN where there was none."""
    found = events.t[None]
    known = jnp.where(found <= t[:, None, None], found, -jnp.inf).max(axis=-1)
    return jnp.where(jnp.isfinite(known), known, jnp.nan)


def before(events: EventTimes, end: Float[Array, ""]) -> EventTimes:
    """Those that happened no later than the run."""
    kept = ~(events.t > end)
    counts = jnp.sum(kept & jnp.isfinite(events.t), axis=-1)
    return EventTimes(events.names, jnp.where(kept, events.t, jnp.nan), counts, events.grazed)
