"""The manual is complete: names, links, pictures. `make docs` runs its code cells."""

import ast
import inspect
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

import jaxmbd as mbd
from jaxmbd.library import names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TRACKED = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True
).stdout.split()
PAGES = [ROOT / name for name in TRACKED] or [ROOT / "README.md", *DOCS.rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """Headings as links name them."""
    text = page.read_text(encoding="utf-8")
    for included in re.findall(r"^```\{include\} (.*)$", text, flags=re.M):
        text += (page.parent / included.strip()).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, flags=re.M)
    plain = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def test_every_public_name_has_an_entry():
    text = "".join(p.read_text(encoding="utf-8") for p in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. (?:auto\w+|py:data):: ([\w.]+)$", text, flags=re.M))
    public = {
        name
        for name, value in vars(mbd).items()
        if not name.startswith("_") and not (inspect.ismodule(value) and name != "given")
    }
    assert public - {x.removeprefix("jaxmbd.model.") for x in listed} == set()


def test_every_public_name_says_what_it_is():
    bare = [
        name
        for name, value in vars(mbd).items()
        if not name.startswith("_") and callable(value) and len(value.__doc__ or "") < 20
    ]
    assert bare == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        name, _, heading = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (
            heading and there.suffix == ".md" and heading not in anchors(there)
        ):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_on_a_page_is_python(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
        ast.parse(textwrap.dedent(block))


def test_the_gallery_shows_every_packaged_mechanism():
    text = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    for name in names():
        assert f"gallery/{name}.webm" in text
        kept = [DOCS / "_static" / "gallery" / f"{name}.{x}" for x in ("webm", "jpg", "html")]
        assert sum(part.stat().st_size for part in kept) < 600_000


def test_the_start_page_is_small():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"_static/gallery/\w+\.(?:webm|jpg)", text))
    assert len(shown) > 6  # a view is loaded when it is asked for
    assert sum((DOCS / name).stat().st_size for name in shown) < 500_000
