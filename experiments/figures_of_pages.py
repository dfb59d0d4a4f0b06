"""Numbers of an experiment's page against the files of its results: all numbers of its tables, and
those of its text that have a decimal point or a power of ten.

A number belongs where a stored one rounds to it, in the same unit, in thousandths, thousands,
millions, percent or degrees; where it is the ratio of two others of its row or paragraph; or where
the page says that it comes from elsewhere, such as a published value or a number of the model:

    <!-- not from the results: 15.685, 47.150; published by Bathe and Bolourchi -->
"""

import bisect
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:[eE][-+−]?\d+)?(?![\w])")
_ELSEWHERE = re.compile(r"<!-- not from the results: (.*?);.*?-->", flags=re.S)
# What is no result: code, links, versions, dates.
_ASIDE = re.compile(r"`[^`]*`|\]\([^)]*\)|\d+\.\d+\.\d+|\d{4}-\d\d-\d\d")
_BLOCKS = re.compile(r"```.*?```|<!--.*?-->", flags=re.S)
_UNITS = (1.0, 1e3, 1e-3, 1e6, 100.0, 180.0 / math.pi)
_COUNTED = 20  # whole numbers up to which there are headings and counts of things
_SERIES = 200  # numbers of a list, from which it is a curve and no table is made of it
_ROUNDED = 0.51  # of the last digit


def unsupported(folder: Path) -> list[str]:
    """Numbers of a page that nothing supports, each with its row or paragraph."""
    page = (folder / "README.md").read_text(encoding="utf-8")
    stored = _stored(folder)
    elsewhere = {x.strip() for found in _ELSEWHERE.findall(page) for x in found.split(",")}
    missing = []
    for row, in_table in _pieces(_BLOCKS.sub("", page)):
        cells = _ASIDE.sub("", re.sub(r"(?<=\d) (?=\d{3}\b)", "", row))
        texts = [x.replace("−", "-") for x in _NUMBER.findall(cells)]
        values = [abs(float(x)) for x in texts]
        for text, value in zip(texts, values, strict=True):
            counted = value.is_integer() and (value <= _COUNTED or not in_table)
            if counted or text.lstrip("-") in elsewhere or _supports(stored, text):
                continue
            if not _is_ratio(text, values):
                missing.append(f"{text} in {row}")
    return missing


def uneven(page: Path) -> list[str]:
    """Rows of tables that have not as many cells as the head of their table."""
    wrong, width = [], None
    for row, in_table in _pieces(_BLOCKS.sub("", page.read_text(encoding="utf-8"))):
        if not in_table:
            width = None
            continue
        # A bar in code or in a formula divides nothing.
        cells = re.sub(r"`[^`]*`|\$[^$]*\$|\\\|", "", row).strip().strip("|").count("|")
        width = cells if width is None else width
        if cells != width:
            wrong.append(row)
    return wrong


def _pieces(page: str) -> Iterator[tuple[str, bool]]:
    """Rows of tables, and paragraphs of the text between them; whether it is a row."""
    paragraph: list[str] = []
    for line in [*page.splitlines(), ""]:
        if paragraph and (not line.strip() or line.startswith(("|", "- ", "#"))):
            yield " ".join(paragraph), False
            paragraph = []
        if line.startswith("|"):
            yield line, True
        elif line.strip():
            paragraph.append(line.strip())
        else:
            yield "", False


def _stored(folder: Path) -> list[float]:
    """Sizes of all numbers in the files of results, in order."""
    files = [x for x in folder.glob("*.json") if x.name != "provenance.json"]
    found = {
        abs(x) for file in files for x in _numbers(json.loads(file.read_text(encoding="utf-8")))
    }
    return sorted(x for x in found if math.isfinite(x))


def _numbers(x: object) -> Iterator[float]:
    if isinstance(x, dict):
        for key, value in x.items():
            if re.fullmatch(_NUMBER, key):
                yield float(key)
            yield from _numbers(value)
    elif isinstance(x, list) and len(x) <= _SERIES:
        for value in x:
            yield from _numbers(value)
    elif isinstance(x, int | float) and not isinstance(x, bool):
        yield float(x)


def _slack(text: str) -> float:
    """By how much a number may be off that was rounded to this text."""
    mantissa, _, exponent = text.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return _ROUNDED * 10.0 ** (int(exponent or 0) - digits)


def _supports(stored: list[float], text: str) -> bool:
    value, slack = abs(float(text)), _slack(text)
    for unit in _UNITS:
        k = bisect.bisect_left(stored, (value - slack) / unit)
        if k < len(stored) and stored[k] <= (value + slack) / unit:
            return True
    return False


def _is_ratio(text: str, values: list[float]) -> bool:
    """Whether it is one of others of its row, as far as these are rounded to three digits."""
    value = abs(float(text))
    slack = _slack(text) + 0.01 * value
    pairs = itertools.permutations([x for x in values if x > 0.0], 2)
    return any(abs(a / b - value) <= slack for a, b in pairs if value not in (a, b))
