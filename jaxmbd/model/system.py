"""System: a mechanism as stacked arrays, ready for computation. Topology is static, physics is
dynamic.
"""

import dataclasses
import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..rotations.types import Array, Scalar
from ..xla.indexing import take
from .coordinates import AngleStack, each_followed, followed_in, with_turns
from .events import Event
from .forces import ForceStack
from .forces.stateful import held_states, of_all, stateful, with_rule
from .frames import FrameOnBody
from .inputs import Held, InputLabel, as_values, held_in, with_inputs
from .laws import LawStack
from .motions import hoist, is_motion
from .primitives import AbstractNormalForm, PrimitiveStack
from .readable import counted, known, numbers, readable
from .sensors import Sensor
from .state import Pose, State, Twist
from .switches import switched
from .validation import Numbers, is_concrete


class Connection(eqx.Module):
    """A joint, driver or free set of primitives as the reports know it.

    Attributes:
        s_i_bar: Its point on body i [m].
        s_j_bar: Its point on body j [m]; reactions are given there. For a distance, the other end
            of the link.
        axis_i_bar: Its axis in body i [-] (zero where it has none).
        axis_j_bar: Its axis in body j [-].
        outline_i, outline_j: Lines that pictures draw on its bodies, body frame, (n, 3) each [m].
        name: As given by the user.
        element: The class of its description, which says what a joint of its kind can do.
        bodies: Indices of its bodies (nb for the ground), two or more.
        rows: Its rows in the order of `Solution.lam`.
        labels: What each row does.
        is_driver: Whether it prescribes a motion.
        is_link: Whether it is drawn as a link between its points.
        angle: Its place among the joints' angles, or None.
    """

    s_i_bar: Float[Array, "3"]
    s_j_bar: Float[Array, "3"]
    axis_i_bar: Float[Array, "3"]
    axis_j_bar: Float[Array, "3"]
    name: str = eqx.field(static=True)
    element: type = eqx.field(static=True)
    bodies: tuple[int, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    is_driver: bool = eqx.field(static=True)
    is_link: bool = eqx.field(static=True)
    angle: int | None = eqx.field(static=True, default=None)
    outline_i: tuple[Any, ...] = ()
    outline_j: tuple[Any, ...] = ()

    @property
    def i(self) -> int:
        """Index of body i."""
        return self.bodies[0]

    @property
    def j(self) -> int:
        """Index of body j."""
        return self.bodies[1]

    @property
    def kind(self) -> str:
        """Its kind for reports: "Revolute", "RotationDriver", ..."""
        return self.element.__name__


class BeamLabel(eqx.Module):
    """A beam as the reports know it.

    Attributes:
        extents: Edges along y and z of a rectangle like its section, (2,) [m].
        name: As given by the user.
        nodes: Indices of its nodes.
        elements: Of each element, the force stack and the place in it.
        held: Strains that it does not have.
        rows: Of each element, the rows that hold them, in the order of `Solution.lam`.
    """

    extents: Float[Array, "2"]
    name: str = eqx.field(static=True)
    nodes: tuple[int, ...] = eqx.field(static=True)
    elements: tuple[tuple[int, int], ...] = eqx.field(static=True)
    held: tuple[int, ...] = eqx.field(static=True, default=())
    rows: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=())


