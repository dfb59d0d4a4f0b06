"""A motion that no inertia resists is told by the names of its bodies, not by axes and points."""

import pytest

import jaxmbd as mbd
from jaxmbd.analyses.mobility import moving_without_inertia


def on_a_pin(joint=mbd.Revolute, **body):
    m = mbd.Mechanism("p")
    m.add_body("rod", r=(0.5, 0, 0), **body)
    axis = {} if joint is mbd.Spherical else {"axis": (0, 1, 0)}
    m.add(joint("pin", "ground", "rod", point=(0, 0, 0), **axis))
    return m


def with_a_mass_beyond(joint):
    m = on_a_pin(massless=True)
    m.add_body("bob", mass=1.0, inertia=(0.1, 0.1, 0.1), r=(1.0, 0, 0))
    axis = {} if joint is mbd.Fixed else {"axis": (0, 1, 0)}
    m.add(joint("end", "rod", "bob", point=(1.0, 0, 0), **axis))
    return m


ROD = mbd.Rod(1.0, mass=1.0)  # no moment of inertia about its own axis
CASES = {
    "a link on a hinge": (lambda: on_a_pin(massless=True), ("rod",)),
    "a rod on a ball joint": (lambda: on_a_pin(mbd.Spherical, shape=ROD), ("rod",)),
    "a rod on a hinge": (lambda: on_a_pin(shape=ROD), ()),
    "a body fixed to the link": (lambda: with_a_mass_beyond(mbd.Fixed), ()),
    "a body hinged to the link": (lambda: with_a_mass_beyond(mbd.Revolute), ()),
}


@pytest.mark.parametrize("case", CASES)
def test_bodies_that_move_without_inertia_are_named(case):
    make, names = CASES[case]
    assert moving_without_inertia(*make().build(), 0.0) == names


def test_a_massless_link_that_nothing_follows_is_named_by_simulate():
    with pytest.raises(mbd.SimulationError, match="body 'rod' can move without .* inertia") as told:
        mbd.simulate(*on_a_pin(massless=True).build(), h=1e-2, steps=1)
    assert "axes" not in str(told.value)
