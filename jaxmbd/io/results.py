"""Read result files; they are written by `Solution.to_npz` (see `results.export`).

Whatever the bytes of a file are, `read_npz` returns arrays that fit each other or raises
`ResultFileError`.
"""

import io
import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..results.export import ARRAYS, OPTIONAL

_SHAPES = {
    "t": ("T",),
    "r": ("T", "nb", 3),
    "A": ("T", "nb", 3, 3),
    "v": ("T", "nb", 3),
    "omega": ("T", "nb", 3),
    "a": ("T", "nb", 3),
    "alpha": ("T", "nb", 3),
    "lam": ("T", "nc"),
    "angles": ("T", "w"),
    "element_states": ("T", "s"),
    "inputs": ("T", 3, "n"),
    "iterations": ("T",),
}
# A motion with contacts has these too.
CONTACTS = {
    "contact_points": ("T", "c", 3),
    "contact_forces": ("T", "c", 3),
    "contact_states": ("T", "c"),
}
_INTEGERS = ("iterations", "contact_states")
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_CHUNK = 2**20  # bytes that are decompressed at a time


class ResultFileError(ValueError):
    """A file is not a result of this package; the message names the file and what is wrong."""


def read_npz(path: str | Path) -> dict[str, Any]:
    """Arrays of a result file by name; `stats` is a dictionary again.

    `stats["drawing"]`, where the file has one, is complete: what an older file lacks has its
    default.

    Raises:
        ResultFileError: The file cannot be read, is damaged, is no result, or its arrays do not fit
            each other.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise ResultFileError("it is a folder")
        data = _read_arrays(path)
        for name, shape in OPTIONAL.items():  # older files have none
            data.setdefault(name, np.zeros((np.shape(data["t"])[:1] or (0,)) + shape))
        _check_shapes(data)
        stats = _read_stats(data)
    except ResultFileError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    except (
        Exception
    ) as error:  # zipfile, zlib, numpy and json raise a dozen kinds of errors for damaged bytes
        reason = f"it is damaged ({' '.join(str(error).split()) or type(error).__name__})"
    else:
        return data | {"stats": stats}
    raise ResultFileError(f"cannot read the result file {str(path)!r}: {reason}")


# --- arrays ---


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as raw:
        if not zipfile.is_zipfile(raw):
            raise ResultFileError("it is not an NPZ file, or the end of it is missing")
        with zipfile.ZipFile(raw) as file:
            members = file.infolist()
            size, free = sum(m.file_size for m in members), psutil.virtual_memory().available
            if size > free:
                raise ResultFileError(
                    f"its arrays take {size / 2**30:.3g} GiB, and {free / 2**30:.3g} GiB of memory "
                    "are free"
                )
            missing = [
                name
                for name in ARRAYS
                if name not in OPTIONAL and f"{name}.npy" not in file.namelist()
            ]
            if missing:
                raise ResultFileError(
                    f"it is not a result of jaxmbd, because it lacks {', '.join(missing)}"
                )
            return {m.filename.removesuffix(".npy"): _read_array(file, m) for m in members}


def _read_array(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array; numpy's own reader would reserve whatever memory a damaged header asks for."""
    name, buffer = member.filename.removesuffix(".npy"), io.BytesIO()
    with file.open(member) as source:
        shutil.copyfileobj(source, buffer, _CHUNK)
    buffer.seek(0)
    version = np.lib.format.read_magic(buffer)
    if version not in _HEADERS:
        raise ResultFileError(f"the array {name!r} has the unknown NPY version {version}")
    shape, fortran_order, dtype = _HEADERS[version](buffer)
    if dtype.hasobject:
        raise ResultFileError(f"the array {name!r} holds Python objects, which are not read")
    values = buffer.getbuffer()[buffer.tell() :]
    if math.prod(shape) * dtype.itemsize != len(values):
        raise ResultFileError(
            f"the array {name!r} has {len(values)} bytes, which do not make the shape {shape}"
        )
    return np.ndarray(shape, dtype, buffer=values, order="F" if fortran_order else "C")


def _check_shapes(data: dict[str, np.ndarray]) -> None:
    known = _SHAPES | (CONTACTS if "contact_points" in data else {})
    missing = [name for name in known if name not in data]
    if missing:
        raise ResultFileError(f"it has contact points without {', '.join(missing)}")
    for name, symbols in known.items():
        array, kinds = data[name], "iu" if name in _INTEGERS else "f"
        if array.dtype.kind not in kinds:
            numbers = "integers" if kinds == "iu" else "floating-point numbers"
            raise ResultFileError(f"the array {name!r} holds {array.dtype}, not {numbers}")
        if array.ndim != len(symbols):
            raise _wrong_shape(name, array, symbols)
    sizes = {
        "T": len(data["t"]),
        "nb": data["r"].shape[1],
        "nc": data["lam"].shape[1],
        "w": data["angles"].shape[1],
        "s": data["element_states"].shape[1],
        "n": data["inputs"].shape[-1],
        "c": data["contact_points"].shape[1] if "contact_points" in data else 0,
    }
    for name, symbols in known.items():
        expected = tuple(sizes[s] if isinstance(s, str) else s for s in symbols)
        if data[name].shape != expected:
            raise _wrong_shape(name, data[name], expected)


