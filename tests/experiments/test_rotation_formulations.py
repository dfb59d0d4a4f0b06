"""The quick comparison of formulations runs, and what it finds agrees with the paper and the
references."""

import pytest

from helpers import quick_experiment

# One run serves all tests, and takes minutes: six studies compile some dozens of programs.
pytestmark = [pytest.mark.xdist_group("rotation_formulations"), pytest.mark.slow]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("rotation_formulations")
    found = quick_experiment("rotation_formulations", out)
    pictures = {p.name for p in out.glob("*.png")}
    assert len(pictures) == 8, pictures
    assert "Table 9" in (out / "tables.md").read_text()
    return found


def test_it_reports_every_number_it_promises(results):
    keys = (
        "table8_kinematics_speedup",
        "table9_iterations",
        "table10_dynamics_speedup",
        "order_velocity",
    )
    for key in (*keys, "order_acceleration", "us_per_step", "flops_per_step"):
        assert set(results[key]["single_pendulum"]) == {"rA", "rp"}, key
    assert set(results["us_per_step"]["single_pendulum"]["rA"]) == {"single", "batch8", "gradient"}
    rows = results["rows_us_per_step"]["double_pendulum"]
    assert set(rows) == {"rA closed", "rA automatic", "rp closed", "rp automatic"}
    assert set(results["fig3_max_dz"]["double_pendulum"]["rA"]) == {"0.01", "0.001", "0.0001"}


def test_iterations_are_those_of_the_paper(results):
    # Table 9, single pendulum; a tenth is the accuracy to which grids and stopping rules are known.
    found = results["table9_iterations"]["single_pendulum"]
    assert abs(found["rA"] - 3.80) < 0.1
    assert abs(found["rp"] - 3.82) < 0.1


def test_orders_are_one(results):
    for name in ("rA", "rp"):
        assert abs(results["order_velocity"]["single_pendulum"][name] - 1) < 0.05
        assert abs(results["order_acceleration"]["single_pendulum"][name] - 1) < 0.05
        assert abs(results["fig3_order"]["double_pendulum"][name] - 1) < 0.05
        # A spinning spatial chain against equations of its own; its steps are still coarse for 77
        # rad/s.
        assert abs(results["spatial"]["spinning_chain"][name]["order_position"] - 1) < 0.1


def test_one_chart_of_euler_angles_suffers_near_its_singularity(results):
    found = results["singularity"]
    assert found["one chart"]["condition_max"][-1] > 1e4 * found["one chart"]["condition_max"][0]
    assert found["rA"]["condition_max"][-1] < 10
