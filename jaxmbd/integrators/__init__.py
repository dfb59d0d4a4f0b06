"""Integrators: one file per method, one small interface.

This layer knows formulations by their maps and Newton's method; it knows neither joints nor files. A new integrator
is a new file with `step` (and `start`), and its entry in `INTEGRATORS`.
"""

from .base import AbstractIntegrator as AbstractIntegrator
from .base import Motion as Motion
from .generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .implicit_euler import ImplicitEuler as ImplicitEuler
from .munthe_kaas import MuntheKaas as MuntheKaas

INTEGRATORS = {"implicit_euler": ImplicitEuler, "generalized_alpha": GeneralizedAlpha, "munthe_kaas": MuntheKaas}
