"""Switches: with all of them off everything is JAX's own, and the numbers are the same."""

import dataclasses
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.model.compiled import Compiled
from jaxmbd.xla import batch_last, checkpoint, disk_cache, self_check, versions
from jaxmbd.xla import options as module
from jaxmbd.xla.batch_last import batched_in_lanes, in_lanes
from jaxmbd.xla.checkpoint import checkpointed, saved
from jaxmbd.xla.cpu_fusion import left_apart, one_kernel
from jaxmbd.xla.custom_rule_call import opaque, with_derivative_of
from jaxmbd.xla.fused_ad import as_part
from jaxmbd.xla.indexing import sums_at, take, take_or_zero
from jaxmbd.xla.jaxprs import traced_once
from jaxmbd.xla.lazy_cond import anywhere, where_needed
from jaxmbd.xla.options import INTERNAL, switches
from jaxmbd.xla.repeated import repeated
from jaxmbd.xla.shared_programs import shared_jit

NAMES = ("kernels", "lanes", "checkpoints", "loops", "indexing", "programs")
INDEX = np.array([2, 0, 1, 1])


@pytest.fixture(autouse=True)
def _as_a_process_begins(monkeypatch):
    for name in ("JAXMBD_OPTIONS", "JAXMBD_KERNELS", "JAXMBD_LANES"):
        monkeypatch.delenv(name, raising=False)
    before = module._chosen.value
    yield
    module._put(before)


# --- operations: with all switches on, and by JAX alone


def _smooth(x):
    return jnp.sin(x) @ jnp.outer(x, x) + jnp.cos(x)


def _root(x):
    """The root of y³ + y = x², by Newton's method."""

    def solved(x):
        return [jax.lax.fori_loop(0, 30, lambda _, y: y - (y**3 + y - x**2) / (3 * y**2 + 1), x)]

    def rule(args, dots, found):
        (y,) = saved(opaque(solved, rule, *args) if found is None else found)
        return [y], [2 * args[0] * dots[0] / (3 * y**2 + 1)]

    return opaque(lambda x: saved(solved(x)), rule, x)[0]


def _turns(x):
    def body(carry, found, known):
        y, left = carry
        value = jnp.sin(1.3 * y)
        return (value + 0.5 * y, left - 1), value

    return repeated(body, (x, jnp.asarray(2)), x, lambda carry: carry[1] > 0, 4)[0]


def _steps(x):
    step = checkpointed(lambda y: _root(y) + jnp.sin(y))
    return jax.lax.scan(lambda y, _: (step(y), None), x, length=3)[0]


@traced_once
def _traced(x):
    return jnp.sin(x) * x


DIFFERENTIABLE = {
    "one_kernel": lambda x: one_kernel(_smooth, x),
    "batched_in_lanes": lambda x: batched_in_lanes(_smooth, x),
    "as_part": lambda x: as_part(lambda x: [_smooth(x)], x)[0],
    "checkpointed": _steps,
    "repeated": _turns,
    "take": lambda x: take(jnp.sin(x), INDEX) * take(x, INDEX),
    "take_or_zero": lambda x: take_or_zero(x**2, np.array([3, 1, 3])),
    "sums_at": lambda x: sums_at(jnp.cos(take(x, INDEX)), np.array([0, 1, 1, 7]), 3),
    "opaque": _root,
    "with_derivative_of": lambda x: with_derivative_of(_smooth, _smooth(x), x),
    "traced_once": _traced,
}
FORWARD = {
    "in_lanes": in_lanes(_smooth),
    "where_needed": lambda x: where_needed(x[0] > 0.5, lambda: _smooth(x), -x),
    "anywhere": lambda x: jnp.where(anywhere(x[0] > 0.5), x, _smooth(x)),
}
MODES = {
    "value": lambda f, x, v: f(x),
    "jvp": lambda f, x, v: jax.jvp(f, (x,), (v,)),
    "vjp": lambda f, x, v: jax.grad(lambda x: jnp.sum(f(x) ** 2))(x),
    "vmap": lambda f, x, v: jax.vmap(f)(jnp.stack([x, v, x + v])),
    "vmap of vjp": lambda f, x, v: jax.vmap(jax.jacrev(f))(jnp.stack([x, v, x + v])),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_an_operation_is_what_jax_makes_of_it(name, mode):
    _compare(DIFFERENTIABLE[name], mode)


@pytest.mark.parametrize("mode", ["value", "jvp", "vmap"])
@pytest.mark.parametrize("name", FORWARD)
def test_an_operation_without_reverse_mode_is_what_jax_makes_of_it(name, mode):
    _compare(FORWARD[name], mode)


def _compare(function, mode):
    x, v = jnp.array([0.7, -0.4, 1.1]), jnp.array([0.3, 0.9, -0.2])
    program = jax.jit(lambda x, v: MODES[mode](function, x, v))
    own = program(x, v)
    with mbd.options(plain=True):
        plain, text = program(x, v), str(jax.make_jaxpr(lambda *a: program(*a))(x, v))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), own, plain)
    # The rule of a root has no equivalent in JAX; everything else has.
    for operation in ("kernel", "linear", "take", "sums"):
        assert f"jaxmbd_{operation}" not in text


