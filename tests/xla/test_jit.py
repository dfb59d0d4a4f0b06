"""`mbd.jit`: the numbers of `jax.jit`, its uses, and what it tells the compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.xla import disk_cache, traced_cache
from jaxmbd.xla.options import compiler_options

X = jnp.linspace(0.1, 0.9, 5)


def _f(x, power=2):
    return jnp.sum(jnp.sin(x) ** power)


@pytest.mark.parametrize("effort", ["quick", "balanced", "full"])
def test_values_and_derivatives_are_those_of_jax_jit(effort):
    f = mbd.jit(_f, effort=effort)
    np.testing.assert_allclose(f(X), _f(X), rtol=1e-15)
    np.testing.assert_allclose(jax.grad(f)(X), jnp.sin(2.0 * X), rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(f)(jnp.stack([X, 2.0 * X]))[1], _f(2.0 * X), rtol=1e-14)


def test_within_another_program_it_is_a_part_of_that():
    f = mbd.jit(_f)
    np.testing.assert_allclose(jax.jit(lambda x: 2.0 * f(x))(X), 2.0 * _f(X), rtol=1e-15)
    rows = jax.lax.scan(lambda c, x: (c + f(x), f(x)), 0.0, X)[1]
    np.testing.assert_allclose(rows, jnp.sin(X) ** 2, rtol=1e-15)


def test_it_is_a_decorator_of_functions_and_methods_and_takes_options_of_jax_jit():
    @mbd.jit(static_argnames="power")
    def g(x, power):
        return _f(x, power)

    class Doubled:
        @mbd.jit(static_argnums=0)
        def of(self, x):
            return 2.0 * _f(x)

    np.testing.assert_allclose(g(X, power=3), _f(X, 3), rtol=1e-15)
    np.testing.assert_allclose(Doubled().of(X), 2.0 * _f(X), rtol=1e-15)
    assert g.__name__ == "g"
    assert "stablehlo" in g.lower(X, power=3).as_text()


def test_options_reach_the_compiler(monkeypatch):
    """An option that XLA does not know is an error, so what it says of one tells that it came."""
    with pytest.raises(Exception, match="xla_no_such_option"):
        mbd.jit(_f, compiler_options={"xla_no_such_option": 1})(X)
    monkeypatch.setenv("JAXMBD_COMPILE", "fast")
    assert float(mbd.jit(_f, effort="quick")(X)) == pytest.approx(float(_f(X)), rel=1e-15)
    if jax.default_backend() == "cpu":
        assert compiler_options("balanced") == {"xla_backend_optimization_level": 1}
        assert compiler_options("full") == {}


def test_another_effort_is_refused():
    with pytest.raises(ValueError, match="effort must be one of quick, balanced, full"):
        mbd.jit(_f, effort="fast")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of programs."""
    monkeypatch.setattr(disk_cache, "_folder", tmp_path)
    return tmp_path


def test_another_process_finds_the_program_of_a_function(folder, monkeypatch):
    gain = jnp.asarray(3.0)

    def scaled(x, shift, *, much=1.0):
        return {"sum": jnp.sum(gain * x + shift), "much": (much, 2.0 * x)}

    first = mbd.jit(scaled)(X, 2, much=0.5)
    (file,) = folder.glob("scaled-*-traced")
    again = mbd.jit(scaled)  # as in another process: it knows no program yet
    with monkeypatch.context() as m:
        m.setattr(traced_cache.export, "export", None)  # would fail
        second = again(X, 2, much=0.5)
        larger = again(2.0 * X, 2, much=0.5)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(larger["sum"]) == pytest.approx(float(jnp.sum(6.0 * X + 2)))
    gain = jnp.asarray(4.0)
    assert float(mbd.jit(scaled)(X, 2, much=0.5)["sum"]) == pytest.approx(float(jnp.sum(4 * X + 2)))
    assert list(folder.glob("scaled-*-traced")) != [file]
    gradient = mbd.jit(jax.grad(lambda x: jnp.sum(x**3)))
    np.testing.assert_allclose(gradient(X), 3.0 * X**2, rtol=1e-14)


def test_what_cannot_be_kept_is_told_once_and_works(folder):
    class Own:
        def __call__(self, x):
            return 2.0 * x

    own = Own()
    f = mbd.jit(lambda x: own(x))
    with pytest.warns(mbd.CompilationWarning, match="uses 'own', whose class is .*Own"):
        np.testing.assert_array_equal(f(X), 2.0 * X)
    np.testing.assert_array_equal(f(X[1:]), 2.0 * X[1:])
    assert not list(folder.glob("*-traced"))
    printing = mbd.jit(lambda x: jax.debug.print("{}", x))
    with pytest.warns(mbd.CompilationWarning, match="cannot be written down"):
        printing(X)


def test_what_cannot_be_looked_at_is_told_and_works(folder):
    around = []
    around.append(around)
    with pytest.warns(mbd.CompilationWarning, match="cannot be looked at"):
        assert float(mbd.jit(lambda x: x + len(around))(1.0)) == 2.0


def test_a_key_within_a_function_is_a_part_of_its_program(folder):
    drawn = [
        float(mbd.jit(lambda x, key=key: x + jax.random.normal(key))(0.0))
        for key in (jax.random.key(0), jax.random.key(1), jax.random.key(0))
    ]
    assert drawn[0] == drawn[2] != drawn[1]
    assert len(list(folder.glob("*-traced"))) == 2


def test_a_function_of_no_module_is_told_by_its_name(folder):
    around = []
    around.append(around)
    f = mbd.jit(lambda x: x + len(around))
    f._function.__module__ = None  # as in a bare console
    with pytest.warns(mbd.CompilationWarning, match="cannot be looked at"):
        assert float(f(1.0)) == 2.0
