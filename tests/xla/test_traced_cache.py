"""Programs that are kept as they were traced: found again by other processes, and only where they
are the same."""

import dataclasses
import hashlib
import sys

import jax
import numpy as np
import pytest

import jaxmbd as mbd
from helpers import ALL_FORMULATIONS, name_of
from jaxmbd.analyses import fixed_steps
from jaxmbd.rotations import skew
from jaxmbd.xla import disk_cache as cache
from jaxmbd.xla import traced_cache as kept
from jaxmbd.xla.descriptions import Undescribed, describe, rebuild, with_slots


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of programs."""
    monkeypatch.setattr(cache, "_folder", tmp_path)
    another_process(monkeypatch)
    return tmp_path


def another_process(monkeypatch):
    """As a new process: it knows no program yet."""
    for program in (fixed_steps.start_run, fixed_steps.march):
        monkeypatch.setattr(program, "_kept", {})


def run(system, state, **options):
    return mbd.simulate(system, state, h=1e-3, steps=3, **options)


def traced(folder):
    return sorted(folder.glob("march-*-traced"))


def test_another_process_traces_nothing_and_gets_the_same_motion(folder, monkeypatch):
    system, state = mbd.load("double_pendulum")
    first = run(system, state)
    (file,) = traced(folder)
    another_process(monkeypatch)
    with monkeypatch.context() as m:
        m.setattr(kept.KeptPrograms, "_traced", None)  # would fail
        again = run(system, state)
        # Numbers and names are no part of a program.
        heavier = dataclasses.replace(system, mass=2.0 * system.mass, name="other")
        other = run(heavier, state)
    assert traced(folder) == [file]
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.structure(first) == jax.tree.structure(again)
    assert other.result == mbd.RESULTS.successful and other.system.name == "other"
    monkeypatch.setattr(cache, "_folder", None)
    plain = run(system, state)
    np.testing.assert_allclose(plain.r, first.r, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(plain.lam, first.lam, rtol=1e-9, atol=1e-9)


def test_settings_are_part_of_a_program(folder, monkeypatch):
    system, state = mbd.load("double_pendulum")
    for integrator in (mbd.GeneralizedAlpha(rho_inf=0.5), mbd.GeneralizedAlpha(rho_inf=0.6)):
        run(system, state, integrator=integrator)
    assert len(traced(folder)) == 2
    monkeypatch.setattr(kept, "_code", lambda: "changed")
    another_process(monkeypatch)
    run(system, state, integrator=integrator)
    assert len(traced(folder)) == 3


def pushed(function):
    """A rod on a hinge with a force of the user's."""
    m = mbd.Mechanism("driven")
    m.add_body(
        "rod", mass=1.0, inertia=(0.01, 0.1, 0.1), r=(0.7, 0, 0), v=(0, 0, 0.7), omega=(0, -1, 0)
    )
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.UserForce("push", bodies=["rod"], function=function))
    return m.build()


def test_what_holds_a_function_of_the_users_has_a_program_for_each_function(folder, monkeypatch):
    ends = []
    for amount in (1.0, 2.0, 1.0):
        another_process(monkeypatch)
        force = lambda p, w, t, a=amount: (a * w.v, 0.0 * w.omega)  # noqa: E731
        ends.append(run(*pushed(force)).r[-1])
    assert len(traced(folder)) == 2
    assert not np.array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_a_spoiled_file_is_traced_anew(folder, monkeypatch):
    system, state = mbd.load("double_pendulum")
    first = run(system, state)
    (file,) = traced(folder)
    for content in (b"", file.read_bytes()[:-7] + b"spoiled", b'jaxmbd program 2\n["", []]\n'):
        file.write_bytes(content)
        another_process(monkeypatch)
        np.testing.assert_array_equal(run(system, state).r, first.r)
        assert file.stat().st_size > 1000


@pytest.mark.parametrize("formulation", ALL_FORMULATIONS, ids=name_of)
def test_a_structure_is_described_and_rebuilt(formulation):
    _, state = mbd.load("heavy_top")
    q, u = formulation.from_state(state)
    tree = {"q": q, "u": (u, 1, True, None), "how": formulation, "end": mbd.RESULTS.singular}
    arrays = [x for x in jax.tree.leaves(tree) if hasattr(x, "shape")]
    again = rebuild(describe(with_slots(tree)), arrays)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    assert describe(again) == describe(tree)


@pytest.mark.parametrize(
    "part", [lambda t: t, object(), {1, 2}, np.sin], ids=["function", "object", "set", "ufunc"]
)
def test_what_cannot_be_described_is_refused(part):
    with pytest.raises(Undescribed):
        describe((1.0, part))


@pytest.mark.parametrize(
    "description",
    [
        ["module", "os:system", []],
        ["class", "subprocess:Popen"],
        ["module", "jaxmbd.cli:main", []],
        ["named", "jaxmbd.nowhere:Nothing", []],
        ["call", "print"],
        # Attributes of modules and of classes lead anywhere.
        ["named", "jaxmbd.analyses.running.checks:psutil.subprocess.Popen", [["value", "true"]]],
        ["class", "jaxmbd.analyses.running.checks:psutil.subprocess.Popen"],
        ["named", "jaxmbd.model.joints:Revolute", [["value", "pin"]]],  # no class of data
        ["named", "jaxmbd.model.state:State", []],
        ["module", "jaxmbd.integrators.tableaus:Tableau", []],
        ["module", "jaxmbd.model.state:State", [["__class__", ["value", 1]]]],
        ["value", {"a": 1}],
    ],
)
def test_a_description_makes_nothing_but_parts_of_this_package(description):
    with pytest.raises(Undescribed):
        rebuild(description, [])


def test_a_description_loads_no_code():
    label = "jaxmbd.learning.train:Training"
    before = set(sys.modules)
    with pytest.raises(Undescribed):
        rebuild(["class", label], [])
    assert set(sys.modules) == before


EVIL = {
    "a command": '["named", "jaxmbd.analyses.running.checks:psutil.subprocess.Popen", '
    '[["list", [["value", "touch"], ["value", "CANARY"]]]]]',
    "no JSON": "{",
    "nested too deeply": "[" * 100_000,
    "an array that is not there": '["slot", 7]',
    "a number that is none": '["float", "one"]',
    "not a list": "3",
}


@pytest.mark.parametrize("what", EVIL)
def test_a_header_that_was_changed_makes_nothing(folder, tmp_path, what):
    """Even where its digest was computed anew."""
    x, canary = np.array([1.0, 2.0, 3.0]), tmp_path / "canary"
    expected = skew(jax.numpy.asarray(x))

    def found():
        program = kept.KeptPrograms(skew, None).find((jax.numpy.asarray(x),), {})
        assert program is not None
        return program((jax.numpy.asarray(x),), {})

    np.testing.assert_array_equal(found(), expected)
    (file,) = folder.glob("skew-*-traced")
    content = file.read_bytes()
    start = len(kept._MARK) + 32
    _, _, text = content[start:].partition(b"\n")
    body = EVIL[what].replace("CANARY", str(canary)).encode() + b"\n" + text
    file.write_bytes(kept._MARK + hashlib.sha256(body).digest() + body)
    assert kept._read(file) is None
    np.testing.assert_array_equal(found(), expected)
    assert not canary.exists() and kept._read(file) is not None  # made anew
    # The digest covers the header: a byte of it changed alone is noticed.
    spoiled = content[: start + 2] + b"?" + content[start + 3 :]
    file.write_bytes(spoiled)
    assert kept._read(file) is None
