"""The examples of the reference: every entry that is made or called has one, and it runs."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import jaxmbd as mbd

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
from reading_examples import EXAMPLES, read

PAGES = sorted(EXAMPLES.glob("*.py"))
SECTIONS = [(page, names) for page in PAGES for names in read(page)[1]]


@pytest.mark.parametrize(
    ("page", "names"), SECTIONS, ids=[f"{page.stem}-{names[0]}" for page, names in SECTIONS]
)
def test_an_example_runs_by_itself(page, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start, sections = read(page)
    code = sections[names]
    assert all(re.search(rf"\b{name}\b", code) for name in names if is_made(name)), names
    space = {"__name__": page.stem}
    exec(compile(f"{start}\n{code}", page.name, "exec"), space)
    # What is described is also a mechanism that can be built.
    if "system" not in space and isinstance(space.get("m"), mbd.Mechanism):
        space["m"].build()


ENTRY = re.compile(r"^\.\. (currentmodule|autoclass|autofunction):: ([\w.]+)$", flags=re.M)


def listed() -> dict[str, object]:
    """The entries of the reference that are classes and functions, by their names."""
    found = {}
    for page in (DOCS / "reference").glob("*.md"):
        module = "jaxmbd"
        for directive, path in ENTRY.findall(page.read_text(encoding="utf-8")):
            if directive == "currentmodule":
                module = path
            else:
                inner, _, name = path.rpartition(".")
                place = importlib.import_module(inner or module)
                found[name] = getattr(place, name)
    return found


def is_made(name: str) -> bool:
    """Whether a user writes the name, as against what a call returns."""
    value = LISTED[name]
    return inspect.isfunction(value) or name not in RETURNED


LISTED = listed()
RETURNED = {
    inspect.signature(value).return_annotation.__name__
    for value in LISTED.values()
    if inspect.isfunction(value) and inspect.isclass(inspect.signature(value).return_annotation)
}


def test_every_entry_has_an_example():
    shown = {name for _, names in SECTIONS for name in names}
    # Interfaces are shown under "Extend", and errors where they are raised.
    needed = {
        name
        for name, value in LISTED.items()
        if not name.startswith("Abstract")
        and not (inspect.isclass(value) and issubclass(value, Exception))
    }
    assert not needed - shown, sorted(needed - shown)
    assert not shown - set(LISTED), sorted(shown - set(LISTED))
