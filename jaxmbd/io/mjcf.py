"""MJCF files of MuJoCo to a `Mechanism`: equality constraints become exact joints.

MuJoCo's own compiler resolves defaults, includes, orientations and inertias (`mujoco.MjSpec`); what
it makes of the file is translated here and in the two modules beside this one.
"""

import dataclasses
import re
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np

from ..model.doubts import let_fly
from ..model.mechanism import Mechanism
from ..model.state import State
from ..model.validation import Numbers
from . import xml_tree
from .import_report import ImportReport
from .mjcf_bodies import add_bodies
from .mjcf_files import Resolved, resolved
from .mjcf_relations import add_relations
from .mjcf_scene import Compiled, Options
from .model_files import ModelFileError

INITIAL = "initial"  # a keyframe of this name is the description where none is asked for


def read_mjcf(
    source: str | Path,
    *,
    keyframe: str | None = None,
    limits: bool = False,
    friction: bool = False,
    merge_fixed: bool = False,
    strict: bool = True,
    anywhere: bool = False,
) -> tuple[Mechanism, ImportReport]:
    """The mechanism of an MJCF file or text; see `jaxmbd.from_mjcf`."""
    mujoco = _mujoco()
    text, path = _source(source)
    shown = path.name if path else "MJCF text"
    root = xml_tree.read(path) if path else xml_tree.parse(text or "", shown)
    files = resolved(root, path, anywhere=anywhere)
    root = files.root
    report = ImportReport(shown)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            spec = mujoco.MjSpec.from_string(files.text, include=files.models)
            model = spec.compile()
        except ValueError as error:
            raise ModelFileError(_explained(files, str(error))) from None
    report.notes += [" ".join(f"MuJoCo: {x.message}".split()) for x in remarks]
    report.locate(root)
    options = Options(limits=limits, friction=friction, merge_fixed=merge_fixed)
    unnamed = spec.modelname in ("", "MuJoCo Model")
    name = (path.stem if path else "mjcf") if unnamed else spec.modelname
    file = Compiled(mujoco, model, mujoco.MjData(model))
    mechanism = _mechanism(file, name, keyframe, options, report, root)
    if strict and report.refused:
        raise ModelFileError(
            f"{shown}: cannot be read as it moves: {'; '.join(map(str, report.refused))}. Pass "
            "strict=False to leave that out"
        )
    return mechanism, report


def _mujoco() -> ModuleType:
    try:
        import mujoco
    except ImportError:
        raise ModelFileError(
            "reading MJCF needs MuJoCo's parser: pip install 'jaxmbd[mjcf]'"
        ) from None
    return mujoco


def _source(source: str | Path) -> tuple[str | None, Path | None]:
    """Text or path."""
    if isinstance(source, str) and source.lstrip().startswith("<"):
        return source, None
    path = Path(source)
    if path.is_dir():
        raise ModelFileError(f"{path.name}: this is a folder, not a model file")
    return None, path


def _explained(files: Resolved, message: str) -> str:
    """MuJoCo's message on one line, with the file, and the line and tag where it tells them."""
    if files.folder is not None:
        message = message.replace(f"{files.folder}/", "")
    lines = [x.strip() for x in message.splitlines() if x.strip()]
    text = re.sub(r"^(XML )?Error:\s*", "", lines[0]).rstrip(".:") if lines else "cannot be read"
    rest = " ".join(lines[1:])
    line = re.search(r"line (\d+)", rest) or re.search(r"line (\d+)", text)
    element = re.search(r"Element(?: name)? '([^']*)'", rest)
    where = f"{files.root.file}: "
    if line is not None and 1 <= int(line.group(1)) <= len(files.lines):
        at = files.lines[int(line.group(1)) - 1]
        where = f"{at.file}: line {at.line}: "
    what = f"<{element.group(1)}>: " if element and "name" not in rest else ""
    if element and not what and element.group(1):
        what = f"element {element.group(1)!r}: "
    detail = "" if element else f" {rest}" if rest and not line else ""
    return f"{where}{what}{text}{detail}"


