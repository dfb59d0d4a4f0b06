"""XML as data: elements with their lines, no document types, no entities, no path outside the
model's folder.

The files that a model names are checked here before any other library sees them.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat

from .model_files import ModelFileError

MAX_BYTES = 64 * 2**20
_DEEPEST = 200


@dataclasses.dataclass
class Element:
    """An element of an XML file.

    Attributes:
        tag: Its name.
        attributes: As texts.
        line: In its file, from 1.
        file: The file's name.
        children: The elements in it.
        text: The text in it, without that of its children.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    children: list["Element"] = dataclasses.field(default_factory=list)
    text: str = ""

    def get(self, name: str, default: str | None = None) -> str | None:
        """An attribute."""
        return self.attributes.get(name, default)

    def all(self, *tags: str) -> list["Element"]:
        """Its children of some kinds."""
        return [child for child in self.children if child.tag in tags]

    def first(self, tag: str) -> "Element | None":
        """Its first child of a kind."""
        return next(iter(self.all(tag)), None)

    def walk(self) -> Iterator["Element"]:
        """Itself and all elements below, in the order of the file."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def title(self) -> str:
        """As messages call it: "<joint name='hip'>"."""
        name = self.get("name")
        return f"<{self.tag}>" if name is None else f"<{self.tag} name={name!r}>"

    def error(self, message: str) -> ModelFileError:
        """An error that names file, line and element."""
        return ModelFileError(f"{self.file}: line {self.line}: {self.title}: {message}")


def parse(content: bytes | str, file: str) -> Element:
    """The root of an XML text.

    Raises:
        ModelFileError: It is no well-formed XML, or declares a document type or entities.
    """
    parser = expat.ParserCreate()
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) >= _DEEPEST:
            raise ModelFileError(f"{file}: line {parser.CurrentLineNumber}: nested too deeply")
        element = Element(tag, attributes, parser.CurrentLineNumber, file)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def characters(text: str) -> None:
        if stack:
            stack[-1].text += text

    def refuse(*_) -> None:
        raise ModelFileError(
            f"{file}: line {parser.CurrentLineNumber}: <!DOCTYPE>: a model file declares no "
            "document type and no entities; remove the declaration"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content if isinstance(content, bytes) else content.encode(), True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise ModelFileError(f"{file}: line {error.lineno}: broken XML: {what}") from None
    except (UnicodeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file}: not a text file: {error}") from None
    return roots[0]


def read(path: Path, shown: str | None = None) -> Element:
    """The root of an XML file.

    Raises:
        ModelFileError: As in `parse`, or the file cannot be read.
    """
    shown = shown or path.name
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"{shown}: cannot read the model file: {reason.lower()}") from None
    if len(content) > MAX_BYTES:
        raise ModelFileError(f"{shown}: too large; at most {MAX_BYTES // 2**20} MiB are read")
    if not content.strip():
        raise ModelFileError(f"{shown}: the file is empty")
    return parse(content, shown)


class Folder:
    """The folder that a model's files lie in.

    Args:
        root: The folder.
        anywhere: Whether paths may lead out of it.
    """

    def __init__(self, root: Path, *, anywhere: bool = False):
        self.root, self.anywhere = root.resolve(), anywhere

    def path(self, name: str, asked: Element, *, below: str = "") -> Path:
        """The file that an element names, which must exist.

        Raises:
            ModelFileError: There is none, or it lies outside of the folder.
        """
        if "\0" in name:
            raise asked.error("a path contains a zero byte")
        path = (self.root / below / name).resolve()
        if not self.anywhere and not path.is_relative_to(self.root):
            raise asked.error(
                f"the file {name!r} lies outside of the model's folder; move it there, or pass "
                "anywhere=True for a model that you trust"
            )
        if not path.is_file():
            raise asked.error(f"there is no file {name!r} in the model's folder")
        return path


def including(root: Element, path: Path, open_file: Callable[[Element], Path]) -> Element:
    """The tree with every `<include file=...>` replaced by what the file's root holds.

    Raises:
        ModelFileError: A file includes itself, directly or through others.
    """
    return _including(root, (path.resolve(),), open_file)


def _including(
    element: Element, above: tuple[Path, ...], open_file: Callable[[Element], Path]
) -> Element:
    children = []
    for child in element.children:
        if child.tag != "include":
            children.append(_including(child, above, open_file))
            continue
        if child.get("file") is None:
            raise child.error("the attribute 'file' is missing")
        path = open_file(child)
        if path in above:
            chain = " -> ".join(p.name for p in (*above[above.index(path) :], path))
            raise child.error(f"includes go in a circle: {chain}")
        children += _including(read(path), (*above, path), open_file).children
    return dataclasses.replace(element, children=children)
