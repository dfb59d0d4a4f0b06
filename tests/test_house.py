"""The shape of the code by room: function length, parameters, file length, annotations. The counts
may only fall.
"""

import ast
import math
from pathlib import Path
from typing import NamedTuple

import pytest

import jaxmbd

ROOT = Path(jaxmbd.__file__).parent


class Counts(NamedTuple):
    long_functions: int = 0  # over 100 lines
    wide_functions: int = 0  # over 7 parameters
    long_files: int = 0  # over 400 lines
    any_parameters: int = 0  # `Any` in the annotation of a parameter
    untyped_percent: int = 0  # parameters without an annotation, rounded up


# Upper limits; lower them when a room improves, never raise one. Rooms not listed have limits of 0.
LIMITS = {
    "analyses": Counts(1, 8, 0, 0, 0),
    "cli": Counts(0, 2, 0, 0, 0),
    "identification": Counts(0, 2, 0, 2, 3),
    "io": Counts(0, 0, 1, 9, 0),
    "learning": Counts(0, 1, 0, 0, 0),
    "library": Counts(0, 1, 0, 15, 0),
    "model": Counts(0, 5, 4, 65, 3),
    "results": Counts(0, 1, 0, 1, 0),
    "shortcuts": Counts(0, 1, 0, 0, 0),
    "viz": Counts(0, 2, 1, 2, 0),
    "xla": Counts(0, 1, 0, 8, 0),
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def counted(paths: list[Path]) -> Counts:
    long_functions = wide_functions = any_parameters = parameters = untyped = 0
    texts = [path.read_text(encoding="utf-8") for path in paths]
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            named = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            named = [a for a in named if a.arg not in ("self", "cls")]
            long_functions += (node.end_lineno or node.lineno) - node.lineno + 1 > 100
            wide_functions += len(named) > 7
            parameters += len(named)
            untyped += sum(a.annotation is None for a in named)
            any_parameters += sum(
                isinstance(part, ast.Name) and part.id == "Any"
                for a in named
                if a.annotation is not None
                for part in ast.walk(a.annotation)
            )
    long_files = sum(len(text.splitlines()) > 400 for text in texts)
    percent = math.ceil(100 * untyped / max(parameters, 1))
    return Counts(long_functions, wide_functions, long_files, any_parameters, percent)


ROOMS = sorted({room_of(path) for path in ROOT.rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_has_longer_functions_or_fewer_types_than_before(room):
    found = counted([path for path in ROOT.rglob("*.py") if room_of(path) == room])
    limit = LIMITS.get(room, Counts())
    over = {
        name: f"{n}, limit {m}"
        for name, n, m in zip(Counts._fields, found, limit, strict=True)
        if n > m
    }
    assert not over, f"{room}: {over}"