def _mechanism(
    file: Compiled,
    name: str,
    keyframe: str | None,
    options: Options,
    report: ImportReport,
    root: xml_tree.Element,
) -> Mechanism:
    model = file.model
    weightless = int(model.opt.disableflags) & int(file.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    m = Mechanism(name, gravity=np.zeros(3) if weightless else np.array(model.opt.gravity))
    _to_keyframe(file, keyframe, report)
    moving = keyframe is not None or INITIAL in report.keyframes
    add_relations(add_bodies(file, m, options, report, moving=moving))
    _list_the_rest(file, root, report)
    let_fly(m)
    report.describe(m, lambda *q: _state_at(file, options, m, *q))
    return m


def _state_at(
    file: Compiled, options: Options, m: Mechanism, qpos: Numbers, qvel: Numbers
) -> State:
    """The state of all bodies of the mechanism at MuJoCo's coordinates and speeds."""
    data = file.mujoco.MjData(file.model)
    for field, given in (("qpos", qpos), ("qvel", qvel)):
        at, values = getattr(data, field), np.asarray(given)
        if values.shape != at.shape:
            raise ValueError(f"{field} has {len(at)} numbers, not {values.size}")
        at[:] = values
    there = dataclasses.replace(file, data=data)
    there.place()
    scratch = Mechanism("pose")
    add_bodies(there, scratch, options, ImportReport(""), moving=True)
    # Springs and servos follow angles too, which the scratch has not.
    system = m.build()[0]
    return dataclasses.replace(
        scratch.build()[1],
        angles=system.turns(),
        element_states=system.held_element_states(),
    )


def _to_keyframe(file: Compiled, keyframe: str | None, report: ImportReport) -> None:
    """Bring MuJoCo's data to the pose and rates that the mechanism is described with."""
    mujoco, model = file.mujoco, file.model
    report.keyframes = [model.key(k).name or f"key{k}" for k in range(model.nkey)]
    if keyframe is None and INITIAL in report.keyframes:
        keyframe = INITIAL
    if keyframe is not None:
        if keyframe not in report.keyframes:
            known = ", ".join(report.keyframes) or "none"
            raise ModelFileError(
                f"{report.source}: there is no keyframe {keyframe!r}; the keyframes are {known}"
            )
        mujoco.mj_resetDataKeyframe(model, file.data, report.keyframes.index(keyframe))
    file.place()


# Elements that say nothing about the motion of the mechanism.
_WITHOUT_MOTION = {
    "camera": "cameras are not read",
    "light": "lights are not read",
    "sensor": "sensors are not read; ask the solution",
    "skin": "skins are not read",
    "pair": "contacts are not read; add mbd.Contact",
    "exclude": "contacts are not read",
    "hfield": "height fields are not read",
}
_WITH_MOTION = {
    "flex": "deformable bodies are not supported",
    "flexcomp": "deformable bodies are not supported",
    "plugin": "plugins are not supported",
    "composite": "composites are not supported",
}


def _list_the_rest(file: Compiled, root: xml_tree.Element, report: ImportReport) -> None:
    """Whatever the file has besides bodies, joints and what acts on them."""
    model = file.model
    for element in root.walk():
        name = element.get("name") or ""
        if element.tag == "sensor":
            for child in element.children:
                why, label = _WITHOUT_MOTION["sensor"], child.get("name") or ""
                report.ignore(child.tag, label, why, child.line, moves=False)
        elif element.tag in _WITHOUT_MOTION:
            why = _WITHOUT_MOTION[element.tag]
            report.ignore(element.tag, name, why, element.line, moves=False)
        elif element.tag in _WITH_MOTION:
            report.refuse(element.tag, name, _WITH_MOTION[element.tag], element.line)
    touching = int(np.sum((model.geom_contype != 0) | (model.geom_conaffinity != 0)))
    if touching:
        report.ignore(
            "geom", "", f"contacts of {touching} geoms are not made; add mbd.Contact where needed"
        )
    if model.opt.density != 0.0 or model.opt.viscosity != 0.0:
        report.refuse("option", "", "forces of a fluid (density, viscosity) are not supported")
