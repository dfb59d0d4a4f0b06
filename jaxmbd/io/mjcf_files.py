"""What MuJoCo is given of an MJCF model: texts in which every path has been looked up already.

MuJoCo's own rules for paths (`strippath`, `meshdir`, several `<compiler>`, sides of cube textures,
includes, models in models) are followed here, and nothing is left for it to look up: whatever file
it opens has passed `xml_tree.Folder`. The texts have one element per line, so that its messages
lead back to the lines of the files.
"""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from . import xml_tree
from .model_files import ModelFileError
from .xml_tree import MAX_ELEMENTS, Element, Folder

_FOLDERS = {"texture": "texturedir", "model": ""}  # of paths of a tag; of others "meshdir"
_PATHS = ("assetdir", "meshdir", "texturedir", "strippath")  # of <compiler>, followed here
_COPIES = ("replicate", "composite", "flexcomp")  # elements with a count of copies
_LARGEST = 2**26  # numbers in an array that the file asks for
_MOST_KEYS = 10_000
_FINEST = 1_000  # divisions of a mesh that MuJoCo makes
_DEEPEST = 20  # models in models


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A model as MuJoCo gets it.

    Attributes:
        root: Its elements, those of its includes among them.
        text: The same as a text, with the paths of the files that it names.
        models: The texts of the models that it attaches, by the names that stand in the text.
        lines: The element on every line of the text.
        folder: Its folder.
    """

    root: Element
    text: str
    models: dict[str, bytes]
    lines: list[Element]
    folder: Path | None


def resolved(root: Element, path: Path | None, *, anywhere: bool) -> Resolved:
    """The model with this root, in a file or as a text.

    Raises:
        ModelFileError: A file is missing or lies outside of the model's folder, or the model asks
            for more than is read.
    """
    models: dict[str, bytes] = {}
    root, text, lines = _resolve(root, path, anywhere, models, 0)
    return Resolved(root, text, models, lines, None if path is None else path.resolve().parent)


def _resolve(
    root: Element, path: Path | None, anywhere: bool, models: dict[str, bytes], depth: int
) -> tuple[Element, str, list[Element]]:
    if root.tag != "mujoco":
        cure = "; a URDF file has the suffix .urdf" if root.tag == "robot" else ""
        raise ModelFileError(
            f"{root.file}: not an MJCF file: its root is {root.title}, not <mujoco>{cure}"
        )
    folder = None if path is None else Folder(path.parent, anywhere=anywhere)

    def find(element: Element, name: str, below: str = "") -> Path:
        if folder is None:
            raise element.error("a text has no folder; save it to a file that names others")
        return folder.path(name, element, below=below)

    if path is None:
        including = next((x for x in root.walk() if x.tag == "include"), None)
        if including is not None:
            find(including, "")
    else:
        root = xml_tree.including(root, path, lambda x: find(x, x.get("file") or ""))
    _check_sizes(root)
    settings = _settings(root)
    below = {key: settings.get(key) or "" for key in ("meshdir", "texturedir")}

    def attributes(element: Element) -> dict[str, str]:
        given = dict(element.attributes)
        if element.tag == "compiler":
            return {key: x for key, x in given.items() if key not in _PATHS}
        for key, name in given.items():
            if not key.startswith("file") or not name:
                continue
            if settings.get("strippath") == "true":
                name = Path(name).name
            kind = _FOLDERS.get(element.tag, "meshdir")
            found = find(element, name, below.get(kind, ""))
            given[key] = str(found)
            if element.tag == "model":
                given[key] = _attach(element, found, anywhere, models, depth)
        return given

    lines: list[Element] = []
    text = _text(root, attributes, lines)
    return root, text, lines


def _attach(
    element: Element, path: Path, anywhere: bool, models: dict[str, bytes], depth: int
) -> str:
    """The name under which MuJoCo finds a model that another one attaches."""
    if depth >= _DEEPEST or len(models) >= _DEEPEST:
        raise element.error(f"more than {_DEEPEST} models are attached")
    _, text, _ = _resolve(xml_tree.read(path), path, anywhere, models, depth + 1)
    name = f"{path.stem}.{len(models)}.xml"
    models[name] = text.encode()
    return name


def _settings(root: Element) -> dict[str, str]:
    """Attributes of all `<compiler>`: later ones win, and `assetdir` stands for two."""
    found: dict[str, str] = {}
    for compiler in root.all("compiler"):
        both = compiler.get("assetdir")
        if both is not None:
            found |= {"meshdir": both, "texturedir": both}
        found |= compiler.attributes
    return found


def _text(
    root: Element, attributes: Callable[[Element], dict[str, str]], lines: list[Element]
) -> str:
    """XML of one element per line; the end of an element is on the line of the last one in it."""
    parts: list[str] = []

    def write(element: Element) -> None:
        given = "".join(f" {key}={_quoted(x)}" for key, x in attributes(element).items())
        parts.append(f"\n<{element.tag}{given}>" if lines else f"<{element.tag}{given}>")
        lines.append(element)
        for child in element.children:
            write(child)
        parts.append(f"</{element.tag}>")

    write(root)
    return "".join(parts)


def _quoted(text: str) -> str:
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


# --- sizes ---


def _check_sizes(root: Element) -> None:
    """Refuse what a few characters of a file can ask for, before MuJoCo makes it."""
    if _copied(root) > MAX_ELEMENTS:
        worst = max((x for x in root.walk() if x.tag in _COPIES), key=_count)
        raise worst.error(
            f"with its copies the model has {_copied(root):.3g} elements, and {MAX_ELEMENTS} are "
            "the most"
        )
    for element in root.walk():
        for what, size, most in _sizes(element):
            if size > most:
                raise element.error(f"{what} of {size:.3g}, and {most} is the most")


def _copied(element: Element) -> float:
    """The element, those in it and all their copies."""
    return _count(element) * (1.0 + sum(_copied(x) for x in element.children))


def _count(element: Element) -> float:
    if element.tag not in _COPIES:
        return 1.0
    return math.prod(max(x, 1.0) for x in _numbers(element, "count"))


def _sizes(element: Element):
    """What the element makes, how much of it, and the most."""
    if element.tag == "hfield":
        yield "heights", _number(element, "nrow") * _number(element, "ncol"), _LARGEST
    if element.tag == "texture":
        width, height = _number(element, "width"), _number(element, "height")
        if element.get("type", "cube") != "2d":
            height = 6.0 * width
        yield "pixels", width * height, _LARGEST
    if element.tag == "mesh" and element.get("builtin"):
        yield "divisions", max(_numbers(element, "params"), default=0.0), _FINEST
    if element.tag == "size":
        for key in element.attributes:
            if key != "memory":  # a bound, of which nothing is used
                yield key, _number(element, key), _MOST_KEYS if key == "nkey" else _LARGEST


def _number(element: Element, name: str) -> float:
    return next(iter(_numbers(element, name)), 0.0)


def _numbers(element: Element, name: str) -> list[float]:
    """The numbers of an attribute; none where it is something else, which MuJoCo refuses."""
    try:
        values = [float(x) for x in (element.get(name) or "").split()]
    except ValueError:
        return []
    return [math.inf if math.isnan(x) else x for x in values]
