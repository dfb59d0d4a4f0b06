"""Place a mechanism by its joint coordinates: angles, displacements and their rates instead of
poses.
"""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..equations.spanning_tree import Tree, spanning_tree
from ..formulations import RA
from ..model.drivers import RotationDriver, TranslationDriver
from ..model.motions import Turning
from ..model.names import unknown
from ..model.primitives import DP1, DP2
from ..model.state import Pose, State, Twist
from ..model.system import Connection, System
from ..model.validation import Numbers, as_jax, is_concrete, number, warn_of_degrees
from ..rotations import so3
from ..rotations.types import Mat3, Scalar, Vec3
from .assembly import assemble
from .running.checks import check_system, needs_state
from .running.start_checks import refuse_open

_PARALLEL = 1e-6  # of the rate at which an angle about an axis turns with another
_FIELDS = {"angle": "rate", "displacement": "speed"}

_Ends = tuple[tuple[Pose, Twist], ...]  # body i and body j of a joint


class _Ramp(eqx.Module):
    """A coordinate at an instant, with its rate."""

    value: Scalar
    rate: Scalar
    t0: Scalar

    def __call__(self, t: Scalar) -> Scalar:
        return self.value + self.rate * (t - self.t0)


@needs_state
def set_joints(
    system: System,
    state: State,
    values: Mapping[str, Numbers | Mapping[str, Numbers]],
    *,
    t: Numbers = 0.0,
) -> State:
    """Return the state with some joints at given coordinates.

        state = mbd.set_joints(system, state, {"pin": 0.3, "elbow": {"angle": 0.7, "rate": 1.0}})

    Whatever hangs on a joint moves with it and keeps its own joint coordinates and rates; loops are
    then closed by assembly with the given coordinates held. A pure function: differentiable, and
    `vmap` makes a batch of states.

    Args:
        system: The mechanism.
        state: Where the other joints are; as `Mechanism.build` returns it, for instance.
        values: By name of a joint, its angle [rad] or displacement [m] as a number, or a dictionary
            with `angle` and `rate` [rad/s], `displacement` and `speed` [m/s]. What is left out
            stays as it is; angles may be of any number of turns, with a warning where one looks
            like degrees. Zero is the pose as described.
        t: Time at which drivers are evaluated [s].

    Returns:
        The assembled state; `Solution.joint` of a run from it starts with the given numbers.

    Raises:
        ValueError: There is no such joint or coordinate; the message names it.
        AssemblyError: The mechanism cannot be closed there. Under `jit` the state is NaN then, and
            an analysis from it ends with `RESULTS.assembly_failed`.
    """
    check_system(system, state, "set_joints")
    requests = [
        (_connection(system, name), _request(system, name, given)) for name, given in values.items()
    ]
    t = jnp.asarray(t, system.dtype)
    near = system.wound(state.angles).angle_values(RA().with_ground(state.pose))
    tree = spanning_tree(system)
    rows = []
    # From the ground outwards, so that what hangs on a joint is moved by all of them.
    depth = {c.name: _depth(tree, system, c) for c, _ in requests}
    for c, request in sorted(requests, key=lambda item: depth[item[0].name]):
        state, near, held = _place(system, tree, state, near, c, request, t)
        rows += held
    state = dataclasses.replace(state, angles=near)
    new, report = assemble(system.with_rows(rows), state, t=t)
    if is_concrete(report):
        refuse_open(system.with_rows(rows), report, t)
    else:  # an open mechanism is no state; an analysis would close it in some other place
        new = jax.tree.map(lambda x: jnp.where(report.closed, x, jnp.nan), new)
    angles = system.wound(near).angle_values(RA().with_ground(new.pose))
    return dataclasses.replace(new, angles=angles)


def _connection(system: System, name: str) -> Connection:
    found = [c for c in system.connections if c.name == name]
    if not found:
        names = [c.name for c in system.connections]
        raise ValueError(f"set_joints: {unknown('joint', 'joints', name, names)}")
    return found[0]


def _request(system: System, name: str, given: Numbers | Mapping[str, Numbers]) -> dict[str, Array]:
    """The coordinates of one joint by name, checked."""
    c = _connection(system, name)
    has = {"angle": c.angle is not None, "displacement": c.element.has_displacement}
    own = [key for key, yes in has.items() if yes]
    if not own:
        raise ValueError(
            f"set_joints: joint {name!r} is {c.kind}, which has no coordinate of its own"
        )
    given = dict(given) if isinstance(given, Mapping) else {own[0]: given}
    known = [key for coordinate in own for key in (coordinate, _FIELDS[coordinate])]
    for key in given:
        if key not in known:
            raise ValueError(
                f"set_joints: joint {name!r} ({c.kind}) has no {key!r}; it has {', '.join(known)}"
            )
    numbers = {key: number(x, f"set_joints: joint {name!r}: {key}") for key, x in given.items()}
    if "angle" in numbers:
        warn_of_degrees(numbers["angle"], f"set_joints: joint {name!r}: angle")
    return {key: as_jax(x, system.dtype) for key, x in numbers.items()}


def _depth(tree: Tree, system: System, c: Connection) -> int:
    """Number of joints between the ground and the farther body of a joint."""

    def depth(b: int) -> int:
        return 0 if b == system.nb else 1 + depth(int(tree.parent[b]))

    return max(depth(b) for b in c.bodies[:2])


