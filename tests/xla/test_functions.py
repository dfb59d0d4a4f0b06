"""What a function computes, as data: the same for the same program, and for no other."""

import functools
import json
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd import library
from jaxmbd.xla.descriptions import Undescribed
from jaxmbd.xla.functions import describe_function


def made(source, *, name="f", **others):
    """The function of a source text in a module of its own, with the names that it needs."""
    module = types.ModuleType("users_own")
    vars(module).update({"jnp": jnp, "np": np, "jax": jax, "functools": functools} | others)
    exec(source, vars(module))
    return getattr(module, name)


def described(source, **others):
    return json.dumps(describe_function(made(source, **others)))


BASE = """
gain = 2.0
def inner(x): return gain * jnp.sin(x)
def f(x): return inner(x) + 1.0
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ 1.0", "+ 1.5"),
        ("+ 1.0", "- 1.0"),
        ("gain = 2.0", "gain = 2.5"),
        ("gain = 2.0", "gain = jnp.asarray(2.0)"),
        ("jnp.sin", "jnp.cos"),
        ("def f(x)", "def f(x, y=1.0)"),
        ("gain * jnp.sin(x)", "(lambda y: gain * jnp.sin(y) + 0 * y)(x)"),
    ],
)
def test_another_program_has_another_description(old, new):
    assert old in BASE
    assert described(BASE) != described(BASE.replace(old, new))


def test_comments_and_places_are_no_part_of_it():
    assert described(BASE) == described(BASE.replace("gain = 2.0", "# twice\n\ngain = 2.0"))


def test_arrays_models_and_functions_in_it_count_by_what_they_hold():
    system, _ = library.load("four_bar")
    heavier = eqx.tree_at(lambda s: s.mass, system, 2.0 * system.mass)
    source = "def outer(part):\n def f(x): return (x, part)\n return f\n"

    def of(part):
        return json.dumps(describe_function(made(source, name="outer")(part)))

    assert of(system) == of(library.load("four_bar")[0])
    parts = (
        system,
        heavier,
        np.arange(3.0),
        np.arange(4.0),
        jnp.arange(3),
        {"a": 1},
        jnp.sin,
        jax.nn.relu,
        functools.partial(jnp.sum, axis=0),
        functools.partial(jnp.sum, axis=1),
        eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0)),
        made(BASE),
        jax.jit(made(BASE)),
        jax.grad(made(BASE)),
        made("def f(x): return f(x - 1) if x else 0"),
        jax.random.key(0),
        jax.random.key(1),
    )
    assert len({of(part) for part in parts}) == len(parts)


def test_a_module_of_the_users_counts_by_what_is_taken_of_it():
    def described_with(**names):
        helpers = types.ModuleType("helpers_of_mine")
        vars(helpers).update(names)
        return described("def f(x): return helpers.gain * x", helpers=helpers)

    assert described_with(gain=1.0) != described_with(gain=2.0)
    assert described_with(gain=1.0, other=1) == described_with(gain=1.0, other=2)


class Own:
    """A class of a user's."""


@pytest.mark.parametrize(
    ("source", "part", "words"),
    [
        ("def f(x): return part(x)", Own(), "'part'"),
        ("def f(x): return part(x)", Own, "'part'"),
        ("def f(x): return missing(x)", None, "'missing', which is not defined yet"),
        ("def f(x):\n import helpers_of_mine\n return x", None, "helpers_of_mine"),
        ("def f(x): return globals()['part'] * x", 2.0, "'globals'"),
        ("def f(x): return getattr(part, 'gain') * x", types.ModuleType("own"), "module 'part' as"),
    ],
)
def test_what_cannot_be_described_is_named(source, part, words):
    with pytest.raises(Undescribed, match=words):
        describe_function(made(source, part=part))


def test_what_is_being_traced_is_no_part_of_a_description():
    def outer(a):
        with pytest.raises(Undescribed, match="being traced"):
            describe_function(lambda x: a * x)
        return a

    jax.jit(outer)(1.0)
