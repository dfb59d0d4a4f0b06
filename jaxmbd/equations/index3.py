"""The equations of one implicit step on the index-3 form as a root that can be differentiated,
shared by the methods that solve them.
"""

import dataclasses
import functools
import operator
from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..formulations import RA, AbstractFormulation, Screw
from ..formulations.base import Coordinates
from ..linalg import SaddleMatrix, near_or_exact
from ..linalg.linear_solve import held
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import AbstractRootProblem, KeptFactors, Newton, NewtonInfo, implicit_root
from ..solvers.predictor import Past
from .closing import closes
from .index1 import closest_velocity
from .index3_newton import Guess, Settings, solve_step
from .index3_step import Step
from .index3_step import StepData as StepData
from .motion import StepScales
from .step_factors import kept_of

GROUPS = ("SO3xR3", "SE3")


@runtime_checkable
class Method(Protocol):
    """Settings of an implicit method, see `integrators.index3.AbstractIndex3`."""

    @property
    def newton(self) -> Newton: ...

    @property
    def velocity_projection(self) -> bool | None: ...

    @property
    def ringing(self) -> float: ...


@runtime_checkable
class Reached(Protocol):
    """A motion at the instant that earlier steps reached, see `integrators.base.Motion`."""

    @property
    def q(self) -> Coordinates: ...

    @property
    def u(self) -> Float[Array, "nb d"]: ...

    @property
    def a(self) -> Float[Array, "nb d"]: ...

    @property
    def lam(self) -> Float[Array, " m"]: ...

    @property
    def undetermined(self) -> Bool[Array, ""]: ...

    @property
    def past(self) -> Past | None: ...


class Index3Step(AbstractRootProblem):
    """The equations of one step in the unknowns (a, λ)."""

    exact_factors: ClassVar[bool] = True

    formulation: AbstractFormulation
    mode: str = eqx.field(static=True)
    criterion: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    tangent: bool = eqx.field(static=True, default=True)

    def _step(self, args: StepData) -> Step:
        return Step(self.formulation, args, self.tangent)

    def _settings(self) -> Settings:
        return Settings(self.mode, self.criterion, self.max_steps)

    def left(self, args: StepData, tolerance: Scalar | float | None) -> Scalar | float:
        """What the tolerance leaves of errors in positions, relative to the system's length."""
        most = self._settings().options(tolerance, args.u.dtype).tolerance
        if self.criterion == "position":
            return most
        # Of accelerations, in the units of a body's unknowns.
        units = args.system.units(args.u.shape[1])
        return most * held(args.scales.position) / jnp.min(units)

    def split(self, x: Float[Array, " n"], u: Float[Array, "nb d"]):
        """Accelerations and multipliers."""
        return x[: u.size].reshape(u.shape), x[u.size :]

    def residual(self, x: Float[Array, " n"], args: StepData) -> Float[Array, " n"]:
        return self._step(args).residual(x)

    def matrix(self, x: Float[Array, " n"], args: StepData, *, exact: bool) -> SaddleMatrix:
        """Newton's matrix, exact or without variations of the rows."""
        return self._step(args).matrix(x, exact=exact)

    def factors(self, x: Float[Array, " n"], args: StepData) -> PyTree:
        exact, nearby = self._step(args).matrices(x, tangent=True, exact=True)
        return near_or_exact(exact, nearby, args.system.linear_solver)

    def solve(self, guess: PyTree, args: StepData):
        last, active, tolerance, undetermined, past = guess
        known = Guess(last, undetermined, past)
        return solve_step(self._step(args), self._settings(), tolerance, known, active)


def inner_formulation(
    name: str, group: str, formulation: AbstractFormulation
) -> AbstractFormulation:
    """The formulation whose `retract` moves on the group."""
    if group == "SO3xR3":
        return formulation
    if not isinstance(formulation, RA):
        raise ValueError(
            f"{name}: SE(3) moves rotation matrices: use the formulation rA, not {formulation.name}"
        )
    return Screw()


