"""Pictures: time plots and animations with matplotlib (the extra `viz`).

This layer knows results and drawings; it computes nothing. A new kind of picture is a new file with
one function.
"""

from .animation import animate as animate
from .animation import snapshot as snapshot
from .plots import plot as plot
