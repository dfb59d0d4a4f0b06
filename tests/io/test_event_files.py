"""Events that belong to a mechanism: every run looks for them, and model files hold them."""

import csv
import json

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.io import ModelFileError, mechanism_from_dict, mechanism_to_dict

ACTIONS = [
    mbd.Activate("latch", here=True),
    mbd.Release("hook", "spring"),
    mbd.Bounce("floor", restitution=1 / 3),
    mbd.SetInput("torque", 0.1),
    mbd.SetInput("push", [1.0, 0.0, 1 / 7]),
    mbd.SetState("motor.current", -2.0),
    mbd.Restart(),
]
HEIGHT, GRAVITY = 0.8, 9.81


def falling():
    """A body that falls freely, and passes a height."""
    m = mbd.Mechanism("stone", gravity=(0.0, 0.0, -GRAVITY))
    m.add_body("stone", mass=2.0, inertia=(0.1,) * 3)
    m.add(mbd.Event("down", "stone.r.z < -0.8"))
    return m


def test_events_are_read_back_as_they_were_written():
    m = falling()
    m.add(mbd.Event("late", "stone.v.z", value=-1 / 3, direction="falling", most=3))
    m.add(mbd.Event("act", "stone.r.x", action=ACTIONS, terminal=True))
    once = json.loads(json.dumps(mechanism_to_dict(m)))
    again = mechanism_from_dict(once)
    assert mechanism_to_dict(again) == once
    for name, event in m.events.items():
        other = again.events[name]
        assert event.text() == other.text() and event.most == other.most
        assert (event.terminal, event.direction) == (other.terminal, other.direction)
        assert float(event.value) == float(other.value)
    assert [type(x) for x in again.events["act"].actions] == [type(x) for x in ACTIONS]
    assert again.events["act"].actions[0].here
    np.testing.assert_array_equal(again.events["act"].actions[4].value, ACTIONS[4].value)
    assert "'down'" in repr(m) and "ends the run" in repr(m)


@pytest.mark.parametrize(
    "event, said",
    [
        (mbd.Event("low", lambda pose, twist, z, t: t), "event 'low'.*Python function"),
        (
            mbd.Event("low", "stone.r.z", action=mbd.SetInput("u", lambda state, t: t)),
            "event 'low': SetInput 'u'.*Python function",
        ),
    ],
)
def test_a_file_holds_no_functions(event, said):
    m = falling()
    m.add(event)
    with pytest.raises(ModelFileError, match=said):
        mechanism_to_dict(m)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"value": "1"}, "event 'down': value: must be a number"),
        ({"when": "stone.r.z > 1", "value": 2.0}, "its text says the value already"),
        ({"actions": [{"type": "Explode", "names": ["x"]}]}, "unknown type 'Explode'"),
        ({"actions": [{"type": "Release", "names": []}]}, "event 'down'"),
        ({"actions": [{"type": "Bounce", "names": ["x"], "restitution": 2.0}]}, "between 0 and 1"),
        ({"terminal": 1}, "event 'down': terminal: must be true or false"),
        ({"most": 0}, "event 'down': most"),
        ({"function": "t"}, "event 'down': unknown field 'function'"),
    ],
)
def test_a_wrong_event_in_a_file_is_named(change, said):
    data = mechanism_to_dict(falling())
    data["events"][0] |= change
    with pytest.raises(ModelFileError, match=said):
        mechanism_from_dict(data)


def test_names_of_events_are_unique():
    m = falling()
    with pytest.raises(ValueError, match="event 'down': the name is taken"):
        m.add(mbd.Event("down", "stone.r.z"))


def test_mjcf_holds_no_events(tmp_path):
    m = falling()
    with pytest.warns(mbd.io.ModelFileWarning, match="events are not written to MJCF: 'down'"):
        mbd.save(m, tmp_path / "m.xml")
    m.add(mbd.Event("act", "stone.r.x", action=mbd.Release("hook")))
    with pytest.raises(ModelFileError, match="event 'act': MJCF cannot hold it"):
        mbd.save(m, tmp_path / "m.xml")


@pytest.mark.essential
def test_a_run_looks_for_the_events_of_its_mechanism(tmp_path):
    """A free fall, whose parabola the default method follows exactly."""
    m = falling()
    assert m.values()["events.down.value"] == -HEIGHT
    system, state = m.with_values({"events.down.value": -0.5 * HEIGHT}).build()
    sol = mbd.simulate(system, state, h=0.01, steps=50)
    there = np.sqrt(HEIGHT / GRAVITY)
    np.testing.assert_allclose(sol.events["down"], [there], rtol=1e-12)

    path = tmp_path / "fall.csv"
    for _ in range(2):  # a table of its own is replaced
        sol.to_csv(path)
    header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    assert header[-1] == "event.down [s]"
    column = np.array([row[-1] for row in rows], float)
    passed = np.asarray(sol.t) >= there
    assert np.all(np.isnan(column[~passed]))
    np.testing.assert_array_equal(column[passed], sol.events["down"][0])

    again = mbd.simulate(system.without_events(), state, h=0.01, steps=50)
    assert again.events is None
    np.testing.assert_allclose(again.r, sol.r, rtol=1e-13)
    with pytest.raises(ValueError, match="start looks for no events; .* has 'down'"):
        mbd.start(system, state, h=0.01)
    with pytest.raises(ValueError, match="two events are named 'down'"):
        mbd.simulate(system, state, h=0.01, steps=50, events=[mbd.Event("down", "stone.r.z")])