def test_a_root_in_jax_s_own_terms():
    """By `jax.custom_jvp`, which is the same until JAX splits a program twice."""

    @jax.custom_jvp
    def plain(x):
        return jax.lax.fori_loop(0, 30, lambda _, y: y - (y**3 + y - x**2) / (3 * y**2 + 1), x)

    @plain.defjvp
    def _(primals, tangents):
        y = plain(*primals)
        return y, 2 * primals[0] * tangents[0] / (3 * y**2 + 1)

    x, v = jnp.array([0.7, 0.4, 1.1]), jnp.array([0.3, 0.9, 0.2])
    for mode in MODES.values():
        own, wanted = mode(_root, x, v), mode(plain, x, v)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), own, wanted)


# --- motions


def _pendulum():
    return mbd.load("double_pendulum")


def _falling_ball():
    m = mbd.Mechanism("ball")
    ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.105), v=(0.5, 0, -1))
    m.add(mbd.Contact("floor", ball, m.ground, friction=0.4, restitution=0.5))
    return m.build()


@pytest.mark.slow
@pytest.mark.parametrize("scene", [_pendulum, _falling_ball])
def test_motions_gradients_and_batches_are_the_same(scene):
    """To rounding of a few steps, which derivatives multiply by some hundreds."""
    system, state = scene()

    def motion(scale):
        heavier = dataclasses.replace(system, mass=scale * system.mass)
        sol = mbd.simulate(heavier, state, h=1e-3, steps=12, throw=False)
        return jnp.sum(sol.r[-1] ** 2 + sol.v[-1]), (sol.r, sol.omega)

    gradient = jax.jit(jax.value_and_grad(motion, has_aux=True))
    batch = jax.jit(jax.vmap(motion))

    def found():
        return gradient(jnp.asarray(1.1)), batch(jnp.array([0.8, 1.0, 1.3]))

    own = found()
    with mbd.options(plain=True):
        plain = found()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), own, plain)


def test_a_plain_call_of_simulate_is_the_same_and_keeps_no_program(tmp_path, monkeypatch):
    system, state = _pendulum()
    own = mbd.simulate(system, state, h=1e-3, steps=5)
    monkeypatch.setattr(disk_cache, "_folder", tmp_path)
    with mbd.options(plain=True):
        plain = mbd.simulate(system, state, h=1e-3, steps=5)
    assert not list(tmp_path.iterdir())
    np.testing.assert_allclose(plain.r, own.r, rtol=0, atol=1e-14)


# --- which program serves


