"""Programs that are shared by their text, and let go before the process runs out of maps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.xla import shared_programs
from jaxmbd.xla.shared_programs import program_of, shared_jit


@pytest.fixture
def none_held(monkeypatch):
    monkeypatch.setattr(shared_programs, "_SHARED", type(shared_programs._SHARED)())


def lowered(k):
    return jax.jit(lambda x: x**k).lower(jnp.ones(3))


@pytest.mark.usefixtures("none_held")
def test_functions_of_the_same_text_share_a_program():
    for offset in (1.0, 2.0):
        held = jnp.full(3, offset)
        run = shared_jit(lambda x, held=held: x * held)
        np.testing.assert_array_equal(run(jnp.ones(3)), held)
    assert len(shared_programs._SHARED) == 1


@pytest.mark.usefixtures("none_held")
def test_the_oldest_programs_go_where_memory_maps_become_few(monkeypatch, tmp_path):
    """The limit is one that the process has nearly reached with three programs."""
    for k in range(3):
        program_of(lowered(k + 2))
    kept = list(shared_programs._SHARED)[-1:]
    shares = iter((0.5, 0.3, 0.3))
    monkeypatch.setattr(shared_programs, "_share_of_maps", lambda: next(shares))
    program_of(lowered(7))
    assert list(shared_programs._SHARED)[:-1] == kept
    monkeypatch.setattr(shared_programs, "_share_of_maps", lambda: 0.9)
    with pytest.warns(RuntimeWarning, match="90 % of the memory maps.*jax.clear_caches"):
        program_of(lowered(8))
    assert len(shared_programs._SHARED) == 1


def test_maps_are_counted_where_linux_tells_them(monkeypatch, tmp_path):
    maps, most = tmp_path / "maps", tmp_path / "most"
    maps.write_text("a\n" * 30)
    most.write_text("120\n")
    monkeypatch.setattr(shared_programs, "_MAPS", maps)
    monkeypatch.setattr(shared_programs, "_MOST_MAPS", most)
    assert shared_programs._share_of_maps() == 0.25
    most.unlink()
    assert shared_programs._share_of_maps() == 0.0
