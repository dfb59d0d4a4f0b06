"""Examples of the page "Results and failures"."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

mbd.enable_x64()

# %% Solution
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

sol = mbd.simulate(system, state, h=5e-3, t_end=2.0)
print(sol.t.shape, sol.r.shape)  # (401,) rows, (401, 1 body, xyz)
print(sol["pin.angle"].max())
sol.to_csv("motion.csv", columns=["pin.*", "energy.total"])
state = sol.at(-1)  # the state of the last row, from which another run can start

# %% EventTimes
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

down = mbd.Event("down", "pin.angle", value=np.pi / 2)
sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, events=[down])
instants = sol.events  # EventTimes
print(instants["down"])
print(instants.table())

# %% JointMotion
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

pin = sol.joint("pin")  # a JointMotion
print(pin.angle.max(), pin.rate.max(), pin.acceleration[0])

# %% Reaction
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

pin = sol.reactions()["pin"]  # a Reaction: what the joint does to the rod
print(pin.force[0])
print(jnp.linalg.norm(pin.force, axis=1).max())

# %% LawMotion, ContactPlaces
m = mbd.Mechanism("toss")
m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.5), v=(1.0, 0, 0))
m.add(mbd.Contact("floor", "ball", m.ground, friction=0.3, restitution=0.5))
sol = mbd.simulate(*m.build(), h=1e-2, t_end=2.0)

floor = sol.contact("floor")  # a LawMotion
print(jnp.sum(floor.impact > 0.0), floor.force[-1, 0], floor.state[-1])
place = sol.contact_places()["floor"]  # ContactPlaces: the same in global components
print(place.points[-1, 0])

# %% Energy
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

energy = sol.energy()  # an Energy
print(energy.kinetic.max())
print(np.ptp(energy.total))

# %% Momentum
m = mbd.Mechanism("tumbling", gravity=(0, 0, 0))
m.add_body("box", shape=mbd.Box((0.3, 0.2, 0.1), mass=2.0), v=(1.0, 0, 0), omega=(0.1, 5.0, 0))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

momentum = sol.momentum()  # a Momentum
print(momentum.linear[-1])
print(np.ptp(momentum.angular, axis=0))

# %% Violation
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

violation = sol.violation()  # a Violation
print(jnp.abs(violation.position).max())
print(jnp.abs(violation.velocity).max())

# %% SensorReadings
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Encoder("encoder", "pin", resolution=0.01, delay=0.02))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

readings = sol.sensor("encoder")  # SensorReadings
print(sol["pin.angle"][100], readings.angle[100])

# %% ElementMotion
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "pin", stiffness=20.0, damping=1.0))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

spring = sol.element("spring")  # an ElementMotion
print(spring.units)
print(jnp.abs(spring.torque).max())

# %% BeamMotion
m = mbd.Mechanism("cantilever")
section = mbd.Section.rectangle(0.03, 0.004, E=2.1e11, nu=0.3, rho=7850.0)
m.add_beam("blade", [(0, 0, 0), (0.5, 0, 0)], elements=4, section=section)
m.add(mbd.Fixed("clamp", m.ground, "blade.0", point=(0, 0, 0)))
sol = mbd.equilibrium(*m.build()).motion

blade = sol.beam("blade")  # a BeamMotion
print(blade.moment[0, :, 1])

# %% RESULTS
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, throw=False)
if sol.result == mbd.RESULTS.successful:
    print(sol["pin.angle"][-1])
else:
    print(mbd.RESULTS[sol.result])  # why, and what to do
