"""Traced programs kept between processes, beside the compiled ones that JAX keeps.

JAX's own cache spares the compilation, and still traces and lowers every program before it can look
for it, which takes longer than all the rest of a first result. This cache stores the exported
program under a hash of everything that tracing depends on: the code of this package, the versions
of the packages beneath it, the options of JAX, and the structure of the arguments.
"""

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Hashable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import PyTree

from ..files import written
from . import disk_cache as cache
from .cpu_fusion import kernels_wanted, left_apart
from .descriptions import Description, Undescribed, describe, rebuild, with_slots
from .functions import describe_function
from .jaxprs import Array, PyTreeDef, Values
from .options import switches

Program = Callable[..., Any]
_MARK = b"jaxmbd program 2\n"
_START = len(_MARK) + 32  # of the content, after its digest


class KeptPrograms:
    """The programs of one function, by the structure of its arguments.

    Args:
        function: What they compute; a function of this package.
        options: For XLA.
    """

    def __init__(self, function: Callable[..., PyTree], options: dict[str, bool | int] | None):
        self._function, self._options = function, options
        self._known: dict[Hashable, Program | None] = {}
        module, name = function.__module__, function.__qualname__
        self._is_ours = module.split(".")[0] == __name__.split(".")[0] and "<" not in name

    def find(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Program | None:
        """The program for such arguments, read or made; None where none can be kept."""
        folder = cache.folder()
        if folder is None or not self._is_ours or not switches().programs:
            return None
        leaves, structure = jax.tree.flatten((args, kwargs))
        like = structure, tuple(_kind(x) for x in leaves), switches()
        try:
            if like not in self._known:
                self._known[like] = self._read_or_made(folder, leaves, structure)
            return self._known[like]
        except TypeError:  # something static that cannot be hashed
            return None

    def _read_or_made(
        self, folder: Path, leaves: list[PyTree], structure: PyTreeDef
    ) -> Program | None:
        if not all(_is_plain(x) for x in leaves):
            return None
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        try:
            with left_apart() if self._options else contextlib.nullcontext():
                surroundings = _surroundings()
            given = describe(jax.tree.unflatten(structure, leaves), functions=describe_function)
            about = [surroundings, name, given]
        except (Undescribed, TypeError):
            return None
        key = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        file = folder / f"{self._function.__name__}-{key}-traced"
        known = _read(file)
        if known is not None:
            return self._program(*known)
        try:
            out, exported = self._traced(leaves, structure)
            text = exported.serialize()
        except (Undescribed, NotImplementedError, ValueError, ImportError):
            return None
        _write(file, out, bytes(text))
        return self._program(out, exported)

    def _traced(
        self, leaves: list[PyTree], structure: PyTreeDef
    ) -> tuple[Description, export.Exported]:
        """The description of the output, and the program on arrays alone."""
        described = []

        def flat(*arrays: Array) -> Values:
            given = iter(arrays)
            args, kwargs = jax.tree.unflatten(
                structure, [next(given) if eqx.is_array(x) else x for x in leaves]
            )
            out = self._function(*args, **kwargs)
            described.append(describe(with_slots(out)))
            return [x for x in jax.tree.leaves(out) if eqx.is_array(x)]

        flat.__name__ = self._function.__name__
        arrays = [x for x in leaves if eqx.is_array(x)]
        with left_apart() if self._options else contextlib.nullcontext():
            exported = export.export(jax.jit(flat))(*arrays)
        return described[-1], exported

    def _program(self, out: Description, exported: export.Exported) -> Program:
        def program(*arrays: Array) -> PyTree:
            return exported.call(*arrays)

        program.__name__ = self._function.__name__  # reports of timing show it
        options: dict[str, Any] = {"compiler_options": self._options} if self._options else {}
        jitted = jax.jit(program, **options)

        def run(args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
            arrays = [x for x in jax.tree.leaves((args, kwargs)) if eqx.is_array(x)]
            return rebuild(out, jitted(*arrays))

        return run


def kept_where_possible(
    function: Callable[..., PyTree], tell: Callable[[str], None]
) -> Callable[..., PyTree]:
    """Wrap a function for `jax.jit` so that a program kept by another process replaces tracing, and
    a traced program is kept for the next process.

    Args:
        function: Of the user's.
        tell: Is called with the reason where no program can be kept.
    """

    @functools.wraps(function)
    def traced(*args: PyTree, **kwargs: PyTree) -> PyTree:
        folder = cache.folder()
        if folder is None or not switches().programs:
            return function(*args, **kwargs)
        leaves, structure = jax.tree.flatten((args, kwargs))
        try:
            out, exported = _kept(function, folder, leaves, structure)
        except Exception as error:
            result = function(*args, **kwargs)  # fails here where the error is the function's own
            known = isinstance(error, Undescribed)
            tell(str(error) if known else f"something that cannot be kept ({error})")
            return result
        arrays: Any = exported.call(*leaves)
        return rebuild(out, arrays)

    return traced


def _kept(
    function: Callable[..., PyTree], folder: Path, leaves: list[PyTree], structure: PyTreeDef
) -> tuple[Description, export.Exported]:
    """The description of a function's output and its program for such arguments, read or made."""
    about = [_surroundings(), describe_function(function)]
    about.append(_of_arguments(jax.tree.unflatten(structure, leaves)))
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    name = re.sub(r"\W", "_", getattr(function, "__name__", "function"))
    file = folder / f"{name}-{key}-traced"
    known = _read(file)
    if known is not None:
        return known
    described = []

    def flat(*leaves: Array) -> Values:
        args, kwargs = jax.tree.unflatten(structure, leaves)
        out = jax.tree.map(jnp.asarray, function(*args, **kwargs))
        described.append(describe(with_slots(out)))
        return jax.tree.leaves(out)

    flat.__name__ = name
    shapes = [
        jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))
        for x in leaves
    ]
    try:
        exported = export.export(jax.jit(flat))(*shapes)
        text = exported.serialize()
    except (NotImplementedError, ValueError, ImportError) as error:
        raise Undescribed(f"an operation that cannot be written down ({error})") from None
    out = described[-1]
    _write(file, out, bytes(text))
    return out, exported


