"""Solution: what an analysis returns, and the questions one asks of it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..equations.least_multipliers import least_multipliers
from ..equations.pressing import pressed, pressing_on_j
from ..equations.rows import phi, row_bodies, rows, velocity_right_side
from ..formulations import RA
from ..linalg.saddle import apply_rows
from ..model.compiled import Compiled, if_made, remembered, runs_now
from ..model.coordinates import Angle, JointMotion, along_motion
from ..model.frames import FrameMotion, FrameOnBody, frame_motion, still
from ..model.laws.base import CONTACT, DRY, STOP
from ..model.names import ByName, unknown
from ..model.readable import readable
from ..model.state import Pose, State, Twist
from ..model.system import System
from ..model.validation import is_concrete
from ..outcomes import RESULTS
from ..xla.batch_last import batched_in_lanes
from .beams import BeamMotion, beam_motion
from .contacts import ContactPlaces, contact_places, slices
from .elements import ElementMotion, element_motions
from .moment import Moment
from .sensors import SensorReadings, sensor_readings

_CALLED = {
    CONTACT: ("contact", "contacts"),
    STOP: ("stop", "stops"),
    DRY: ("dry friction", "laws of dry friction"),
}


class Energy(eqx.Module):
    """Kinetic, potential (gravity and springs) and total energy, (T,) each [J]."""

    kinetic: Float[Array, " T"]
    potential: Float[Array, " T"]

    @property
    def total(self) -> Float[Array, " T"]:
        if is_concrete((self.kinetic, self.potential)):  # compiles nothing
            return jax.device_put(np.asarray(self.kinetic) + np.asarray(self.potential))
        return self.kinetic + self.potential


class Momentum(eqx.Module):
    """Linear momentum [kg·m/s] and angular momentum about the global origin [kg·m²/s], (T, 3) each,
    global.
    """

    linear: Float[Array, "T 3"]
    angular: Float[Array, "T 3"]


class Reaction(eqx.Module):
    """What a joint does to its body j, at the joint's point on that body, global components; body
    i gets the opposite.

    The moment is taken about that point: the center of gear, pulley, wheel or rolling body j for
    gears, belts and rolling pairs, where it contains the lever arm of the tooth or contact force;
    the center of the pinion, the point on the axis of a screw, and the mass center of body j for a
    joint or driver without a point.

    Attributes:
        force: (T, 3) [N].
        moment: About the joint's point on body j, (T, 3) [N·m].
    """

    force: Float[Array, "T 3"]
    moment: Float[Array, "T 3"]


class LawMotion(eqx.Module):
    """What a stop, dry friction or a contact did, at its n places.

    All of it is about the one step that ends at each row. With `save_every` > 1 the steps between
    two rows leave no trace here: a force is no mean over the interval between rows, and an impact
    within it may be missed.

    Attributes:
        gap: (T, n) [m] or [rad]; zero for friction.
        force: Mean over that step, impulses included. For a contact (T, n, 3) [N], on body i, along
            the normal first and positive where it pushes. For a stop (T, n) [N] or [N·m], positive
            where it pushes: the lower one towards larger coordinates, the upper one towards smaller
            ones. For dry friction (T, n) [N] or [N·m], along the joint's coordinate: against its
            rate, so negative where the coordinate grows.
        state: 0 open, 1 closed without sliding, 2 sliding, (T, n).
        impact: How long after the start of that step an impact happened, (T, n) [s]; zero where
            there was none.
    """

    gap: Float[Array, "T n"]
    force: Float[Array, "T n *k"]
    state: Int[Array, "T n"]
    impact: Float[Array, "T n"]


class Violation(eqx.Module):
    """Constraint violation, (T, nc) each, in the order of `System.row_names`.

    Attributes:
        position: Φ [m, or - for directions].
        velocity: Φ_q u - ν, per second.
    """

    position: Float[Array, "T nc"]
    velocity: Float[Array, "T nc"]


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
        return _by_rows(_least, self._own(None), self.state, self.multipliers, self._moments)

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
        return jax.tree.map(lambda x: _part(x, k), self.state)

    def rows(self, index: slice | np.ndarray) -> "Solution":
        """Some of the rows, as a solution."""
        names = (
            "t",
            "r",
            "A",
            "v",
            "omega",
            "a",
            "alpha",
            "multipliers",
            "angles",
            "element_states",
            "inputs",
            "iterations",
        )
        parts = {name: _part(x, index) for name in names if (x := getattr(self, name)) is not None}
        # What a formulation or a method observed has one entry a row; other numbers are about the
        # whole run.
        stats = {k: _part(x, index) if k in self.observed else x for k, x in self.stats.items()}
        return dataclasses.replace(self, **parts, stats=stats)

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
        system = self._own(system)
        found = [c for c in system.connections if c.name == name]
        if not found:
            names = [c.name for c in system.connections]
            raise ValueError(unknown("joint", "joints", name, names))
        c = found[0]
        if c.angle is None and not c.element.has_displacement:
            raise ValueError(
                f"joint {name!r} is {c.kind}, which has neither an angle nor a displacement of its "
                "own"
            )
        angles = self.angles
        if c.angle is not None and angles is None:
            raise ValueError("this solution carries no angles")
        index = np.array(c.bodies[:2])
        padded = [
            _with_ground(x, g)
            for x, g in ((self.r, 0.0), (self.A, np.eye(3)), (self.v, 0.0), (self.omega, 0.0))
        ]
        r, A, v, omega, a, alpha = (
            _part(x, np.s_[:, index])
            for x in (*padded, _with_ground(self.a, 0.0), _with_ground(self.alpha, 0.0))
        )
        pose, twist = Pose(r, A), Twist(v, omega)
        coordinates = (None,) * 3, (None,) * 3
        if c.angle is not None and angles is not None:
            angle = jax.tree.map(lambda x: _part(x, c.angle), system.angles.angle)
            coordinates = (
                _by_rows(
                    _angle_motion, angle, _part(angles, np.s_[:, c.angle]), pose, twist, a, alpha
                ),
                coordinates[1],
            )
        if c.element.has_displacement:
            along = c.axis_i_bar, c.s_i_bar, c.s_j_bar
            moved = _by_rows(_displacement_motion, along, pose, twist, a, alpha)
            coordinates = coordinates[0], moved
        return JointMotion(*coordinates[0], *coordinates[1])

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
            body = tuple(_part(x, np.s_[:, frame.body]) for x in body)
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
        return beam_motion(self._own(system), name, self.state, self.lam, _by_rows)

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
        return element_motions(self._own(system), self.state, self._moments, _by_rows)

    def energy(self, system: System | None = None) -> Energy:
        """Kinetic and potential energy; kinetic as the integrator counts it where it says so, see
        `AbstractIntegrator.observed`.
        """
        system = self._own(system)

        kinetic, potential = _by_rows(_energies, system, self.state)
        return Energy(self.stats.get("kinetic_energy", kinetic), potential)

    def momentum(self, system: System | None = None) -> Momentum:
        """Linear and angular momentum of all bodies."""
        system = self._own(system)

        return Momentum(*_by_rows(_momenta, system, self.state))

    def violation(self, system: System | None = None) -> Violation:
        """How far the constraints are from being met, at position and velocity level."""
        system = self._own(system)

        return Violation(*_by_rows(_violations, system, self.state, self._moments))

    def reactions(self, system: System | None = None) -> dict[str, Reaction]:
        """Force and moment of every joint and driver on its body j, by name; about which point,
        see `Reaction`.

        They are the physical result where constraints are redundant too, as far as it is unique:
        single multipliers of a redundant set are not, and neither is the share of each of several
        joints that do the same work.
        """
        system = self._own(system)
        found = _by_rows(_reactions, system, self.state, self.lam, self._moments)
        names = [c.name for c in system.connections]
        return ByName((name, Reaction(*pair)) for name, pair in zip(names, found, strict=True))

    def normal_forces(self, system: System | None = None) -> dict[str, Float[Array, " T"]]:
        """Normal force of every rolling or sliding contact by the joint's name, (T,) [N]; positive
        where the bodies press.

        A negative one holds the bodies together, as a real contact cannot: it would be lost there.
        """
        system = self._own(system)
        return ByName(
            (c.name, -_part(self.lam, np.s_[:, c.rows[c.labels.index(label)]]))
            for c in system.connections
            for label in c.element.normal_rows
            if label in c.labels
        )

    def contact(self, name: str, system: System | None = None) -> LawMotion:
        """Gaps, forces and states of a contact, see `LawMotion`."""
        return self._law(name, CONTACT, system)

    def limit(self, name: str, system: System | None = None) -> LawMotion:
        """Gaps, forces and states of the stops of a joint, the lower one first; for signs see
        `LawMotion`.
        """
        return self._law(name, STOP, system)

    def friction(self, name: str, system: System | None = None) -> LawMotion:
        """Forces and states of dry friction, see `LawMotion`."""
        return self._law(name, DRY, system)

    def contact_places(self, system: System | None = None) -> dict[str, ContactPlaces]:
        """Points, normals and forces of every contact in global components, by name."""
        return contact_places(self._own(system), self.state, self.stats, _by_rows)

    def _law(self, name: str, kind: str, system: System | None) -> LawMotion:
        system = self._own(system)
        where = slices(system)
        if (kind, name) not in where:
            giving_way = [
                stack for stack in system.forces if getattr(stack.force, "kind", None) == kind
            ]
            if any(name in stack.names for stack in giving_way):
                raise ValueError(
                    f"{kind} {name!r} has a stiffness, and is a force: ask element({name!r})"
                )
            names = [n for k, n in where if k == kind]
            raise ValueError(unknown(*_CALLED[kind], name, names))
        places, rows_of_law = where[kind, name]
        force = _part(self.stats["law_forces"], np.s_[:, rows_of_law])
        if kind == CONTACT:
            force = force.reshape(*force.shape[:-1], -1, 3)
        keys = "law_gaps", "law_states", "law_impacts"
        gap, state, impact = (_part(self.stats[key], np.s_[:, places]) for key in keys)
        return LawMotion(gap, force, state, impact)

    def to_npz(self, path, system: System | None = None) -> None:
        """Write all arrays under their own names to an NPZ file; see `results.export`."""
        from .export import write_npz

        write_npz(path, self, system)

    def to_csv(
        self, path, system: System | None = None, *, columns: Sequence[str] | None = None
    ) -> None:
        """Write one row per instant to a CSV file with named columns, units in the header.

        Args:
            path: The file.
            system: The one that moved, for a solution that carries none.
            columns: Names of columns, in which * stands for any text, such as ["pin.*",
                "*.power"]; the time is always first, the others in the file's order. By default
                coordinates and rates of joints, reactions, what force elements, stops and contacts
                did, energies, positions and velocities of bodies. ["*"] adds accelerations,
                rotation matrices "rod.A11", multipliers "lam[pin: ...]" and "iterations".

        Raises:
            ValueError: There is no such column, the solution is a batch, or of another system.
            OSError: The file cannot be written; the message names the path.
        """
        from .export import write_csv

        write_csv(path, self, system, columns)


class Row(eqx.Module):
    """One saved instant, before it becomes a row of a `Solution`."""

    pose: Pose
    twist: Twist
    a: Float[Array, "nb 3"]
    alpha: Float[Array, "nb 3"]
    lam: Float[Array, " nc"]
    angles: Float[Array, " w"]
    element_states: Float[Array, " s"]
    iterations: Int[Array, ""]
    extra: dict[str, Any] = eqx.field(default_factory=dict)


def make_row(
    formulation, system: System, q, u, a, lam, iterations, ok, extra: dict[str, Any] | None = None
) -> Row:
    """Coordinates to physical quantities; NaN where the run has failed. `extra` goes to the
    solution's `stats`.

    Angles are looked for near those of the system, see `System.wound`.
    """
    state = formulation.to_state(q, u)
    r_ddot, omega_dot = jax.vmap(formulation.physical_accelerations)(q, u, a)
    observed = formulation.observed(system, lam) | (extra or {})
    lam = system.to_natural(lam[: system.nc])
    angles = system.angle_values(RA().with_ground(state.pose))
    row = Row(
        state.pose,
        state.twist,
        r_ddot,
        omega_dot,
        lam,
        angles,
        system.held_element_states(),
        iterations,
        observed,
    )
    return jax.tree.map(lambda x: jnp.where(ok, x, jnp.nan) if eqx.is_inexact_array(x) else x, row)


def make_solution(
    t,
    rows: Row,
    result: RESULTS,
    stats: dict[str, Any],
    system: System | None = None,
    *,
    least: bool = True,
    inputs: Float[Array, "T 3 n"] | None = None,
) -> Solution:
    """Stacked rows to a solution; `least` says whether their multipliers are of least norm."""
    return Solution(
        t=t,
        r=rows.pose.r,
        A=rows.pose.A,
        v=rows.twist.v,
        omega=rows.twist.omega,
        a=rows.a,
        alpha=rows.alpha,
        multipliers=rows.lam,
        angles=rows.angles,
        element_states=rows.element_states,
        iterations=rows.iterations,
        result=result,
        stats=stats | rows.extra,
        inputs=inputs,
        system=system,
        observed=tuple(rows.extra),
        least=least and not (system is not None and system.presses),
    )


def _part(x: Any, index: Any) -> Any:
    """`x[index]`; of a known array by NumPy, which compiles nothing."""
    return jax.device_put(np.asarray(x)[index]) if is_concrete(x) else x[index]


def _with_ground(x: Float[Array, "T nb *s"], ground: Any) -> Float[Array, "T b *s"]:
    shape = (x.shape[0], 1, *x.shape[2:])
    row = np.broadcast_to(np.asarray(ground, x.dtype), shape)
    if is_concrete(x):
        return jax.device_put(np.concatenate([np.asarray(x), row], axis=1))
    return jnp.concatenate([x, row], axis=1)


@Compiled
def _angle_motion(angle: Angle, values, pose: Pose, twist: Twist, a, alpha):
    """An angle with its rate and acceleration at all instants; `values` are the angles that were
    saved.
    """

    def one(near, *motion):
        here = eqx.tree_at(lambda x: x.near, angle, near)
        return along_motion(
            lambda p: here.value(Pose(p.r[0], p.A[0]), Pose(p.r[1], p.A[1])), *motion
        )

    return jax.vmap(one)(jax.lax.stop_gradient(values), pose, twist, a, alpha)


@Compiled
def _displacement_motion(along, pose: Pose, twist: Twist, a, alpha):
    """A displacement along an axis of body i with its rate and acceleration at all instants."""
    axis, s_i, s_j = along

    def displacement(p: Pose):
        return axis @ (p.A[0].T @ (p.r[1] + p.A[1] @ s_j - p.r[0]) - s_i)

    return jax.vmap(lambda *motion: along_motion(displacement, *motion))(pose, twist, a, alpha)


@Compiled
def _energies(system: System, states: State):
    def one(state: State):
        pose = RA().with_ground(state.pose)
        zero = jnp.zeros((1, 3), system.dtype)
        v, omega = (jnp.concatenate([x, zero]) for x in (state.v, state.omega))
        kinetic = system.kinetic(pose, Twist(v, omega))
        return kinetic, system.at_state(state).potential(pose)

    return jax.vmap(one)(states)


@Compiled
def _momenta(system: System, states: State):
    def one(state: State):
        linear = system.mass[:, None] * state.v
        spin = jnp.einsum("bij,bjk,bk->bi", state.A, system.inertia, state.omega)
        return jnp.sum(linear, 0), jnp.sum(jnp.cross(state.r, linear) + spin, 0)

    return jax.vmap(one)(states)


@Compiled
def _violations(system: System, states: State, moments: Moment):
    def one(state: State, moment: Moment):
        jet_system, f_dot, _ = moment.of(system, state).jet(moment.t)
        u = jnp.concatenate([state.v, state.omega], axis=1)
        rate = apply_rows(rows(RA(), jet_system, state.pose), u, row_bodies(RA(), system))
        nu = velocity_right_side(RA(), jet_system, f_dot, state.pose)
        gaps = system.to_natural(phi(RA(), jet_system, state.pose))
        return gaps, system.to_natural(rate - nu)

    return jax.vmap(one)(states, moments)


@Compiled
def _least(system: System, states: State, multipliers, moments: Moment):
    def of_pose(system: System, state: State, lam, moment: Moment):
        now = moment.of(system, state).at(moment.t)
        least = least_multipliers(now, state.pose, system.to_stacked(lam))
        return system.to_natural(pressed(now, state.pose, least))

    def one(*instant):
        return batched_in_lanes(of_pose, system, *instant)

    return jax.vmap(one)(states, multipliers, moments)


@Compiled
def _reactions(system: System, states: State, multipliers, moments: Moment):
    """Forces and moments on body j at its point, of all connections in their order."""

    def wrenches(state: State, lam, moment: Moment):
        now = moment.of(system, state).at(moment.t)
        blocks, lam = rows(RA(), now, state.pose), system.to_stacked(lam)
        on_j = -blocks[:, 1] * lam[:, None]  # (nc, 6)
        if system.presses:
            on_j = on_j + pressing_on_j(now, state.pose, jnp.abs(lam))
        return system.to_natural(on_j.T).T

    # (T, nc, 6): force, body-frame torque about the center
    on_j = jax.vmap(wrenches)(states, multipliers, moments)
    found = []
    for c in system.connections:
        total = jnp.sum(on_j[:, np.array(c.rows)], axis=1)
        force, torque = total[:, :3], total[:, 3:]
        if c.j < system.nb:
            A = states.A[:, c.j]
            arm, moment = A @ c.s_j_bar, jnp.einsum("tij,tj->ti", A, torque)
        else:
            arm, moment = jnp.broadcast_to(c.s_j_bar, force.shape), torque
        found.append((force, moment - jnp.cross(arm, force)))
    return found


def _by_rows(program: Compiled, about: Any, *motion: Any) -> Any:
    """`program(about, *motion)` for arrays with one entry a row; known ones are filled up to a
    power of two, so that motions of other lengths compile nothing.
    """
    if not runs_now(about, motion):
        return program(about, *motion)
    count, filled = _filled(motion)
    bodies, like = (about.nb, about.unnamed()) if isinstance(about, System) else (2, about)
    found = remembered(program, program.for_work(count * bodies, like), about, *filled)
    return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[:count], found))


def _filled(motion: tuple) -> tuple[int, tuple]:
    """The number of rows of a motion, and the motion with its last row repeated up to a power of
    two.
    """
    count = jax.tree.leaves(motion)[0].shape[0]
    size = 1 << max(4, (count - 1).bit_length())

    def filled(x):
        x = np.asarray(x)
        return jax.device_put(np.concatenate([x, np.repeat(x[-1:], size - count, axis=0)]))

    return count, jax.tree.map(filled, motion)


def by_rows_if_made(program: Compiled, about: Any, *motion: Any) -> Any:
    """As `_by_rows`, where that compiles nothing; None elsewhere."""
    if about is None or not is_concrete((about, motion)):
        return None
    count, filled = _filled(motion)
    found = if_made(program, about, *filled)
    return None if found is None else jax.tree.map(lambda x: np.asarray(x)[:count], found)
