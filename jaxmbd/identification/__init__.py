"""Identification: numbers of a mechanism from measurements of its motion.

This layer knows mechanisms by path, analyses and statistics; it knows no formulas of mechanics. A
new kind of restriction on a number is a class in `transforms.py`; a new kind of measured quantity
is a case in `measurements.py`.
"""

from .design import Design as Design
from .design import DesignError as DesignError
from .design import design_experiment as design_experiment
from .excitations import AbstractExcitation as AbstractExcitation
from .excitations import Fourier as Fourier
from .excitations import Spline as Spline
from .experiments import Experiment as Experiment
from .experiments import Unknown as Unknown
from .fit import FitError as FitError
from .fit import FitWarning as FitWarning
from .fit import fit as fit
from .losses import AbstractLoss as AbstractLoss
from .losses import Huber as Huber
from .losses import StudentT as StudentT
from .measurements import Measurements as Measurements
from .posterior import Posterior as Posterior
from .posterior import laplace_posterior as laplace_posterior
from .posterior import sample_posterior as sample_posterior
from .priors import AbstractPrior as AbstractPrior
from .priors import LogNormalPrior as LogNormalPrior
from .priors import NormalPrior as NormalPrior
from .profile import Profile as Profile
from .profile import profile_likelihood as profile_likelihood
from .reports import ExperimentReport as ExperimentReport
from .reports import FitReport as FitReport
from .transforms import Along as Along
from .transforms import Bounded as Bounded
from .transforms import Free as Free
from .transforms import PhysicalInertia as PhysicalInertia
from .transforms import Positive as Positive
from .transforms import Scaled as Scaled
