"""Roots of equations: Newton's method, its derivative by the implicit function theorem, and batches
in lanes.
"""

from ..branches import where_needed as where_needed
from .checkpointed import checkpointed as checkpointed
from .implicit import AbstractRootProblem as AbstractRootProblem
from .implicit import implicit_root as implicit_root
from .implicit import save_roots as save_roots
from .implicit import saved as saved
from .kept_factors import KeptFactors as KeptFactors
from .kernels import kernels_wanted as kernels_wanted
from .kernels import left_apart as left_apart
from .kernels import one_kernel as one_kernel
from .lanes import anyone as anyone
from .lanes import batched_in_lanes as batched_in_lanes
from .newton import NewtonInfo as NewtonInfo
from .newton import NewtonOptions as NewtonOptions
from .newton import newton as newton
from .repeated import repeated as repeated
from .settings import Newton as Newton
from .settings import quasi_stage as quasi_stage
