"""Headers of columns in files."""

import re

# What a formula of a spreadsheet begins with, and ' itself, so that names can be read back.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def written_as(header: str) -> str:
    """A header that no spreadsheet takes for a formula: ' stands before one that begins like it."""
    return f"'{header}" if header.startswith(_FORMULA) else header


def name_of(written: str) -> str:
    """The name of a column by its header in a file: what `written_as` adds and the unit in brackets
    are left out.
    """
    is_marked = written.startswith(tuple(f"'{x}" for x in _FORMULA))
    return re.sub(r" \[[^\[\]]*\]$", "", written[1:] if is_marked else written)
