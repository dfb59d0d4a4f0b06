"""Pictures: time plots and animations with matplotlib (the extra `viz`), and a view in three
dimensions that a browser shows (no extra).

This layer knows results and drawings; it computes nothing. A new kind of picture is a new file with
one function.
"""

import importlib
from typing import TYPE_CHECKING

from .live import Live as Live
from .viewer import View as View
from .viewer import view as view

if TYPE_CHECKING:
    from .animation import animate as animate
    from .animation import snapshot as snapshot
    from .plots import plot as plot

_WITH_MATPLOTLIB = {"animate": "animation", "snapshot": "animation", "plot": "plots"}


def __getattr__(name: str):
    """What needs matplotlib is imported when it is asked for."""
    if name in _WITH_MATPLOTLIB:
        return getattr(importlib.import_module(f".{_WITH_MATPLOTLIB[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
