"""Dynamics: integrate a mechanism from a state."""

from collections.abc import Callable, Sequence

from jaxtyping import Array

from ..formulations import AbstractFormulation
from ..integrators import AbstractIntegrator
from ..model.events import Event
from ..model.state import State
from ..model.system import System
from ..model.validation import Numbers
from ..results.solution import Solution
from .chosen_steps.adaptive import Adaptive
from .chosen_steps.run import simulate_chosen
from .controllers import Controller
from .events.kinks import kink_events
from .events.runs import simulate_events
from .fixed_steps import simulate_fixed
from .running.checks import check_system, needs_state, solved_by
from .running.request import RunRequest
from .running.schedule import Inputs
from .stepping import refuse_unused_key, simulate_controlled


@needs_state
def simulate(
    system: System,
    state: State,
    *,
    h: Numbers | None = None,
    t_end: float | None = None,
    steps: int | None = None,
    step: Adaptive | None = None,
    save_at: Numbers | None = None,
    formulation: AbstractFormulation | None = None,
    integrator: AbstractIntegrator | None = None,
    linear_solver: str | None = None,
    inputs: Inputs | None = None,
    controller: Controller | None = None,
    key: Array | None = None,
    events: Sequence[Event] = (),
    until: Event | str | None = None,
    split_kinks: bool = False,
    save_every: int = 1,
    t0: Numbers = 0.0,
    checkpoints: int = 1,
    metric: str | None = None,
    throw: bool = True,
    progress: bool = False,
    on_chunk: Callable[[Solution], None] | None = None,
) -> Solution:
    """Integrate the equations of motion; a pure function that can be jitted, batched and
    differentiated.

    The state is assembled first where it is not consistent; `stats` says what moved, and outside
    `jit` a warning does where more than the rounding of the description moved.

    Args:
        system: The mechanism; see `Mechanism.build`.
        state: Poses and twists at t0.
        h: Step size [s]; a changed value does not recompile. Give this, or `step` and `save_at`.
        t_end: Final time [s]; the number of steps is the least that reaches it. Give this or
            `steps`. Outside `jit` a changed value does not recompile.
        steps: Number of steps; with it, `h` may be traced.
        step: `mbd.Adaptive(tolerance)`: steps chosen for a tolerance, in place of h, t_end and
            steps.
        save_at: With `step`: increasing times of the rows, (T,) [s], the first being that of
            `state`. They do not change the steps.
        formulation: `RA()` by default; `RP()`, `REps()`, `Directors()` or `RotationElements()`.
        integrator: `GeneralizedAlpha()` by default, `Moreau()` where there are stops, dry friction
            or contacts; see the manual, "Choosing".
        linear_solver: "range_space", "block_sparse" or "dense", see the manual, "Choosing"; by
            default the one that suits the mechanism.
        inputs: What the mechanism's inputs are, by name, see `Input`: an array with one entry a
            step, which is held over the step, a function of time, or one number for all steps. A
            driver's input is a tuple of three arrays, value, rate and acceleration at the end of
            each step, or a function.
        controller: A sampled controller, which gives some of the inputs, see `Controller`.
        key: Of `jax.random`, for the noise of the sensors that the controller reads; without it
            they have none.
        events: Instants to be found and told in `Solution.events`, beside those of the mechanism,
            see `Event`; one that is terminal ends the run.
        until: An event, or its text such as "pin.angle > 0.3", at which the run ends: its last row
            is that instant, `Solution.t_event`, and later rows are NaN. The result is
            `RESULTS.ended_by_event`, or `RESULTS.successful` where it did not happen before t_end.
        split_kinks: Whether steps are divided where a force element is not smooth: where a rope
            goes slack, a stop or a contact that gives way opens or closes, a limit cuts off an
            effort, and at the points of a table. A method then keeps its order. Each is told as an
            event, "rope.kink". Without, `mbd.Adaptive` takes small steps there.
        save_every: Save every k-th step; the number of steps must be a multiple of it. With
            `Moreau`, forces, accelerations and multipliers are means over the step that ends at a
            row; the other steps between two rows do not count in them.
        t0: Initial time [s]; instants are t0 + n h exactly.
        checkpoints: For reverse-mode derivatives of long runs: with more than one, the backward
            pass keeps the state at so many instants only and runs the steps between them again,
            about one more forward run for memory of steps / checkpoints + checkpoints instead of
            steps. Without effect on the result.
        metric: Of the velocities' assembly, see `assemble`.
        throw: Raise when the run fails; without effect inside `jit` or `vmap`, where `result`
            tells.
        progress: Show a progress bar on standard error. An interruption (Ctrl-C) then ends the run
            and returns the rows so far, with `RESULTS.interrupted`. Not inside `jit`, `vmap` or
            `grad`.
        on_chunk: Called with the solution so far, about fifty times over a long run. Not inside
            `jit` either.

    Returns:
        The motion at t0 and at every saved step. Rows after a failure are NaN.

    Raises:
        ValueError: The request makes no sense: neither t_end nor steps, bodies without mass,
            another mechanism's state.
        TypeError: An argument is not what its name says; the message says what to write.
        RuntimeError: The run failed and `throw=True`; the message names the time, the joint and the
            cure.

    Reference:
        Kissel, Taves, Negrut, section 3.
    """
    check_system(system, state, "simulate")
    system = solved_by(system, linear_solver)
    asked = RunRequest(
        h=h,
        t_end=t_end,
        steps=steps,
        formulation=formulation,
        integrator=integrator,
        linear_solver=linear_solver,
        inputs=inputs,
        save_every=save_every,
        t0=t0,
        checkpoints=checkpoints,
        metric=metric,
        throw=throw,
        progress=progress,
        on_chunk=on_chunk,
    )
    found, system = _events_of(system, events, until), system.without_events()
    if split_kinks:
        found += kink_events(system)
    if step is not None:
        _refuse_fixed(asked, controller, key)
        return simulate_chosen(system, state, save_at, step, asked, found)
    if save_at is not None:
        raise ValueError(
            "simulate: save_at goes with step=mbd.Adaptive(...); fixed steps save with save_every"
        )
    if h is None:
        raise ValueError(
            "simulate: give the step size h, or step=mbd.Adaptive(tolerance) and save_at"
        )
    refuse_unused_key(key, controller, "simulate")
    if found:
        return simulate_events(system, state, found, asked, controller, key)
    if controller is None:
        return simulate_fixed(system, state, asked)
    if checkpoints != 1:
        raise ValueError("simulate: checkpoints are not for runs with a controller")
    return simulate_controlled(system, state, controller, key, asked)


