"""Scenes as binary glTF 2.0, which Blender, PowerPoint, Windows and browsers open.

One file of a fixed kind takes fewer lines to write than to explain to a library: a JSON text and a
block of numbers behind it (Khronos, glTF 2.0 specification, sections 3 and 4). No dependency then
comes with a view, and the Khronos validator checks the result in the tests.
"""

import json
import struct
from typing import Any

import numpy as np

from .. import __name__ as _package
from .meshes import Surface, frame, joined
from .nodes import Node, Part, Scene, quaternions

_FLOAT, _SHORT, _INT = 5126, 5123, 5125
_TYPES = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
_VERTICES, _INDICES = 34962, 34963
_MAGIC, _JSON, _BIN = 0x46546C67, 0x4E4F534A, 0x004E4942


def glb(scene: Scene) -> bytes:
    """A scene with its motion as the bytes of a .glb file. Times start at zero; y points up, as
    glTF has it.
    """
    return _Writer(scene).whole()


class _Writer:
    def __init__(self, scene: Scene):
        self.scene = scene
        self.views: list[dict] = []
        self.accessors: list[dict] = []
        self.blocks: list[bytes] = []
        self.size = 0
        self.known: dict[Any, int] = {}  # meshes and materials that are there already
        self.surfaces: dict[int, tuple[dict, int]] = {}  # attributes and indices
        self.kept: list[Any] = []  # so that their ids stay theirs
        self.meshes: list[dict] = []
        self.materials: list[dict] = []
        self.channels: list[dict] = []
        self.samplers: list[dict] = []
        self.nodes: list[dict] = []
        self.times: int | None = None

    def whole(self) -> bytes:
        nb = sum(node.kind == "body" for node in self.scene.nodes)
        for node in self.scene.nodes:
            self._node(node)
        for k, node in enumerate(self.scene.nodes):
            if node.of is not None and node.of < nb:
                self.nodes[node.of].setdefault("children", []).append(k)
            elif node.of == nb:
                self.nodes[nb].setdefault("children", []).append(k)
        free = [k for k, node in enumerate(self.scene.nodes) if node.of is None]
        turn = quaternions(_to_y_up(self.scene.up)[None])[0]
        root = {"name": self.scene.name, "rotation": turn.tolist(), "children": free}
        self.nodes.append(root)
        return _packed(self._document(), b"".join(self.blocks))

    def _document(self) -> dict[str, Any]:
        document: dict[str, object] = {
            "asset": {"version": "2.0", "generator": _package.partition(".")[0]},
            "scene": 0,
            "scenes": [{"nodes": [len(self.nodes) - 1]}],
            "nodes": self.nodes,
        }
        if self.channels:
            document["animations"] = [
                {"name": "motion", "channels": self.channels, "samplers": self.samplers}
            ]
        for name in ("meshes", "materials", "accessors"):
            if getattr(self, name):
                document[name] = getattr(self, name)
        if self.blocks:
            document |= {"bufferViews": self.views, "buffers": [{"byteLength": self.size}]}
        return document

    # --- nodes ---

    def _node(self, node: Node) -> None:
        index = len(self.nodes)
        out: dict[str, Any] = {"name": node.name, "extras": {"kind": node.kind, **node.extras}}
        if node.parts:
            out["mesh"] = self._mesh(node.parts)
        self.nodes.append(out)
        if node.motion is None:
            if np.any(node.r):
                out["translation"] = node.r.tolist()
            if not np.array_equal(node.A, np.eye(3)):
                out["rotation"] = quaternions(node.A[None])[0].tolist()
            return
        r, A, length = node.motion
        self._track(out, index, "translation", np.asarray(r))
        self._track(out, index, "rotation", quaternions(A))
        if length is not None:
            one = np.ones_like(length)
            self._track(out, index, "scale", np.stack([one, one, length], axis=1))

    def _track(self, node: dict, index: int, path: str, values: np.ndarray) -> None:
        """Where a node starts, and how it goes on, unless it stays there."""
        node[path] = values[0].tolist()
        if len(values) < 2 or np.ptp(values, axis=0).max() <= 1e-12 * (1.0 + np.abs(values).max()):
            return
        if self.times is None:
            t = self.scene.t - self.scene.t[0]
            self.times = self._accessor(t[:, None], bounds=True)
        sampler = {"input": self.times, "output": self._accessor(values), "interpolation": "LINEAR"}
        target = {"node": index, "path": path}
        self.channels.append({"sampler": len(self.samplers), "target": target})
        self.samplers.append(sampler)

    # --- surfaces ---

    def _mesh(self, parts: list[Part]) -> int:
        """The mesh of a node; equal parts are written once."""
        # A primitive for each look, so that there is little to draw.
        looks: dict[int, list[Surface]] = {}
        for part in parts:
            looks.setdefault(self._material(part), []).append(part.mesh)
        key = tuple((material, *map(id, own)) for material, own in looks.items())
        self.kept.append(parts)
        if key not in self.known:
            primitives = [
                self._primitive(own[0] if len(own) == 1 else joined(own)) | {"material": material}
                for material, own in looks.items()
            ]
            self.known[key] = len(self.meshes)
            self.meshes.append({"primitives": primitives})
        return self.known[key]

    def _primitive(self, mesh: Surface) -> dict[str, Any]:
        key = id(mesh)
        if key not in self.surfaces:
            self.kept.append(mesh)
            attributes = {"POSITION": self._accessor(mesh.points, _VERTICES, bounds=True)}
            if mesh.normals is not None:
                attributes["NORMAL"] = self._accessor(mesh.normals, _VERTICES)
            self.surfaces[key] = attributes, self._indices(mesh.triangles)
        attributes, indices = self.surfaces[key]
        return {"attributes": attributes, "indices": indices}

    def _material(self, part: Part) -> int:
        key = ("material", part.color, part.opacity, part.metal)
        if key not in self.known:
            srgb = np.array([int(part.color[k : k + 2], 16) for k in (0, 2, 4)]) / 255.0
            linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
            material: dict[str, Any] = {
                "name": part.color,
                "pbrMetallicRoughness": {
                    "baseColorFactor": [*np.round(linear, 5).tolist(), part.opacity],
                    "metallicFactor": 0.15 if part.metal else 0.0,
                    "roughnessFactor": 0.45 if part.metal else 0.6,
                },
            }
            if part.opacity < 1.0:
                material["alphaMode"] = "BLEND"
            self.known[key] = len(self.materials)
            self.materials.append(material)
        return self.known[key]

    # --- numbers ---

    def _accessor(self, x: np.ndarray, target: int | None = None, *, bounds: bool = False) -> int:
        values = np.ascontiguousarray(x, "<f4")
        out = {
            "bufferView": self._view(values.tobytes(), target),
            "componentType": _FLOAT,
            "count": len(values),
            "type": _TYPES[values.shape[1]],
        }
        if bounds:
            out |= {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}
        self.accessors.append(out)
        return len(self.accessors) - 1

    def _indices(self, triangles: np.ndarray) -> int:
        small = int(triangles.max()) < 65535
        values = np.ascontiguousarray(triangles, "<u2" if small else "<u4").ravel()
        view = self._view(values.tobytes(), _INDICES)
        kind = _SHORT if small else _INT
        self.accessors.append(
            {"bufferView": view, "componentType": kind, "count": len(values), "type": "SCALAR"}
        )
        return len(self.accessors) - 1

    def _view(self, block: bytes, target: int | None) -> int:
        view = {"buffer": 0, "byteOffset": self.size, "byteLength": len(block)}
        self.views.append(view | ({} if target is None else {"target": target}))
        block += b"\0" * (-len(block) % 4)
        self.blocks.append(block)
        self.size += len(block)
        return len(self.views) - 1


def _to_y_up(up: np.ndarray) -> np.ndarray:
    """The rotation that turns `up` to y."""
    e1, e2, n = frame(up).T
    return np.stack([e1, n, -e2])


def _packed(document: dict[str, object], numbers: bytes) -> bytes:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), _JSON) + text
    if numbers:
        chunks += struct.pack("<II", len(numbers), _BIN) + numbers
    return struct.pack("<III", _MAGIC, 2, 12 + len(chunks)) + chunks
