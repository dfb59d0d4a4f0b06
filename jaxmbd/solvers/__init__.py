"""Newton's method, and derivatives of its roots by the implicit function theorem."""

from .frozen import AbstractUndetermined as AbstractUndetermined
from .implicit_diff import AbstractRootProblem as AbstractRootProblem
from .implicit_diff import implicit_root as implicit_root
from .iteration import AbstractEquations as AbstractEquations
from .iteration import Functions as Functions
from .iteration import NewtonOptions as NewtonOptions
from .iteration import Start as Start
from .kept_factors import KeptFactors as KeptFactors
from .newton import NewtonInfo as NewtonInfo
from .newton import newton as newton
from .settings import Newton as Newton
from .settings import quasi_stage as quasi_stage
