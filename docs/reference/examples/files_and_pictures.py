"""Examples of the page "Files and pictures"."""

import jaxmbd as mbd
from jaxmbd import viz

mbd.enable_x64()

# %% load
system, state = mbd.load("slider_crank")  # or the path of a file, "robot.urdf"
print(system)  # 3 bodies, 5 joints, 1 driver, ...

# %% load_mechanism
m = mbd.load_mechanism("four_bar")
m = m.with_values({"bodies.crank.mass": 5.0})  # changed before it is built
system, state = m.build()
print(system.mass)  # 5, 68.25 and 48.75 kg

# %% save
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))

mbd.save(m, "pendulum.json")
system, state = mbd.load("pendulum.json")
print(system.mass)  # 2 kg

# %% from_mjcf, ImportReport, LeftOut
text = """
<mujoco model="pendulum">
  <worldbody>
    <body name="rod"> <joint name="pin" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" fromto="0 0 0 1 0 0" size="0.02" density="2700"/> </body>
  </worldbody>
</mujoco>
"""
m, report = mbd.from_mjcf(text)  # or the path of a file; an ImportReport
print(report.freedoms)  # 1
for part in report.ignored:  # each of them a LeftOut
    print(part.tag, part.name, part.why)  # the range of the pin, contacts of the geom
system, state = m.build()
state = report.state(qpos=[0.5], qvel=[0.0])  # at MuJoCo's coordinates

# %% from_urdf
text = """
<robot name="arm">
  <link name="base"/>
  <link name="arm"> <inertial> <origin xyz="0.2 0 0"/> <mass value="1"/>
    <inertia ixx="0.001" iyy="0.02" izz="0.02"/> </inertial> </link>
  <joint name="pin" type="revolute"> <parent link="base"/> <child link="arm"/>
    <axis xyz="0 1 0"/> <limit lower="-2" upper="2" effort="10" velocity="2"/> </joint>
</robot>
"""
m, report = mbd.from_urdf(text)  # or the path of a file
system, state = m.build()
print(list(m.bodies), report.freedoms)  # ['arm'] 1
print(report.summary())  # <joint> 'pin': its range; pass limits=True for stops


# %% register_format
def read_pendulum(path):
    length = float(path.read_text())
    m = mbd.Mechanism("pendulum")
    m.add_body("rod", shape=mbd.Box((length, 0.05, 0.05), mass=2.0), r=(length / 2, 0, 0))
    m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    return m


mbd.register_format(".pendulum", read=read_pendulum)
with open("short.pendulum", "w") as file:
    file.write("0.4")
system, state = mbd.load("short.pendulum")
print(state.r[0])  # the mass center at [0.2, 0, 0] m

# %% view, View
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

scene = mbd.view(sol, show=["reactions"], plots=["pin.angle"])  # a View
scene.save("pendulum.html")  # one page, which opens in any browser
scene.save("pendulum.glb")  # the animated model, for Blender or PowerPoint

# %% Live
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

# In a notebook the motion so far is shown while the run goes on.
sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, on_chunk=viz.Live(every=5.0))

# %% plot
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

viz.plot(sol, quantities=["r", "v"], out="pendulum.png")

# %% animate
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

viz.animate(sol, out="pendulum.gif", fps=5, size=3.0)

# %% snapshot
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
sol = mbd.simulate(*m.build(), h=5e-3, t_end=2.0)

viz.snapshot(sol, k=100, out="pendulum.pdf")  # the row at 0.5 s
