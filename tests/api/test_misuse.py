"""Everyday mistakes get one sentence with the cure, not JAX's trace."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from api import misuse_cases

_SCRIPT = Path(misuse_cases.__file__)


def outcomes(**environment):
    done = subprocess.run(
        [sys.executable, _SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found():
    return outcomes()


@pytest.mark.xdist_group("misuse")
@pytest.mark.parametrize("name", misuse_cases.CASES)
def test_a_mistake_gets_one_sentence_with_the_cure(found, name):
    misuse_cases.check(name, found[name])


@pytest.mark.xdist_group("misuse")
def test_the_debug_switch_shows_where_jax_stopped():
    case = outcomes(JAXMBD_DEBUG="1")["if in a driver"]
    assert "jnp.where" in case["message"] and "TracerBoolConversionError" in case["trace"]
