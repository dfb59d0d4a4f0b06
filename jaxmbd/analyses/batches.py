"""Large batches: in chunks, over several devices and several processes, with bounded memory and a
progress bar.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree
from tqdm import tqdm

from ..xla.jaxprs import eval_jaxpr
from ..xla.jit import jit
from ..xla.shared_programs import program_of


def run_batch(
    function: Callable[[PyTree], PyTree],
    inputs: PyTree,
    *,
    chunk: int = 256,
    devices: Sequence[object] | np.ndarray | None = None,
    progress: bool = True,
    on_chunk: Callable[[PyTree], None] | None = None,
) -> Any:
    """Apply a function of one batch element, which returns only the results to keep, to every
    element of a batch.

        heights = mbd.run_batch(lambda mass: mbd.simulate(build(mass), state, ...).r[-1], masses)

    One compiled program maps over a chunk; chunks follow one another, so memory is that of one
    chunk on the devices and of the results on the host. A chunk is divided over all devices, each
    of which iterates for its own elements alone. The numbers do not depend on the number of
    devices, to rounding.

    Several processes: call `jax.distributed.initialize` first in each, then `run_batch` in each
    with the same arguments; every process gets all results.

    Args:
        function: A pure function of one batch element; `simulate` inside does not raise, so return
            `Solution.result` too where elements may fail.
        inputs: Arrays, or a pytree of arrays, with a leading axis for the batch.
        chunk: Elements at a time, rounded up to a multiple of the number of devices. On a CPU some
            128 per core are fastest, on a large GPU 16 000 and more.
        devices: All of JAX by default.
        progress: Show a progress bar on standard error (in the first process).
        on_chunk: Called after every chunk with its results, to save or to look at them.

    Returns:
        What `function` returns, as NumPy arrays with a leading axis; after an interruption
        (Ctrl-C), the elements done.

    Raises:
        ValueError: No elements, or arrays that differ in their number.
    """
    inputs = jax.tree.map(np.asarray, inputs)
    sizes = {x.shape[:1] for x in jax.tree.leaves(inputs)}
    if len(sizes) != 1 or () in sizes or (0,) in sizes:
        raise ValueError(f"run_batch: inputs need one common leading axis, not {sorted(sizes)}")
    ((total,),) = sizes
    devices = np.array(jax.devices() if devices is None else devices).reshape(-1)
    if chunk < 1:
        raise ValueError(f"run_batch: chunk must be positive, not {chunk}")
    chunk = -(-min(chunk, total) // devices.size) * devices.size
    mesh = Mesh(devices, ("batch",))
    spec = PartitionSpec("batch")
    several = len({d.process_index for d in devices}) > 1
    mapped: Any = None
    if several:
        # No element depends on another, so devices need not wait for each other's iterations.
        options = {"mesh": mesh, "in_specs": spec, "out_specs": spec, "check_vma": False}
        mapped = jit(jax.shard_map(jax.vmap(function), **options))
    done: list[Any] = []
    quiet = not progress or jax.process_index() != 0
    with tqdm(total=total, unit="element", disable=quiet, leave=False) as bar:
        try:
            for first in range(0, total, chunk):
                # The last chunk is filled up with its last element, so that one program serves all
                # chunks.
                elements = np.minimum(np.arange(first, first + chunk), total - 1)
                placed = jax.tree.map(
                    lambda x, k=elements: _place(x[k], NamedSharding(mesh, spec)), inputs
                )
                if mapped is None:
                    mapped = _program(function, mesh, spec, placed)
                result = mapped(placed)
                if several:
                    result = multihost_utils.process_allgather(result, tiled=True)
                count = min(chunk, total - first)
                done.append(jax.tree.map(lambda x, n=count: np.asarray(x)[:n], result))
                bar.update(count)
                if on_chunk is not None:
                    on_chunk(done[-1])
        except KeyboardInterrupt:
            if not done:
                raise
            bar.write(
                f"run_batch: interrupted after {len(done) * chunk} of {total} elements; these are "
                "kept"
            )
    return jax.tree.map(lambda *x: np.concatenate(x), *done)


def _program(
    function: Callable[[PyTree], PyTree], mesh: Mesh, spec: PartitionSpec, placed: PyTree
) -> Any:
    """The function of chunks like `placed`, compiled once for all functions that come to the same
    equations; see `shared_jit`.
    """
    own = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((x.shape[0] // mesh.size, *x.shape[1:]), x.dtype), placed
    )
    closed, shapes = jax.make_jaxpr(jax.vmap(function), return_shape=True)(own)
    consts = jax.device_put(closed.consts, NamedSharding(mesh, PartitionSpec()))

    def chunk(consts: list[Array], elements: PyTree) -> Any:
        flat = eval_jaxpr(closed.jaxpr, consts, *jax.tree.leaves(elements))
        return jax.tree.unflatten(jax.tree.structure(shapes), flat)

    specs = (PartitionSpec(), spec)
    mapped = jax.shard_map(chunk, mesh=mesh, in_specs=specs, out_specs=spec, check_vma=False)
    program = program_of(jit(mapped).lower(consts, placed), mesh.devices.tolist())
    return lambda elements: program(consts, elements)


def _place(x: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
