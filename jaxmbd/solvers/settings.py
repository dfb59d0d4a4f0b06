"""How Newton's method is used: one object for every method that takes it."""

import dataclasses

import equinox as eqx

from ..rotations.types import Scalar

CRITERIA = ("position", "correction")


class Newton(eqx.Module):
    """Settings of Newton's method in integrators and kinematics.

    Attributes:
        tolerance: In position units relative to the system's length (criterion "position"), by
            default eps^0.75; or Θ of the paper, on the norm of the whole correction (criterion
            "correction"), by default 1e-3.
        exact: None factors a quasi-Newton matrix once a step and falls back to the exact matrix
            where that contracts poorly; False is the paper's iteration, the quasi matrix alone;
            True is Newton's method.
        max_steps: Limit of iterations with the quasi matrix.
        criterion: "position" stops on the estimated remaining error h²|δa|; "correction" as the
            paper does (Eq. 46).
        tangent: Whether the quasi matrix knows that rotation matrices move by exponentials. The
            paper leaves their tangent out (Eq. 37), which costs iterations at large steps.
        extrapolate: Whether steps of equal size start from the accelerations and multipliers that
            the last three extrapolate to, and take the contraction of their matrix as known from
            earlier ones; most of them then take one iteration. Only with `exact` None and the
            criterion "position", and without constraints at velocity level.
        keep_factors: Whether such steps also keep the factors of earlier ones, for at most 16 steps
            and as long as they contract well. Steps of chains and batches are faster then. The
            tolerance is the same but is no longer undershot: the position error e may reach
            tolerance x length, and accelerations and multipliers of later steps may err by 60 e/h².
            Not for formulations that observe multipliers (rotation elements).
        fallbacks: False leaves out what `exact` None falls back on, the exact matrix and the
            careful solver near singular poses: a run that needs them ends there as
            `RESULTS.newton_max_steps`. Programs in your own `jax.jit` are smaller and faster
            then. Runs of `simulate` outside `jit` gain nothing: they compile the fallbacks only
            when they are needed.
    """

    tolerance: float | Scalar | None = None
    exact: bool | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=10)
    criterion: str = eqx.field(static=True, default="position")
    tangent: bool = eqx.field(static=True, default=True)
    extrapolate: bool = eqx.field(static=True, default=True)
    keep_factors: bool = eqx.field(static=True, default=False)
    fallbacks: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if self.exact not in (None, True, False):
            raise ValueError(f"Newton: exact must be None, True or False, not {self.exact!r}")
        if self.criterion not in CRITERIA:
            raise ValueError(f"Newton: criterion must be one of {CRITERIA}, not {self.criterion!r}")
        if self.exact is not None and not self.fallbacks:
            raise ValueError(
                "Newton: only exact=None has fallbacks to leave out; exact=False is the quasi "
                "matrix alone"
            )
        if self.keep_factors and not self.extrapolates:
            raise ValueError(
                "Newton: keep_factors goes with extrapolate=True, exact=None and the criterion "
                "'position', where steps learn from earlier ones"
            )

    @property
    def extrapolates(self) -> bool:
        """Whether steps learn from earlier ones."""
        return self.extrapolate and self.exact is None and self.criterion == "position"

    @property
    def mode(self) -> str:
        """`exact` and `fallbacks` in one word."""
        if self.exact is None and not self.fallbacks:
            return "quasi"
        return {None: "auto", True: "exact", False: "frozen"}[self.exact]


def quasi_stage(newton: Newton) -> Newton | None:
    """The first stage of a method that has two."""
    if newton.mode != "auto":
        return None
    return dataclasses.replace(newton, fallbacks=False)
