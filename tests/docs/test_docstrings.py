"""Docstrings as the reference shows them: no field and no return value is taken apart."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import jaxmbd as mbd

napoleon = pytest.importorskip("sphinx.ext.napoleon", reason="pip install -e '.[docs]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from docstrings import prepared


def documented():
    """Every public name and its public methods, with their docstrings."""
    for name, value in vars(mbd).items():
        if name.startswith("_") or not callable(value):
            continue
        yield name, value
        if inspect.isclass(value):
            for key, member in vars(value).items():
                if not key.startswith("_") and callable(getattr(value, key, None)):
                    yield f"{name}.{key}", member


def fields(docstring: str) -> list[str]:
    """The field lists that napoleon makes of a docstring."""
    config = napoleon.Config(napoleon_use_ivar=True, napoleon_custom_sections=["Reference"])
    lines = prepared(inspect.cleandoc(docstring).splitlines())
    text = napoleon.GoogleDocstring("\n".join(lines), config).lines()
    return [line for line in text if re.match(r":\w+[ :]", line)]


@pytest.mark.parametrize(
    ("section", "names"), [("Args", ["body_i", "body_j"]), ("Attributes", ["body_i,body_j"])]
)
def test_several_names_of_one_field_stay_names(section, names):
    found = fields(f"Title.\n\n{section}:\n    body_i, body_j: The bodies: both.")
    kind = {"Args": "param", "Attributes": "ivar"}[section]
    assert found == [f":{kind} {name}: The bodies: both." for name in names]


def test_a_colon_in_a_return_value_ends_no_type():
    found = fields("Title.\n\nReturns:\n    The path, concrete: call it outside `jit`.")
    assert found == [":returns: The path, concrete: call it outside ``jit``."]


def test_no_field_of_the_reference_is_taken_apart():
    garbled, seen = [], 0
    for name, value in documented():
        for field in fields(value.__doc__ or ""):
            seen += 1
            # A name after another word is what Sphinx takes for a name after its type.
            typed = re.match(r":\w+ [^:]*\s[^:]*:", field)
            if typed or field.startswith(":rtype:"):
                garbled.append(f"{name}: {field}")
    assert seen > 500 and garbled == []
