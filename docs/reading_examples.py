"""Examples of the reference: `reference/examples/*.py` holds a short one for each entry.

A file goes with the page of its name. It starts with its imports; each section after them,
`# %% Name, OtherName`, runs by itself after the imports and is shown under the entries that its
heading names.
"""

import re
from pathlib import Path

EXAMPLES = Path(__file__).parent / "reference" / "examples"
_HEADING = re.compile(r"^# %% (.+)$", flags=re.M)


def read(page: Path) -> tuple[str, dict[tuple[str, ...], str]]:
    """The imports of a file, and the code of each section by the names of its heading."""
    start, *rest = _HEADING.split(page.read_text(encoding="utf-8"))
    headings = [tuple(x.strip() for x in heading.split(",")) for heading in rest[::2]]
    return start, dict(zip(headings, (code.strip() for code in rest[1::2]), strict=True))


def example_of(name: str) -> list[str]:
    """The lines that show the example of an entry, none where it has none."""
    code = _SHOWN.get(name)
    if code is None:
        return []
    lines = [f"   {line}".rstrip() for line in code.splitlines()]
    return ["", ".. rubric:: Example", "", ".. code-block:: python", "", *lines, ""]


_SHOWN = {
    name: code
    for page in sorted(EXAMPLES.glob("*.py"))
    for names, code in read(page)[1].items()
    for name in names
}
