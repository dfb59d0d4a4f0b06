"""Solution: what an analysis returns, and the questions one asks of it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..model.coordinates import JointMotion
from ..model.frames import FrameMotion, FrameOnBody, frame_motion, still
from ..model.laws.base import CONTACT, DRY, STOP
from ..model.names import unknown
from ..model.readable import readable
from ..model.state import State
from ..model.system import System
from ..model.validation import is_concrete
from ..outcomes import RESULTS
from .beams import BeamMotion, beam_motion
from .by_rows import by_rows, part_of
from .contacts import ContactPlaces, contact_places
from .efforts import efforts_in
from .elements import ElementMotion, element_motions, without
from .energy import Energy, Momentum, energies, momenta
from .events import EventTimes
from .joints import joint_motion
from .laws import LawMotion, law_motion
from .moment import Moment
from .reactions import Reaction, least_norm, normal_forces, reactions
from .sensors import SensorReadings, sensor_readings
from .violation import Violation, violations


class Solution(eqx.Module):
    """A motion at T instants; a pytree. Rows after a failure are NaN, and `result` holds the
    reason.

    Attributes:
        t: Times, (T,) [s].
        r: Positions of the mass centers, (T, nb, 3) [m], global.
        A: Rotation matrices from body to global components, (T, nb, 3, 3).
        v: Velocities of the mass centers, (T, nb, 3) [m/s], global.
        omega: Angular velocities, (T, nb, 3) [rad/s], body frame.
        a: Accelerations of the mass centers, (T, nb, 3) [m/s²], global.
        alpha: Rates of omega, (T, nb, 3) [rad/s²], body frame.
        multipliers: As the steps left them, (T, nc), in the order of `System.row_names`; `lam` are
            those of least norm.
        angles: Angles of joints, and of force elements that have one, with their turns, (T, w)
            [rad]; `joint` names them.
        iterations: Newton iterations since the row before, (T,).
        result: Outcome, a member of `RESULTS`.
        stats: Numbers about the run: what assembly moved, steps completed, and
            `undetermined_steps` (`undetermined_rows` where steps are chosen), those so close to a
            singular pose that `lam` leaves out a part of the forces.
        system: The mechanism that moved, with its names; the questions below need no other, and
            take another.
        observed: Names of the entries of `stats` that have one number, or array, for every row.
        least: Whether `multipliers` are of least norm already.
        inputs: Values, rates and accelerations of the mechanism's inputs, (T, 3, n), or None.
        element_states: Of force elements, such as currents, (T, s); `element` names them.
        events: Of the run, by name, see `EventTimes`; None where none were looked for.
    """

    t: Float[Array, " T"]
    r: Float[Array, "T nb 3"]
    A: Float[Array, "T nb 3 3"]
    v: Float[Array, "T nb 3"]
    omega: Float[Array, "T nb 3"]
    a: Float[Array, "T nb 3"]
    alpha: Float[Array, "T nb 3"]
    multipliers: Float[Array, "T nc"]
    iterations: Int[Array, " T"]
    result: RESULTS
    stats: dict[str, Any]
    angles: Float[Array, "T w"] | None = None
    system: System | None = None
    observed: tuple[str, ...] = eqx.field(static=True, default=())
    least: bool = eqx.field(static=True, default=True)
    inputs: Float[Array, "T 3 n"] | None = None
    element_states: Float[Array, "T s"] | None = None
    events: EventTimes | None = None

    def __repr__(self) -> str:
        from .summaries import of_solution

        return readable(self, of_solution)

    @property
    def lam(self) -> Float[Array, "*batch T nc"]:
        """Multipliers, (T, nc), in the order of `System.row_names`; of least norm if rows are
        redundant.

        Steps do not need those, so they are computed when they are asked for.
        """
        if self.least:
            return self.multipliers
        if self.multipliers.ndim > 2:  # a batch of motions
            return eqx.filter_vmap(lambda one: one.lam)(self)
        return by_rows(least_norm, self._own(None), self.state, self.multipliers, self._moments)

    @property
    def t_event(self) -> Float[Array, "*batch"]:
        """The instant of the event that ended the run [s], NaN where none did; it has derivatives.

        Raises:
            ValueError: The run looked for no events.
        """
        if self.events is None:
            raise ValueError("this run looked for no events; simulate(..., until=mbd.Event(...))")
        last = jnp.max(jnp.where(jnp.isnan(self.events.t), -jnp.inf, self.events.t), axis=(-2, -1))
        return jnp.where(self.result == RESULTS.ended_by_event, last, jnp.nan)

    @property
    def state(self) -> State:
        """The states as one pytree with leading axis T; `sol.at(-1)` gives one of them."""
        return State(self.r, self.A, self.v, self.omega, self.angles, self.element_states)

    def at(self, k: int) -> State:
        """The state of row k, ready to start another run.

        Raises:
            IndexError: There is no such row.
        """
        rows = self.t.shape[-1]
        if isinstance(k, (int, np.integer)) and not -rows <= k < rows:
            raise IndexError(
                f"the solution has {rows} rows, numbered 0 to {rows - 1}; there is no row {k}"
            )
        return jax.tree.map(lambda x: part_of(x, k), self.state)

    @property
    def last_state(self) -> State:
        """The state of the last row that was reached: of the event that ended the run, of the last
        good row before a failure, otherwise of the last one. In a batch use it under `vmap`.
        """
        k = jnp.maximum(jnp.sum(jnp.isfinite(self.r[:, :1, :1])) - 1, 0)
        return jax.tree.map(lambda x: x[k], self.state)

    def rows(self, index: slice | np.ndarray) -> "Solution":
        """Some of the rows, as a solution."""
        parts = {name: part_of(getattr(self, name), index) for name in self.rows_by_name()}
        # What a formulation or a method observed has one entry a row; other numbers are about the
        # whole run.
        stats = {k: part_of(x, index) if k in self.observed else x for k, x in self.stats.items()}
        return dataclasses.replace(self, **parts, stats=stats)

    def rows_by_name(self) -> list[str]:
        """Names of the arrays that have one entry a row."""
        names = ("t", "r", "A", "v", "omega", "a", "alpha", "multipliers", "angles")
        names = (*names, "element_states", "inputs", "iterations")
        return [name for name in names if getattr(self, name) is not None]

    @property
    def _moments(self) -> Moment:
        return Moment(self.t, self.inputs)

    def __getitem__(self, name: str) -> Float[Array, " T"]:
        """One quantity over the motion, by a name that `quantities` lists: `sol["pin.angle"]`.

        Raises:
            ValueError: There is no such quantity; the message names the nearest.
            TypeError: The name is no text.
        """
        from .columns import columns_by_name, refuse_unknown

        if not isinstance(name, str):
            raise TypeError(
                f"a solution is asked for quantities by name, such as sol['pin.angle'], not by "
                f"{name!r}; a state is sol.at(k), some rows are sol.rows(slice(...))"
            )
        system = self._own(None)
        refuse_unknown([name], system)
        return jnp.asarray(columns_by_name(self, system, [name])[0])

    def _own(self, system: System | None) -> System:
        system = self.system if system is None else system
        if system is None:
            raise ValueError(
                "this solution carries no system: give the one it was made with, energy(system)"
            )
        return system

    def joint(self, name: str, system: System | None = None) -> JointMotion:
        """The coordinates of a joint or driver: its angle over any number of turns, its
        displacement, their rates.

        Raises:
            ValueError: There is no such joint, or it has no coordinate of its own.
        """
        return joint_motion(self._own(system), name, self.state, self.a, self.alpha)

    def frame(self, name: str, system: System | None = None) -> FrameMotion:
        """The motion of a frame fixed on a body, such as a tool center point.

        Raises:
            ValueError: There is no such frame.
        """
        system = self._own(system)
        found = [frame for frame in system.frames if frame.name == name]
        if not found:
            names = [frame.name for frame in system.frames]
            raise ValueError(unknown("frame", "frames", name, names))
        return self.motion_of(found[0], system)

    def motion_of(self, frame: FrameOnBody, system: System | None = None) -> FrameMotion:
        """The motion of any frame on a body, whether the mechanism has it by name or not."""
        system = self._own(system)
        body = (self.r, self.A, self.v, self.omega, self.a, self.alpha)
        if frame.body < system.nb:
            body = tuple(part_of(x, np.s_[:, frame.body]) for x in body)
        else:
            body = still(len(self.t), system.dtype)
        if is_concrete((frame, body)):  # compiles nothing
            moved = frame_motion(frame, np, *map(np.asarray, body))
            return jax.tree.map(jax.device_put, moved)
        return frame_motion(frame, jnp, *body)

    def sensor(
        self, name: str, system: System | None = None, *, key: Array | None = None
    ) -> SensorReadings:
        """Readings of a sensor at all rows, with its errors, delay and sampling period, and with
        noise if a key is given. Its quantity is interpolated linearly between rows and constant
        before the first row.

        Args:
            name: Of the sensor.
            system: The one that moved, for a solution that carries none.
            key: Of `jax.random`, for the noise.

        Raises:
            ValueError: There is no such sensor.
        """
        return sensor_readings(self, self._own(system), name, key)

    def beam(self, name: str, system: System | None = None) -> BeamMotion:
        """Section forces and moments, strains and strain energy of a beam, element by element.

        Raises:
            ValueError: There is no such beam.
        """
        return beam_motion(self._own(system), name, self.state, self.lam)

    def element(self, name: str, system: System | None = None) -> ElementMotion:
        """Outputs of a force element, see `ElementMotion`: a spring, damper, servo, actuator,
        tendon, load or user's force, or a stop or contact with stiffness.

        Raises:
            ValueError: There is no such element.
        """
        found = self.elements(system)
        if name not in found:
            raise ValueError(unknown("force element", "force elements", name, found))
        return found[name]

    def elements(self, system: System | None = None) -> dict[str, ElementMotion]:
        """Outputs of all force elements by name, see `ElementMotion`; beams have `beam`."""
        found = element_motions(self._own(system), self.state, self._moments)
        return without(found, {name for _, name, _ in efforts_in(self.stats)})

    def energy(self, system: System | None = None) -> Energy:
        """Kinetic and potential energy; kinetic as the integrator counts it where it says so, see
        `AbstractIntegrator.observed`.
        """
        kinetic, potential = by_rows(energies, self._own(system), self.state, self._moments)
        return Energy(self.stats.get("kinetic_energy", kinetic), potential)

    def momentum(self, system: System | None = None) -> Momentum:
        """Linear and angular momentum of all bodies."""
        return Momentum(*by_rows(momenta, self._own(system), self.state))

    def violation(self, system: System | None = None) -> Violation:
        """How far the constraints are from being met, at position and velocity level."""
        return Violation(*by_rows(violations, self._own(system), self.state, self._moments))

    def reactions(self, system: System | None = None) -> dict[str, Reaction]:
        """Force and moment of every joint and driver on its body j, by name; about which point,
        see `Reaction`.

        They are the physical result where constraints are redundant too, as far as it is unique:
        single multipliers of a redundant set are not, and neither is the share of each of several
        joints that do the same work.
        """
        return reactions(self._own(system), self.state, self.lam, self._moments)

    def normal_forces(self, system: System | None = None) -> dict[str, Float[Array, " T"]]:
        """Normal force of every rolling or sliding contact by the joint's name, (T,) [N]; positive
        where the bodies press.

        A negative one holds the bodies together, as a real contact cannot: it would be lost there.
        """
        return normal_forces(self._own(system), self.lam)

    def contact(self, name: str, system: System | None = None) -> LawMotion:
        """Gaps, forces and states of a contact, see `LawMotion`."""
        return law_motion(self._own(system), self.stats, name, CONTACT)

    def limit(self, name: str, system: System | None = None) -> LawMotion:
        """Gaps, forces and states of the stops of a joint, the lower one first; for signs see
        `LawMotion`.
        """
        return law_motion(self._own(system), self.stats, name, STOP)

    def friction(self, name: str, system: System | None = None) -> LawMotion:
        """Forces and states of dry friction, see `LawMotion`."""
        return law_motion(self._own(system), self.stats, name, DRY)

    def contact_places(self, system: System | None = None) -> dict[str, ContactPlaces]:
        """Points, normals and forces of every contact in global components, by name."""
        return contact_places(self._own(system), self.state, self.stats)

    def to_npz(self, path: str | Path, system: System | None = None) -> None:
        """Write all arrays under their own names to an NPZ file; see `results.export`."""
        from .export import write_npz

        write_npz(path, self, system)

    def to_csv(
        self,
        path: str | Path,
        system: System | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Write one row per instant to a CSV file with named columns, units in the header.

        Args:
            path: The file.
            system: The one that moved, for a solution that carries none.
            columns: Names of columns, in which * stands for any text, such as ["pin.*",
                "*.power"], with another unit behind them, "pin.angle [deg]", "slide.force [kN]",
                "crank.rate [rpm]"; the time is first, the others in the file's order. By default
                coordinates and rates of joints, reactions, what force elements, stops and contacts
                did, energies, positions of frames, readings, positions and velocities of bodies
                that no coordinate of a joint describes, and of every event the last instant up to
                the row, "event.shut", nan before. ["*"] adds all bodies, accelerations, rotation
                matrices "rod.A11", multipliers "lam[pin: ...]" and "iterations".

        Raises:
            ValueError: There is no such column, the solution is a batch, or of another system.
            OSError: The file cannot be written; the message names the path.
        """
        from .export import write_csv

        write_csv(path, self, system, columns)

    def table(self, columns: Sequence[str] | None = None, system: System | None = None) -> Any:
        """The table of `to_csv` as a data frame, one row per instant: of pandas where that is
        installed, with `attrs["units"]`, else of polars.

        Args:
            columns: Names as `to_csv` takes them, such as ["pin.angle [deg]", "energy.total"].
            system: The one that moved, for a solution that carries none.

        Raises:
            ImportError: Neither library is installed.
            ValueError: There is no such column, the solution is a batch, or of another system.
        """
        from .tables import data_frame

        return data_frame(self, system, columns)

    def plot(
        self,
        names: Sequence[str] | str,
        system: System | None = None,
        *,
        against: str = "t",
        out: str | Path | None = None,
    ) -> Any:
        """Plot quantities by their names in tables, with units; those of one unit share axes.
        Needs matplotlib.

        Args:
            names: As `to_csv` takes them, such as "pin.angle [deg]" or ["spring.force", "pin.*"].
            system: The one that moved, for a solution that carries none.
            against: What stands on the horizontal axis, such as "crank.angle"; by default the
                time, at which dotted lines mark events.
            out: Where to save the figure (PNG, PDF, SVG by its ending).

        Returns:
            The matplotlib figure.

        Raises:
            ImportError: Matplotlib is not installed.
            ValueError: There is no such quantity, the solution is a batch, or of another system.
            OSError: The file cannot be written; the message names the path.
        """
        try:
            from .charts import chart
        except ImportError as error:
            raise ImportError(
                f"plots need the extra viz: pip install 'jaxmbd[viz]' ({error})"
            ) from None

        return chart(self, names, system, against=against, out=out)
