"""Energy-momentum integration in directors: the constrained scheme, and the discrete null space
method.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..equations import midpoint
from ..equations import null_space as ns
from ..equations.closing import closes
from ..equations.index1 import closest_velocity, judged_accelerations
from ..equations.index3 import check_settings
from ..equations.reduced_balance import Reduced, SizeReduced, closures_now, enforced_rows
from ..equations.rows import inner_rows, row_bodies
from ..equations.spanning_tree import spanning_tree
from ..formulations import RA, AbstractFormulation, Directors
from ..linalg import DenseFactors, factorize, linear_solve
from ..linalg.linear_solve import held
from ..linalg.strategy import SaddleFactors
from ..model.system import System
from ..rotations.types import Scalar
from ..solvers import (
    AbstractRootProblem,
    Functions,
    Newton,
    NewtonInfo,
    NewtonOptions,
    Start,
    implicit_root,
    newton,
    quasi_stage,
)
from .base import AbstractIntegrator, Motion
from .element_states import AbstractStateRule, Midpoint

NULL_SPACES = ("hand", "automatic")
UNKNOWNS = ("increments", "coordinates")
_HALVINGS = 12
# Solutions have to be right to rounding, or energy drifts: the exact matrix takes over early.
_CONTRACTION = 0.05


class Memory(eqx.Module):
    """The multipliers μ of the last step (None where they are eliminated), and the rank of the
    closures of loops.
    """

    mu: Float[Array, " m"] | None
    rank: Int[Array, ""] | None


class EnergyMomentum(AbstractIntegrator):
    """Midpoint-based method of second order that conserves energy and momenta to machine precision;
    for `Directors`.

        q - q_n = h (v_n + v) / 2,   M (v - v_n) = h Q(q_n, q) - h G(q_n, q)ᵀ λ,   Φ(q) = 0

    Energy is conserved for conservative loads and fixed constraints, momenta as far as loads are
    symmetric, positions satisfy the constraints to rounding. Dampers dissipate. Potentials of
    springs enter through discrete gradients, everything else (user forces, actuators) at the
    midpoint, at the method's order.

    The method's own v satisfies the velocity constraints only to second order. Its kinetic energy
    is what is conserved, and what `Solution.energy` returns; `v` and `omega` of a solution are its
    projection onto the constraints, nearest by mass, which has the same momenta. Accelerations and
    multipliers of a solution belong to its states.

    Attributes:
        reduced: False solves for coordinates and multipliers, n + m unknowns. True premultiplies by
            a discrete null space matrix and solves for the freedoms of a spanning tree of joints;
            loops are closed on the way. Both give the same motion.
        null_space: For the reduced scheme: the paper's matrices ("hand"), or those computed from
            the joints' rows ("automatic").
        unknowns: For the reduced scheme: the "increments" of the joints, or the "coordinates" of
            all bodies, n of them, with the constraints beside the premultiplied balance (the size
            reduction of section 2.2.2, without reparametrization).
        newton: Settings of Newton's method, with the criterion "position".

    Reference:
        Betsch, Leyendecker, "The discrete null space method for the energy consistent integration
        of constrained mechanical systems. Part II: Multibody dynamics", Eqs. 10 to 15, as corrected
        in the manual's theory; Gonzalez, "Time integration and discrete Hamiltonian systems"
        (1996).
    """

    name: ClassVar[str] = "energy_momentum"
    keeps_accelerations: ClassVar[bool] = False

    reduced: bool = eqx.field(static=True, default=False)
    null_space: str = eqx.field(static=True, default="hand")
    unknowns: str = eqx.field(static=True, default="increments")
    newton: Newton = Newton()

    def __check_init__(self):
        check_settings("EnergyMomentum", self.newton)
        for name, known in (("null_space", NULL_SPACES), ("unknowns", UNKNOWNS)):
            if (given := getattr(self, name)) not in known:
                raise ValueError(f"EnergyMomentum: {name} must be one of {known}, not {given!r}")

    def check(self, formulation: AbstractFormulation, system: System) -> None:
        if not isinstance(formulation, Directors):
            raise ValueError(
                "EnergyMomentum integrates directors: use formulation=Directors(), on the command "
                f"line --formulation directors, not {formulation.name}"
            )
        system.refuse_velocity_rows("EnergyMomentum")
        system.refuse_inertias("EnergyMomentum")
        system.refuse_switches("EnergyMomentum", "use another integrator, such as GeneralizedAlpha")

    def first_stage(self) -> "EnergyMomentum | None":
        stage = quasi_stage(self.newton)
        return None if stage is None else dataclasses.replace(self, newton=stage)

    @property
    def state_rule(self) -> AbstractStateRule:
        return Midpoint()

    def start(
        self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar, h: Scalar
    ) -> Motion:
        tree, rank = spanning_tree(system), None
        if len(tree.closures):
            _, rank = ns.independent_rows(closures_now(system, tree, motion.q, t))
        mu = None if self.reduced else h**2 * motion.lam
        return Motion(motion.q, motion.u, motion.a, motion.lam, Memory(mu, rank))

    def step(
        self,
        formulation: AbstractFormulation,
        system: System,
        motion: Motion,
        t: Scalar,
        h: Scalar,
        active: Bool[Array, ""] | bool = True,
    ) -> tuple[Motion, NewtonInfo]:
        q, u, memory = motion.q, motion.u, motion.memory
        chosen = None
        if memory.rank is not None:
            chosen = enforced_rows(system, spanning_tree(system), q, t - h, memory.rank)
        middle = t - 0.5 * h
        args = midpoint.StepData(system.at(t), system.at(middle), q, u, middle, h, chosen)
        reduced = (self.null_space, self.unknowns) if self.reduced else None
        problem = MidpointStep(reduced, self.newton.mode, self.newton.max_steps)
        x, info = implicit_root(problem, (memory.mu, active, self.newton.tolerance), args)
        new, mu = problem.split(x, args)
        left = 0.0 if self.newton.tolerance is None else self.newton.tolerance
        closed = closes(formulation, held(args.end), held(new), left)
        info = dataclasses.replace(info, converged=info.converged & closed)
        v = 2.0 * (new - q) / h - u
        memory = Memory(None if self.reduced else mu, memory.rank)
        return Motion(new, v, (v - u) / h, motion.lam, memory), info

    def observed(self, formulation: AbstractFormulation, system: System, motion: Motion, t: Scalar):
        pose = jax.vmap(formulation.pose)(motion.q)
        twist = midpoint.rigid_twist(system, motion.q, motion.u)
        u = jnp.concatenate([twist.v, twist.omega], axis=1)
        u = closest_velocity(RA(), system, pose, u, t)
        a, lam, undetermined = judged_accelerations(RA(), system, pose, u, t)
        rates = jax.vmap(formulation.rates)(motion.q, u[:, :3], u[:, 3:])
        a = jax.vmap(formulation.accelerations)(motion.q, rates, a[:, :3], a[:, 3:])
        lam = jnp.concatenate([lam, jnp.zeros(inner_rows(formulation, system), lam.dtype)])
        extra = {"kinetic_energy": midpoint.kinetic_energy(system, motion.u)}
        return Motion(motion.q, rates, a, lam, undetermined=undetermined), extra


class MidpointStep(AbstractRootProblem):
    """The equations of one step in the unknowns (q, μ); the reduced scheme finds the same root with
    fewer.

    Attributes:
        reduced: Null space matrix and unknowns of the reduced scheme; None for the constrained one.
    """

    exact_factors: ClassVar[bool] = True

    reduced: tuple[str, str] | None = eqx.field(static=True)
    mode: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def split(self, x: Float[Array, " n"], args: midpoint.StepData):
        """Coordinates and multipliers."""
        return x[: args.q.size].reshape(args.q.shape), x[args.q.size :]

    def residual(self, x: Float[Array, " n"], args: midpoint.StepData) -> Float[Array, " n"]:
        return midpoint.residual(args, *self.split(x, args))

    def factors(self, x: Float[Array, " n"], args: midpoint.StepData) -> Any:
        return factorize(
            midpoint.matrix(args, *self.split(x, args), exact=True), args.end.linear_solver
        )

    def solve(
        self,
        guess: tuple[Array | None, Bool[Array, ""] | bool, Scalar | float | None],
        args: midpoint.StepData,
    ) -> tuple[Array, NewtonInfo]:
        mu, active, tolerance = guess
        if self.reduced is not None:
            return self._solve_reduced(active, tolerance, args)
        assert mu is not None
        x0 = jnp.concatenate([midpoint.predicted(args).reshape(-1), mu])

        def factors(x: Float[Array, " n"], exact: bool) -> SaddleFactors:
            return factorize(
                midpoint.matrix(args, *self.split(x, args), exact=exact),
                args.end.linear_solver,
                checked=False,
            )

        scale = midpoint.weights(args.end, 12)

        def norm(delta: Float[Array, " n"]) -> Scalar:
            return jnp.max(jnp.abs(delta[: args.q.size].reshape(args.q.shape)) * scale[None, :])

        return self._newton(lambda x: self.residual(x, args), factors, norm, x0, tolerance, active)

    def _newton(
        self,
        residual: Callable[[Array], Array],
        factors: Callable[[Array, bool], SaddleFactors],
        norm: Callable[[Array], Array],
        x0: Float[Array, " n"],
        tolerance: Scalar | float | None,
        active: Bool[Array, ""] | bool,
    ) -> tuple[Float[Array, " n"], NewtonInfo]:
        options = NewtonOptions(
            float(jnp.finfo(x0.dtype).eps) ** 0.75 if tolerance is None else tolerance,
            max_steps=0 if self.mode == "exact" else self.max_steps,
            max_exact_steps=0 if self.mode in ("frozen", "quasi") else 30,
            contraction=float("inf") if self.mode == "frozen" else _CONTRACTION,
            halvings=_HALVINGS,
        )
        if not options.max_steps:
            equations = Functions(residual, None, lambda x: factors(x, True), norm)
            x, info = newton(equations, Start(x0), options, active)
            return jnp.where(info.converged, x, x0), info
        frozen = factors(x0, False)
        equations = Functions(residual, lambda x: frozen, lambda x: factors(x, True), norm)
        x, info = newton(equations, Start(x0), options, active)
        # Two corrections more: the energy drifts with what is left.
        x = jax.lax.fori_loop(0, 2, lambda _, x: x + frozen.solve(-residual(x)), x)
        return jnp.where(info.converged, x, x0), info

    def _solve_reduced(
        self,
        active: Bool[Array, ""] | bool,
        tolerance: Scalar | float | None,
        args: midpoint.StepData,
    ) -> tuple[Float[Array, " n"], NewtonInfo]:
        assert self.reduced is not None
        null_space, unknowns = self.reduced
        tree = spanning_tree(args.end)
        if not tree.freedoms:  # joints hold every body where it is
            return args.q.reshape(-1), NewtonInfo.without_unknowns(args.q.dtype)
        reduced = Reduced(tree, args, null_space)
        if unknowns == "coordinates":
            equations: Any = SizeReduced(reduced)
            scale = jnp.tile(midpoint.weights(args.end, 12), args.end.nb)
        else:
            equations, scale = reduced, jnp.where(tree.slot < 3, 1.0 / args.end.length, 1.0)

        def factors(x: Float[Array, " n"], exact: bool) -> DenseFactors:
            return DenseFactors.of(jax.jacfwd(equations.residual)(x))

        x, info = self._newton(
            equations.residual,
            factors,
            lambda d: jnp.max(jnp.abs(d) * scale),
            equations.guess(),
            tolerance,
            active,
        )
        return jnp.where(info.converged, equations.coordinates(x), args.q).reshape(-1), info

    def completed(self, x: Float[Array, " n"], args: midpoint.StepData) -> Float[Array, " N"]:
        # The reduced scheme has no multipliers; derivatives need them, and get them from the
        # balance of every body.
        if self.reduced is None:
            return x
        q = x.reshape(args.q.shape)
        none = jnp.zeros(len(row_bodies(Directors(), args.end)), x.dtype)
        matrix = midpoint.matrix(args, q, none, exact=False)
        factors = factorize(matrix, args.end.linear_solver)
        mu = linear_solve(matrix.matvec, factors, -midpoint.residual(args, q, none))[x.size :]
        return jnp.concatenate([x, mu])
