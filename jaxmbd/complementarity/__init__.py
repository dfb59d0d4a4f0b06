"""Contact laws and the problem that they make together: numbers only, no mechanism.

Every law is a residual in its impulse x and its velocity v, whose root is the exact law, smoothed
by κ. One law is one file.
"""

from .bracing import without_bracing as without_bracing
from .coulomb import coulomb as coulomb
from .dry import dry as dry
from .groups import MANY as MANY
from .groups import Groups as Groups
from .groups import grouped as grouped
from .laws import Laws as Laws
from .laws import Pressing as Pressing
from .problem import LawProblem as LawProblem
from .problem import Outcome as Outcome
from .problem import solve_laws as solve_laws
from .restitution import AbstractGuards as AbstractGuards
from .restitution import solve_with_bounces as solve_with_bounces
from .row_order import CONTACT_ROWS as CONTACT_ROWS
from .row_order import RowOrder as RowOrder
from .stop import stop as stop
