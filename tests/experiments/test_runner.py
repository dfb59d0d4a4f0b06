"""`python -m experiments` lists experiments, refuses unknown ones, sets cores before JAX starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments import runner

ROOT = Path(runner.__file__).parents[1]


def test_every_experiment_is_in_the_table_and_the_table_is_listed():
    folders = {path.parent.name for path in (ROOT / "experiments").glob("*/run.py")}
    assert folders == {x.path.parent.name for x in runner.EXPERIMENTS.values()}
    done = CliRunner().invoke(runner.app, ["--list"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    for name, experiment in runner.EXPERIMENTS.items():
        assert f"\n {name} " in done.output and experiment.about[:40] in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "'nothing' is not one of 'rotation_formulations'"),
        ([], "Usage"),
        (["control", "--part", "nothing"], "'nothing' is not one of 'swing_up'"),
        (["control", "--size", "3"], "No such option: --size"),
    ],
)
def test_what_no_experiment_takes_is_refused(arguments, said, tmp_path):
    # In one line each, whatever the width of the terminal.
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *arguments],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "300"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert said in done.stdout + done.stderr


def test_cores_are_chosen_before_jax_is_imported():
    code = "import sys, experiments.runner; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
