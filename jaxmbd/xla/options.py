"""Switches of this room, and how much XLA optimizes.

`mbd.options` changes the switches, and environment variables say what a process begins with. They
are part of the key by which JAX finds traced programs, so that no program serves under switches
other than those that it was traced under.
"""

import contextlib
import dataclasses
import functools
import os
import warnings
from types import TracebackType

import jax

from . import versions

# Level 1 leaves out a sixth of the compilation and no speed; level 0 leaves out more than half,
# and a step of a small mechanism then takes five times as long.
EFFORTS: dict[str, dict[str, bool | int]] = {
    "quick": {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
    "balanced": {"xla_backend_optimization_level": 1},
    "full": {},
}
_PREFERENCES = ("auto", "quick", "fast")

Choice = bool | str | None  # a text is "auto"


@dataclasses.dataclass(frozen=True)
class Switches:
    """What this package does by itself, and leaves to JAX where it is off; see `options`."""

    kernels: bool | None = None  # None where the version of jaxlib decides
    lanes: bool | None = None
    checkpoints: bool | None = None
    loops: bool = True
    indexing: bool = True
    programs: bool = True
    compile: str = "auto"

    def values(self) -> tuple[bool | None, ...]:
        """All switches on which a traced program depends."""
        return tuple(getattr(self, name) for name in _NAMES)


_NAMES = tuple(x.name for x in dataclasses.fields(Switches) if x.name != "compile")
# These read or write JAX's own equations or ask for functions of XLA's, which any version changes.
INTERNAL = ("kernels", "lanes", "checkpoints")
_COSTS = "a step may take twice as long, a batch twice, a gradient one and a half times"
_VARIABLES = ("JAXMBD_OPTIONS", "JAXMBD_KERNELS", "JAXMBD_LANES", "JAXMBD_COMPILE")
_WORDS: dict[str, Choice] = {"0": False, "1": True, "false": False, "true": True, "auto": "auto"}

# None where the environment decides. A setting of JAX's own kind: what is traced and lowered under
# it is not taken for anything else.
_chosen = jax.make_user_context(default_value=None)
_warned = False


class options:  # noqa: N801, as `numpy.errstate`
    """Switch off what this package does to programs beyond JAX, for a process or a `with` block.

    The call takes effect at once, in all threads; as a context manager it ends with the block:

        mbd.options(lanes=False)
        with mbd.options(plain=True):
            sol = mbd.simulate(system, state, h=1e-3, t_end=1.0)

    Results are the same to rounding. Use it to find out whether an unexpected result or error comes
    from one of these mechanisms, or with a version of JAX that the package was not tested with.
    Programs that were traced under other switches are not used. Arguments that are left out stay
    as they are. With versions of JAX that know no setting of all threads, such as 0.8, a call
    applies to its own thread.

    The environment variable JAXMBD_OPTIONS says what a process begins with: `plain`, or
    `kernels=0,lanes=0`. JAXMBD_KERNELS, JAXMBD_LANES and JAXMBD_COMPILE stand for one switch each,
    and go before it. They are read while programs are traced: set them before the process starts.

    Args:
        plain: True switches everything off except `compile`, False puts all of that back to its
            default; the other arguments apply after it. Derivatives of roots keep their rules,
            which JAX has no equivalent for.
        kernels: Parts of a program that a CPU runs as one compiled function.
        lanes: Batches with their axis last. Off: `jax.vmap`.
        checkpoints: Steps whose backward pass keeps roots and is compiled as one part. Off:
            `jax.checkpoint`, which keeps the same.
        loops: Rare work as loops of at most one turn, and loops differentiated through the turns
            that they took. Off: `jax.lax.cond` and `jax.lax.scan`.
        indexing: Gathers whose transpose gathers. Off: a gather, and its scatter.
        programs: Traced programs that are kept, in a process and, after
            `mbd.enable_compilation_cache()`, between processes.
        compile: "auto", "quick" (no optimizations) or "fast" (all of them, also for short runs).

    `kernels`, `lanes` and `checkpoints` are "auto" by default: on, unless jaxlib is newer than the
    versions that this package was tested with, or its self-check fails with this one.

    Raises:
        ValueError: A value that a switch does not take.
    """

    def __init__(
        self,
        *,
        plain: bool | None = None,
        kernels: Choice = None,
        lanes: Choice = None,
        checkpoints: Choice = None,
        loops: Choice = None,
        indexing: Choice = None,
        programs: Choice = None,
        compile: str | None = None,
    ):
        given: dict[str, Choice] = {
            "kernels": kernels,
            "lanes": lanes,
            "checkpoints": checkpoints,
            "loops": loops,
            "indexing": indexing,
            "programs": programs,
        }
        before = _asked()
        after = _changed(before, plain, {k: x for k, x in given.items() if x is not None})
        if compile is not None:
            if compile not in _PREFERENCES:
                raise ValueError(f"compile must be auto, quick or fast, not {compile!r}")
            after = dataclasses.replace(after, compile=compile)
        self._before = _chosen.value
        if after != before:
            _put(after)

    def __enter__(self) -> "options":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _put(self._before)

    def __repr__(self) -> str:
        now = ", ".join(f"{k}={x!r}" for k, x in dataclasses.asdict(switches()).items())
        return f"jaxmbd.options({now})"


def switches() -> Switches:
    """The switches in force, of which none is left to the version of jaxlib."""
    asked = _asked()
    if all(getattr(asked, name) is not None for name in INTERNAL):
        return asked
    return _decided(asked, _distrusted())


def only(name: str | None) -> contextlib.AbstractContextManager[None]:
    """Everything off but one switch, or all, in this thread."""
    return _chosen(_changed(Switches(), True, {} if name is None else {name: True}))


@functools.lru_cache(maxsize=256)
def _decided(asked: Switches, distrusted: frozenset[str]) -> Switches:
    open_ones = [name for name in INTERNAL if getattr(asked, name) is None]
    return dataclasses.replace(asked, **{name: name not in distrusted for name in open_ones})


def _distrusted() -> frozenset[str]:
    """Switches that are off by themselves with this version of jaxlib."""
    if versions.JAXLIB >= versions.UNTESTED:
        _warn()
        return frozenset(INTERNAL)
    if versions.JAXLIB_VERSION in versions.TESTED:
        return frozenset()
    from .self_check import failures  # which is made of all the operations that read the switches

    return failures()


def _warn() -> None:
    """Say once in a process what is off."""
    global _warned
    if _warned:
        return
    _warned = True
    newest = ".".join(str(x) for x in versions.UNTESTED)
    warnings.warn(
        f"jaxlib {versions.JAXLIB_VERSION} is newer than the versions that jaxmbd was tested with "
        f"(below {newest}). What reads JAX's internals is off: {', '.join(INTERNAL)}. Results are "
        f"the same; {_COSTS}. mbd.options(kernels=True, lanes=True, checkpoints=True) switches "
        "them on, mbd.options(plain=True) ends this warning",
        stacklevel=2,
    )


def _put(value: Switches | None) -> None:
    if hasattr(_chosen, "set_global"):
        _chosen.set_global(value)
    else:  # a context that is never left
        _chosen(value).__enter__()


def _asked() -> Switches:
    """The switches as they were asked for, by `options` or by the environment."""
    chosen: Switches | None = _chosen.value
    return _from_environment(*map(os.environ.get, _VARIABLES)) if chosen is None else chosen


@functools.lru_cache(maxsize=64)
def _from_environment(
    several: str | None, kernels: str | None, lanes: str | None, compiled: str | None
) -> Switches:
    """The switches by the texts of `_VARIABLES`."""
    plain, given = None, {}
    for part in filter(None, (x.strip() for x in (several or "").split(","))):
        name, _, word = part.partition("=")
        if part == "plain":
            plain = True
        elif name in _NAMES and word.lower() in _WORDS:
            given[name] = _WORDS[word.lower()]
        else:
            raise ValueError(
                "JAXMBD_OPTIONS must be plain, or switches such as kernels=0,lanes=0 among "
                f"{', '.join(_NAMES)}, not {several!r}"
            )
    if kernels in ("0", "1"):
        given["kernels"] = kernels == "1"
    if lanes == "0":
        given["lanes"] = False
    after = _changed(Switches(), plain, given)
    return dataclasses.replace(after, compile=compiled or "auto")


def _changed(before: Switches, plain: bool | None, given: dict[str, Choice]) -> Switches:
    for name, x in given.items():
        if not (isinstance(x, bool) or (x == "auto" and name in INTERNAL)):
            kinds = "True, False or 'auto'" if name in INTERNAL else "True or False"
            raise ValueError(f"{name} must be {kinds}, not {x!r}")
    base = before
    if plain is True:
        base = dataclasses.replace(before, **dict.fromkeys(_NAMES, False))
    elif plain is False:
        base = Switches(compile=before.compile)
    changed = {name: None if x == "auto" else x for name, x in given.items()}
    return dataclasses.replace(base, **changed)


def preference() -> str:
    """How to compile: "auto", "quick" or "fast", by `options` or JAXMBD_COMPILE."""
    chosen = _asked().compile
    if chosen not in _PREFERENCES:
        raise ValueError(f"JAXMBD_COMPILE must be auto, quick or fast, not {chosen!r}")
    return chosen


def chosen_options(effort: str = "balanced") -> dict[str, bool | int]:
    """`compiler_options` of the effort, or of what `options` asks for in its place."""
    return compiler_options({"auto": effort, "quick": "quick", "fast": "full"}[preference()])


@functools.cache
def compiler_options(effort: str) -> dict[str, bool | int]:
    """Options for `jax.jit`; none on accelerators, and what a version does not know is left out."""
    if jax.default_backend() != "cpu":
        return {}
    known = {}
    for name, value in EFFORTS[effort].items():
        try:
            jax.jit(lambda x: x, compiler_options={name: value})(0.0)
            known[name] = value
        except Exception:  # each version of JAX has an error of its own for an unknown option
            continue
    return known
