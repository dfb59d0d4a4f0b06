"""`python -m experiments` lists experiments, refuses unknown ones, sets cores before JAX starts."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments import provenance, runner

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


def test_runs_are_recorded_and_their_age_is_told(tmp_path, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(path):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.read_text() + "x" if file.exists() else "x")
        git("add", "-A")
        git("commit", "-m", path)

    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    git("init")
    commit("jaxmbd/a.py")
    folder, began = tmp_path / "experiments" / "one", datetime.now(UTC)
    commit("experiments/one/run.py")
    assert provenance.ages(folder) == []
    provenance.record(folder, "one", ["--part", "b"], 1, began)
    provenance.record(folder, "one", [], 1, began)  # the whole renews its parts
    (age,) = provenance.ages(folder)
    assert (age.command, age.package, age.own) == ("one", 0, 0)
    commit("jaxmbd/a.py")
    commit("experiments/one/run.py")
    commit("experiments/one/README.md")  # text makes no result old
    (age,) = provenance.ages(folder)
    assert (age.package, age.own) == (1, 1)
    (tmp_path / "jaxmbd" / "a.py").write_text("changed")
    provenance.record(folder, "one", ["--part", "b"], 1, began)
    assert [a.commit.endswith("+") for a in provenance.ages(folder)] == [False, True]
    found = json.loads((folder / provenance.FILE).read_text())["one"]
    assert found["versions"]["jax"] and found["machine"].endswith("1 core")
