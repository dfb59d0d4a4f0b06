"""The benchmark's yardstick computes what the package computes, and its quick version runs."""

import json

import pytest

from experiments.benchmarks.run import yardstick_agrees
from helpers import quick_experiment


def test_the_yardstick_agrees():
    assert yardstick_agrees("slider_crank") < 1e-11  # all four primitives and a driver


def test_the_quick_benchmark_runs(tmp_path):
    choice = ("--model", "double_pendulum", "--formulation", "rA")
    found = quick_experiment("benchmarks", tmp_path, *choice)
    row = found["models"]["double_pendulum"]["rA"]
    assert row["us_per_step"] > 0 and row["compile_s"] > 0 and 1 < row["iterations"] < 4


@pytest.mark.slow
def test_first_results_are_measured_in_fresh_processes(tmp_path):
    found = quick_experiment("first_result", tmp_path, file="first_result.json")
    assert len(found["rows"]) == 4
    for row in found["rows"].values():
        assert 0 < row["warm"]["median"] < row["cold"]["median"]


@pytest.mark.slow
def test_batches_are_measured_in_both_precisions(tmp_path):
    for precision in ((), ("--single",)):
        found = quick_experiment("batch", tmp_path, *precision, file="batch_cpu.json")
    rows = found["rows"]
    assert set(rows["double_pendulum rA"]) == {"float64", "float32"}
    for row in rows["double_pendulum rA"].values():
        assert row["8"]["state_steps_per_s"] > 0 and row["8"]["failed"] == 0
    assert rows["double_pendulum rA kept"]["float64"]["8"]["violation"] < 1e-13
    assert (tmp_path / "batch_cpu.png").exists()


def test_what_is_prepared_for_a_gpu_runs_on_a_cpu(tmp_path):
    found = quick_experiment("gpu", tmp_path, file="device_cpu.json")
    assert not found["left_out"] and not any("error" in row for row in found["rows"].values())
    gradient = found["rows"]["gradient double_pendulum 64"]
    assert gradient["gap_to_cpu"] == 0.0 and 1.0 < gradient["ratio_to_forward"] < 10.0
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    for precision in ("float64", "float32"):
        wrong = results[f"wrong_and_successful_{precision}"]
        assert (wrong["count"], wrong["of"]) == (0, 256)
