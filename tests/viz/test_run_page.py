"""The page about a run, from a solution and from a result file alone."""

import html
import re
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ResultFileError
from jaxmbd.io.writer import mechanism_to_dict
from jaxmbd.results.export import write_npz

pytestmark = pytest.mark.xdist_group("view")
NAME = '<script>alert("1")</script>'


def falling_rod():
    """A uniform rod of 2 kg on a hinge, let go horizontally."""
    m = mbd.Mechanism("rod")
    rod = m.add_body(NAME, shape=mbd.Box((1.0, 0.01, 0.01), mass=2.0), r=(0.5, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.JointSpring("coil", "pin", stiffness=1e-9))
    return m


@pytest.fixture(scope="module")
def swing():
    m = falling_rod()
    return m, mbd.simulate(*m.build(), h=2e-3, t_end=0.8)


def cells(page, first):
    """The texts of the row of a table that begins with a name."""
    row = re.search(f"<tr><td>{re.escape(first)}</td>.*?</tr>", page)
    return [html.unescape(x) for x in re.findall(r"<td>(.*?)</td>", row.group())]


def report_of(source, tmp_path, **options):
    mbd.save_report(source, tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_largest_reaction_of_a_falling_rod(swing, tmp_path):
    text = report_of(swing[1], tmp_path)
    _, force, at, parts, *_ = cells(text[text.index("Largest reactions") :], "pin")
    # Upright below the hinge, a uniform rod pulls with 5/2 of its weight.
    assert abs(float(force) - 2.5 * 2.0 * 9.81) < 1e-3 * 50.0
    # The instant of the lowest point; rows are 2 ms apart.
    slope = np.asarray(swing[1].joint("pin").angle) - 0.5 * np.pi
    assert abs(float(at) - float(swing[1].t[np.argmin(np.abs(slope))])) < 3e-3
    assert abs(float(parts.split(",")[2]) - float(force)) < 0.05


def test_a_page_says_what_moved_and_how_it_ended(swing, tmp_path):
    text = report_of(swing[1], tmp_path)
    assert "<b>successful</b>" in text and "1 degree of freedom at the start" in text
    start, end = cells(text[text.index("Joint coordinates") :], "pin.angle")[2:4]
    assert start == "0"
    np.testing.assert_allclose(float(end), swing[1].joint("pin").angle[-1], rtol=1e-4)
    assert cells(text[text.index("force, stop") :], "coil") == ["coil", f"ground–{NAME}"]
    assert f"jaxmbd {mbd.__version__}" in text and "double precision" in text
    assert "<iframe srcdoc=" in text and "<svg" in text


def test_names_cannot_act_as_html(swing, tmp_path):
    text = report_of(swing[1], tmp_path)
    assert "<script>alert" not in re.sub(r'srcdoc="[^"]*"', "", text)


def test_a_result_file_that_holds_its_model_needs_nothing_else(swing, tmp_path):
    m, sol = swing
    write_npz(tmp_path / "run.npz", sol, sol.system, mechanism_to_dict(m))
    found = report_of(tmp_path / "run.npz", tmp_path)
    expected = report_of(sol, tmp_path)
    tables = [re.findall(r"<table>.*?</table>", text) for text in (found, expected)]
    assert tables[0] == tables[1]


def test_a_result_file_without_its_model_asks_for_it(swing, tmp_path):
    m, sol = swing
    sol.to_npz(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="needs the mechanism.*--model FILE"):
        mbd.save_report(tmp_path / "run.npz", tmp_path / "report.html")
    assert "Largest reactions" in report_of(tmp_path / "run.npz", tmp_path, system=sol.system)


def test_a_model_that_makes_no_sense_is_refused(swing, tmp_path):
    _, sol = swing
    write_npz(tmp_path / "run.npz", sol, sol.system, {"format": "jaxmbd-1", "bodies": 3})
    with pytest.raises(ResultFileError, match="the model in the result file .* makes no sense"):
        mbd.save_report(tmp_path / "run.npz", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_failed_is_told_with_what_it_computed(tmp_path):
    m = falling_rod()
    sol = mbd.simulate(*m.build(), h=2e-3, t_end=0.1)
    r = np.array(sol.r)
    r[30:] = np.nan
    broken = replace(sol, r=jnp.asarray(r), result=mbd.RESULTS.newton_max_steps)
    text = report_of(broken, tmp_path)
    assert "The run stopped at t = 0.058 s: newton_max_steps" in text


def test_a_page_has_its_ending_and_an_equilibrium_has_a_page(tmp_path):
    m = falling_rod()
    rest = mbd.equilibrium(*m.build())
    with pytest.raises(ValueError, match="a report is a page, .html, not 'a.pdf'"):
        mbd.save_report(rest, tmp_path / "a.pdf")
    assert "Report on rod" in report_of(rest, tmp_path)
    assert mbd.view(rest).name == "rod"


def test_events_are_in_the_page(tmp_path):
    m = falling_rod()
    down = mbd.Event("down", when="pin.angle - 1", terminal=True)
    sol = mbd.simulate(*m.build(), h=2e-3, t_end=0.8, until=down)
    text = report_of(sol, tmp_path)
    name, instant = cells(text, "down")
    assert abs(float(instant) - float(sol.t_event)) < 1e-5
