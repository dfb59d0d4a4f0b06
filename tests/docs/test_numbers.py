"""Speed figures stand on the pages of the experiments alone, and agree with the stored results."""

import json
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


def test_the_costs_of_gradients_are_the_stored_ones():
    folder = ROOT / "experiments" / "gradients"
    page = (folder / "README.md").read_text(encoding="utf-8")
    ratios = json.loads((folder / "results.json").read_text(encoding="utf-8"))["ratios"]
    for model, rows in ratios.items():
        for x in rows:
            kept = "none" if x["checkpoints"] == 1 else x["checkpoints"]
            numbers = f"{x['forward_us_per_step']:.1f} | {x['gradient_over_forward']:.2f} | "
            numbers += f"{x['jvp_over_forward']:.2f} | {x['gradient_memory_MB']:.2f}"
            assert f"| `{model}` | {x['steps']} | {kept} | {numbers} |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_link_to_speed_figures_instead_of_repeating_them(page):
    if not any(page.is_relative_to(place) for place in MEASURED):
        assert SPEED.findall(page.read_text(encoding="utf-8")) == []
