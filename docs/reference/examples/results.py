"""Examples of the page "Results and failures"."""

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
print(sol["pin.angle"].max())  # 3.142 rad
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
print(instants["down"])  # 0.4835 and 1.4506 s
print(instants.table())  # [(0.4835, 'down'), (1.4506, 'down')]

# %% JointMotion
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

pin = sol.joint("pin")  # a JointMotion
print(pin.angle.max(), pin.rate.max())  # 3.142 rad, 5.422 rad/s
print(pin.acceleration[0])  # 14.706 rad/s²

# %% Reaction
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

pin = sol.reactions()["pin"]  # a Reaction: what the joint does to the rod
print(pin.force[0])  # [0, 0, 4.914] N: a quarter of the weight
print(jnp.linalg.norm(pin.force, axis=1).max())  # 49.03 N, where it hangs straight

# %% LawMotion, ContactPlaces
m = mbd.Mechanism("toss")
m.add_body("ball", shape=mbd.Sphere(0.1, mass=1.0), r=(0, 0, 0.5), v=(1.0, 0, 0))
m.add(mbd.Contact("floor", "ball", m.ground, friction=0.3, restitution=0.5))
sol = mbd.simulate(*m.build(), h=1e-2, t_end=2.0)

floor = sol.contact("floor")  # a LawMotion
print(jnp.sum(floor.impact > 0.0))  # 7 impacts
print(floor.force[-1, 0])  # [9.81, 0, 0] N at the end, the normal component first
place = sol.contact_places()["floor"]  # ContactPlaces: the same in global components
print(place.points[-1, 0])  # [1.51, 0, 0] m

# %% Energy
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

energy = sol.energy()  # an Energy
print(energy.kinetic.max())  # 9.808 J
print(np.ptp(energy.total))  # 0.0023 J: the error of the steps

# %% Momentum
m = mbd.Mechanism("tumbling", gravity=(0, 0, 0))
box = mbd.Box((0.3, 0.2, 0.1), mass=2.0)
m.add_body("box", shape=box, v=(1.0, 0, 0), omega=(0.1, 5.0, 0))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

momentum = sol.momentum()  # a Momentum
print(momentum.linear[-1])  # [2, 0, 0] kg·m/s
print(np.ptp(momentum.angular, axis=0).max())  # 2.6e-6 kg·m²/s: it is conserved

# %% Violation
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

violation = sol.violation()  # a Violation
print(jnp.abs(violation.position).max())  # 1e-16
print(jnp.abs(violation.velocity).max())  # 2e-4 per second

# %% SensorReadings
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Encoder("encoder", "pin", resolution=0.01, delay=0.02))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

readings = sol.sensor("encoder")  # SensorReadings
print(sol["pin.angle"][100])  # 1.660 rad
print(readings.angle[100])  # 1.55 rad: 20 ms late, in steps of 0.01 rad

# %% ElementMotion
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "pin", stiffness=20.0, damping=1.0))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

spring = sol.element("spring")  # an ElementMotion
print(spring.units)  # torque in N·m, angle in rad, rate in rad/s, power in W
print(jnp.abs(spring.torque).max())  # 14.83 N·m

# %% BeamMotion
m = mbd.Mechanism("cantilever")
section = mbd.Section.rectangle(0.03, 0.004, E=2.1e11, nu=0.3, rho=7850.0)
m.add_beam("blade", [(0, 0, 0), (0.5, 0, 0)], elements=4, section=section)
m.add(mbd.Fixed("clamp", m.ground, "blade.0", point=(0, 0, 0)))
sol = mbd.equilibrium(*m.build()).motion

blade = sol.beam("blade")  # a BeamMotion
print(blade.moment[0, :, 1])  # 0.902 N·m at the clamp to 0.036 N·m at the tip

# %% RESULTS
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, throw=False)
if sol.result == mbd.RESULTS.successful:
    print(sol["pin.angle"][-1])  # 0.032 rad
else:
    print(mbd.RESULTS[sol.result])  # why, and what to do
