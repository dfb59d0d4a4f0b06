"""Checks of what analyses are given, before anything is compiled."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jax.typing import DTypeLike
from jaxtyping import Bool, Float

from ...formulations import RA, AbstractFormulation
from ...integrators import AbstractIntegrator, GeneralizedAlpha, Moreau
from ...linalg import STRATEGIES
from ...model.curves import Spline
from ...model.mechanism import Mechanism
from ...model.motions import is_motion
from ...model.state import State
from ...model.system import System
from ...model.validation import Numbers, as_jax, concrete, is_concrete, semidefinite
from ...rotations.types import Array, Scalar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_LONGEST = 10**12  # steps of a run
_ROTATION_DEFECT = (
    1e-6  # in double precision; a matrix farther from SO(3) gives errors of that size
)


def check_system(system: object, state: object, entry: str) -> None:
    """Raise unless the arguments are a system and one state of it.

    Raises:
        TypeError: The arguments are something else, or swapped; the message says what to write.
        ValueError: The state belongs to another mechanism or holds impossible numbers.
    """
    if isinstance(system, tuple):
        raise TypeError(
            f"{entry}: the first argument is a pair; write system, state = mechanism.build() and "
            f"{entry}(system, state, ...)"
        )
    if isinstance(system, Mechanism):
        raise TypeError(
            f"{entry}: {system.name!r} is a mechanism; build it first: system, state = "
            "mechanism.build()"
        )
    if isinstance(system, State) and isinstance(state, System):
        raise TypeError(f"{entry}: system and state are swapped; write {entry}(system, state, ...)")
    if not isinstance(system, System):
        raise TypeError(
            f"{entry}: the first argument must be the system of mechanism.build(), not "
            f"{_kind(system)}"
        )
    if state is None:
        raise TypeError(
            f"{entry}: the state is missing; write system, state = mechanism.build() and "
            f"{entry}(system, state, ...)"
        )
    if not isinstance(state, State):
        hint = (
            "; take one row of a solution with sol.at(-1)" if hasattr(state, "multipliers") else ""
        )
        raise TypeError(f"{entry}: the second argument must be a State, not {_kind(state)}{hint}")
    if jnp.ndim(state.r) == 3 and state.r.shape[1:] == (system.nb, 3):
        raise ValueError(
            f"{entry}: the state holds {state.r.shape[0]} rows; give one of them, sol.at(-1), or "
            "use jax.vmap"
        )
    shapes = {
        "r": (system.nb, 3),
        "A": (system.nb, 3, 3),
        "v": (system.nb, 3),
        "omega": (system.nb, 3),
    }
    for name, shape in shapes.items():
        found = jnp.shape(getattr(state, name))
        if found[:1] != shape[:1]:
            raise ValueError(
                f"{entry}: the state has {found[0] if found else 0} bodies, the system {system.nb}"
            )
        if found != shape:
            raise ValueError(f"{entry}: state.{name} must have the shape {shape}, not {found}")
    _check_numbers(system, state, entry)
    _refuse_inputs_not_given(system, entry)


def needs_state(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of an analysis `function(system, state, ...)`: if the state is left out, as in
    `function(mechanism.build())`, the message says what to write.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        system = args[0] if args else kwargs.get("system")
        missing = len(args) < 2 and "state" not in kwargs
        if missing or isinstance(system, tuple | Mechanism):
            check_system(system, None, function.__name__)
        return function(*args, **kwargs)

    return checked


# What does not ask for the values of inputs, or takes them itself.
_WITHOUT_INPUTS = (
    *("simulate", "start", "set_joints", "mobility", "move_apart"),
    "optimal_control",
)


# What asks for poses alone, which no force changes.
_OF_POSES = ("assemble", "place", "follow")


def _refuse_inputs_not_given(system: System, entry: str) -> None:
    if not system.inputs or system.held or entry in _WITHOUT_INPUTS:
        return
    if entry in _OF_POSES and not any(x.drives for x in system.inputs):
        return
    first = next((x.name for x in system.inputs if x.default is None), None)
    if first is None:
        return
    raise ValueError(
        f"{entry}: mechanism {system.name!r} has inputs; say what they are: "
        f"{entry}(system.with_inputs({{{first!r}: ...}}), state, ...)"
    )


def _kind(value: object) -> str:
    return (
        f"the class {value.__name__}"
        if isinstance(value, type)
        else f"a value of type {type(value).__name__}"
    )


def _check_numbers(system: System, state: State, entry: str) -> None:
    for name in ("r", "A", "v", "omega"):
        known = concrete(getattr(state, name))
        if known is None:
            continue
        bad = np.flatnonzero(~np.isfinite(known).reshape(system.nb, -1).all(axis=1))
        if bad.size:
            raise ValueError(
                f"{entry}: state.{name} of body {system.bodies[bad[0]]!r} contains NaN or infinity"
            )
    A = concrete(state.A)
    if A is not None:
        defect = _rotation_defect(A)
        worst = int(np.argmax(defect))
        if defect[worst] > _tolerance(A.dtype):
            raise ValueError(
                f"{entry}: state.A of body {system.bodies[worst]!r} is not a rotation matrix "
                f"(its columns are orthonormal to {defect[worst]:.2g} only)"
            )


def _tolerance(dtype: DTypeLike) -> float:
    return max(_ROTATION_DEFECT, 1e3 * float(np.finfo(dtype).eps))


def _rotation_defect(A: Float[np.ndarray | Array, "nb 3 3"]) -> Any:
    """|AᵀA - I| and the sign of the determinant, one number per body."""
    xp = np if isinstance(A, np.ndarray) else jnp
    product = xp.sum(A[..., :, :, None] * A[..., :, None, :], axis=-3)
    eye = xp.broadcast_to(xp.eye(3, dtype=A.dtype), product.shape)
    defect = xp.max(xp.abs(product - eye), axis=(-2, -1))
    first, second, third = A[..., :, 0], A[..., :, 1], A[..., :, 2]
    return xp.where(xp.sum(xp.cross(first, second) * third, axis=-1) > 0.0, defect, 2.0)


def valid_numbers(
    system: System, state: State, t0: Scalar, h: Scalar | None = None
) -> Bool[Array, ""]:
    """Whether masses, inertias, laws, the state and the times are admissible, and no number of an
    element is NaN, as impossible ones are (`validation.require`); this check works inside `jit`.
    """
    finite = [jnp.all(jnp.isfinite(x)) for x in (state.r, state.v, state.omega, system.gravity)]
    good = jnp.all(jnp.stack(finite)) & jnp.isfinite(t0)
    good = good & jnp.all(_rotation_defect(state.A) <= _tolerance(state.A.dtype))
    good = good & ~jnp.any(jnp.stack([jnp.any(jnp.isnan(x)) for x in _of_elements(system)]))
    for stack in system.laws:
        good = good & jnp.all(stack.each(lambda law: law.possible()))
    if h is not None:
        good = good & (h > 0.0) & jnp.isfinite(h)
    if not system.massless:
        good = (
            good
            & jnp.all(((system.mass > 0.0) | _nothing(system)) & jnp.isfinite(system.mass))
            & jnp.all(semidefinite(system.inertia))
        )
    return jax.lax.stop_gradient(good)


def _of_elements(system: System) -> list[Any]:
    """Arrays of joints, forces and laws, without those inside functions of users."""
    parts = (
        system.gravity,
        system.constraints,
        system.forces,
        system.laws,
        system.inertias,
        system.angles,
    )
    leaves = jax.tree.leaves(parts, is_leaf=lambda x: is_motion(x) and not isinstance(x, Spline))
    return [x for x in leaves if eqx.is_inexact_array(x)]


def _nothing(system: System) -> Any:
    """Mask of the bodies that are links without inertia of their own, (nb,)."""
    return (system.mass == 0.0) & jnp.all(system.inertia == 0.0, axis=(1, 2))


def chosen_formulation(formulation: object) -> AbstractFormulation:
    """The formulation, `RA()` by default; names and classes are refused with what to write
    instead.
    """
    return _chosen(formulation, RA, AbstractFormulation, "formulation", "mbd.RP()")


def chosen_integrator(integrator: object, system: System | None = None) -> AbstractIntegrator:
    """The integrator, `GeneralizedAlpha()` by default, `Moreau()` for a system with laws; names and
    classes are refused with what to write instead.
    """
    default = Moreau if system is not None and system.laws else GeneralizedAlpha
    return _chosen(integrator, default, AbstractIntegrator, "integrator", "mbd.GeneralizedAlpha()")


def _chosen(
    value: object, default: Callable[[], T], abstract: type[T], what: str, example: str
) -> Any:
    if value is None:
        return default()
    if isinstance(value, abstract):
        return value
    if inspect.isclass(value) and issubclass(value, abstract):
        raise TypeError(f"{what}={value.__name__} is a class; write {what}=mbd.{value.__name__}()")
    kind = f"the string {value!r}" if isinstance(value, str) else _kind(value)
    raise TypeError(f"{what} must be an object such as {example}, not {kind}")


def solved_by(system: System, strategy: str | None) -> System:
    """The system with another strategy for linear systems; its own for None."""
    if strategy is None or strategy == system.linear_solver:
        return system
    if strategy not in STRATEGIES:
        raise ValueError(f"linear_solver must be one of {STRATEGIES}, not {strategy!r}")
    return dataclasses.replace(system, linear_solver=strategy)


def count_steps(h: Numbers, t_end: Numbers | None, steps: Numbers | None, t0: Numbers = 0.0) -> int:
    """The number of steps, from `steps` or from concrete `t_end` and `h`.

    Raises:
        ValueError: Neither or both are given, they are traced, or they make no number of steps.
    """
    if (t_end is None) == (steps is None):
        raise ValueError("give either t_end or steps")
    for name, value in (("h", h), ("t0", t0), ("t_end", t_end)):
        if value is not None and is_concrete(value):
            known = _number(value, name)
            if not np.isfinite(known):
                raise ValueError(f"{name} must be a finite time, not {known}")
            if name == "h" and not known > 0.0:
                raise ValueError(f"the step size h must be positive, not {known}")
    if steps is not None:
        return _whole(steps, "steps")
    if not is_concrete((h, t_end, t0)):
        raise ValueError(
            "the number of steps must be known when the program is traced: with a traced h, t_end "
            "or t0 give steps="
        )
    ratio = (_number(t_end, "t_end") - _number(t0, "t0")) / _number(h, "h")
    if ratio > np.iinfo(np.int64).max / 2:
        raise ValueError(f"t_end={t_end} takes {ratio:.1e} steps of h={h}; check both")
    steps = int(np.ceil(ratio - 1e-6))
    if steps < 1:
        raise ValueError(
            f"nothing to do: the number of steps is {steps}; t_end must lie after the initial time"
        )
    return steps


def instants(ts: Numbers, dtype: DTypeLike, entry: str) -> Array:
    """Times as an array, (T,); concrete ones must be finite and increase.

    Raises:
        ValueError: They are not.
    """
    try:
        xp = np if is_concrete(ts) else jnp
        ts = as_jax(xp.atleast_1d(xp.asarray(ts)), dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{entry}: ts must be an array of times [s], not {ts!r}") from None
    known = concrete(ts)
    if ts.ndim != 1 or not ts.size:
        raise ValueError(
            f"{entry}: ts must be an array of times [s], (T,), not one of shape {ts.shape}"
        )
    if known is not None and not (np.isfinite(known).all() and (np.diff(known) > 0.0).all()):
        raise ValueError(f"{entry}: the times must be finite and increasing")
    return ts


def _number(value: object, what: str) -> float:
    try:
        known = np.asarray(value)
        if known.shape != () or known.dtype.kind not in "iuf":
            raise TypeError
        return float(known)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a number, not {value!r}") from None


def _whole(value: object, what: str) -> int:
    if not is_concrete(value):
        raise ValueError(
            f"{what} is traced, but the size of the result depends on it: give a Python number, "
            f"for instance by jax.jit(simulate, static_argnames={what!r}) or a lambda around the "
            "call"
        )
    known = _number(value, what)
    if not known.is_integer() or known < 1.0 or known > np.iinfo(np.int64).max / 2:
        raise ValueError(f"{what} must be a whole number of at least 1, not {value!r}")
    return int(known)


def check_run(
    system: System,
    steps: int,
    save_every: object,
    formulation: AbstractFormulation,
    integrator: AbstractIntegrator,
) -> int:
    """Raise for bodies without mass, rows that do not fit, or a method that does not fit the
    mechanism; returns `save_every`.
    """
    if system.massless:
        names = ", ".join(system.massless)
        raise ValueError(f"dynamics needs mass and inertia of every body; missing for {names}")
    save_every = _whole(save_every, "save_every")
    if steps % save_every:
        raise ValueError(f"save_every={save_every} must divide the number of steps, {steps}")
    if steps > _LONGEST:
        raise ValueError(
            f"{float(steps):.3g} steps take weeks even at a microsecond each; check h and t_end"
        )
    if steps > np.iinfo(jnp.result_type(int)).max:
        raise ValueError(
            f"{steps} steps are more than single precision can count; call enable_x64() first"
        )
    check_memory(system, steps // save_every + 1, "save fewer rows with save_every=")
    formulation.check(system)
    if not integrator.takes_laws:
        system.refuse_laws(type(integrator).__name__, "take integrator=mbd.Moreau()")
    integrator.check(formulation, system)
    return save_every


def row_size(system: System) -> int:
    """Bytes of one row of a result."""
    return (24 * system.nb + system.nc + 2) * system.dtype.itemsize


def check_memory(system: System, rows: int, cure: str) -> None:
    """Raise if a result cannot fit into memory, before any of it is allocated."""
    needed = rows * row_size(system)
    # Rows exist twice while they are put together.
    available = psutil.virtual_memory().available
    if 2 * needed > available:
        raise ValueError(
            f"{rows} rows of {system.nb} bodies take {needed / 1e9:.3g} GB, twice while they are "
            f"collected, but {available / 1e9:.3g} GB are free; {cure}"
        )
