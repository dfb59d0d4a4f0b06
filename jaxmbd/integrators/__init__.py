"""Integrators: one file per method, one small interface.

This layer knows formulations by their maps and Newton's method; it knows neither joints nor files.
A new integrator is a new file with `step` (and `start`), and its entry in `INTEGRATORS`.
"""

from .base import AbstractIntegrator as AbstractIntegrator
from .base import Motion as Motion
from .bdf2 import BDF2 as BDF2
from .commutator_free import CommutatorFree as CommutatorFree
from .energy_momentum import EnergyMomentum as EnergyMomentum
from .generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .implicit_euler import ImplicitEuler as ImplicitEuler
from .independent_coordinates import IndependentCoordinates as IndependentCoordinates
from .moreau import Moreau as Moreau
from .munthe_kaas import MuntheKaas as MuntheKaas
from .runge_kutta import RungeKutta as RungeKutta

INTEGRATORS = {
    "implicit_euler": ImplicitEuler,
    "bdf2": BDF2,
    "generalized_alpha": GeneralizedAlpha,
    "munthe_kaas": MuntheKaas,
    "energy_momentum": EnergyMomentum,
    "runge_kutta": RungeKutta,
    "commutator_free": CommutatorFree,
    "independent_coordinates": IndependentCoordinates,
    "moreau": Moreau,
}
