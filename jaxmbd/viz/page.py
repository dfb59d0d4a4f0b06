"""One HTML file with a view of a motion: the scene, the viewer and the part of three.js it needs.

What is in `assets` is put into the page as it is, but three.js and the numbers are packed: the
browser unpacks them itself. Names reach the page only inside the packed numbers and as escaped
text, so that none of them can act as HTML.
"""

import base64
import gzip
import html
import json
import math
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from .film import Film
from .nodes import Scene

VIEWER = "jaxmbd-viewer.js"
_THREE = "three.bundle.js"
_SCRIPTS = ("stage.js", "plots.js", "main.js")


def told(scene: Scene, film: Film, settings: dict[str, object]) -> str:
    """What a page knows about a motion, packed.

    Args:
        scene: What moves.
        film: What is said about it.
        settings: plots (numbers of quantities), paths (numbers of bodies), show (what is shown at
            the start), camera, speed, autoplay, theme.
    """
    return _packed(json.dumps(_described(scene, film) | settings, allow_nan=False).encode())


def page(name: str, told: str, model: bytes, *, whole: bool = True) -> str:
    """The text of the HTML file.

    Args:
        name: Of the mechanism.
        told: See `told`.
        model: The binary glTF.
        whole: Whether the code is in the page, or in a file `VIEWER` beside it.
    """
    three = f'<script type="text/plain" id="three">{_packed(_asset(_THREE).encode())}</script>'
    script = f"<script>\n{_scripts()}\n</script>"
    return Template(_asset("page.html")).substitute(
        title=html.escape(name),
        style=_asset("page.css"),
        license=_asset("LICENSE-three.txt").replace("--", "—"),
        three=three if whole else "",
        film=told,
        glb=_packed(model),
        script=script if whole else f'<script src="{VIEWER}"></script>',
    )


def viewer() -> str:
    """The code that several pages share."""
    license = _asset("LICENSE-three.txt").replace("*/", "")
    return f"// jaxmbd viewer, with three.js:\n/*\n{license}*/\n{_asset(_THREE)}\n{_scripts()}"


def _scripts() -> str:
    return "\n".join(map(_asset, _SCRIPTS))


def _asset(name: str) -> str:
    return (resources.files(__package__ or "") / "assets" / name).read_text(encoding="utf-8")


def _packed(data: bytes) -> str:
    # Without a time stamp, so that the same view is the same file.
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _numbers(values: np.ndarray, kind: str = "<f4") -> str:
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _described(scene: Scene, film: Film) -> dict[str, Any]:
    drawing, t = film.data.drawing, scene.t
    names = [*film.data.bodies, "ground"]
    joints = drawing["connections"]
    step = float(np.min(np.diff(t))) if len(t) > 1 else 1.0
    return {
        "name": scene.name,
        "about": film.about,
        "t": _numbers(t, "<f8"),
        "digits": min(max(2, math.ceil(-math.log10(max(step, 1e-6)))), 5),
        "half": scene.half,
        "reach": scene.reach,
        "size": scene.size,
        "middle": scene.middle.tolist(),
        "floor": _floor(scene, film),
        "outermost": np.round(scene.outermost / scene.half, 4).ravel().tolist(),
        "planes": _planes(scene, film),
        "bodies": [
            {"name": node.name, "color": node.parts[0].color}
            for node in scene.nodes
            if node.kind == "body"
        ],
        "joints": [
            {"name": c["name"], "kind": c["kind"], "bodies": [names[c["i"]], names[c["j"]]]}
            for c in joints
        ],
        "quantities": [
            {
                "kind": q.kind,
                "owner": q.owner,
                "name": q.name,
                "unit": q.unit,
                "components": list(q.components),
                "values": _numbers(q.values),
            }
            for q in film.quantities
        ],
        **_arrows(film),
    }


def _arrows(film: Film) -> dict[str, list[dict[str, object]]]:
    """Reactions, contacts and efforts."""
    return {
        "reactions": [
            {
                "joint": c["name"],
                "of": c["j"],
                "point": c["s_j_bar"],
                "force": _numbers(film.reactions[c["name"]][0]),
                "moment": _numbers(film.reactions[c["name"]][1]),
            }
            for c in film.data.drawing["connections"]
            if c["name"] in film.reactions
        ],
        "contacts": [
            {
                "name": c.name,
                "n": c.state.shape[1],
                "point": _numbers(c.point),
                "force": _numbers(c.force),
                "state": _numbers(c.state, "u1"),
            }
            for c in film.contacts
        ],
        "efforts": [
            {
                "name": x.name,
                "kind": x.kind,
                "of": x.body,
                "point": x.point.tolist(),
                "vector": _numbers(x.vector),
            }
            for x in film.efforts
        ],
    }


def _planes(scene: Scene, film: Film) -> list[dict[str, list[float]]]:
    """Planes of the ground with which something is in contact, each once, below the scene."""
    found: dict[tuple, dict[str, list[float]]] = {}
    for point, normal in (c.plane for c in film.contacts if c.plane is not None):
        height = float(normal @ point)
        middle = scene.middle - (normal @ scene.middle - height) * normal
        key = (*np.round(normal, 6), round(height / scene.half, 6))
        found.setdefault(key, {"point": middle.tolist(), "normal": normal.tolist()})
    return list(found.values())


def _floor(scene: Scene, film: Film) -> float:
    """The height of the grid: that of a level plane with which something is in contact, else the
    lowest that is drawn.
    """
    level = [
        float(point @ scene.up)
        for point, normal in (c.plane for c in film.contacts if c.plane is not None)
        if float(normal @ scene.up) > 1.0 - 1e-6
    ]
    return min(level) if level else scene.lowest
