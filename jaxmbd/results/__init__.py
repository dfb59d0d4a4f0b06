"""Motions with their joints, elements, contacts, beams and energies, as arrays and as tables."""

from ..outcomes import RESULTS as RESULTS
from .beams import BeamMotion as BeamMotion
from .elements import ElementMotion as ElementMotion
from .sensors import SensorReadings as SensorReadings
from .solution import Energy as Energy
from .solution import Momentum as Momentum
from .solution import Reaction as Reaction
from .solution import Solution as Solution
from .solution import Violation as Violation