def converted(
    old: AbstractFormulation,
    new: AbstractFormulation,
    q: Coordinates,
    u: Float[Array, "nb d"],
    a: Float[Array, "nb d"],
) -> tuple[Float[Array, "nb d"], Float[Array, "nb d"]]:
    """Velocities and accelerations of one formulation of poses in another's coordinates."""
    if old is new:
        return u, a
    twist = jax.vmap(old.twist)(q, u)
    rates = jax.vmap(old.physical_accelerations)(q, u, a)
    u = jax.vmap(new.rates)(q, twist.v, twist.omega)
    return u, jax.vmap(new.accelerations)(q, u, *rates)


def _problem(method: Method, formulation: AbstractFormulation) -> Index3Step:
    return Index3Step(
        formulation,
        method.newton.mode,
        method.newton.criterion,
        method.newton.max_steps,
        method.newton.tangent,
    )


def take_step(
    method: Method,
    formulation: AbstractFormulation,
    system: System,
    args: StepData,
    a: Float[Array, "nb d"],
    before: Reached,
    active: Bool[Array, ""] | bool,
) -> tuple[
    Coordinates,
    Float[Array, "nb d"],
    Float[Array, "nb d"],
    Float[Array, " m"],
    NewtonInfo,
    Past | None,
]:
    """Solve one step from the last accelerations a; (q, u, a, λ) at its end, what Newton's method
    says, and what the next step may know of this one.

    `method` has the settings `newton` and `velocity_projection`; `system` is that of all times,
    whose motions have rates.
    """
    problem = _problem(method, formulation)
    past = before.past
    if past is not None:
        past = past.valid(args.scales.position, _differs(before.q, args.q))
    last = jnp.concatenate([a.reshape(-1), before.lam])
    x, (info, past) = implicit_root(
        problem, (last, active, method.newton.tolerance, before.undetermined, past), args
    )
    a, lam = problem.split(x, args.u)
    q, u = jax.vmap(formulation.retract)(args.q, args.displacement(a)), args.velocity(a)
    closed = closes(
        formulation, held(args.system), held(q), problem.left(args, method.newton.tolerance)
    )
    info = dataclasses.replace(info, converged=info.converged & closed)
    if method.velocity_projection:
        u = closest_velocity(formulation, system, q, u, args.t)
    return q, u, a, lam, info, held(past)


def no_past(
    method: Method,
    formulation: AbstractFormulation,
    system: System,
    motion: Reached,
    t: Scalar,
    h: Scalar,
) -> Past:
    """The predictor before the first step of a method that learns from its steps."""
    problem = _problem(method, formulation)
    args = StepData(system.at(t), motion.q, motion.u, motion.u, t, StepScales(h, h))
    x = jnp.concatenate([motion.a.reshape(-1), motion.lam])
    kept = None
    # What formulations observe of multipliers is of those of least norm, which only factors of the
    # step's own pose can tell.
    needs_least = type(formulation).observed is not AbstractFormulation.observed
    if method.newton.keep_factors and not needs_least:
        kept = KeptFactors.none(
            lambda: kept_of(problem.matrix(x, args, exact=False), system.linear_solver)
        )
    return Past.none(motion.a, motion.lam, kept, redundant=system.has_loops, ringing=method.ringing)


def _differs(old: Coordinates, new: Coordinates) -> Bool[Array, ""] | bool:
    """Whether coordinates were given in other charts; formulations of one chart return what they
    got.
    """
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    moved = [jnp.any(x != y) for x, y in pairs if x is not y]
    return functools.reduce(operator.or_, moved, False)


def check_settings(name: str, newton: Newton) -> None:
    """Refuse settings of Newton's method that are none."""
    if not isinstance(newton, Newton):
        raise TypeError(
            f"{name}: newton must be settings such as mbd.Newton(exact=True), not {newton!r}"
        )


def check_group(name: str, group: str) -> None:
    """Refuse unknown groups."""
    if group not in GROUPS:
        raise ValueError(f"{name}: group must be one of {GROUPS}, not {group!r}")
