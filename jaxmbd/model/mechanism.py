"""Mechanism: what the user writes, by name."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg import carried_bodies, choose_strategy
from ..rotations.types import Array, host, library_of
from . import parameters
from .beams import Beam, described
from .body import Body, ground, make_body
from .coordinates import Angle, AngleStack
from .doubts import warn_of_doubts
from .events import Event
from .forces import AbstractForceDescription, AbstractInertia, ForceStack
from .frames import Frame
from .given import Kind, specs
from .inputs import Input, Numbering, settled
from .joints import AbstractRelation, Fixed
from .laws import KINDS, AbstractLawDescription, LawStack
from .laws.base import CONTACT
from .motions import hoist, is_motion
from .primitives import AbstractNormalForm, AbstractPrimitive, PrimitiveStack
from .readable import counted, listed, numbers, readable
from .sensors import AbstractSensor, Sensor
from .shapes import AbstractShape
from .stacking import asarrays, group_alike, on_device, stack_arrays
from .stacking import stack as stack_alike
from .state import State
from .switches import Switch, base_name, input_of, offset_name, with_switch
from .system import BeamLabel, Connection, System
from .topology import Forest
from .validation import Numbers, default_dtype, is_concrete, vector, warn_if_single
from .visuals import Looks, Visual

Part = (
    AbstractRelation
    | AbstractForceDescription
    | AbstractLawDescription
    | Frame
    | AbstractSensor
    | Event
)
_PLURALS = {
    "body": "bodies",
    "joint": "joints",
    "force": "forces",
    "law": "laws",
    "frame": "frames",
    "sensor": "sensors",
    "beam": "beams",
    "event": "events",
}

# Couplings, such as meshes of gears, up to which range-space elimination is accurate enough: in a
# train of 100 it loses so many digits that a step takes three iterations, not one (measured).
_MESHES = 32


class Mechanism:
    """Bodies, joints, drivers and forces by name; `build` turns them into arrays.

    Points and axes of joints and forces are global components at the initial pose, so a mechanism
    is described as one would draw it. Numbers may be traced by JAX: build inside a loss function
    and differentiate with respect to them.

    Args:
        name: For reports and files.
        gravity: Acceleration of free fall, (3,) [m/s²], global.
    """

    def __init__(self, name: str = "mechanism", *, gravity: Numbers = (0.0, 0.0, -9.81)):
        if not isinstance(name, str) or not name:
            raise ValueError(f"a mechanism needs a name, a non-empty string, not {name!r}")
        self.name = name
        self.gravity = gravity
        self.ground = ground()
        self.bodies: dict[str, Body] = {}
        self.constraints: dict[str, AbstractRelation] = {}
        self.forces: dict[str, AbstractForceDescription] = {}
        self.laws: dict[str, AbstractLawDescription] = {}
        self.frames: dict[str, Frame] = {}
        self.sensors: dict[str, AbstractSensor] = {}
        self.beams: dict[str, Beam] = {}
        self.events: dict[str, Event] = {}

    def __repr__(self) -> str:
        return readable(self, _described)

    @property
    def gravity(self) -> Array:
        """Acceleration of free fall, (3,) [m/s²], global; it may be set."""
        return self._gravity

    @gravity.setter
    def gravity(self, value: Numbers) -> None:
        self._gravity = vector(value, 3, f"mechanism {self.name!r}: gravity")

    def add_body(
        self,
        name: str,
        *,
        mass: Numbers | None = None,
        inertia: Numbers | None = None,
        r: Numbers = (0.0, 0.0, 0.0),
        A: Numbers | None = None,
        quaternion: Numbers | None = None,
        euler: Numbers | None = None,
        v: Numbers | None = None,
        omega: Numbers | None = None,
        shape: AbstractShape | None = None,
        allow_unphysical_inertia: bool = False,
        massless: bool = False,
        visuals: Sequence[Visual] = (),
    ) -> Body:
        """Add a rigid body; its frame sits at the mass center.

        Args:
            name: Unique; "ground" is taken.
            mass: [kg]. Mass and inertia may both be left out for kinematics only.
            inertia: About the mass center in the body frame: (3,) principal moments or (3, 3)
                [kg·m²].
            r: Position of the mass center, (3,) [m], global.
            A: Rotation matrix from body to global components, (3, 3); a rounded one is projected to
                SO(3).
            quaternion: Instead of A: (e0, e1, e2, e3), scalar first.
            euler: Instead of A: angles (phi, theta, psi) of the sequence z-x-z [rad].
            v: Velocity of the mass center, (3,) [m/s], global. Where it is left out, assembly finds
                it: zero, or what the joints and the described velocities ask for.
            omega: Angular velocity, (3,) [rad/s], body frame; likewise.
            shape: Gives mass and inertia where these are left out, and the body's looks.
            allow_unphysical_inertia: Accept principal moments that violate the triangle inequality
                (published data).
            massless: A link without inertia of its own, such as the cross of a cardan joint:
                whatever it can do must move bodies that have inertia. Its frame sits at `r`.
            visuals: Shapes that it shows instead of `shape`.

        Returns:
            The body, to be named in joints and forces.

        Raises:
            ValueError: Something is missing, of wrong shape or physically impossible; the message
                names the body.
        """
        self._check_name(name, "body", self.bodies)
        if name == "ground":
            raise ValueError(
                "body 'ground': the ground is part of every mechanism; use another name"
            )
        body = make_body(
            name,
            mass=mass,
            inertia=inertia,
            r=r,
            A=A,
            quaternion=quaternion,
            euler=euler,
            v=v,
            omega=omega,
            shape=shape,
            allow_unphysical_inertia=allow_unphysical_inertia,
            massless=massless,
            visuals=visuals,
        )
        self.bodies[name] = body
        # Nodes of beams follow all other bodies, in files too.
        for beam in self.beams.values():
            for node in beam.nodes:
                self.bodies[node.name] = self.bodies.pop(node.name)
        return body

    def add_beam(
        self,
        name: str,
        points: Numbers,
        *,
        section: object,
        elements: int | None = None,
        y_axis: Numbers | None = None,
        twist: Numbers = 0.0,
        natural: Numbers | None = None,
        damping: Numbers | None = None,
        rigid: str = "none",
        strains: str = "logarithm",
        v: Numbers | None = None,
        omega: Numbers | None = None,
    ) -> Beam:
        """Add a geometrically exact beam. Its nodes are rigid bodies "NAME.0", "NAME.1", ..., for
        any joint, driver, force or law: `beam.nodes[k]`, `beam.first`, `beam.last`.

        The x axis of a node is the tangent, y and z are the principal axes of the section.

        Args:
            name: Unique among the beams.
            points: The line of centroids as described, global: two points or more, (k, 3) [m],
                joined by a cubic spline; or three expressions of t, or a function of t, for t from
                0 to 1.
            section: Stiffness and density; see `mbd.Section`.
            elements: Their number; by default one between every two points, 8 on a function.
                Nodes are evenly spaced in the number of the point, or in t.
            y_axis: Where the section's y axis points at the start, global; its part along the beam
                is left out. By default y is horizontal, and z points up; of a vertical beam, y is
                the global y axis.
            twist: The angle by which the section is turned about the tangent from start to end, in
                even parts [rad].
            natural: Strains at which the beam is free of stress, beyond those of the line, (6,) or
                (elements, 6): stretch, shear along y and z [-], torsion, bending about y and z
                [1/m]. By default the line as described is free of stress.
            damping: Kelvin-Voigt damping: section forces are K (e + damping ė) [s], one number or
                one for each strain, (6,). The strains of stretch and shear are stiff; damping of
                torsion and bending alone, (0, 0, 0, c, c, c), often suffices and leaves steps
                larger.
            rigid: Strains that it does not have: "none", "stretch", "shear" or "stretch and shear".
                They become constraint rows.
            strains: "logarithm": of the relative pose on SE(3); arcs are exact. "quadratic": of
                positions and directors, with which `EnergyMomentum` conserves energy to rounding.
            v: Velocities of the nodes [m/s], global; (3,) for all or (elements + 1, 3). Where they
                are left out, assembly finds them.
            omega: Angular velocities of the nodes [rad/s], body frame; likewise.

        Returns:
            The beam.

        Raises:
            ValueError: Something is missing, of wrong shape or physically impossible; the message
                names the beam.
        """
        self._check_name(name, "beam", self.beams)
        beam = described(
            Beam(
                name,
                points=points,
                section=section,
                elements=elements,
                y_axis=y_axis,
                twist=twist,
                natural=natural,
                damping=damping,
                rigid=rigid,
                strains=strains,
                v=v,
                omega=omega,
            )
        )
        for node in beam.nodes:
            self._check_name(node.name, "body", self.bodies)
        self.beams[name] = beam
        self.bodies |= {node.name: node for node in beam.nodes}
        return beam

    @property
    def single_bodies(self) -> dict[str, Body]:
        """The bodies that are no nodes of beams."""
        nodes = {node.name for beam in self.beams.values() for node in beam.nodes}
        return {name: body for name, body in self.bodies.items() if name not in nodes}

    def add(self, part: Part) -> Part:
        """Add a joint, a driver, a constraint, a force, a law (stop, dry friction, contact), a
        frame, a sensor or an event, and return it.

        Every run of `simulate` looks for the events of its mechanism. What they name may be added
        later; a run says what is missing.

        Raises:
            ValueError: The name is taken, a body is unknown, or the part connects a body with
                itself or the ground with the ground.
        """
        if isinstance(part, AbstractRelation):
            self._check_name(part.name, "joint", self.constraints)
            joint: AbstractRelation = self._with_joints(part)
            bodies = [self._body(b, joint.name) for b in joint.targets()]
            self._check_different(bodies, f"joint {joint.name!r}")
            joint.rows(*bodies)  # refuses impossible data here, where the user can see the line
            joint.check_numbers()
            self.constraints[joint.name] = joint
            return joint
        elif isinstance(part, AbstractForceDescription):
            self._check_name(part.name, "force", self._force_elements())
            force: AbstractForceDescription = self._with_joints(part)
            bodies = [self._body(b, force.name) for b in force.targets()]
            if len(bodies) == 2:
                self._check_different(bodies, f"force {force.name!r}")
            elif all(b.is_ground for b in bodies):
                raise ValueError(
                    f"force {force.name!r}: acts on the ground only; name a moving body"
                )
            force.element(*bodies)
            force.check_numbers()
            self.forces[force.name] = force
            return force
        elif isinstance(part, AbstractLawDescription):
            self._check_name(part.name, "law", self.laws)
            if part.gives_way:
                self._check_name(part.name, "force", self.forces)
            law: AbstractLawDescription = self._with_joints(part)
            bodies = [self._body(b, law.name) for b in law.targets()]
            self._check_different(bodies, law.title)
            law.element(*bodies)
            law.check_numbers()
            self.laws[law.name] = law
            return law
        elif isinstance(part, Frame):
            self._check_name(part.name, "frame", self.frames)
            part.on(self._body(part.body, part.name), 0)
            self.frames[part.name] = part
            return part
        elif isinstance(part, AbstractSensor):
            self._check_name(part.name, "sensor", self.sensors)
            sensor: AbstractSensor = self._with_joints(part)
            self._sensor(sensor)
            sensor.check_numbers()
            self.sensors[sensor.name] = sensor
            return sensor
        elif isinstance(part, Event):
            self._check_name(part.name, "event", self.events)
            self.events[part.name] = part
            return part
        raise TypeError(
            f"cannot add {part!r}: not a joint, driver, constraint, force, law, frame, sensor or "
            "event of jaxmbd"
        )

    def values(self) -> dict[str, Any]:
        """All numbers of the mechanism by path, in the order of description.

        Paths: "gravity"; "bodies.NAME.mass" (inertia, r, A, v, omega); "joints.NAME.FIELD" with the
        fields of the joint or driver, for a `Constraint` "joints.NAME.primitives.0.s_i_bar";
        "forces.NAME.FIELD", "laws.NAME.FIELD", "frames.NAME.FIELD", "sensors.NAME.FIELD",
        "events.NAME.value"; "beams.NAME.FIELD" and "beams.NAME.section.E" (G, A, I, J, rho, shear).
        A field that holds a function with arrays (an `equinox` module, a neural network) is one
        value.
        """
        return parameters.values(self)

    def with_values(self, changes: Mapping[str, object]) -> "Mechanism":
        """A copy with some numbers replaced, by the paths of `values`; the new ones may be traced
        by JAX.

        Raises:
            ValueError: No such number (the message names the nearest), or an impossible one.
        """
        return parameters.with_values(self, changes)

    def build(self) -> tuple[System, State]:
        """Stack the mechanism into arrays.

        Returns:
            The system, and the state as described (not yet assembled: `simulate`, `kinematics` and
            `assemble` do that).

        Raises:
            ValueError: There is no body, or a driver prescribes what is determined already.
        """
        warn_if_single()
        self._check_precision()
        if not self.bodies:
            raise ValueError(f"mechanism {self.name!r} has no bodies; add one with add_body")
        bodies, dtype = list(self.bodies.values()), default_dtype()
        inputs = Numbering()
        stacks, order, connections, angles = self._stack_constraints(inputs)
        warn_of_doubts(self, connections)
        forces, inertias, beams = self._stack_forces(connections, inputs)
        index = self._indices()
        light = tuple(k for k, b in enumerate(bodies) if b.massless)
        system = System(
            mass=stack_arrays(*(_or_nan(b.mass, ()) for b in bodies)),
            inertia=stack_arrays(*(_or_nan(b.inertia, (3, 3)) for b in bodies)),
            gravity=self.gravity,
            length=_length(bodies, connections),
            constraints=settled(stacks),
            forces=settled(forces),
            angles=angles,
            connections=connections,
            shapes=tuple(Looks.of(b.visuals) if b.visuals else b.shape for b in bodies),
            name=self.name,
            bodies=tuple(self.bodies),
            order=order,
            has_loops=_has_loops(len(bodies), connections, stacks),
            massless=tuple(b.name for b in bodies if b.mass is None),
            linear_solver=_strategy(bodies, light, connections, stacks, len(order)),
            light=light,
            described=tuple(b.described for b in bodies),
            laws=settled(self._stack_laws(connections, inputs)),
            inertias=inertias,
            frames=tuple(
                frame.on((body := self._body(frame.body, frame.name)), index[body.name])
                for frame in self.frames.values()
            ),
            sensors=tuple(asarrays(self._sensor(x), dtype) for x in self.sensors.values()),
            beams=beams,
            inputs=inputs.labels,
            held=bool(inputs.labels) and all(x.default is not None for x in inputs.labels),
            events=tuple(self.events.values()),
        )
        system = on_device(system)
        state = State(
            *(stack_arrays(*(getattr(b, k) for b in bodies)) for k in ("r", "A", "v", "omega")),
            # A state of a solution has these: both are one pytree.
            angles=system.turns(),
            element_states=system.held_element_states(),
        )
        return system, state

    def _check_precision(self) -> None:
        """Refuse numbers that were rounded to single precision before double was switched on."""
        dtype = default_dtype()
        old = [f"body {b.name!r}" for b in self.bodies.values() if b.r.dtype != dtype]
        if self.gravity.dtype != dtype:
            old.append("gravity")
        if old:
            raise ValueError(
                f"mechanism {self.name!r}: {old[0]} was described in another precision than the "
                f"present {dtype}; call jaxmbd.enable_x64() once, before anything is described"
            )

    # --- parts -----------------------------------------------------------------------------------

    def _check_name(self, name: str, kind: str, table: dict) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{kind}: needs a name, a non-empty string, not {name!r}")
        if name in table:
            raise ValueError(
                f"{kind} {name!r}: the name is taken; names of {_PLURALS[kind]} are unique"
            )

    def _body(self, body: Body | str, part: str) -> Body:
        if isinstance(body, Body):
            if body is not self.ground and self.bodies.get(body.name) is not body:
                raise ValueError(f"{part!r}: body {body.name!r} belongs to another mechanism")
            return body
        if body == "ground":
            return self.ground
        if body not in self.bodies:
            known = ", ".join(["ground", *self.bodies])
            raise ValueError(f"{part!r}: unknown body {body!r}; the bodies are {known}")
        return self.bodies[body]

    def _check_different(self, bodies: list[Body], what: str) -> None:
        for k, i in enumerate(bodies):
            if any(i is j for j in bodies[:k]):
                same = (
                    "both bodies are the ground"
                    if i.is_ground
                    else f"connects body {i.name!r} with itself"
                )
                raise ValueError(f"{what}: {same}; name different bodies")

    def _with_joints(self, part: Any) -> Any:
        """The part with the joints that it names, which have been added before it."""
        joints = {}
        for field, (spec, _) in specs(type(part)).items():
            if spec.kind is Kind.JOINT:
                joints[field] = self._joint(getattr(part, field), part.title)
            elif spec.kind is Kind.JOINTS:
                joints[field] = tuple(self._joint(x, part.title) for x in getattr(part, field))
        return dataclasses.replace(part, **joints) if joints else part

    def _joint(self, named: Any, title: str) -> AbstractRelation:
        joint = self.constraints.get(named) if isinstance(named, str) else named
        if joint is None or self.constraints.get(joint.name) is not joint:
            known = ", ".join(self.constraints) or "none"
            raise ValueError(f"{title}: unknown joint {named!r}; the joints are {known}")
        return joint

    def _sensor(self, part: AbstractSensor) -> Sensor:
        """A sensor on its bodies."""
        bodies, index = [self._body(b, part.name) for b in part.targets()], self._indices()
        return part.placed(bodies, [index[b.name] for b in bodies])

    def _force_elements(self) -> dict[str, AbstractForceDescription | AbstractLawDescription]:
        """The forces, and the laws that give way."""
        return self.forces | {name: law for name, law in self.laws.items() if law.gives_way}

    # --- stacking --------------------------------------------------------------------------------

    def _indices(self) -> dict[str, int]:
        return {name: k for k, name in enumerate([*self.bodies, "ground"])}

    def _stack_constraints(self, inputs: Numbering):
        dtype, index = default_dtype(), self._indices()
        by_type: dict[type, list[tuple]] = {}
        connections, angles = [], []
        count = 0
        held = [joint for beam in self.beams.values() for joint in beam.joints()]
        for part in [*self.constraints.values(), *held]:
            bodies = [self._body(b, part.name) for b in part.targets()]
            i, j = bodies[:2]
            at = tuple(index[b.name] for b in bodies)
            table = part.rows(*bodies)
            switch = _switch(part, all(type(p).shifts for _, p in table), rebases=part.rebases)
            for k, (_, primitive) in enumerate(table):
                primitive = inputs.numbered(_hoist_motions(primitive), drives=True)
                primitive = with_switch(primitive, switch, inputs.numbered)
                primitive = asarrays(primitive, dtype)
                row = (primitive, at, count + k)
                by_type.setdefault(type(primitive), []).append(row)
            point_i, point_j = part.reference_points(i, j)
            axis_i, axis_j = part.reference_axes(i, j)
            angle = None
            if part.has_angle:
                angle = len(angles)
                angles.append((Angle.between(i, j, axis_i), at[:2]))
            outline_i, outline_j = _outlines(part, i, j)
            connections.append(
                Connection(
                    s_i_bar=i.point(point_i),
                    s_j_bar=j.point(point_j),
                    axis_i_bar=i.direction(axis_i),
                    axis_j_bar=j.direction(axis_j),
                    name=part.name,
                    element=type(part),
                    bodies=at,
                    rows=tuple(range(count, count + len(table))),
                    labels=tuple(label for label, _ in table),
                    is_driver=part.is_driver,
                    is_link=part.is_link,
                    angle=angle,
                    outline_i=outline_i,
                    outline_j=outline_j,
                )
            )
            count += len(table)
        stacks, numbers = [], []
        for kind in sorted(by_type, key=_rank):
            primitives, bodies, rows = zip(*by_type[kind], strict=True)
            for members, stack in PrimitiveStack.build(primitives, bodies):
                stacks.append(stack)
                numbers += [rows[k] for k in members]
        stacked = stack_alike([asarrays(angle, dtype) for angle, _ in angles]) if angles else None
        turning = AngleStack(stacked, tuple(bodies for _, bodies in angles))
        return (
            tuple(stacks),
            tuple(int(k) for k in np.argsort(numbers)),
            tuple(connections),
            turning,
        )

    def _stack_forces(
        self, connections: tuple[Connection, ...], inputs: Numbering
    ) -> tuple[tuple[ForceStack, ...], tuple[ForceStack, ...], tuple[BeamLabel, ...]]:
        """Force elements; inertia of joint coordinates, which follows accelerations; beams."""
        dtype, index = default_dtype(), self._indices()
        elements, targets, names = [], [], []
        for part in self._force_elements().values():
            bodies = [self._body(b, part.name) for b in part.targets()]
            element = part.element(*bodies)
            described = isinstance(part, AbstractForceDescription)
            rotor = part.rotor(*bodies) if described else None
            switch = _switch(part, False) if described else None
            for made in (element,) if rotor is None else (element, rotor):
                own = switch if made is element else None
                made = with_switch(inputs.numbered(made), own, inputs.numbered)
                elements.append(asarrays(made, dtype))
                targets.append(tuple(index[b.name] for b in bodies))
                names.append(part.name)
            self._check_apart(part, element, bodies)
        for beam in self.beams.values():
            nodes = [index[node.name] for node in beam.nodes]
            elements += [asarrays(element, dtype) for element in beam.forces()]
            targets += zip(nodes[:-1], nodes[1:], strict=True)
            names += [f"{beam.name}[{k}]" for k in range(beam.count)]
        forces, inertias, place = [], [], {}
        for members, stacked in group_alike(elements):
            stack = ForceStack(
                stacked, tuple(targets[k] for k in members), tuple(names[k] for k in members)
            )
            if isinstance(stacked, AbstractInertia):
                inertias.append(stack)
                continue
            place |= {names[k]: (len(forces), n) for n, k in enumerate(members)}
            forces.append(stack)
        rows = {c.name: c.rows for c in connections}
        labels = tuple(beam.label(index, place, rows) for beam in self.beams.values())
        return tuple(forces), tuple(inertias), labels

    def _check_apart(self, part: Any, element: object, bodies: list[Body]) -> None:
        """Refuse contact of bodies that are one."""
        touches = getattr(element, "kind", None) == CONTACT
        if touches and (held := self._fixed_together(*bodies)):
            raise ValueError(
                f"{part.title}: joint {held!r} holds its bodies rigidly together, so that they "
                "cannot touch or part; leave it out"
            )

    def _fixed_together(self, i: Body, j: Body) -> str | None:
        """The fixed joint that holds two bodies together, if one does."""
        wanted = {i.name, j.name}
        for joint in self.constraints.values():
            if isinstance(joint, Fixed) and joint.active is None:
                ends = {self._body(b, joint.name).name for b in (joint.body_i, joint.body_j)}
                if ends == wanted:
                    return joint.name
        return None

    def _stack_laws(
        self, connections: tuple[Connection, ...], inputs: Numbering
    ) -> tuple[LawStack, ...]:
        dtype, index = default_dtype(), self._indices()
        rows = {c.name: c.rows for c in connections}
        elements, targets, names, joints = [], [], [], []
        for part in self.laws.values():
            if part.gives_way:
                continue
            bodies = [self._body(b, part.name) for b in part.targets()]
            elements.append(asarrays(inputs.numbered(part.element(*bodies)), dtype))
            self._check_apart(part, elements[-1], bodies)
            targets.append(tuple(index[b.name] for b in bodies))
            names.append(part.name)
            carrier = part.carrier()
            joints.append(() if carrier is None else rows[carrier.name])
        groups = sorted(group_alike(elements), key=lambda group: KINDS.index(group[1].kind))
        return tuple(
            LawStack(
                stacked,
                tuple(targets[k] for k in members),
                tuple(names[k] for k in members),
                tuple(joints[k] for k in members),
            )
            for members, stacked in groups
        )


def _described(m: Mechanism) -> str:
    """What a mechanism consists of, part by part."""
    drivers = sum(joint.is_driver for joint in m.constraints.values())
    parts = [
        counted(len(m.single_bodies), "body", "bodies"),
        counted(len(m.beams), "beam"),
        counted(len(m.constraints) - drivers, "joint"),
        counted(drivers, "driver"),
        counted(len(m.forces), "force"),
        counted(len(m.laws), "law"),
        counted(len(m.frames), "frame"),
        counted(len(m.sensors), "sensor"),
        counted(len(m.events), "event"),
    ]
    counts = [part for part in parts[:1] + [p for p in parts[1:] if not p.startswith("0 ")]]
    gravity = f", gravity {numbers(m.gravity)} m/s²" if is_concrete(m.gravity) else ""
    lines = [f"Mechanism {m.name!r}: {', '.join(counts)}{gravity}"]
    lines += listed([("body", repr(b.name), _mass(b)) for b in m.single_bodies.values()])
    lines += listed([("beam", repr(b.name), counted(b.count, "element")) for b in m.beams.values()])
    for table in (m.constraints, m.forces, m.laws):
        rows = []
        for part in table.values():
            bodies = [b.name if isinstance(b, Body) else b for b in part.targets()]
            rows.append((part.what, repr(part.name), type(part).__name__, " - ".join(bodies)))
        lines += listed(rows)
    lines += listed([("event", repr(e.name), *e.text()) for e in m.events.values()])
    return "\n".join(lines)


def _mass(body: Body) -> str:
    if body.mass is None:
        return "kinematics only"
    if body.massless:
        return "massless"
    return f"{float(np.asarray(body.mass)):.4g} kg" if is_concrete(body.mass) else "traced mass"


def _outlines(
    part: AbstractRelation, i: Body, j: Body
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The lines of a joint in the frames of its bodies; none where its numbers are traced."""
    numbers = [getattr(part, field) for field in specs(type(part))]
    if not is_concrete(jax.tree.leaves((numbers, i.r, i.A, j.r, j.A))):
        return (), ()
    on_i, on_j = part.outlines(i, j)
    return (
        tuple((line - i.r) @ i.A for line in on_i),
        tuple((line - j.r) @ j.A for line in on_j),
    )


