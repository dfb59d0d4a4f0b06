"""Examples of the page "Integrators and formulations"."""

import numpy as np

import jaxmbd as mbd

mbd.enable_x64()

# %% GeneralizedAlpha
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# The default. A `rho_inf` near 1 hardly damps fast vibrations, 0 damps them at once.
integrator = mbd.GeneralizedAlpha(rho_inf=0.8)
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=integrator)
print(sol["pin.angle"][-1])  # 0.29323

# %% BDF2
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# It damps what is faster than the step: for stiff springs and controllers.
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=mbd.BDF2())
print(sol["pin.angle"][-1])  # 0.29313

# %% ImplicitEuler
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Of first order: robust, with an error that halves with the step.
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=mbd.ImplicitEuler())
print(sol["pin.angle"][-1])  # 0.30713

# %% EnergyMomentum, Directors
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# For long motions without losses; it works in directors, twelve coordinates for a body.
method = {"formulation": mbd.Directors(), "integrator": mbd.EnergyMomentum()}
sol = mbd.simulate(system, state, h=0.01, steps=20, **method)
print(np.ptp(sol.energy().total) < 1e-11)  # True: the energy stays, to rounding

# %% Moreau
m = mbd.Mechanism("bouncing ball")
ball = m.add_body("ball", shape=mbd.Sphere(0.1, mass=0.6), r=(0.0, 0.0, 0.6))
m.add(mbd.Contact("floor", ball, m.ground, friction=0.5, restitution=0.8))
# The default of `simulate` where there are rigid contacts, stops or dry friction.
sol = mbd.simulate(*m.build(), h=0.01, t_end=0.6, integrator=mbd.Moreau())
print(sol["ball.v.z"].max())  # 2.5 m/s, 0.8 of the speed of the impact

# %% CommutatorFree
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Products of exponentials: as exact as MuntheKaas, without the derivative of the exponential.
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=mbd.CommutatorFree())
print(sol["pin.angle"][-1])  # 0.29327

# %% IndependentCoordinates
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Explicit, with the angle alone left to integrate: nothing can drift.
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=mbd.IndependentCoordinates())
print(sol["pin.angle"][-1])  # 0.29327
print(abs(sol.violation().position).max() < 1e-14)  # True

# %% MuntheKaas
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Explicit: no iterations, for motions that are not stiff. Joints with the ground hold to
# rounding; `stabilization="projection"` keeps those between moving bodies.
integrator = mbd.MuntheKaas(tableau="rk4")
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=integrator)
print(sol["pin.angle"][-1])  # 0.29327

# %% RungeKutta, RotationElements
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Explicit; rows of common points are linear in these coordinates and hold to rounding.
method = {"formulation": mbd.RotationElements(), "integrator": mbd.RungeKutta()}
sol = mbd.simulate(system, state, h=0.01, steps=20, **method)
print(sol["pin.angle"][-1])  # 0.29327

# %% Newton
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Full Newton iterations, and positions to 1e-12 of the mechanism's length.
newton = mbd.Newton(tolerance=1e-12, exact=True)
integrator = mbd.GeneralizedAlpha(newton=newton)
sol = mbd.simulate(system, state, h=0.01, steps=20, integrator=integrator)
print(sol["iterations"][1:].max())  # 2 in every step

# %% RA
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# The default: positions and rotation matrices, without singular poses.
sol = mbd.simulate(system, state, h=0.01, steps=20, formulation=mbd.RA())
print(sol["pin.angle"][-1])  # 0.29323

# %% RP
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Euler parameters; states and solutions look the same in all formulations.
sol = mbd.simulate(system, state, h=0.01, steps=20, formulation=mbd.RP())
print(sol["pin.angle"][-1])  # 0.29323

# %% REps
m = mbd.Mechanism("pendulum")
rod = m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0.0, 0.0))
m.add(mbd.Revolute("pin", m.ground, rod, point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
# Euler angles, whose axes change where they would become singular.
sol = mbd.simulate(system, state, h=0.01, steps=20, formulation=mbd.REps())
print(sol["pin.angle"][-1])  # 0.29323
