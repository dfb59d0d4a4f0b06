"""Newton's method, and derivatives of its roots by the implicit function theorem."""

from .implicit_diff import AbstractRootProblem as AbstractRootProblem
from .implicit_diff import implicit_root as implicit_root
from .kept_factors import KeptFactors as KeptFactors
from .newton import NewtonInfo as NewtonInfo
from .newton import NewtonOptions as NewtonOptions
from .newton import newton as newton
from .settings import Newton as Newton
from .settings import quasi_stage as quasi_stage