def _place(
    system: System,
    tree: Tree,
    state: State,
    near: Float[Array, " w"],
    c: Connection,
    request: dict[str, Array],
    t: Scalar,
):
    """The state with one joint at its coordinates, the angles there, and the rows that hold it."""
    pose, twist = RA().with_ground(state.pose), _padded_twist(state)
    ends = tuple(
        (Pose(pose.r[b], pose.A[b]), Twist(twist.v[b], twist.omega[b])) for b in c.bodies[:2]
    )
    (pose_i, twist_i), (pose_j, twist_j) = ends
    zero = jnp.zeros((), system.dtype)
    turn = slide = turn_rate = slide_rate = zero
    rows = []
    if c.angle is not None:
        angle = jax.tree.map(lambda x: x[c.angle], system.angles.angle)
        now, rate = near[c.angle], angle.rate(pose_i, twist_i, pose_j, twist_j)
        if {"angle", "rate"} & request.keys():
            wanted = {"angle": now, "rate": rate} | request
            target, speed = wanted["angle"], wanted["rate"]
            turn, turn_rate = target - now, speed - rate
            near = near.at[c.angle].set(target)
            turning = Turning(
                angle.e_i_bar, so3.cross(angle.axis_i_bar, angle.e_i_bar), _Ramp(target, speed, t)
            )
            across = so3.cross(c.axis_j_bar, angle.e_j_bar)
            rows.append((c, RotationDriver, "angle", DP1(turning, across, a_j_along=angle.e_j_bar)))
    if {"displacement", "speed"} & request.keys():

        def along(s: Scalar):
            moved = jax.tree.map(lambda x, y: x + s * y, _with_rates(ends), _rates(ends))
            (r_i, A_i), (r_j, A_j) = moved
            return c.axis_i_bar @ (A_i.T @ (r_j + A_j @ c.s_j_bar - r_i) - c.s_i_bar)

        now, rate = jax.jvp(along, (zero,), (jnp.ones_like(zero),))
        wanted = {"displacement": now, "speed": rate} | request
        target, speed = wanted["displacement"], wanted["speed"]
        slide, slide_rate = target - now, speed - rate
        held = DP2(c.axis_i_bar, c.s_i_bar, c.s_j_bar, _Ramp(target, speed, t))
        rows.append((c, TranslationDriver, "displacement", held))
    state, by_turn = _moved(system, tree, state, c, (turn, slide, turn_rate, slide_rate))
    if c.angle is not None:
        by_turn = by_turn.at[c.angle].set(0.0)  # it has its target
    return state, near + turn * by_turn, rows


def _with_rates(ends: _Ends):
    return tuple((pose.r, pose.A) for pose, _ in ends)


def _rates(ends: _Ends):
    return tuple((twist.v, pose.A @ so3.skew(twist.omega)) for pose, twist in ends)


def _padded_twist(state: State) -> Twist:
    zero = jnp.zeros((1, 3), state.v.dtype)
    return Twist(jnp.concatenate([state.v, zero]), jnp.concatenate([state.omega, zero]))


def _moved(
    system: System,
    tree: Tree,
    state: State,
    c: Connection,
    changes: tuple[Scalar, Scalar, Scalar, Scalar],
) -> tuple[State, Float[Array, " w"]]:
    """The state with all bodies that a joint of the tree carries turned and shifted, unchanged for
    a joint that closes a loop; and the rate of every angle about a parallel axis by the joint's,
    (w,).
    """
    index = system.connections.index(c)
    roots = [b for b in range(system.nb) if tree.connection[b] == index]
    if not roots:
        return state, jnp.zeros_like(system.turns())
    child = roots[0]
    parent = int(tree.parent[child])
    hanging = np.array(_descendants(tree, child), int)
    sign = 1.0 if c.bodies[1] == child else -1.0
    turn, slide, turn_rate, slide_rate = (sign * x for x in changes)
    pose, twist = RA().with_ground(state.pose), _padded_twist(state)
    i, j = c.bodies[:2]
    axis = pose.A[i] @ c.axis_i_bar
    # The point about which the moving side turns is that of the joint on body j, whichever side
    # moves.
    center = pose.r[j] + pose.A[j] @ c.s_j_bar
    r_p, v_p, w_p = pose.r[parent], twist.v[parent], pose.A[parent] @ twist.omega[parent]
    R, shift = so3.exp(turn * axis), slide * axis

    def one(r: Vec3, A: Mat3, v: Vec3, omega: Vec3):
        w = A @ omega
        v_own, w_own = v - v_p - so3.cross(w_p, r - r_p), w - w_p
        new_r, new_A = center + R @ (r - center) + shift, R @ A
        new_w = w_p + R @ w_own + turn_rate * axis
        new_v = v_p + so3.cross(w_p, new_r - r_p) + R @ v_own
        new_v = new_v + turn_rate * so3.cross(axis, new_r - center) + slide_rate * axis
        return new_r, new_A, new_v, new_A.T @ new_w

    # Springs about the same axis wind with the joint. An angle about another axis does not go on
    # for ever: the value nearest to that of before is its.
    spins = jnp.zeros_like(twist.omega).at[hanging].set(pose.A[hanging].mT @ axis)
    turned = jax.vmap(lambda r: so3.cross(axis, r - center))(pose.r[hanging])
    speeds = jnp.zeros_like(twist.v).at[hanging].set(turned)
    rates = sign * system.angle_rates(pose, Twist(speeds, spins))
    by_turn = jnp.where(jnp.abs(jnp.abs(rates) - 1.0) < _PARALLEL, jnp.sign(rates), 0.0)

    moved = jax.vmap(one)(*(x[hanging] for x in (state.r, state.A, state.v, state.omega)))
    old = (state.r, state.A, state.v, state.omega)
    new = (x.at[hanging].set(y) for x, y in zip(old, moved, strict=True))
    return State(*new, angles=state.angles, element_states=state.element_states), by_turn


def _descendants(tree: Tree, body: int) -> list[int]:
    """A body and all bodies that it carries in the tree."""
    found = [body]
    for b in found:
        found += [k for k in range(len(tree.parent)) if tree.parent[k] == b and k not in found]
    return found
