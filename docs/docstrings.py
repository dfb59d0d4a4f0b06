"""Docstrings as Sphinx reads them: they are plain text, in Google's sections."""

import re

_RETURNS = re.compile(r"(Returns|Yields):\s*$")
_SEVERAL = re.compile(r"    (\w+(?:, \w+)+):(?= |$)")


def prepared(lines: list[str]) -> list[str]:
    """The lines of a docstring for `sphinx.ext.napoleon` and reStructuredText."""
    return _plain(_fields(lines))


def _fields(lines: list[str]) -> list[str]:
    """Napoleon takes what stands before a colon in the first line of a return value for its type,
    and Sphinx the first of several names of a field for a type: an empty type stops the former, and
    names without spaces the latter.
    """
    found, after = [], False
    for line in lines:
        line = _SEVERAL.sub(lambda m: f"    {m[1].replace(', ', ',')}:", line)
        if after and line.strip():
            line = f"    : {line.strip()}"
            after = False
        after = after or bool(_RETURNS.match(line))
        found.append(line)
    return found


def _plain(lines: list[str]) -> list[str]:
    """Indented blocks are shown as they are, and marks that reStructuredText would read are escaped
    outside code.
    """
    text, literal, blank = [], False, True
    for line in lines:
        indented = line.startswith("    ")
        if blank and indented and not literal and text:
            text += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        blank = not line.strip()
        if not literal:
            pieces = line.split("`")
            pieces[::2] = [x.replace("*", r"\*").replace("|", r"\|") for x in pieces[::2]]
            line = "``".join(pieces)  # a name in single backticks is code
        text.append(line)
    return text
