"""Docstrings as Sphinx reads them: they are plain text, in Google's sections."""

import importlib
import inspect
import re
from pathlib import Path

_RETURNS = re.compile(r"(Returns|Yields):\s*$")
_SEVERAL = re.compile(r"    (\w+(?:, \w+)+):(?= |$)")


def prepared(lines: list[str]) -> list[str]:
    """The lines of a docstring for `sphinx.ext.napoleon` and reStructuredText."""
    return _plain(_fields(lines))


def _documented() -> dict[str, str]:
    """Where names lead that docstrings mention: public ones and their members, as the reference
    lists them. Short words without capitals could be arguments, and lead nowhere.
    """
    text = "".join(p.read_text(encoding="utf-8") for p in _REFERENCE.glob("*.md"))
    found = {}
    for path in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, flags=re.M):
        full = path if path.startswith("jaxmbd.") else f"jaxmbd.{path}"
        module, _, name = full.rpartition(".")
        value = getattr(importlib.import_module(module), name, None)
        if name != name.lower() or len(name) >= _LONG:
            found[name] = full
        found[f"mbd.{name}"] = found[f"jaxmbd.{name}"] = full
        if inspect.isclass(value):
            for member in vars(value):
                if not member.startswith("_"):
                    found[f"{name}.{member}"] = f"{full}.{member}"
    return found


_REFERENCE = Path(__file__).parent / "reference"
_LONG = 8
_LINKS = _documented()


def _code(text: str) -> str:
    """Code in a sentence, and a link where its name is documented."""
    full = _LINKS.get(text.partition("(")[0])
    return f"``{text}``" if full is None else f":py:obj:`{text} <{full}>`"


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
            # A name in single backticks is code; what is open at the end of a line goes on.
            closed = len(pieces) % 2 == 1
            pieces[1::2] = [
                _code(x) if closed or k + 1 < len(pieces) // 2 else f"``{x}"
                for k, x in enumerate(pieces[1::2])
            ]
            line = "".join(pieces)
        text.append(line)
    return text
