"""MJCF files: trees against MuJoCo's accelerations, loops that stay closed, what is left out."""

import numpy as np
import pytest

import jaxmbd as mbd
from mjcf_models import INCLUDING, TREES

mujoco = pytest.importorskip("mujoco", reason="MuJoCo reads MJCF: pip install 'jaxmbd[mjcf]'")


def smooth(model):
    """MuJoCo without ranges, contacts, dry friction and equality constraints."""
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model


def random_positions(model, rng):
    """Positions within half a turn of the reference, and speeds."""
    qpos = model.qpos0.copy()
    mujoco.mj_integratePos(model, qpos, rng.uniform(-1.2, 1.2, model.nv), 1.0)
    return qpos, rng.normal(size=model.nv)


def mujoco_accelerations(model, data, names):
    """Accelerations of the mass centers, and angular ones, global, by MuJoCo."""
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    found = np.zeros((len(names), 6))
    for row, name in zip(found, names, strict=True):
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, body, row, 0)
    found[:, 3:] += model.opt.gravity
    return found


def compared(mechanism, report, model, *, states=20, ctrl=None):
    """The largest difference of accelerations over random states, relative to the largest one."""
    system, _ = mechanism.build()
    named = {model.body(b).name for b in range(1, model.nbody)}
    rows = [k for k, name in enumerate(system.bodies) if name in named]
    names = [system.bodies[k] for k in rows]
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(states):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = random_positions(model, rng)
        if ctrl is not None:
            data.ctrl[:] = ctrl
        wanted = mujoco_accelerations(model, data, names)
        state = report.state(data.qpos, data.qvel)
        acc = mbd.accelerations(system, state)
        alpha = np.einsum("bij,bj->bi", np.asarray(state.A), np.asarray(acc.alpha))
        found = np.concatenate([alpha, np.asarray(acc.a)], axis=1)[rows]
        worst = max(worst, np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))
    return worst


@pytest.mark.parametrize("name", TREES)
def test_accelerations_of_a_tree_are_those_of_mujoco(name):
    model = smooth(mujoco.MjModel.from_xml_string(TREES[name]))
    mechanism, report = mbd.from_mjcf(TREES[name])
    assert compared(mechanism, report, model) < 1e-10
    assert report.refused == [] and report.loops == []


def test_accelerations_of_a_tree_with_includes(tmp_path):
    for file, text in INCLUDING.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    path = tmp_path / "main.xml"
    model = smooth(mujoco.MjModel.from_xml_path(str(path)))
    mechanism, report = mbd.from_mjcf(path)
    assert list(mechanism.bodies) == ["trunk", "leg"]
    assert compared(mechanism, report, model) < 1e-10