def test_a_program_serves_under_the_switches_that_it_was_traced_under():
    traced = []

    @jax.jit
    def program(x):
        traced.append(switches())
        return where_needed(x > 0, lambda: jnp.sin(x), x)

    x = jnp.asarray(1.0)
    for _ in range(2):
        program(x)
        for name in NAMES:
            off: dict[str, Any] = {name: False}
            with mbd.options(**off):
                program(x)
                assert not getattr(switches(), name)
        with mbd.options(plain=True):
            program(x)
    assert len(traced) == len(set(traced)) == 2 + len(NAMES)


def test_what_was_compiled_on_the_side_serves_under_its_switches_too():
    traced = []

    def function(x):
        traced.append(switches())
        return jnp.sin(x)

    beside, shared = Compiled(function), shared_jit(function)
    for _ in range(2):
        for plain in (False, True):
            with mbd.options(plain=plain):
                jax.jit(lambda: beside.at_once(np.ones(3)))()
                shared(np.ones(3))
    assert len(traced) == 4 and len(set(traced)) == 2


# --- how switches are given


def test_a_block_ends_and_a_call_stays():
    default = switches()
    with mbd.options(plain=True, lanes=True):
        assert switches().lanes and not switches().kernels
        with mbd.options(loops=True):
            assert switches().loops and switches().lanes and not switches().indexing
        assert not switches().loops
    assert switches() == default
    mbd.options(indexing=False)
    mbd.options(kernels=False, compile="fast")
    assert "indexing=False" in repr(mbd.options()) and "compile='fast'" in repr(mbd.options())
    mbd.options(kernels="auto", indexing=True)
    assert switches().values() == default.values()
    with pytest.raises(RuntimeError), mbd.options(plain=True):
        raise RuntimeError
    mbd.options(plain=False, compile=default.compile)
    assert switches() == default


def test_a_call_is_for_all_threads():
    found = []
    mbd.options(lanes=False)
    thread = threading.Thread(target=lambda: found.append(switches().lanes))
    thread.start()
    thread.join()
    assert found == [not hasattr(module._chosen, "set_global")]


@pytest.mark.parametrize(
    ("variables", "off"),
    [
        ({}, ()),
        ({"OPTIONS": "plain"}, NAMES),
        ({"OPTIONS": "loops=0, lanes=false,kernels=auto"}, ("lanes", "loops")),
        ({"OPTIONS": "plain,kernels=1,lanes=auto"}, NAMES[2:]),
        ({"OPTIONS": "plain", "KERNELS": "1"}, NAMES[1:]),
        ({"KERNELS": "0", "LANES": "0"}, ("kernels", "lanes")),
    ],
)
def test_the_environment_says_how_a_process_begins(variables, off, monkeypatch):
    for name, text in variables.items():
        monkeypatch.setenv(f"JAXMBD_{name}", text)
    assert [name for name in NAMES if not getattr(switches(), name)] == list(off)
    with mbd.options(plain=False):
        assert all(switches().values())


def test_what_a_switch_does_not_take_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="loops must be True or False, not 'auto'"):
        mbd.options(loops="auto")
    with pytest.raises(ValueError, match="kernels must be True, False or 'auto', not 'on'"):
        mbd.options(kernels="on")
    with pytest.raises(ValueError, match="compile must be auto, quick or fast, not 'slow'"):
        mbd.options(compile="slow")
    monkeypatch.setenv("JAXMBD_OPTIONS", "lane=0")
    with pytest.raises(ValueError, match="switches such as kernels=0,lanes=0 among kernels, lanes"):
        switches()


# --- versions of jaxlib


@pytest.fixture
def version(monkeypatch):
    """Pretend that jaxlib is of another version."""

    def set_to(text):
        monkeypatch.setattr(versions, "JAXLIB_VERSION", text)
        monkeypatch.setattr(versions, "JAXLIB", tuple(map(int, text.split(".")[:2])))

    monkeypatch.setattr(module, "_warned", False)
    monkeypatch.setattr(self_check, "_found", {})
    return set_to


