"""Speed figures stand on the pages of the experiments alone, and agree with the stored results."""

import re
from pathlib import Path

import pytest

from experiments.benchmarks import tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
MEASURED = ROOT / "docs" / "experiments", ROOT / "docs" / "decisions.md"
SPEED = re.compile(
    r"\d ?µs|\d ?us (?:a|per) step|\de[+]?\d+ (?:state-)?steps (?:per|a) second"
    r"|[\d.]+ forward (?:runs|simulations)"
)


def test_the_tables_of_the_benchmarks_are_those_of_the_stored_results():
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.renewed(text) == text  # else: python -m experiments.benchmarks.tables
    assert all(f"<!-- table: {table.__name__} -->" in text for table in tables.TABLES)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_link_to_speed_figures_instead_of_repeating_them(page):
    if not any(page.is_relative_to(place) for place in MEASURED):
        assert SPEED.findall(page.read_text(encoding="utf-8")) == []