def _rank(kind: type) -> tuple[bool, bool, str]:
    """Rows at position level first, and of these the ones in normal form."""
    return (
        not issubclass(kind, AbstractPrimitive),
        not issubclass(kind, AbstractNormalForm),
        kind.__name__,
    )


def _hoist_motions(primitive):
    t = np.zeros((), default_dtype())
    return jax.tree.map(lambda x: hoist(x, t) if is_motion(x) else x, primitive, is_leaf=is_motion)


def _or_nan(value: Array | None, shape: tuple[int, ...]) -> Array:
    return host.full(shape, np.nan, default_dtype()) if value is None else value


def _strategy(
    bodies: list[Body],
    light: tuple[int, ...],
    connections: tuple[Connection, ...],
    stacks: tuple[PrimitiveStack, ...],
    rows: int,
) -> str:
    """The linear solver for a topology."""
    if light:
        pairs = [at for stack in stacks for at in stack.bodies]
        carried = carried_bodies(len(bodies), pairs, 0)
        # A link without inertia needs a body beyond it before it can go.
        if not all(carried[k] for k in light):
            return "dense"
    coupled = sum(len(stack) for stack in stacks if type(stack.primitive).couples)
    regular = coupled <= _MESHES and _suits_range_space(bodies, connections)
    return choose_strategy(regular, 6 * len(bodies) + rows)


