"""The programs that users run: the rest of the suite compiles everything without optimization."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ALL_FORMULATIONS, name_of

HERE = Path(__file__).parent
# Of the tests' own choice: users have none of these.
OURS = ("XLA_FLAGS", "JAXMBD_COMPILE")


# Nothing else sees the programs of users: of two formulations always, of the others by turns.
ALWAYS = {"rA", "directors"}
FORMULATIONS = [
    pytest.param(x, marks=pytest.mark.essential, id=name_of(x))
    if name_of(x) in ALWAYS
    else pytest.param(x, id=name_of(x))
    for x in ALL_FORMULATIONS
]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_stepping_batches_and_gradients(formulation):
    root = HERE.parents[1]
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "tests")])
    command = [sys.executable, str(HERE / "as_users_run.py"), formulation.name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # The methods' second order: 200 steps of 1e-3 s at 8 rad/s; directors are the coarsest.
    assert found["rotation_error"] < 2e-3, found
    # Newton's tolerance, 2e-12 of the length, over 200 steps.
    assert found["batch_gap"] < 1e-9, found
    # Central differences over 1e-4 of a motion known to 1e-12.
    gap = abs(found["slope"] - found["difference"])
    assert gap < 1e-6 * abs(found["slope"]) + 1e-7, found