def test_with_a_newer_jaxlib_what_reads_internals_is_off_and_said_once(version):
    version("0.13.1")
    words = "jaxlib 0.13.1 is newer .* is off: kernels, lanes, checkpoints. .*twice as long"
    with pytest.warns(UserWarning, match=words) as caught:
        assert [getattr(switches(), name) for name in INTERNAL] == [False] * 3
        np.testing.assert_allclose(_steps(jnp.ones(3)), jax.jit(_steps)(jnp.ones(3)), rtol=1e-13)
    assert len(caught) == 1 and switches().loops
    with mbd.options(kernels=True):
        assert switches().kernels and not switches().lanes


def test_asking_for_everything_needs_no_warning(version):
    version("0.13.1")
    ways: list[dict[str, Any]] = [{"plain": True}, dict.fromkeys(INTERNAL, True)]
    for asked in ways:
        with mbd.options(**asked):
            switches()


def test_a_version_that_was_not_tested_is_checked_once_and_passes(version, tmp_path, monkeypatch):
    version("0.9.99")
    monkeypatch.setattr(disk_cache, "_folder", tmp_path)

    @jax.jit
    def user(x):  # which is being traced while the check runs
        return one_kernel(_smooth, x)

    user(jnp.ones(3))
    assert all(switches().values())
    (file,) = tmp_path.glob("self-check-0.9.99-*.json")
    assert json.loads(file.read_text()) == {}
    monkeypatch.setattr(self_check, "_found", {})
    monkeypatch.setattr(self_check, "_checked", None)  # would fail
    assert all(switches().values())


@pytest.mark.parametrize("kept", ["", "[]", '{"rm": "x"}', '{"lanes": 1}'])
def test_a_spoiled_outcome_is_checked_again(version, tmp_path, monkeypatch, kept):
    version("0.9.99")
    monkeypatch.setattr(disk_cache, "_folder", tmp_path)
    (tmp_path / f"self-check-0.9.99-{jax.default_backend()}.json").write_text(kept)
    monkeypatch.setattr(self_check, "_checked", lambda: {"lanes": "fails"})
    with pytest.warns(UserWarning, match=r"jaxlib 0.9.99 .* is off: lanes \(fails\)"):
        assert not switches().lanes
    assert switches().kernels


def test_what_fails_its_check_is_off(version, monkeypatch):
    """Lanes that are wrong in the tenth digit, checkpoints that cannot read an equation."""
    version("0.9.99")

    def unread(*_):
        raise KeyError("jaxpr")

    wrong = batch_last._replayed

    def slightly_wrong(*args):
        out, flags = wrong(*args)
        return jax.tree.map(lambda x: x * (1 + 1e-10), out), flags

    monkeypatch.setattr(batch_last, "_replayed", slightly_wrong)
    monkeypatch.setattr(checkpoint, "_all_at_top", unread)
    jax.clear_caches()
    with pytest.warns(UserWarning, match="lanes .results differ by .*checkpoints .KeyError"):
        assert switches().values() == (True, False, False, True, True, True)
    jax.clear_caches()


def test_the_check_makes_programs_of_both_kinds():
    x = jnp.ones((3, 4))
    for name, program in zip(INTERNAL, self_check.PROGRAMS, strict=True):
        texts = []
        for which in (None, name):
            with module.only(which), left_apart(False):
                texts.append(str(jax.make_jaxpr(lambda x, f=program: f(x))(x)))
        assert texts[0] != texts[1]


def test_the_check_takes_less_than_a_second():
    """Of processor time of one core: the best of two, since others compute as well."""
    taken = []
    for _ in range(2):
        jax.clear_caches()
        begin = time.process_time()
        assert self_check._checked() == {}
        taken.append(time.process_time() - begin)
    assert min(taken) < 2.0  # XLA compiles with two threads


def test_versions_that_count_as_tested_are_allowed():
    newest = ".".join(map(str, versions.UNTESTED))
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    (oldest,) = re.findall(r'"jax>=([0-9.]+)[^"]*<' + re.escape(newest) + '"', text)
    tested = sorted(tuple(map(int, v.split("."))) for v in versions.TESTED)
    assert tested[0][:2] == tuple(map(int, oldest.split("."))) and tested[-1] < versions.UNTESTED