def _suits_range_space(bodies: list[Body], connections: tuple[Connection, ...]) -> bool:
    """Whether every body has mass and inertia in all directions, as far as is known, and joints to
    few others.
    """
    known = [b for b in bodies if b.mass is not None and is_concrete((b.mass, b.inertia))]
    moments = [np.linalg.eigvalsh(np.asarray(b.inertia)) for b in known]
    regular = all(
        float(b.mass or 0.0) > 0.0 and x[0] > 1e-6 * x[-1]
        for b, x in zip(known, moments, strict=True)
    )
    # A body leaves a block between every two of its joints.
    pairs = {frozenset((c.i, c.j)) for c in connections}
    neighbors = Counter(k for pair in pairs for k in pair if k < len(bodies))
    return regular and max(neighbors.values(), default=0) <= 6


def _length(bodies: list[Body], connections: tuple[Connection, ...]) -> Array:
    """The scale of position tolerances: about the largest distance from a mass center to a joint,
    or between bodies.

    Assembly weighs turns by it, so assembled velocities and their derivatives depend on it: it is
    the 8-norm of the distances, which has no kink where two of them are equal.
    """
    points = [c.s_i_bar for c in connections if c.i < len(bodies)]
    points += [c.s_j_bar for c in connections if c.j < len(bodies)]
    points += [b.r - bodies[0].r for b in bodies]
    xp = library_of(*points)
    squared = xp.sum(xp.stack(points) ** 2, axis=1)
    largest = xp.max(squared) if xp is np else jax.lax.stop_gradient(jnp.max(squared))
    scale = xp.where(largest > 0.0, largest, 1.0)
    # One body with its joint at the mass center has no length; its power must not meet zero, which
    # has no derivative.
    power = xp.where(largest > 0.0, xp.sum((squared / scale) ** 4), 1.0)
    return xp.sqrt(scale) * power**0.125


