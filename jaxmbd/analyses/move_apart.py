"""Move bodies that start inside each other apart."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..complementarity import LawProblem, Laws, solve_laws
from ..equations.index1 import saddle_matrix
from ..equations.laws import gap_shares, gaps, law_rows, row_order
from ..equations.motion import mass_matrix
from ..equations.rows import phi, rows
from ..formulations import RA
from ..linalg import factorize, linear_solve
from ..model.compiled import compiled_once, computed_now
from ..model.state import State
from ..model.system import System
from ..model.validation import as_jax, is_concrete
from ..rotations.types import Scalar
from .assembly import assemble
from .running.checks import check_system, needs_state
from .running.start_checks import refuse_open, refuse_penetration

_MAX_MOVES = 50
_CLOSED = 1e-10  # a gap that counts as closed, of a distance in parts of the mechanism's length


@needs_state
def move_apart(system: System, state: State, *, t: float = 0.0) -> State:
    """Separate overlapping bodies, and move joints back within their stops, by the least
    displacement, weighted by mass, that satisfies the joints.

        state = mbd.move_apart(system, state)

    Places that are open stay open. Velocities are those of `state`, then assembled. Works on known
    states only, outside `jit`.

    Args:
        system: The mechanism.
        state: Where the bodies are; as `Mechanism.build` returns it, for instance.
        t: Time at which drivers are evaluated [s].

    Raises:
        ValueError: The bodies cannot be moved apart: the message names what is still inside, and
            how deep; or the state is traced.
        AssemblyError: The joints cannot be closed there.
    """
    check_system(system, state, "move_apart")
    if not is_concrete((system, state)):
        raise ValueError("move_apart works on known numbers: call it outside jit, vmap and grad")
    with computed_now():
        time = as_jax(np.asarray(t, system.dtype), system.dtype)
        for _ in range(_MAX_MOVES):
            state, inside = _moved(system, state, time)
            if float(inside) <= _CLOSED:
                break
        new, report = assemble(system, state, t=t)
        refuse_open(system, report, t)
        refuse_penetration(system, new)
    return new


@compiled_once
def _moved(system: System, state: State, t: Scalar) -> tuple[State, Scalar]:
    """The state after one move that closes joints and opens gaps to first order, and the depth
    that is left, of a distance in parts of the system's length.
    """
    formulation = RA()
    q, u = formulation.from_state(state)
    now, _, _ = system.wound(state.angles).jet(t)
    matrix = saddle_matrix(
        formulation, now, mass_matrix(formulation, system, q), rows(formulation, now, q)
    )
    factors = factorize(matrix, system.linear_solver)
    none, n = phi(formulation, now, q), u.size

    def solve(force: Array, value: Array) -> Array:
        b = jnp.concatenate([force, value])
        return linear_solve(matrix.matvec, factors, b)[:n].reshape(u.shape)

    closing = solve(jnp.zeros(n, u.dtype), -none)
    gap = gaps(formulation, now, q)
    order = row_order(system)
    every = law_rows(formulation, now, q).some(jnp.asarray(order.normal))
    pushes = every.pushes(system.nb).reshape(gap.size, n)
    X = jax.vmap(lambda f: solve(f, jnp.zeros_like(none)))(pushes)
    may = jnp.asarray(order.has_gap)
    # Displacements in place of velocities: the law of a stop is that of gaps that stay open.
    empty = jnp.zeros(0, u.dtype)
    laws = Laws(
        matrix=jax.vmap(every.velocities)(X).T,
        free=gap + every.velocities(closing),
        active=may,
        friction=empty,
        bound=empty,
        share=empty,
        carried=jnp.zeros((0, 3), u.dtype),
        carries=jnp.zeros((0, 3, gap.size), u.dtype),
        spent=jnp.zeros_like(gap),
        stops=gap.size,
    )
    P, _ = solve_laws(laws, jnp.zeros_like(gap), LawProblem())
    q = jax.vmap(formulation.retract)(q, closing + jnp.tensordot(P, X, 1))
    pose = jax.vmap(formulation.pose)(q)
    depth = jnp.max(jnp.where(may, -gap_shares(formulation, now, q), 0.0), initial=0.0)
    return dataclasses.replace(state, r=pose.r, A=pose.A), depth
