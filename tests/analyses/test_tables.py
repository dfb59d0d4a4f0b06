"""Tables and charts of a motion by the names of its quantities."""

import csv
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxmbd as mbd

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def motion():
    system, state = mbd.load("slider_crank")
    return mbd.simulate(system, state, t_end=0.2, h=2e-3)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_usual_table_has_what_an_engineer_reads(motion):
    table = motion.table()
    names = set(table.columns)
    assert {"t", "motor.angle", "motor.rate", "slide.reaction_force.y", "energy.total"} <= names
    # The crank is described by the angle of its motor; rod and slider by no coordinate.
    assert "rod.r.x" in names and not any(name.startswith("crank.") for name in names)
    assert not any("lam[" in name or "accel" in name for name in names)
    assert len(table) == len(motion.t)
    assert table.attrs["units"]["slide.reaction_moment.x"] == "N·m"


def test_a_table_in_memory_is_that_of_the_file(motion, tmp_path):
    chosen = ["motor.*", "energy.total"]
    motion.to_csv(tmp_path / "t.csv", columns=chosen)
    with open(tmp_path / "t.csv", encoding="ascii", newline="") as file:
        header, *rows = csv.reader(file)
    table = motion.table(chosen)
    assert [name.partition(" [")[0] for name in header] == list(table.columns)
    np.testing.assert_array_equal(np.array(rows, float), table.to_numpy())
    np.testing.assert_array_equal(table["motor.angle"], motion.joint("motor").angle)


def test_a_header_with_letters_beyond_ascii_has_the_mark_that_spreadsheets_need(tmp_path):
    m = mbd.Mechanism("m")
    m.add_body("Bügel", mass=1.0, inertia=(1, 1, 1))
    sol = mbd.simulate(*m.build(), t_end=0.02, h=1e-2)
    for _ in range(2):  # it is known as a table and replaced
        sol.to_csv(tmp_path / "t.csv", columns=["Bügel.r.z"])
    assert (tmp_path / "t.csv").read_bytes().startswith(b"\xef\xbb\xbft [s],")
    data = mbd.Measurements.read(tmp_path / "t.csv")
    np.testing.assert_array_equal(data.values["Bügel.r.z"], sol.r[:, 0, 2])


def test_a_body_on_no_joint_is_in_its_table():
    m = mbd.Mechanism("ball")
    m.add_body("ball", mass=1.0, inertia=(1, 1, 1))
    sol = mbd.simulate(*m.build(), t_end=0.02, h=1e-2)
    assert {"ball.r.z", "ball.v.z", "ball.omega.x"} <= set(sol.table().columns)


def test_without_a_library_a_table_names_the_cure(motion, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install pandas; Solution.to_csv writes the same"):
        motion.table()


def test_quantities_of_one_unit_share_axes_that_say_it(motion, tmp_path):
    figure = motion.plot(
        ["motor.angle", "slide.reaction_force.*", "energy.total"], out=tmp_path / "p.png"
    )
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == ["motor.angle\n[rad]", "slide.reaction_force\n[N]", "energy.total\n[J]"]
    assert figure.axes[-1].get_xlabel() == "t [s]"
    lines = figure.axes[1].lines
    assert [line.get_label() for line in lines] == ["x", "y", "z"]
    np.testing.assert_array_equal(lines[1].get_ydata(), motion.reactions()["slide"].force[:, 1])
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_force_over_an_angle(motion):
    figure = motion.plot("motor.moment.x", against="motor.angle")
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), motion.joint("motor").angle)
    np.testing.assert_array_equal(line.get_ydata(), motion.reactions()["motor"].moment[:, 0])
    assert figure.axes[0].get_xlabel() == "motor.angle [rad]"


