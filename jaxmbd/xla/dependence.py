"""Which outputs of a program depend on which of its inputs."""

from collections.abc import Callable

from jax.extend.core import Jaxpr, JaxprEqn, Literal

from .jaxprs import PLAIN_CALLS, Atom, Flags, held_function, scan_parts


def reached(
    jaxpr: Jaxpr, flags: Flags, common: Callable[[JaxprEqn], bool] = lambda eqn: False
) -> Flags:
    """Outputs that depend on flagged inputs; not through operations that are common to all."""
    known = dict(zip(jaxpr.invars, flags, strict=True))

    def read(v: Atom) -> bool:
        return not isinstance(v, Literal) and known.get(v, False)

    for eqn in jaxpr.eqns:
        own, name = [read(v) for v in eqn.invars], eqn.primitive.name
        if not any(own) or common(eqn):
            found = [False] * len(eqn.outvars)
        elif name in PLAIN_CALLS:  # a derivative's calls return values beside their tangents
            found = reached(held_function(eqn).jaxpr, own, common)
        elif name == "scan":
            carry, rows = reached_by_scan(eqn, own, common)
            found = [*carry, *rows]
        else:
            found = [True] * len(eqn.outvars)
        known |= dict(zip(eqn.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def reached_by_scan(
    eqn: JaxprEqn, flags: Flags, common: Callable[[JaxprEqn], bool] = lambda eqn: False
) -> tuple[Flags, Flags]:
    """Which of the carry of a scan, and of its outputs row by row, depend on flagged arguments at
    any turn.
    """
    consts, start, sequence = (flags[part] for part in scan_parts(eqn))
    inner, carry, count = eqn.params["jaxpr"].jaxpr, list(start), len(start)
    while True:
        found = reached(inner, [*consts, *carry, *sequence], common)
        if all(flag <= old for flag, old in zip(found[:count], carry, strict=True)):
            return carry, found[count:]
        carry = [a or b for a, b in zip(found[:count], carry, strict=True)]


def needed(jaxpr: Jaxpr, flags: Flags) -> Flags:
    """Inputs on which flagged outputs depend."""
    known = {
        v
        for v, flag in zip(jaxpr.outvars, flags, strict=True)
        if flag and not isinstance(v, Literal)
    }
    for eqn in reversed(jaxpr.eqns):
        if known.intersection(eqn.outvars):
            known.update(v for v in eqn.invars if not isinstance(v, Literal))
    return [v in known for v in jaxpr.invars]
