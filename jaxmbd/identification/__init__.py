"""Identification: numbers of a mechanism from measurements of its motion.

This layer knows mechanisms by path, analyses and statistics; it knows no formulas of mechanics. A
new kind of restriction on a number is a class in `transforms.py`; a new kind of measured quantity
is a case in `measurements.py`.
"""

from .fit import FitError as FitError
from .fit import FitReport as FitReport
from .fit import fit as fit
from .measurements import Measurements as Measurements
from .transforms import Bounded as Bounded
from .transforms import Free as Free
from .transforms import PhysicalInertia as PhysicalInertia
from .transforms import Positive as Positive