def _switch(
    part: AbstractRelation | AbstractForceDescription, shifts: bool, *, rebases: bool = False
) -> Switch | None:
    """The switch of an element; `shifts` whether it can hold a coordinate where it is found,
    `rebases` whether it can hold its second body there.
    """
    active = input_of(part.active, part.name, part.title)
    if active is None:
        return None
    offset = Input(offset_name(part.name), default=0.0) if shifts else None
    base = Input(base_name(part.name), size=12, default=0.0) if rebases else None
    return Switch(active, offset, base)


def _has_loops(
    nb: int, connections: tuple[Connection, ...], stacks: tuple[PrimitiveStack, ...]
) -> bool:
    """Whether redundant rows are possible: a cycle of bodies and joints, two joints between one
    pair of bodies, or rows that may be switched off.

    A driver beside a joint is no cycle as long as both together leave the pair at most determined.
    """
    if any(stack.primitive.switch is not None for stack in stacks):
        return True
    forest = Forest(nb + 1)
    rows: dict[frozenset[int], int] = {}
    for c in connections:
        bodies = frozenset(c.bodies)
        beside = bodies in rows
        rows[bodies] = rows.get(bodies, 0) + len(c.rows)
        if rows[bodies] > 6:
            return True
        if not (beside and c.is_driver) and not forest.join(*c.bodies):
            return True
    return False
