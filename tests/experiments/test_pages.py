"""Pages of the experiments against the files of their results, and tables of all pages in shape."""

import json
from pathlib import Path

import pytest

from experiments.figures_of_pages import uneven, unsupported

PAGES = sorted(Path(__file__).parents[2].glob("experiments/*/README.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_number_is_supported_by_a_result(page):
    assert not unsupported(page.parent)


def test_every_row_of_every_table_has_the_cells_of_its_head():
    root = Path(__file__).parents[2]
    pages = [
        *PAGES,
        root / "README.md",
        *(p for p in root.glob("docs/**/*.md") if "_build" not in p.parts),
    ]
    assert {str(p): wrong for p in pages if (wrong := uneven(p))} == {}


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        ("| error | 1.23e-4 | 2.5 ms |", []),
        ("| error | 1.24e-4 |", ["1.24e-4"]),
        ("| in percent 37.5 % | of 84.0 by 2.5 ms | 33.6 |", ["84.0"]),
        ("| the paper | 5.55 | `9.99` | [7.77](a_9.99.md) |", ["7.77"]),
        ("text of 8.88 outside of tables and 77 others", ["8.88"]),
        ("text of 2.5 ms, of 5.1 ms, of `6.66` in 1.2.3", ["5.1"]),
    ],
)
def test_what_is_supported(tmp_path, row, missing):
    stored = {"error": 1.2345e-4, "seconds": 2.5e-3, "share": 0.375}
    (tmp_path / "results.json").write_text(json.dumps(stored))
    (tmp_path / "README.md").write_text(f"<!-- not from the results: 5.55; a paper -->\n\n{row}\n")
    assert [x.partition(" in ")[0] for x in unsupported(tmp_path)] == missing
