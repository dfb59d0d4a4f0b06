"""Imports go one way: rotations, linalg, roots, complementarity -> model -> formulations ->
equations -> integrators -> ... -> cli -> __main__.
"""

import ast
from pathlib import Path

import jaxmbd

ROOT = Path(jaxmbd.__file__).parent
LAYERS = [
    {"rotations", "results", "files", "cache", "quiet", "indexing", "timing", "branches", "xla"},
    {"linalg"},
    {"roots"},
    {"complementarity"},
    {"model"},
    {"formulations"},
    {"equations"},
    {"integrators"},
    {"analyses"},
    {"identification", "learning"},
    {"io"},
    {"viz", "library"},
    {"demo"},
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
