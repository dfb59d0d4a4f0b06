"""Long runs from the host: compiled pieces one after another, with progress and interruption."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree
from tqdm import tqdm

from ...outcomes import RESULTS
from ...results.solution import Solution
from ...xla.cpu_fusion import one_kernel

_ROWS = 1024  # of the buffer that one compiled piece fills
_BUFFER = 2**26  # its largest size [bytes]
_CHUNKS = 50  # about how many pieces a watched run is told in
_PATIENCE = 0.5  # about how long one piece may take [s], so that a bar moves and Ctrl-C is heard


class HostLoop:
    """Fill rows piece by piece with one compiled program whose length is a number, not a shape.

    Args:
        piece: `piece(run, first, count, size)` computes `count` rows from the `first` on, in a
            buffer of `size` rows.
        goes_on: Whether a run may go on.
        solution: From all rows, and the run, to what is returned.
        name: For the progress bar.
        weight: Steps per row.
    """

    def __init__(
        self,
        piece: Callable[..., tuple[PyTree, PyTree]],
        goes_on: Callable[[PyTree], Bool[Array, ""] | bool],
        solution: Callable[[PyTree, PyTree], Solution],
        name: str,
        weight: int = 1,
        unit: str = "step",
    ):
        self.piece, self.goes_on, self.solution = piece, goes_on, solution
        self.name, self.weight, self.unit = name, weight, unit

    def run(
        self,
        run: PyTree,
        first: PyTree,
        total: int,
        *,
        progress: bool = False,
        on_chunk: Callable[[Solution], None] | None = None,
    ) -> Solution:
        """Compute `total` rows after the first one, or, where only its size in bytes is given, all
        of them.
        """
        bare = isinstance(first, int)
        size = _buffer_rows(first if bare else sum(x.nbytes for x in jax.tree.leaves(first)))
        pieces: list[Any] = [] if bare else [jax.tree.map(lambda x: np.asarray(x)[None], first)]
        watched = progress or on_chunk is not None
        most = max(1, -(-total // _CHUNKS)) if watched else size
        interrupted = False

        def so_far() -> Solution:
            return self.solution(
                jax.device_put(jax.tree.map(lambda *x: np.concatenate(x), *pieces)), run
            )

        done, count = 0, min(size, most, total)
        bar = tqdm(
            total=total * self.weight,
            unit=self.unit,
            disable=not progress,
            desc=f"{self.name}: compiling, once per mechanism",
            leave=False,
        )
        try:
            if progress:  # nothing is computed, so that the bar counts steps and not compilation
                self.piece(run, np.asarray(0), np.asarray(0), size)
                bar.set_description(self.name)
                bar.reset()
            # A run that failed before it began gets a row too, which is NaN.
            while done < total and (not pieces or bool(self.goes_on(run))):
                began = time.monotonic()
                run, rows = self.piece(run, np.asarray(done), np.asarray(count), size)
                pieces.append(jax.tree.map(lambda x, n=count: np.asarray(x)[:n], rows))
                done += count
                took = time.monotonic() - began
                bar.update(count * self.weight)
                if on_chunk is not None:
                    on_chunk(so_far())
                faster = int(count * min(4.0, _PATIENCE / max(took, 1e-6)))
                count = max(1, min(size, most, total - done, max(faster, 1)))
        except KeyboardInterrupt:
            if not progress:
                raise
            interrupted = True
            bar.write(
                f"{self.name}: interrupted at {self.unit} {done * self.weight} of "
                f"{total * self.weight}"
            )
        finally:
            bar.close()
        if done < total and not interrupted:
            pieces.append(_blank(pieces[0], total - done))
        solution = so_far()
        return _with_result(solution, RESULTS.interrupted) if interrupted else solution


def counted_loop(
    body: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    carry: PyTree,
    at: Callable[[Array], PyTree],
    count: Int[Array, ""],
    size: int,
    result: Callable[[PyTree], RESULTS],
) -> tuple[Any, Any]:
    """`jax.lax.scan` over `at(0), at(1), ...` whose length `count` is a number, into `size` rows;
    forward only.

    It ends early where `result(carry)` is not successful; rows that were not reached are NaN.
    """
    body = jax.jit(body)  # traced once, for the shapes of a row and for the loop
    row = jax.eval_shape(lambda c: body(c, at(jnp.zeros((), int)))[1], carry)
    blank = jax.tree.map(
        lambda x: jnp.full(
            (size, *x.shape), jnp.nan if jnp.issubdtype(x.dtype, jnp.inexact) else 0, x.dtype
        ),
        row,
    )

    def goes_on(state: tuple[PyTree, Array, PyTree]):
        carry, m, _ = state
        return (m < count) & (result(carry) == RESULTS.successful)

    def turn(state: tuple[PyTree, Array, PyTree]):
        carry, m, rows = state
        carry, row = body(carry, at(m))
        return carry, m + 1, jax.tree.map(lambda every, x: every.at[m].set(x), rows, row)

    def whole(carry: PyTree):
        return jax.lax.while_loop(goes_on, turn, (carry, jnp.zeros((), int), blank))

    carry, _, rows = one_kernel(whole, carry)
    return carry, rows


def _buffer_rows(size: int) -> int:
    """Number of rows of some bytes each that a compiled piece fills."""
    return int(np.clip(_BUFFER // max(size, 1), 16, _ROWS))


def _blank(row: PyTree, count: int) -> Any:
    """Rows that a failed run did not reach."""

    def blank(x: np.ndarray) -> np.ndarray:
        value = np.nan if np.issubdtype(x.dtype, np.inexact) else 0
        return np.full((count, *x.shape[1:]), value, x.dtype)

    return jax.tree.map(blank, row)


def _with_result(solution: Solution, result: RESULTS) -> Solution:
    return eqx.tree_at(
        lambda s: s.result, solution, result, is_leaf=lambda x: isinstance(x, RESULTS)
    )
