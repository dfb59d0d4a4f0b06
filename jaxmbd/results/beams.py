"""What a beam carries along a motion: strains, section forces and moments, energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.compiled import Compiled
from ..model.forces.beams import AbstractBeamElement
from ..model.state import Pose, State, Twist
from ..model.system import BeamLabel, System
from ..model.validation import is_concrete
from .by_rows import by_rows


class BeamMotion(eqx.Module):
    """Strains, section forces and energies of the n elements of a beam over a motion, in the axes
    of the section: x along the beam.

    Attributes:
        force: Normal force and shear forces along y and z, (T, n, 3) [N]; positive normal force is
            tension. Damping is included.
        moment: Torsional moment and bending moments about y and z, (T, n, 3) [N·m].
        strain: Stretch and shear strains beyond the natural ones, (T, n, 3) [-].
        curvature: Torsion and curvatures beyond the natural ones, (T, n, 3) [1/m].
        energy: Stored in each element, (T, n) [J].
        bend: The angle by which the second node is turned against the first, (T, n) [rad]; half a
            turn is the limit.
    """

    force: Float[Array, "T n 3"]
    moment: Float[Array, "T n 3"]
    strain: Float[Array, "T n 3"]
    curvature: Float[Array, "T n 3"]
    energy: Float[Array, "T n"]
    bend: Float[Array, "T n"]


def labeled(system: System, name: str) -> BeamLabel:
    """The beam of a name.

    Raises:
        ValueError: There is no such beam.
    """
    for beam in system.beams:
        if beam.name == name:
            return beam
    known = ", ".join(repr(beam.name) for beam in system.beams) or "none"
    raise ValueError(f"mechanism {system.name!r} has no beam {name!r}; the beams are {known}")


def beam_motion(system: System, name: str, states: State, lam: Array) -> BeamMotion:
    """See `Solution.beam`."""
    beam = labeled(system, name)
    stacks = {stack for stack, _ in beam.elements}
    assert len(stacks) == 1, "the elements of one beam are alike"
    members = np.array([place for _, place in beam.elements])
    element = jax.tree.map(
        lambda x: jax.device_put(np.asarray(x)[members]) if is_concrete(x) else x[members],
        system.forces[stacks.pop()].force,
    )
    nodes = np.array(beam.nodes)
    local = jax.tree.map(
        lambda x: jax.device_put(np.asarray(x)[:, nodes]) if is_concrete(x) else x[:, nodes],
        (Pose(states.r, states.A), Twist(states.v, states.omega)),
    )
    load, strains, energy, bend = by_rows(_sections, element, *local)
    for k, strain in enumerate(beam.held):
        # A multiplier per length of the element stands in for the force of a strain it has not.
        rows = np.array([rows[k] for rows in beam.rows])
        load = load.at[..., strain].set(lam[:, rows])
    return BeamMotion(
        load[..., :3], load[..., 3:], strains[..., :3], strains[..., 3:], energy, bend
    )


@Compiled
def _sections(element: AbstractBeamElement, pose: Pose, twist: Twist):
    """Section forces, strains, energies and bends of all elements at all instants."""

    def one(pose: Pose, twist: Twist):
        def ends(x: Float[Array, "n *s"]) -> Float[Array, "m 2 *s"]:
            return jnp.stack([x[:-1], x[1:]], axis=1)

        def each(element: AbstractBeamElement, pose: Pose, twist: Twist):
            load = element.section_forces(pose, twist)
            return load, element.strains(pose), element.potential(pose), element.bend(pose)

        local = jax.tree.map(ends, (pose, twist))
        return eqx.filter_vmap(each)(element, *local)

    return jax.vmap(one)(pose, twist)
