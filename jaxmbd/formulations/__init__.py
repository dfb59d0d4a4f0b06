"""Formulations: how orientation is coordinated, and the equations of motion in those coordinates.

This layer knows the model's poses, primitives and forces and one choice of coordinates; it knows
neither integrators nor files. A new formulation is a new file with the seven maps of one body, and
its entry in `FORMULATIONS`.
"""

from .base import AbstractFormulation as AbstractFormulation
from .directors import Directors as Directors
from .ra import RA as RA
from .reps import REps as REps
from .rotation_elements import RotationElements as RotationElements
from .rp import RP as RP
from .screw import Screw as Screw

FORMULATIONS = {
    "rA": RA,
    "rp": RP,
    "reps": REps,
    "directors": Directors,
    "rotation_elements": RotationElements,
}
