"""Roots as differentiable functions of their data, by the implicit function theorem.

One rule serves forward mode, reverse mode, their compositions and `vmap`: an operation of its own
around the whole iteration, whose tangent solve is a `custom_linear_solve` with factors of the exact
Jacobian at the root. The iteration itself is never differentiated, and in reverse mode it never
runs again: the root carries a name that checkpoint policies save.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from ..linalg.linear_solve import held, linear_solve
from ..xla.batch_last import in_lanes
from ..xla.checkpoint import saved
from ..xla.cpu_fusion import one_kernel
from ..xla.custom_rule_call import opaque
from ..xla.jaxprs import Tangents, Values, traced_once


class AbstractRootProblem(eqx.Module):
    """A family of equations residual(x, args) = 0; static, so that all numbers pass through `args`.

    Class attributes:
        exact_factors: Whether `factors` are those of the Jacobian to rounding, their own
            regularization apart, so that derivatives need no refinement with the residual's own
            derivative.
        one_kernel: Whether the iteration is compiled as one kernel, as pays where it is a part of
            every step of a run.
    """

    exact_factors: ClassVar[bool] = False
    one_kernel: ClassVar[bool] = True

    @abc.abstractmethod
    def residual(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " n"]:
        """The function whose root is sought, differentiable in both arguments."""

    @abc.abstractmethod
    def solve(self, guess: PyTree, args: PyTree) -> tuple[Float[Array, " n"], PyTree]:
        """The root and a pytree of information; never differentiated."""

    def completed(self, x: Float[Array, " n"], args: PyTree) -> Float[Array, " N"]:
        """All unknowns of `residual` at a root of which `solve` returns the first n; the same by
        default.
        """
        return x

    @abc.abstractmethod
    def factors(self, x: Float[Array, " n"], args: PyTree) -> PyTree:
        """Factors of the exact Jacobian at x, a pytree with `solve` and `solve_transpose`, or with
        `solve_unregularized(b, transpose=...)` where they are exact.
        """


def implicit_root(
    problem: AbstractRootProblem, guess: PyTree, args: PyTree
) -> tuple[Float[Array, " n"], PyTree]:
    """The root of `problem` and information about the solve.

    Derivatives flow through `args` only: neither the guess nor the information carries any.
    """
    given, static = eqx.partition((held(guess), args), eqx.is_array)
    dynamic, structure = jax.tree.flatten(given)
    structure_of_args = jax.tree.structure(given[1])
    first = len(jax.tree.leaves(given[0]))  # leaves of the guess, which have no derivatives
    shape: Any = None

    def whole(dynamic: Values):
        return eqx.combine(jax.tree.unflatten(structure, dynamic), static)

    def args_of(leaves: Values):
        return eqx.combine(jax.tree.unflatten(structure_of_args, leaves), static[1])

    def plain(dynamic: Values):
        return problem.solve(*whole(dynamic))

    solve = in_lanes(lambda dynamic: one_kernel(plain, dynamic)) if problem.one_kernel else plain

    def flat(*dynamic: Array):
        nonlocal shape
        out, shape = jax.tree.flatten(saved(solve(list(dynamic))))
        return out

    # The rule is asked for again and again: for the forward pass, the backward pass, and higher
    # derivatives.
    @traced_once
    def residual(y: Array, leaves: Values):
        return problem.residual(y, args_of(leaves))

    rest: Any = None

    @traced_once
    def arrays_of_factors(y: Array, leaves: Values):
        nonlocal rest
        arrays, rest = eqx.partition(problem.factors(y, args_of(leaves)), eqx.is_array)
        return arrays

    def rule(dynamic: Values, dots: Tangents, found: Values | None) -> tuple[Values, Tangents]:
        out: Values = saved(opaque(flat, rule, *dynamic)) if found is None else found
        x = out[0]
        varying = [k for k in range(first, len(dots)) if dots[k] is not None]
        if not varying:
            return out, [None] * len(out)
        # The guess has no part in derivatives, and the backward pass need not keep it.
        args = args_of(dynamic[first:])
        y = (
            x
            if type(problem).completed is AbstractRootProblem.completed
            else problem.completed(x, args)
        )

        def by_varying(some: Values):
            changed = dict(zip(varying, some, strict=True))
            leaves = [changed.get(k, dynamic[k]) for k in range(first, len(dynamic))]
            return residual(y, leaves)

        _, residual_dot = jax.jvp(
            by_varying, ([dynamic[k] for k in varying],), ([dots[k] for k in varying],)
        )

        def matvec(v: Array):
            return jax.jvp(lambda y: residual(y, dynamic[first:]), (y,), (v,))[1]

        if problem.exact_factors:

            @in_lanes
            def factors_at(at_root: tuple[Array, Values]):
                return one_kernel(arrays_of_factors, *at_root)

            # Factors apart from what they solve: higher derivatives solve by the same.
            factors = factors_at((jax.lax.stop_gradient(y), held(dynamic[first:])))

            def solver(transpose: bool):
                @in_lanes
                def solve(tree: PyTree):
                    return one_kernel(solved, *tree)

                def solved(factors: PyTree, b: Array):
                    return eqx.combine(factors, rest).solve_unregularized(b, transpose=transpose)

                return lambda _, b: solve((factors, b))

            solve, transpose_solve = solver(transpose=False), solver(transpose=True)
            x_dot = jax.lax.custom_linear_solve(
                matvec, -residual_dot, solve=solve, transpose_solve=transpose_solve
            )
        else:
            factors = problem.factors(jax.lax.stop_gradient(y), held(args))
            x_dot = linear_solve(matvec, factors, -residual_dot)
        return out, [x_dot[: x.size], *[None] * (len(out) - 1)]

    out = opaque(flat, rule, *dynamic)
    return jax.tree.unflatten(shape, out)