class System(eqx.Module):
    """A mechanism, stacked by type. Made by `Mechanism.build`; a pytree whose numbers may all be
    differentiated.

    Attributes:
        mass: (nb,) [kg].
        inertia: About the mass centers in body components, (nb, 3, 3) [kg·m²].
        gravity: (3,) [m/s²], global.
        length: A characteristic length [m], the scale of position tolerances.
        constraints: One block per structure of primitive, those at velocity level last.
        forces: One block per structure of force element.
        angles: Those of all joints that have one.
        connections: Joints and drivers, for reports and pictures.
        shapes: What bodies look like, or None, one per body.
        bodies: Names of the moving bodies.
        order: Position of each row of `Solution.lam` (the order of description) in the stacked
            order.
        has_loops: Whether redundant constraints are possible, judged by topology.
        linear_solver: How linear systems are solved, see the manual, "Choosing"; chosen by topology
            when built.
        massless: Names of bodies without mass; with any, only kinematics is possible.
        described: Whether v and omega of each body were described, or left to assembly.
        laws: One block per structure of stop, dry friction or contact.
        inertias: One block per structure of inertia of joint coordinates.
        frames: Frames on bodies, for reports.
        sensors: For reports and controllers.
        beams: For reports and pictures.
        light: Indices of links without inertia of their own.
        inputs: What a caller gives from step to step, see `Input`.
        held: Whether they have been given, by `with_inputs` or all by their defaults.
        events: That every run of `simulate` looks for.
    """

    mass: Float[Array, " nb"]
    inertia: Float[Array, "nb 3 3"]
    gravity: Float[Array, "3"]
    length: Scalar
    constraints: tuple[PrimitiveStack, ...]
    forces: tuple[ForceStack, ...]
    angles: AngleStack
    connections: tuple[Connection, ...]
    shapes: tuple
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)
    has_loops: bool = eqx.field(static=True)
    massless: tuple[str, ...] = eqx.field(static=True, default=())
    linear_solver: str = eqx.field(static=True, default="dense")
    described: tuple[tuple[bool, bool], ...] = eqx.field(static=True, default=())
    laws: tuple[LawStack, ...] = ()
    inertias: tuple[ForceStack, ...] = ()
    frames: tuple[FrameOnBody, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    beams: tuple[BeamLabel, ...] = ()
    light: tuple[int, ...] = eqx.field(static=True, default=())
    inputs: tuple[InputLabel, ...] = eqx.field(static=True, default=())
    held: bool = eqx.field(static=True, default=False)
    events: tuple[Event, ...] = ()

    def __repr__(self) -> str:
        return readable(self, _described)

    def unnamed(self) -> "System":
        """The same arrays and topology without names, shapes and other labels, which no computation
        needs.
        """
        if not self.name and not any(self.bodies):
            return self
        return dataclasses.replace(
            self,
            connections=_remembered(self.connections, _unlabeled),
            forces=_remembered(self.forces, _nameless),
            laws=_remembered(self.laws, _nameless),
            inertias=_remembered(self.inertias, _nameless),
            frames=(),
            sensors=(),
            shapes=(None,) * self.nb,
            name="",
            bodies=("",) * self.nb,
            massless=("",) * len(self.massless),
            described=(),
            beams=(),
            inputs=tuple(x._replace(name="", unit="") for x in self.inputs),
            events=(),
        )

    def without_events(self) -> "System":
        """The same system, whose runs look for no events of their own."""
        return dataclasses.replace(self, events=()) if self.events else self

    @property
    def nb(self) -> int:
        """Number of moving bodies."""
        return len(self.bodies)

    @property
    def nc(self) -> int:
        """Number of constraint rows (drivers included)."""
        return len(self.order)

    @property
    def dtype(self):
        return self.mass.dtype

    def units(self, width: int = 6) -> Float[Array, " d"]:
        """Units of a body's velocity coordinates, displacements first: the characteristic length
        for these and one for turns, (width,) [m or 1].
        """
        return jnp.where(np.arange(width) < 3, self.length, jnp.ones_like(self.length))

    @property
    def holonomic(self) -> tuple[PrimitiveStack, ...]:
        """The rows at position level."""
        return tuple(stack for stack in self.constraints if stack.is_holonomic)

    @property
    def nonholonomic(self) -> tuple[PrimitiveStack, ...]:
        """The rows at velocity level, which follow the others."""
        return tuple(stack for stack in self.constraints if not stack.is_holonomic)

    @property
    def presses(self) -> bool:
        """Whether rows have forces beside their own, see `AbstractPrimitive.pressing`."""
        return any(type(stack.primitive).presses for stack in self.constraints)

    @property
    def holonomic_rows(self) -> int:
        """Number of rows at position level."""
        return sum(len(stack) for stack in self.holonomic)

    def with_rows(self, rows: Sequence[tuple[Connection, type, str, Any]]) -> "System":
        """The system with further rows of joints it has, in normal form: (joint, kind of driver,
        label, primitive).
        """
        if not rows:
            return self
        first = sum(isinstance(stack.primitive, AbstractNormalForm) for stack in self.constraints)
        start = sum(len(stack) for stack in self.constraints[:first])
        added, numbers, connections = [], [], []
        for n, (c, kind, label, primitive) in enumerate(rows):
            primitive = jax.tree.map(
                lambda x: hoist(x, jnp.zeros((), self.dtype)) if is_motion(x) else x,
                primitive,
                is_leaf=is_motion,
            )
            ((_, stack),) = PrimitiveStack.build([primitive], [c.bodies[:2]])
            added.append(stack)
            numbers.append(start + n)
            connections.append(
                dataclasses.replace(
                    c,
                    element=kind,
                    rows=(self.nc + n,),
                    labels=(label,),
                    is_driver=True,
                    angle=None,
                )
            )
        moved = tuple(k if k < start else k + len(rows) for k in self.order)
        return dataclasses.replace(
            self,
            constraints=(*self.constraints[:first], *added, *self.constraints[first:]),
            order=(*moved, *numbers),
            connections=(*self.connections, *connections),
        )

    def refuse_laws(
        self,
        who: str,
        cure: str = "use simulate with integrator=mbd.Moreau()",
    ) -> None:
        """Raise where there are stops, dry friction or contacts that do not give way, for a method
        that knows smooth motions alone; it names them.

        Raises:
            ValueError: There are such laws.
        """
        names = [repr(name) for stack in self.laws for name in stack.names]
        if names:
            raise ValueError(
                f"{who} knows no stops, dry friction and contacts; mechanism {self.name!r} has "
                f"{', '.join(names)}: {cure}. Stops and contacts with stiffness= are forces, which "
                "it takes"
            )

    def refuse_switches(self, who: str, cure: str) -> None:
        """Raise where joints or forces may begin or cease to act, for a method that knows one set
        of rows alone; it names them.

        Raises:
            ValueError: There are such elements.
        """
        rows = [
            stack.primitive.switch is not None for stack in self.constraints for _ in stack.bodies
        ]
        joints = [c.name for c in self.connections if any(rows[self.order[k]] for k in c.rows)]
        names = [n for s in self.forces if s.force.switch is not None for n in s.names]
        if joints or names:
            raise ValueError(
                f"{who} knows no joints and forces with active=; mechanism {self.name!r} has "
                f"{', '.join(map(repr, joints + names))}: {cure}"
            )

    def refuse_events(self, who: str) -> None:
        """Raise where the mechanism has events, for what looks for none; it names them.

        Raises:
            ValueError: There are events.
        """
        if self.events:
            raise ValueError(
                f"{who} looks for no events; mechanism {self.name!r} has "
                f"{', '.join(repr(event.name) for event in self.events)}: use simulate with fixed "
                "steps and without a controller, or system.without_events()"
            )

    def refuse_inertias(
        self,
        who: str,
        cure: str = "use simulate with another integrator, such as GeneralizedAlpha",
    ) -> None:
        """Raise where joints have inertia of their own, for a method that knows bodies alone; it
        names them.

        Raises:
            ValueError: There are such inertias.
        """
        names = [repr(name) for stack in self.inertias for name in stack.names]
        if names:
            raise ValueError(
                f"{who} knows the inertia of bodies alone; mechanism {self.name!r} has inertia of "
                f"joints, {', '.join(names)}: {cure}"
            )

    def refuse_velocity_rows(
        self,
        who: str,
        cure: str = "use simulate with another integrator, such as GeneralizedAlpha",
    ) -> None:
        """Raise where there are rows at velocity level, for a method that knows positions alone; it
        names the joints.

        Raises:
            ValueError: There are such rows.
        """
        first = self.holonomic_rows
        joints = [
            repr(c.name)
            for c in self.connections
            if any(self.order[row] >= first for row in c.rows)
        ]
        if joints:
            raise ValueError(
                f"{who} works with constraints between positions; {', '.join(joints)} of mechanism "
                f"{self.name!r} constrain velocities: {cure}"
            )

    @property
    def row_bodies(self) -> np.ndarray:
        """Bodies of every row in the stacked order, (nc, k); the ground, nb, stands in for bodies a
        row has not.
        """
        width = max([2, *(stack.width for stack in self.constraints)])
        rows = [
            (*bodies, *[self.nb] * (width - len(bodies)))
            for stack in self.constraints
            for bodies in stack.bodies
        ]
        return np.array(rows, int).reshape(len(rows), width)

    def at_position_level(self) -> "System":
        """The system without its rows at velocity level, which say nothing about positions."""
        if not self.nonholonomic:
            return self
        kept = self.holonomic_rows
        order = tuple(k for k in self.order if k < kept)
        new_row = {row: n for n, row in enumerate(r for r, k in enumerate(self.order) if k < kept)}
        connections = tuple(
            dataclasses.replace(
                c,
                rows=tuple(new_row[r] for r in c.rows if r in new_row),
                labels=tuple(
                    label for r, label in zip(c.rows, c.labels, strict=True) if r in new_row
                ),
            )
            for c in self.connections
        )
        return dataclasses.replace(
            self, constraints=self.holonomic, order=order, connections=connections
        )

    @property
    def row_names(self) -> tuple[str, ...]:
        """Name of every row of `Solution.lam`, as "joint: what the row does"."""
        names = [""] * self.nc
        for c in self.connections:
            for row, label in zip(c.rows, c.labels, strict=True):
                names[row] = f"{c.name}: {label}"
        return tuple(names)

    def to_natural(self, values: Float[Array, "*t nc"]) -> Float[Array, "*t nc"]:
        """Reorder rows from the stacked order to the order of description."""
        return values[..., np.array(self.order, int)]

    def to_stacked(self, values: Float[Array, "*t nc"]) -> Float[Array, "*t nc"]:
        """Reorder rows from the order of description to the stacked order."""
        return values[..., np.argsort(np.array(self.order, int))]

    def at(self, t: Scalar) -> "System":
        """The system at one instant: motions of the constraints replaced by their values."""
        stacks = tuple(stack.at(t) for stack in self.constraints)
        return eqx.tree_at(lambda s: s.constraints, self, stacks)

    def jet(self, t: Scalar) -> tuple["System", Float[Array, " nc"], Float[Array, " nc"]]:
        """The system at one instant with rates of turning vectors; first and second derivatives of
        f, stacked order.
        """
        jets = [stack.jet(t) for stack in self.constraints]
        system = eqx.tree_at(lambda s: s.constraints, self, tuple(j[0] for j in jets))
        empty = jnp.zeros(0, self.dtype)
        return (
            system,
            jnp.concatenate([empty] + [j[1] for j in jets]),
            jnp.concatenate([empty] + [j[2] for j in jets]),
        )

    def wrenches(
        self, pose: Pose, twist: Twist, t: Scalar
    ) -> tuple[Float[Array, "nb 3"], Float[Array, "nb 3"]]:
        """Applied forces [N], global, and torques [N·m] about the mass centers, body frame; gravity
        included.

        `pose` and `twist` have nb + 1 rows, the last one being the ground.
        """
        force = self.mass[:, None] * self.gravity[None, :]
        if not self.forces:
            return force, jnp.zeros_like(force)
        ground = jnp.zeros((1, 3), force.dtype)
        force, torque = jnp.concatenate([force, ground]), jnp.zeros((self.nb + 1, 3), force.dtype)
        for stack in self.forces:
            index = stack.index
            local = jax.tree.map(lambda x, index=index: take(x, index), (pose, twist))
            f, n = stack.each(lambda element, p, w: element.acting(p, w, t), *local)
            force, torque = force.at[index].add(f), torque.at[index].add(n)
        return force[: self.nb], torque[: self.nb]

    def on_branch(self, pose: Pose) -> Bool[Array, ""]:
        """Whether every row stands at the root that is meant; `self` is at the instant, `pose` has
        nb + 1 rows.
        """
        good = jnp.ones((), bool)
        for stack in self.holonomic:
            value = stack.each(lambda p, *x: p.branch(*x), *stack.local(pose))
            if value is not None:
                right = value >= 0.0
                if (switch := stack.primitive.switch) is not None:
                    right = right | ~switch.on
                good = good & jnp.all(right)
        return good

    def given(self, values: Float[Array, "3 n"], t: Scalar) -> "System":
        """The system with values, rates and accelerations of its inputs at time t, (3, n)."""
        if not self.inputs:
            return self
        parts = (self.constraints, self.forces, self.laws)
        parts = with_inputs(parts, self.inputs, values, t)
        return dataclasses.replace(
            self, constraints=parts[0], forces=parts[1], laws=parts[2], held=True
        )

    def held_inputs(self) -> dict[str, Held]:
        """What the inputs are that the system holds, by name, as functions of time."""
        found = {}
        for held in held_in((self.constraints, self.forces, self.laws)):
            for k, number in enumerate(held.numbers):
                one = jax.tree.map(lambda x, k=k: x[k], held) if held.at.ndim else held
                found.setdefault(self.inputs[number].name, one)
        return found

    def held_values(self, t: Numbers) -> Float[Array, "3 n"] | None:
        """Their values, rates and accelerations at a time; None of a mechanism without inputs."""
        if not self.inputs:
            return None
        found = self.held_inputs()
        each = [found[label.name].jet(jnp.asarray(t, self.dtype)) for label in self.inputs]
        return jnp.concatenate(each, axis=1)

    def switch_places(self) -> tuple[int, ...]:
        """Where the switches of joints and forces are among the numbers of all inputs."""
        first = [0, *itertools.accumulate(x.width for x in self.inputs)]
        stacks = [*(s.primitive for s in self.constraints), *(s.force for s in self.forces)]
        numbers = {k for x in stacks if x.switch is not None for k in x.switch.active.numbers}
        return tuple(sorted(first[k] for k in numbers))

    def with_inputs(self, inputs: Mapping[str, Numbers], t: Numbers = 0.0) -> "System":
        """The system whose inputs have these values, by name, for analyses of one instant or of
        constant inputs: `equilibrium`, `linearize`, `kinematics`. That of a driver is a tuple of
        its value, rate and acceleration at time t [s], from which it goes on as a parabola.

        Raises:
            ValueError: An input is missing, unknown or of a wrong shape.
        """
        values = jnp.asarray(as_values(self.inputs, inputs, "with_inputs"))
        return self.given(values, jnp.asarray(t, self.dtype))

    # --- states of force elements
    # ---------------------------------------------------------------------

    @property
    def state_count(self) -> int:
        """Number of all states of force elements."""
        return sum(force.rule.past.size for _, force in stateful(self.forces))

    @property
    def element_state_names(self) -> tuple[str, ...]:
        """Names of all states of force elements, as "motor.current"."""
        return tuple(
            f"{name}.{label.name}"
            for k, force in stateful(self.forces)
            for name in self.forces[k].names
            for label in force.labels()
        )

    def held_element_states(self) -> Float[Array, " s"]:
        """The states that force elements hold, (s,)."""
        return held_states(self.forces).astype(self.dtype)

    def with_element_states(
        self, past: Float[Array, " s"] | None, share: Numbers = 1.0, weight: Numbers = 0.0
    ) -> "System":
        """The system whose elements' states follow share (z - past) = weight ż; by default they are
        held. As it is for None.

        Raises:
            ValueError: They are of another mechanism.
        """
        if past is None or not (count := self.state_count):
            return self
        if past.shape[-1] != count:
            raise ValueError(
                f"force elements of mechanism {self.name!r} have {count} states, and the state has "
                f"{past.shape[-1]}: it belongs to another mechanism. Use "
                "dataclasses.replace(state, element_states=None) to start from the described ones"
            )
        return dataclasses.replace(self, forces=with_rule(self.forces, past, share, weight))

    def element_states_at(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " s"]:
        """The states that satisfy their rule at a motion, (s,); `pose` and `twist` have nb + 1
        rows.
        """
        return of_all(self.forces, lambda x, p, w: x.checked_states(p, w, t), pose, twist)

    def element_state_rates(self, pose: Pose, twist: Twist, t: Scalar) -> Float[Array, " s"]:
        """The rates of the states that are held, (s,) [1/s]; `pose` and `twist` have nb + 1
        rows.
        """
        return of_all(self.forces, lambda x, p, w: x.state_rates(p, w, x.rule.past, t), pose, twist)

    def refuse_elements_with_states(self, who: str, cure: str) -> None:
        """Raise where force elements have states, for an analysis that knows none; it names them.

        Raises:
            ValueError: There are such elements.
        """
        names = [repr(name) for k, _ in stateful(self.forces) for name in self.forces[k].names]
        if names:
            raise ValueError(
                f"{who} knows no force elements with states of their own; mechanism "
                f"{self.name!r} has {', '.join(names)}: {cure}"
            )

    def at_state(self, state: State) -> "System":
        """The system with the angles and the element states of a state."""
        return self.wound(state.angles).with_element_states(state.element_states)

    # --- angles over many turns
    # ---------------------------------------------------------------------

    @property
    def _winding(self) -> tuple[Any, ...]:
        """Everything that may hold angles: the joints', those of forces, those of primitives."""
        return self.angles, *self.forces, *self.constraints, *self.laws

    def turns(self) -> Float[Array, " w"]:
        """Where all angles are looked for, joints first, (w,) [rad]."""
        near = [a.near.reshape(-1) for part in self._winding for a in followed_in(part.members)]
        if is_concrete(near):  # compiles nothing, and stays known inside a trace
            with jax.ensure_compile_time_eval():
                return jax.device_put(
                    np.concatenate([np.zeros(0, self.dtype), *map(np.asarray, near)])
                )
        return jnp.concatenate([jnp.zeros(0, self.dtype), *near])

    def with_turns(self, state: State) -> State:
        """The state with the turns of its angles and its elements' states, also where it was
        described without; so that one program serves a description and a row of a run.
        """
        if state.angles is None:
            state = dataclasses.replace(state, angles=self.turns())
        if state.element_states is None:
            state = dataclasses.replace(state, element_states=self.held_element_states())
        return state

    def wound(self, turns: Float[Array, " w"] | None) -> "System":
        """The system with its angles looked for near these values; as it is for None."""
        if turns is None:
            return self
        parts = (self.angles, self.forces, self.constraints, self.laws)
        sizes = [a.near.size for a in followed_in(parts)]
        if turns.shape[-1] != sum(sizes):
            # Within a program a system has no name.
            title = f"mechanism {self.name!r}" if self.name else "the mechanism"
            raise ValueError(
                f"{title} follows {sum(sizes)} angles, and the state "
                f"counts the turns of {turns.shape[-1]}: it belongs to another mechanism. Use "
                "dataclasses.replace(state, angles=None) to start from its poses without turns"
            )
        if not sizes:
            return self
        parts = with_turns(parts, jnp.split(turns, np.cumsum(sizes)[:-1]))
        return dataclasses.replace(
            self, angles=parts[0], forces=parts[1], constraints=parts[2], laws=parts[3]
        )

    def angle_values(self, pose: Pose) -> Float[Array, " w"]:
        """All angles at a pose with nb + 1 rows, each within half a turn of where it is looked for,
        (w,) [rad].
        """
        return self._of_angles(lambda angle, i, j: angle.value(i[0], j[0]), pose)

    def angle_rates(self, pose: Pose, twist: Twist) -> Float[Array, " w"]:
        """Rates of all angles, (w,) [rad/s]; `pose` and `twist` have nb + 1 rows."""
        return self._of_angles(lambda angle, i, j: angle.rate(*i, *j), pose, twist)

    def _of_angles(self, function, *states) -> Float[Array, " w"]:
        values = [
            each_followed(angle, part.index, function, *states).reshape(-1)
            for part in self._winding
            for angle in followed_in(part.members)
        ]
        return jax.lax.stop_gradient(jnp.concatenate([jnp.zeros(0, self.dtype), *values]))

    def kinetic(self, pose: Pose, twist: Twist) -> Scalar:
        """Kinetic energy of bodies and of joints' own inertia [J]; `pose` and `twist` have nb + 1
        rows.
        """
        v, omega = twist.v[: self.nb], twist.omega[: self.nb]
        energy = 0.5 * jnp.sum(self.mass * jnp.sum(v**2, 1))
        energy = energy + 0.5 * jnp.einsum("bi,bij,bj->", omega, self.inertia, omega)
        for stack in self.inertias:
            local = jax.tree.map(lambda x, index=stack.index: take(x, index), (pose, twist))
            energy = energy + jnp.sum(stack.each(lambda rotor, *x: rotor.kinetic(*x), *local))
        return energy

    def potential(self, pose: Pose) -> Scalar:
        """Potential energy of gravity and springs [J]; `pose` has nb + 1 rows, the last one being
        the ground.
        """
        energy = -jnp.sum(self.mass * (pose.r[: self.nb] @ self.gravity))
        for stack in self.forces:
            local = Pose(take(pose.r, stack.index), take(pose.A, stack.index))
            each = stack.each(lambda x, p: switched(x.switch, x.potential(p)), local)
            energy = energy + jnp.sum(each)
        return energy


def _described(system: System) -> str:
    """What a system is, in numbers; those that are traced or batched are left out."""
    drivers = sum(c.is_driver for c in system.connections)
    forces, laws = (  # a motor with a rotor is in two stacks
        len({name for stack in x for name in stack.names})
        for x in (system.forces + system.inertias, system.laws)
    )
    counts = [
        counted(system.nb, "body", "bodies"),
        counted(len(system.connections) - drivers, "joint"),
        *([counted(drivers, "driver")] if drivers else []),
        counted(system.nc, "constraint row"),
        *([counted(forces, "force element")] if forces else []),
        *([counted(laws, "law")] if laws else []),
        *([counted(len(system.inputs), "input")] if system.inputs else []),
        *([counted(len(system.events), "event")] if system.events else []),
    ]
    facts = ["with closed loops" if system.has_loops else "without closed loops"]
    if known(system.mass) and system.mass.ndim == 1 and not system.massless:
        facts.append(f"{float(np.sum(np.asarray(system.mass))):.4g} kg")
    if known(system.gravity) and system.gravity.ndim == 1:
        facts.append(f"gravity {numbers(np.asarray(system.gravity))} m/s²")
    solver = system.linear_solver.replace("_", "-")
    return (
        f"System {system.name!r}: {', '.join(counts)}\n"
        f"  {', '.join(facts)}; linear systems: {solver}"
    )


def _unlabeled(connections: tuple[Connection, ...]) -> tuple[Connection, ...]:
    """The same without names and outlines."""
    return tuple(dataclasses.replace(c, name="", outline_i=(), outline_j=()) for c in connections)


_stripped: OrderedDict[int, tuple[tuple, tuple]] = OrderedDict()
_STRIPPED_AT_MOST = 64


def _remembered(parts: tuple, function) -> tuple:
    """The function of the parts of a system, kept as long as these are among the last that were
    asked for: every call of a compiled program asks, and a hundred joints take 10 ms.
    """
    if not parts:
        return parts
    known = _stripped.get(id(parts))
    if known is None:
        known = parts, function(parts)
        if not is_concrete(parts):  # a tracer must not outlive its trace
            return known[1]
        _stripped[id(parts)] = known  # holds the parts, so that their id stays theirs
        if len(_stripped) > _STRIPPED_AT_MOST:
            _stripped.popitem(last=False)
    return known[1]


def _nameless(stacks: tuple) -> tuple:
    """Stacks of elements without their names."""
    return tuple(dataclasses.replace(stack, names=("",) * len(stack.names)) for stack in stacks)
