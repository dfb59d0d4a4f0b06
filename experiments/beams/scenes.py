"""The mechanisms of the experiment, each as a function of the number of elements."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

X, Y, Z = np.eye(3)
LENGTH, RADIUS = 1.0, 100.0


def slender(E=1.0e7, rho=1000.0, ratio=1e-5):
    """A square section so slender that shear and rotary inertia do not matter: I = `ratio` A L²."""
    area = 1e-2
    moment = ratio * area * LENGTH**2
    return mbd.Section(E=E, G=E / 2.0, A=area, I=moment, J=2.0 * moment, rho=rho)


def strip(E=1.0e7, rho=1000.0):
    """A section that is ten thousand times stiffer about z than about y, stiff in stretch and
    shear.
    """
    return mbd.Section(E=E, G=E / 2.0, A=1e-2, I=(1e-7, 1e-3), J=4e-7, rho=rho)


def clamped(section, n, **options):
    """A straight cantilever along x and its last node, without gravity."""
    m = mbd.Mechanism("clamped", gravity=(0.0, 0.0, 0.0))
    beam = m.add_beam("beam", [(0, 0, 0), (LENGTH, 0, 0)], elements=n, section=section, **options)
    m.add(mbd.Fixed("clamp", m.ground, beam.first, point=(0.0, 0.0, 0.0)))
    return m, beam.last


def stout():
    """A square section of the beam's length, which needs fewer iterations and bends as exactly."""
    return mbd.Section(E=12.0, G=6.0, A=1.0, I=1.0 / 12.0, J=1.0 / 6.0, rho=1.0)


def circle(n=8, section=None):
    """Bent to a full circle by a moment at its end."""
    section = stout() if section is None else section
    m, last = clamped(section, n)
    moment = 2.0 * np.pi * section.E * section.I / LENGTH
    m.add(mbd.Torque("moment", last, torque=moment * Y, frame="body"))
    return m


def bend45(n):
    """An eighth of a circle of radius 100 m, loaded across its plane (Bathe, Bolourchi 1979)."""

    def arc(t):
        angle = 0.25 * jnp.pi * t
        return RADIUS * jnp.stack([1.0 - jnp.cos(angle), jnp.sin(angle), 0.0 * angle])

    m = mbd.Mechanism("bend45", gravity=(0.0, 0.0, 0.0))
    section = mbd.Section(E=1e7, G=5e6, A=1.0, I=1.0 / 12.0, J=1.0 / 6.0, rho=1.0)
    beam = m.add_beam("bend", arc, elements=n, section=section)
    m.add(mbd.Fixed("clamp", m.ground, beam.first, point=(0.0, 0.0, 0.0)))
    m.add(mbd.PointForce("load", beam.last, force=(0.0, 0.0, 600.0)))
    return m


def pressed(load, n, section=None):
    """A cantilever under a compressive dead load at its end [N]."""
    m, last = clamped(slender() if section is None else section, n)
    m.add(mbd.PointForce("load", last, force=-load * X))
    return m


def edgewise(load, n, section=None):
    """A strip on edge under a dead load at its end along its stiff direction [N]."""
    m, last = clamped(strip() if section is None else section, n)
    m.add(mbd.PointForce("load", last, force=load * Y))
    return m


def flying(n=4):
    """A beam thrown so that it bends and twists, with its mass center at rest."""
    m = mbd.Mechanism("flying", gravity=(0.0, 0.0, 0.0))
    section = mbd.Section(E=1e6, G=5e5, A=1e-2, I=(1e-5, 2e-5), J=2e-5, rho=1000.0)
    x = np.linspace(0.0, 1.0, n + 1)
    weight = np.ones(n + 1)
    weight[[0, -1]] = 0.5
    v = np.stack([0.0 * x, np.sin(2.0 * x), 6.0 * (x - 0.5) ** 2], axis=1)
    v -= weight @ v / weight.sum()
    omega = np.stack([np.cos(3.0 * x), 0.5 - x, 1.5 * x], axis=1)
    m.add_beam(
        "beam",
        [(0, 0, 0), (1, 0, 0)],
        elements=n,
        section=section,
        strains="quadratic",
        v=v,
        omega=omega,
    )
    return m
