"""Packaged mechanisms with flexible links."""

import numpy as np

from ..model.drivers import RotationDriver
from ..model.joints import Fixed, Revolute, Translational
from ..model.mechanism import Mechanism
from ..model.sections import Section
from ..model.shapes import Box

_X, _Y, _Z = np.eye(3)
_BENDING = (0.0, 0.0, 0.0, 1e-3, 1e-3, 1e-3)  # damping [s]


def cantilever(n: int = 8) -> Mechanism:
    """A steel strip of 1 m, 40 mm wide and 2 mm thick, clamped flat at one end; gravity bends it
    from its straight start.

    Args:
        n: Number of elements.
    """
    m = Mechanism(_sized("cantilever", n))
    section = Section.rectangle(0.04, 2e-3, E=2.1e11, nu=0.3, rho=7850.0)
    line = [(0, 0, 0), (1, 0, 0)]
    strip = m.add_beam("strip", line, elements=n, section=section, damping=_BENDING)
    m.add(Fixed("clamp", m.ground, strip.first, point=(0.0, 0.0, 0.0)))
    return m


def spin_up_beam(n: int = 8) -> Mechanism:
    """A beam of 10 m on a driven hinge that reaches 6 rad/s in 15 s (Simo and Vu-Quoc 1986).

    It bends back while it is spun up. Then it vibrates about a straight line, stretched by
    ω² ρA L³ / (3 EA) = 5.143e-4 m.

    Args:
        n: Number of elements.
    """
    m = Mechanism(_sized("spin_up_beam", n), gravity=(0.0, 0.0, 0.0))
    # EA = 2.8e7 N, GA = 1e7 N, EI = 1.4e4 N m², 1.2 kg/m, 6e-4 kg m.
    section = Section(E=2.8e7, G=1e7, A=1.0, I=5e-4, J=1e-3, rho=1.2)
    beam = m.add_beam("beam", [(0, 0, 0), (10, 0, 0)], elements=n, section=section)
    m.add(Revolute("hinge", m.ground, beam.first, point=(0.0, 0.0, 0.0), axis=_Z))
    rise = "minimum(t, 15)**2/2 + (7.5/pi)**2*(cos(2*pi*minimum(t, 15)/15) - 1)"
    angle = f"0.4*({rise}) + 6*maximum(t - 15, 0)"
    m.add(RotationDriver("motor", m.ground, beam.first, axis=_Z, angle=angle))
    return m


def flexible_slider_crank(n: int = 8) -> Mechanism:
    """A crank of 0.15 m at 150 rad/s and a slider, with a flexible connecting rod between them, of
    0.3 m and 6 mm diameter; the slider has half of the rod's mass (Jonker 1989).

    Args:
        n: Number of elements of the rod.
    """
    crank_length, length, rate = 0.15, 0.3, 150.0
    section = Section.circle(3e-3, E=2e11, nu=0.3, rho=7870.0)
    mass = float(np.asarray(section.rho * section.A)) * length
    m = Mechanism(_sized("flexible_slider_crank", n), gravity=(0.0, 0.0, 0.0))
    tip, end = crank_length * _X, (crank_length + length) * _X
    crank = m.add_body(
        "crank",
        shape=Box((crank_length, 0.01, 0.01), density=7870.0),
        r=0.5 * tip,
        v=(0.0, 0.5 * crank_length * rate, 0.0),
        omega=(0.0, 0.0, rate),
    )
    # At first the rod turns as a rigid one about the slider, which is at its dead center.
    share = np.linspace(1.0, 0.0, n + 1)[:, None]
    rod = m.add_beam(
        "rod",
        [tip, end],
        elements=n,
        section=section,
        v=share * crank_length * rate * _Y,
        omega=(0.0, 0.0, -crank_length * rate / length),
    )
    slider = m.add_body("slider", shape=Box((0.04, 0.02, 0.02), mass=0.5 * mass), r=end)
    m.add(Revolute("crank_pin", m.ground, crank, point=(0.0, 0.0, 0.0), axis=_Z))
    m.add(Revolute("big_end", crank, rod.first, point=tip, axis=_Z))
    m.add(Revolute("small_end", rod.last, slider, point=end, axis=_Z))
    m.add(Translational("guide", m.ground, slider, point=end, axis=_X))
    m.add(RotationDriver("motor", m.ground, crank, axis=_Z, angle=f"{rate}*t"))
    return m


def four_bar_flexible_coupler(n: int = 8) -> Mechanism:
    """The packaged `four_bar` with a coupler that bends: a steel strip between crank and rocker,
    whose crank is driven up to 2 rad/s.

    Args:
        n: Number of elements of the coupler.
    """
    m = Mechanism(_sized("four_bar_flexible_coupler", n))
    crank_end = np.array([0.5, 0.0, 0.5 * np.sqrt(3.0)])
    rocker_end, base = np.array([3.61105748345916, 0.0, 2.469559417958369]), np.array([4.0, 0, 0])
    for name, start, end in (
        ("crank", np.zeros(3), crank_end),
        ("rocker", base, rocker_end),
    ):
        along = (end - start) / np.linalg.norm(end - start)
        A = np.stack([along, _Y, np.cross(along, _Y)], axis=1)
        size = (float(np.linalg.norm(end - start)), 0.05, 0.05)
        m.add_body(name, shape=Box(size, density=7800.0), r=0.5 * (start + end), A=A)
    coupler = m.add_beam(
        "coupler",
        [crank_end, rocker_end],
        elements=n,
        section=Section.rectangle(0.08, 0.012, E=2.1e11, nu=0.3, rho=7850.0),
        damping=_BENDING,
    )
    m.add(Revolute("pin_crank", m.ground, "crank", point=(0.0, 0.0, 0.0), axis=_Y))
    m.add(Revolute("pin_crank_coupler", "crank", coupler.first, point=crank_end, axis=_Y))
    m.add(Revolute("pin_coupler_rocker", coupler.last, "rocker", point=rocker_end, axis=_Y))
    m.add(Revolute("pin_rocker", m.ground, "rocker", point=base, axis=_Y))
    m.add(RotationDriver("motor", m.ground, "crank", axis=_Y, angle="2*t - 0.4*(1 - exp(-5*t))"))
    return m


def _sized(name: str, n: int) -> str:
    if n < 1:
        raise ValueError(f"{name} needs at least one element, not {n}")
    return f"{name}:{n}"
