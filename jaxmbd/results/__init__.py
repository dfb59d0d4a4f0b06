"""Motions with their joints, elements, contacts, beams and energies, as arrays and as tables."""

from ..outcomes import RESULTS as RESULTS
from .beams import BeamMotion as BeamMotion
from .elements import ElementMotion as ElementMotion
from .energy import Energy as Energy
from .energy import Momentum as Momentum
from .events import EventTimes as EventTimes
from .reactions import Reaction as Reaction
from .sensors import SensorReadings as SensorReadings
from .solution import Solution as Solution
from .violation import Violation as Violation