def _of_arguments(arguments: PyTree) -> Description:
    try:
        return describe(arguments, functions=describe_function)
    except Undescribed as error:
        raise Undescribed(f"an argument that holds {error}") from None


def _kind(x: PyTree) -> Hashable:
    """The properties of a leaf that a program depends on."""
    if eqx.is_array(x):
        return x.shape, x.dtype, getattr(x, "weak_type", False)
    return type(x), x


def _is_plain(x: PyTree) -> bool:
    """Whether a leaf lies where a kept program expects it: on one device, the default one."""
    if not isinstance(x, jax.Array):
        return True
    return len(x.devices()) == 1 and next(iter(x.devices())) == jax.local_devices()[0]


@functools.cache
def _code() -> str:
    """A digest of this package's code and of the versions beneath it."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode())
        digest.update(file.read_bytes())
    digest.update(repr([version(name) for name in ("jax", "jaxlib", "equinox", "numpy")]).encode())
    return digest.hexdigest()


def _surroundings() -> Description:
    """Everything besides the arguments that a trace follows from."""
    flags = (
        "jax_enable_x64",
        "jax_numpy_dtype_promotion",
        "jax_numpy_rank_promotion",
        "jax_default_matmul_precision",
        "jax_debug_nans",
        "jax_debug_infs",
        "jax_disable_jit",
        "jax_enable_checks",
    )
    return [
        _code(),
        jax.default_backend(),
        jax.local_devices()[0].device_kind,
        [str(getattr(jax.config, flag, None)) for flag in flags],
        list(switches().values()),
        kernels_wanted(),
    ]


def _read(file: Path) -> tuple[Description, export.Exported] | None:
    """The description and the program in a file; None where it is not there, or spoiled."""
    try:
        content = file.read_bytes()
        mark, digest, body = content[: len(_MARK)], content[len(_MARK) :][:32], content[_START:]
        if mark != _MARK or hashlib.sha256(body).digest() != digest:
            return None
        header, _, text = body.partition(b"\n")
        out, exported = json.loads(header), export.deserialize(bytearray(text))
        rebuild(out, list(exported.out_avals))  # fails here, not in a run
    except Exception:  # whatever its bytes are: a dozen kinds of errors
        return None
    return out, exported


def _write(file: Path, out: Description, text: bytes) -> None:
    """Write a program at once or not at all: other processes read while this one writes."""
    body = json.dumps(out).encode() + b"\n" + text
    # A full disk, or a folder that is gone: the program is traced again next time.
    with contextlib.suppress(OSError), written(file, "wb", "program") as stream:
        stream.write(_MARK + hashlib.sha256(body).digest() + body)
