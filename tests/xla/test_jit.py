"""`mbd.jit`: the numbers of `jax.jit`, its uses, and what it tells the compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
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
