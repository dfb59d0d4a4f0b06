"""The reference as it is built: no field is torn, no type says nothing, every type that a public
function returns has an entry.
"""

import html
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxmbd as mbd

pytest.importorskip("myst_nb", reason="pip install -e '.[docs]'")
DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
from signatures import WORDS, signature_of


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The pages of the reference alone."""
    out = tmp_path_factory.mktemp("reference")
    options = ["include_patterns=reference/**", "root_doc=reference/index"]
    options += ["nb_execution_mode=off", "suppress_warnings=myst.xref_missing,myst-nb.lexer"]
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html"]
    command += [x for option in options for x in ("-D", option)]
    done = subprocess.run([*command, str(DOCS), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return sorted((out / "reference").glob("*.html"))


def plain(text: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", text))


def test_no_field_is_torn_and_no_type_says_nothing(built):
    torn, seen = [], 0
    for page in built:
        text = page.read_text(encoding="utf-8")
        signatures = [plain(x) for x in re.findall(r'<dt class="sig .*?</dt>', text, flags=re.S)]
        nothing = re.compile(r"\b(Any|object|jaxlib|jaxtyping)\b")
        torn += [f"{page.stem}: {x}" for x in signatures if nothing.search(x)]
        fields = re.findall(r'<dl class="field-list.*?</dl>', text, flags=re.S)
        names = [x for field in fields for x in re.findall(r"<strong>(.*?)</strong>", field)]
        torn += [f"{page.stem}: {x}" for x in names if not re.fullmatch(r"\*{0,2}[\w.]+|, ", x)]
        # A part of a text that was taken for a type stands in parentheses after the name.
        torn += [f"{page.stem}: {x}" for x in re.findall(r"</strong> \(.{40}", text)]
        seen += len(signatures) + len(names)
    assert seen > 1500
    assert not torn, torn


def listed() -> set[str]:
    """Names that have an entry, by their last parts."""
    text = "".join(p.read_text(encoding="utf-8") for p in (DOCS / "reference").glob("*.md"))
    return {
        x.rpartition(".")[2] for x in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, flags=re.M)
    }


def test_every_type_that_is_returned_has_an_entry():
    known, missing = listed(), {}
    for name, value in vars(mbd).items():
        if name.startswith("_") or not callable(value):
            continue
        members = [(name, value)]
        if inspect.isclass(value):
            own = [(k, getattr(value, k)) for k in vars(value) if not k.startswith("_")]
            members = [(f"{name}.{k}", m) for k, m in own if inspect.isfunction(m)]
        for place, member in members:
            if not member.__doc__:
                continue  # explained where an interface declares it
            found = inspect.signature(member).return_annotation
            if inspect.isclass(found) and found.__module__.startswith("jaxmbd."):
                if found.__name__ not in known:
                    missing[f"{found.__module__}.{found.__name__}"] = place
    assert not missing, missing


def test_words_of_signatures_are_explained():
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]*)\|", text, flags=re.M)
    table = set(re.findall(r"\w+", " ".join(rows)))
    assert {word for words in WORDS.values() for word in words.split(" | ")} - {"bool"} <= table


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "SpringDamper",
            "(name: str, body_i: Body | str, body_j: Body | str, *, active: switch = None",
        ),
        ("mobility", "(system: System, state: State, *, t: ArrayLike = 0.0)"),
    ],
)
def test_a_signature_reads_well(path, expected):
    assert signature_of(getattr(mbd, path), "class")[0].startswith(expected)


def test_a_return_type_is_named_as_users_know_it():
    assert signature_of(mbd.simulate, "function")[1] == "Solution"
    assert signature_of(mbd.Solution.joint, "method")[1] == "JointMotion"
    module = importlib.import_module("jaxmbd.results.solution")
    assert signature_of(module.Solution.plot, "method")[1] is None
