"""Linear algebra: saddle-point matrices in blocks, and the strategies that solve with them; numbers
only.

A new strategy is a new file with `of`, `solve` and `solve_transpose`, a name in
`strategy.STRATEGIES` and a line in `strategy.factorize`.
"""

from .block_sparse import BlockFactors as BlockFactors
from .dense import DenseFactors as DenseFactors
from .dense import dense_solve as dense_solve
from .linear_solve import linear_solve as linear_solve
from .nearby import NearbyFactors as NearbyFactors
from .nearby import near_or_exact as near_or_exact
from .ordering import Schedule as Schedule
from .ordering import Topology as Topology
from .ordering import schedule as schedule
from .rank_deficient import damped_correction as damped_correction
from .rank_deficient import only_forces as only_forces
from .saddle import Coupling as Coupling
from .saddle import SaddleMatrix as SaddleMatrix
from .strategy import STRATEGIES as STRATEGIES
from .strategy import by_size as by_size
from .strategy import choose_strategy as choose_strategy
from .strategy import factorize as factorize
from .supernodes import carried_bodies as carried_bodies
