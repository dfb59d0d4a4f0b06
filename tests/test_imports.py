"""Imports go one way: xla, rotations, linalg, solvers, complementarity -> model -> formulations ->
equations -> integrators, results -> ... -> cli -> __main__.
"""

import ast
from pathlib import Path

import pytest

import jaxmbd

ROOT = Path(jaxmbd.__file__).parent
LAYERS = [
    {"outcomes", "files", "quiet", "timing"},
    {"xla"},
    {"rotations"},
    {"linalg"},
    {"solvers"},
    {"complementarity"},
    {"model"},
    {"formulations"},
    {"equations"},
    {"integrators", "results"},
    {"analyses"},
    {"identification", "learning"},
    {"io"},
    {"viz", "library"},
    {"demo", "shortcuts"},
    {"cli"},
    {"__main__"},
]
RANK = {name: k for k, names in enumerate(LAYERS) for name in names}


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    depth = len(path.relative_to(ROOT).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            if node.level == depth:  # from ..x import y, seen from inside a layer
                found |= (
                    {node.module.split(".")[0]}
                    if node.module
                    else {alias.name for alias in node.names}
                )
    return found


@pytest.mark.essential
def test_every_module_imports_only_from_layers_below():
    wrong = []
    for path in ROOT.rglob("*.py"):
        own = layer_of(path)
        if own == "__init__":
            continue
        assert own in RANK, f"{path} belongs to no layer"
        wrong += [
            f"{path.relative_to(ROOT)} -> {n}"
            for n in imported_layers(path)
            if RANK.get(n, -1) > RANK[own]
        ]
    assert not wrong


# What only one room may know: JAX's programs, operations and compiler.
INTERNALS = ("jax.core", "jax.extend", "jax.interpreters", "jax._src")


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_only_one_room_knows_the_inside_of_jax():
    for path in ROOT.rglob("*.py"):
        known = {
            m
            for m in imported_modules(path)
            if f"{m}.".startswith(tuple(f"{i}." for i in INTERNALS))
        }
        assert not known or layer_of(path) == "xla", f"{path.relative_to(ROOT)} imports {known}"


def neighbors(path: Path) -> set[Path]:
    """Modules of its own room that a module needs before it can be imported."""
    room = ROOT / path.relative_to(ROOT).parts[0]
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1]
        base = base.joinpath(*node.module.split(".")) if node.module else base
        targets = [base.with_suffix(".py"), *(base / f"{a.name}.py" for a in node.names)]
        found |= {t for t in targets if t.is_file() and t.is_relative_to(room)}
    return found


def test_imports_within_a_room_have_no_cycle():
    reached: dict[Path, set[Path]] = {}

    def below(path: Path, above: tuple[Path, ...]) -> set[Path]:
        assert path not in above, " -> ".join(p.name for p in (*above, path))
        if path not in reached:
            direct = neighbors(path)
            reached[path] = direct.union(*(below(p, (*above, path)) for p in direct))
        return reached[path]

    for path in ROOT.rglob("*.py"):
        below(path, ())


def test_public_names_are_exported_once():
    for name in (
        "Mechanism",
        "simulate",
        "kinematics",
        "assemble",
        "load",
        "RA",
        "RP",
        "REps",
        "ImplicitEuler",
        "fit",
    ):
        assert hasattr(jaxmbd, name)
    assert jaxmbd.__version__
