"""XML as data: elements with their lines, no document types, no entities, no path outside the
model's folder.

The files that a model names are checked here before any other library sees them. Sizes and counts
are checked before the work that grows with them.
"""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat

from ..files import inside
from .model_files import ModelFileError

MAX_BYTES = 64 * 2**20  # of a file, and of all files of a model
MAX_ELEMENTS = 100_000  # of a model
_DEEPEST = 200
_MOST_FILES, _LONGEST_CHAIN = 500, 50  # that are included, and that include one another
_CURE = "move it there, or pass anywhere=True for a model that you trust"


@dataclasses.dataclass
class Element:
    """An element of an XML file.

    Attributes:
        tag: Its name.
        attributes: As texts.
        line: In its file, from 1.
        file: The file's name.
        children: The elements in it.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    children: list["Element"] = dataclasses.field(default_factory=list)

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
        todo: list[Element] = [self]
        while todo:
            element = todo.pop()
            yield element
            todo += reversed(element.children)

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
        ModelFileError: It is no well-formed XML, declares a document type or entities, or has more
            elements than are read.
    """
    parser = expat.ParserCreate()
    stack: list[Element] = []
    roots: list[Element] = []
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) >= _DEEPEST:
            raise too_much(f"elements are nested deeper than {_DEEPEST}")
        if count > MAX_ELEMENTS:
            raise too_much(f"more than {MAX_ELEMENTS} elements")
        element = Element(tag, attributes, parser.CurrentLineNumber, file)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def too_much(what: str) -> ModelFileError:
        return ModelFileError(f"{file}: line {parser.CurrentLineNumber}: {what}")

    def refuse(*_) -> None:
        raise ModelFileError(
            f"{file}: line {parser.CurrentLineNumber}: <!DOCTYPE>: a model file declares no "
            "document type and no entities; remove the declaration"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content if isinstance(content, bytes) else content.encode(), True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise ModelFileError(f"{file}: line {error.lineno}: broken XML: {what}") from None
    except ModelFileError:
        raise
    except LookupError as error:  # of an encoding that Python does not know, or knows otherwise
        raise ModelFileError(f"{file}: line 1: {error}; save the file in UTF-8") from None
    except ValueError as error:
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
        try:
            return inside(self.root, str(Path(below, name)), anywhere=self.anywhere, cure=_CURE)
        except ValueError as error:
            raise asked.error(str(error)) from None


def including(root: Element, path: Path, open_file: Callable[[Element], Path]) -> Element:
    """The tree with every `<include file=...>` replaced by what the file's root holds.

    Raises:
        ModelFileError: A file is included twice, directly or through others, or the includes are
            too many.
    """
    return _Includes(open_file, sum(1 for _ in root.walk())).expand(root, (path.resolve(),), 0)


@dataclasses.dataclass
class _Includes:
    """The includes of a model, each bound checked before the work that it bounds.

    Attributes:
        open_file: Finds the file of an `<include>` element.
        elements: So far, in all files.
        size: Of the files included so far [bytes].
        seen: Files included so far.
    """

    open_file: Callable[[Element], Path]
    elements: int
    size: int = 0
    seen: set[Path] = dataclasses.field(default_factory=set)

    def expand(self, element: Element, above: tuple[Path, ...], depth: int) -> Element:
        """An element of the last of the files `above`, so many elements deep."""
        if depth > _DEEPEST:
            raise element.error(f"with its includes, elements are nested deeper than {_DEEPEST}")
        children: list[Element] = []
        for child in element.children:
            if child.tag != "include":
                children.append(self.expand(child, above, depth + 1))
                continue
            if child.get("file") is None:
                raise child.error("the attribute 'file' is missing")
            path = self.open_file(child)
            self._check(child, path, above)
            found = read(path)
            self.elements += sum(1 for _ in found.walk())
            if self.elements > MAX_ELEMENTS:
                raise child.error(f"with this file there are more than {MAX_ELEMENTS} elements")
            children += self.expand(found, (*above, path), depth).children
        return dataclasses.replace(element, children=children)

    def _check(self, asked: Element, path: Path, above: tuple[Path, ...]) -> None:
        if path in above:
            chain = " -> ".join(p.name for p in (*above[above.index(path) :], path))
            raise asked.error(f"includes go in a circle: {chain}")
        if path in self.seen:
            raise asked.error(f"the file {path.name!r} is included twice, and can be only once")
        if len(above) > _LONGEST_CHAIN:
            raise asked.error(f"more than {_LONGEST_CHAIN} files include one another in a chain")
        self.seen.add(path)
        if len(self.seen) > _MOST_FILES:
            raise asked.error(f"more than {_MOST_FILES} files are included")
        self.size += path.stat().st_size
        if self.size > MAX_BYTES:
            raise asked.error(f"more than {MAX_BYTES // 2**20} MiB are included")
