"""Solvers: numbers only, no mechanics.

This layer knows vectors, block matrices and roots. A new strategy for linear systems is a new file with `of`, `solve`
and `solve_transpose`, a name in `checked.STRATEGIES` and a line in `checked.factorise`.
"""

from .block_sparse import BlockFactors as BlockFactors
from .checked import STRATEGIES as STRATEGIES
from .checked import by_size as by_size
from .checked import choose_strategy as choose_strategy
from .checked import factorise as factorise
from .dense import DenseFactors as DenseFactors
from .implicit import AbstractRootProblem as AbstractRootProblem
from .implicit import implicit_root as implicit_root
from .implicit import linear_solve as linear_solve
from .newton import NewtonInfo as NewtonInfo
from .newton import NewtonOptions as NewtonOptions
from .newton import newton as newton
from .rank_deficient import damped_correction as damped_correction
from .rank_deficient import only_forces as only_forces
from .saddle import Coupling as Coupling
from .saddle import SaddleMatrix as SaddleMatrix