def _wrong_shape(name: str, array: np.ndarray, expected: tuple) -> ResultFileError:
    wanted = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
    return ResultFileError(f"the array {name!r} has shape {array.shape}, not ({wanted})")


# --- stats ---


def _read_stats(data: dict[str, np.ndarray]) -> dict[str, Any]:
    if "stats" not in data:
        return {}
    if data["stats"].shape != () or data["stats"].dtype.kind != "U":
        raise ResultFileError("its 'stats' is not one JSON text")
    stats = json.loads(str(data["stats"]))
    if not isinstance(stats, dict):
        raise ResultFileError(f"its 'stats' is a JSON {type(stats).__name__}, not an object")
    if not isinstance(stats.get("result", ""), str):
        raise ResultFileError("the outcome in its 'stats' is not a name")
    if stats.get("drawing") is not None:
        stats["drawing"] = _read_drawing(stats["drawing"], data)
    return stats


def plain_drawing(nb: int, nc: int) -> dict[str, Any]:
    """The drawing of a result whose system is unknown."""
    return {
        "name": "result",
        "bodies": [f"body{k}" for k in range(nb)],
        "rows": [f"row{k}" for k in range(nc)],
        "outlines": [[] for _ in range(nb)],
        "solids": [[] for _ in range(nb)],
        "shaped": [True] * nb,
        "gravity": [0.0, 0.0, 0.0],
        "connections": [],
        "springs": [],
        "frames": [],
        "sights": [],
        "beams": [],
    }


_Number = Annotated[float, Field(allow_inf_nan=False)]
_Vector = Annotated[list[_Number], Field(min_length=3, max_length=3)]
_Index = Annotated[int, Field(ge=0)]


_Outline = list[Annotated[list[_Vector], Field(min_length=1)]]
_Matrix = Annotated[list[_Vector], Field(min_length=3, max_length=3)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Connection(_Part):
    name: str
    kind: str
    i: _Index
    j: _Index
    s_i_bar: _Vector
    s_j_bar: _Vector
    axis_i_bar: _Vector = [0.0, 0.0, 0.0]
    axis_j_bar: _Vector = [0.0, 0.0, 0.0]
    link: bool = False
    angle: _Index | None = None
    slides: bool = False
    outline_i: _Outline = []
    outline_j: _Outline = []


class _Spring(_Part):
    name: str = ""  # files of earlier versions have none
    bodies: Annotated[list[_Index], Field(min_length=2, max_length=2)]
    s_i_bar: _Vector
    s_j_bar: _Vector


class _Frame(_Part):
    name: str
    body: _Index
    s_bar: _Vector
    A_bar: _Matrix


class _Solid(_Part):
    kind: str
    fields: dict[str, str | int | _Number | list[int | _Number] | list[list[int | _Number]]]
    r: _Vector
    A: _Matrix
    color: Annotated[list[_Number], Field(min_length=4, max_length=4)] | None = None


class _Beam(_Part):
    name: str
    nodes: Annotated[list[_Index], Field(min_length=2)]
    extents: Annotated[list[_Number], Field(min_length=2, max_length=2)]


class _Drawing(_Part):
    name: str
    bodies: list[str]
    rows: list[str]
    outlines: list[_Outline]
    solids: list[list[_Solid]]
    shaped: list[bool]
    gravity: _Vector
    connections: list[_Connection]
    springs: list[_Spring]
    frames: list[_Frame] = []
    sights: list[_Spring] = []
    beams: list[_Beam] = []


def _read_drawing(raw: object, data: dict[str, np.ndarray]) -> dict[str, Any]:
    """A checked drawing, its gaps filled (see `results.export.drawing`)."""
    if not isinstance(raw, dict):
        raise ResultFileError("its drawing is not a JSON object")
    nb, nc = data["r"].shape[1], data["lam"].shape[1]
    try:
        drawing = _Drawing.model_validate(plain_drawing(nb, nc) | raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(x) for x in first["loc"])
        raise ResultFileError(
            f"its drawing does not make sense at {place}: {first['msg']}"
        ) from None
    expected_counts = {"bodies": nb, "rows": nc, "outlines": nb, "solids": nb, "shaped": nb}
    for name, expected in expected_counts.items():
        found = len(getattr(drawing, name))
        if found != expected:
            raise ResultFileError(f"its drawing has {found} {name}, but its arrays have {expected}")
    if len(set(drawing.bodies)) < nb:
        raise ResultFileError("its drawing gives two bodies the same name")
    bodies = [b for c in drawing.connections for b in (c.i, c.j)] + [
        b for s in (*drawing.springs, *drawing.sights) for b in s.bodies
    ]
    bodies += [frame.body for frame in drawing.frames]
    nodes = [n for beam in drawing.beams for n in beam.nodes]
    if max(nodes, default=0) >= nb:
        raise ResultFileError(f"its drawing has a beam with node {max(nodes)}, but {nb} bodies")
    if max(bodies, default=0) > nb:
        raise ResultFileError(
            f"its drawing names body {max(bodies)}, but there are {nb} and the ground"
        )
    return drawing.model_dump()