def _events_of(system: System, events: Sequence[Event], until: Event | str | None) -> list[Event]:
    """All events of a run, those of the mechanism included.

    Raises:
        TypeError: `until` or `events` is something else.
    """
    if isinstance(events, Event | str):
        raise TypeError("simulate: events must be a list, events=[mbd.Event(...)]")
    found = [*system.events, *events]
    if until is None:
        return found
    if isinstance(until, str):
        until = Event(until, until)
    if not isinstance(until, Event):
        raise TypeError(
            "simulate: until must be an event or its text, such as 'pin.angle > 0.3', not "
            f"{until!r}"
        )
    return [*found, until.ending()]


def _refuse_fixed(asked: RunRequest, controller: Controller | None, key: Array | None) -> None:
    """Raise ValueError for arguments of fixed steps in a run whose steps are chosen."""
    given = {
        "h": asked.h,
        "t_end": asked.t_end,
        "steps": asked.steps,
        "on_chunk": asked.on_chunk,
        "controller": controller,
        "key": key,
        "save_every": asked.save_every - 1,
        "checkpoints": asked.checkpoints - 1,
        "progress": asked.progress,
    }
    for name, value in given.items():
        if value is not None and not (isinstance(value, int) and not value):
            raise ValueError(
                f"simulate: {name} belongs to fixed steps; step=mbd.Adaptive takes save_at instead"
            )