def test_rounding_around_a_constant_looks_constant(motion):
    (ax,) = motion.plot("motor.rate").axes
    low, high = ax.get_ylim()
    assert high - low > 0.1 * abs(float(motion.joint("motor").rate[0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": []}, "name at least one quantity"),
        ({"names": "energy.totl"}, "no column 'energy.totl'; did you mean energy.total"),
        ({"names": "energy.total", "against": "energy.*"}, "against must name one quantity"),
    ],
)
def test_a_plot_of_unknown_names_is_refused(motion, arguments, message):
    with pytest.raises(ValueError, match=message):
        motion.plot(**arguments)


def test_events_are_marked():
    m = mbd.Mechanism("pendulum")
    rod = m.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    sol = mbd.simulate(*m.build(), h=1e-2, t_end=1.0, until=mbd.Event("down", when="pin.angle - 1"))
    (ax,) = sol.plot("pin.angle").axes
    assert len(ax.lines) == 2
    np.testing.assert_allclose(ax.lines[1].get_xdata()[0], sol.t_event)


def test_efforts_are_quantities_and_what_an_actuator_gives_as_described_is_not_a_number():
    m = mbd.Mechanism("arm")
    rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.RotationDriver("hand", m.ground, rod, axis=(0, 1, 0), angle="0.01*t"))
    m.add(mbd.Actuator("motor", "pin"))
    ts = np.linspace(0.0, 10.0, 11)
    found = mbd.inverse_dynamics(*m.build(), ts, actuators=["motor"])
    table = found.solution.table(["pin.angle", "motor.*"])
    # Slowly, the motor holds the weight of the rod: m g l/2 cos(angle), against the fall.
    weight = -2.0 * 9.81 * 0.5 * np.cos(table["pin.angle"])
    np.testing.assert_allclose(table["motor.effort"], weight, atol=1e-3)
    assert table.attrs["units"]["motor.effort"] == "N·m"
    # As described the motor gives nothing; that would be read as its torque.
    assert np.all(np.isnan(table["motor.torque"])) and np.all(np.isnan(table["motor.power"]))
    assert np.all(np.isfinite(table["motor.rate"]))
    driven = mbd.inverse_dynamics(*m.build(), ts).solution.table(["hand.effort", "motor.torque"])
    np.testing.assert_allclose(driven["hand.effort"], weight, atol=1e-3)
    assert np.all(driven["motor.torque"] == 0.0)
    again = mbd.inverse_dynamics(*m.build(), motion=found.solution).solution
    assert np.all(again.table("motor.torque")["motor.torque"] == 0.0)  # the motor is at rest again


def test_one_name_is_a_table_too(motion):
    assert list(motion.table("motor.angle").columns) == ["t", "motor.angle"]


def test_columns_come_in_the_units_that_are_asked_for(motion, tmp_path):
    asked = ["motor.angle [deg]", "motor.rate [rpm]", "slide.reaction_force.* [kN]", "rod.r.x [mm]"]
    table = motion.table(asked)
    driver = motion.joint("motor")
    np.testing.assert_allclose(table["motor.angle"], np.rad2deg(driver.angle))
    np.testing.assert_allclose(table["motor.rate"], driver.rate * 30.0 / np.pi)
    force = motion.reactions()["slide"].force
    np.testing.assert_allclose(table["slide.reaction_force.y"], 1e-3 * force[:, 1])
    units = table.attrs["units"]
    assert [units[x] for x in ("t", "motor.angle", "rod.r.x")] == ["s", "deg", "mm"]
    # A file says them, and read again as measurements it is SI.
    motion.to_csv(tmp_path / "t.csv", columns=[*asked, "t [ms]"])
    header = (tmp_path / "t.csv").read_text(encoding="ascii").splitlines()[0]
    assert header.startswith("t [ms],motor.angle [deg],motor.rate [rpm],")
    data = mbd.Measurements.read(tmp_path / "t.csv")
    np.testing.assert_allclose(data.t, motion.t, atol=1e-15)
    np.testing.assert_allclose(data.values["motor.angle"], driver.angle, rtol=1e-14)
    figure = motion.plot("slide.reaction_force.y [kN]", against="motor.angle [deg]")
    assert figure.axes[0].get_xlabel() == "motor.angle [deg]"


def test_of_a_pattern_those_columns_change_that_have_the_unit(motion):
    units = motion.table("motor.* [deg]").attrs["units"]
    assert units["motor.angle"] == "deg" and units["motor.rate"] == "rad/s"


def test_a_unit_that_a_column_cannot_have_is_refused_with_those_that_it_can(motion):
    with pytest.raises(ValueError, match=r"'motor.angle' has no unit 'mm'; it has rad, deg$"):
        motion.table("motor.angle [mm]")
