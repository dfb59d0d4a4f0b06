"""A view in a notebook that follows a run."""

import time
from typing import Any

from ..results.solution import Solution
from .viewer import view


class Live:
    """Shows the rows so far of a run, and again as they come.

        sol = mbd.simulate(system, state, t_end=60.0, h=1e-3, on_chunk=mbd.viz.Live())

    The view opens at the last instant; it can be turned and played while the run goes on. It is
    replaced when there is more to show, at most once in `every` seconds.

    Args:
        every: Seconds between two views.
        options: Of `jaxmbd.viz.view`.

    Raises:
        ImportError: There is no IPython.
    """

    def __init__(self, *, every: float = 2.0, **options: Any):
        try:
            from IPython.display import display
        except ImportError:
            raise ImportError(
                "Live shows a view in a notebook, which needs IPython: pip install "
                "'jaxmbd[notebooks]'"
            ) from None
        self._display, self._handle = display, None
        self._every = every
        self._options: dict[str, Any] = {"forces": False, "autoplay": False, "time": float("inf")}
        self._options |= options
        self._next = 0.0

    def __call__(self, so_far: Solution) -> None:
        """Show the rows so far, unless others have just been shown."""
        if time.monotonic() < self._next:
            return
        shown = view(so_far, **self._options)
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)
        self._next = time.monotonic() + self._every
