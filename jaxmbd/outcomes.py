"""Outcomes of a run: codes inside the arrays, sentences for people."""

import equinox as eqx
import numpy as np


class RESULTS(eqx.Enumeration):
    """Outcome codes of a run. They pass through `jit` and `vmap`; nothing raises inside a loop."""

    successful = "successful"
    assembly_failed = (
        "the initial pose cannot be assembled: the joints do not close; check their points and "
        "axes, or start closer to a closed pose"
    )
    newton_max_steps = (
        "Newton's iteration did not converge, or ended where joints do not close; reduce the step "
        "size, or check for a sudden load, a locking position or a driver that asks for the "
        "impossible; in single precision, use double"
    )
    contact_not_converged = (
        "the laws of contact and friction found no common solution; reduce the step size, or the "
        "restitution where several points strike at once"
    )
    too_many_contacts = (
        "more places touch at once than a step solves for; raise Moreau(most_contacts=)"
    )
    singular = (
        "the constraint Jacobian lost rank: "
        "the mechanism has reached a locking or branching position; or a body without inertia can "
        "move on its own"
    )
    non_finite = (
        "a NaN or an infinity appeared; check forces, user functions and motions at this time"
    )
    step_too_small = (
        "the step size fell below a billionth of the span; the motion has an impact or a locking "
        "position there, or the tolerance is below what rounding allows"
    )
    too_many_steps = "the run used up its steps; allow more with max_steps=, or a larger tolerance"
    wrong_branch = (
        "a driven rotation stands half a turn from its prescribed angle, or a contact passed the "
        "end of its curve. Angles count from the described pose: describe the bodies near "
        "angle(t0), and let the angle change by less than a quarter turn between two instants"
    )
    invalid_input = (
        "a number that was given is impossible: a mass or an inertia that is not positive, a "
        "friction, restitution or size outside its range, an orientation that is no rotation "
        "matrix, a NaN in the state, the step size or the initial time, or bodies that start "
        "inside each other. Build the mechanism with these numbers outside jit to see which"
    )
    no_equilibrium = (
        "no equilibrium was found: the loads drive the mechanism on, or its stiffness vanishes on "
        "the way; check that something holds every body, apply the load in steps (load_steps=), or "
        "follow the equilibrium from a smaller load with continuation"
    )
    not_periodic = (
        "no periodic motion was found near the given state; start closer, or check the period"
    )
    not_steady = (
        "the mechanism balances here, but cannot stay so: joints, gravity or loads do not turn "
        "with it about the axis at this rate, or a joint prescribes a velocity where all should "
        "rest"
    )
    unstable = (
        "the motion has blown up: within one step the angular velocity of a body changed by more "
        "than a hundred turns per step, or its velocity by a billion lengths of the mechanism per "
        "step, which no step can follow; reduce the step size, and check the units of stiffnesses, "
        "forces and inertias"
    )
    interrupted = "the run was interrupted; the rows before the interruption are kept"
    ended_by_event = "the run ended at an event, as it was asked to"
    too_many_events = (
        "more events happened than are kept; allow more with mbd.Event(most=), or find out why a "
        "quantity passes its value so often"
    )
    open_at_event = (
        "a joint was activated at an event at which it does not close; activate it where its "
        "bodies meet, or with mbd.Activate(..., here=True) to hold it where it is"
    )
    goals_not_met = (
        "goals that have to be met cannot be, within the limits; give one a weight, or begin from "
        "another pose"
    )
    optimum_not_found = (
        "no optimal plan was found: the search ended before the conditions of optimality held; "
        "allow more iterations, begin from another guess, or find a limit or a condition at the "
        "end that cannot be met"
    )


def ended_as(result: RESULTS, *outcomes: RESULTS) -> bool:
    """Whether all of some known outcomes are among these; compiles nothing."""
    wanted = [int(np.asarray(outcome._value)) for outcome in outcomes]
    return bool(np.all(np.isin(np.asarray(result._value), wanted)))
