"""Examples of the page "Analyses"."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

mbd.enable_x64()

# %% simulate
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

sol = mbd.simulate(system, state, h=5e-3, t_end=2.0)
print(sol["pin.angle"].max())  # 3.142 rad: it swings up to the height where it began

# %% Event
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

down = mbd.Event("down", "pin.angle", value=np.pi / 2)  # or the text "pin.angle > 1.5708"
sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, events=[down])
print(sol.events["down"])  # 0.4835 s, and 1.4506 s on the way back

# %% Activate, Release
m = mbd.Mechanism("magnet")
m.add_body("block", shape=mbd.Box((0.1, 0.1, 0.1), mass=1.0), r=(0, 0, 0))
m.add(mbd.Translational("rail", m.ground, "block", point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.Lock("magnet", "rail", at=-0.5, active=False))
system, state = m.build()

# The block falls on a magnet half a meter below, which holds it until it is switched off.
catch = mbd.Event("catch", "rail.displacement < -0.5", action=mbd.Activate("magnet"))
off = mbd.Event("off", lambda pose, twist, z, t: t - 0.6, action=mbd.Release("magnet"))
sol = mbd.simulate(system, state, h=1e-2, t_end=0.8, events=[catch, off])
print(sol.events["catch"])  # 0.3193 s
print(sol["rail.displacement"][50])  # -0.5 m at 0.5 s
print(sol["rail.displacement"][-1])  # -0.696 m at 0.8 s


# %% Bounce, Restart
def friction(pose, twist, t):
    return -2.0 * jnp.sign(twist.v), jnp.zeros((1, 3))


m = mbd.Mechanism("bead")
m.add_body("bead", mass=1.0, inertia=(1e-3, 1e-3, 1e-3), v=(0, 0, 4.0))
m.add(mbd.Translational("wire", m.ground, "bead", point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.UserForce("friction", ["bead"], friction))
m.add(mbd.Lock("floor", "wire", active=False))  # acts at the instant of an impact alone
system, state = m.build()

# Friction jumps where the bead turns round; a restart there keeps the method's order.
top = mbd.Event("top", "wire.speed < 0", action=mbd.Restart())
bounce = mbd.Bounce("floor", restitution=0.8)
hit = mbd.Event("hit", "wire.displacement < 0", action=bounce)
options = {"events": [top, hit], "integrator": mbd.MuntheKaas()}
sol = mbd.simulate(system, state, h=1e-2, t_end=1.0, **options)
print(sol.events["top"])  # 0.339 s, and 0.976 s after a bounce
print(sol.events["hit"])  # 0.756 s

# %% SetInput, SetState
m = mbd.Mechanism("drive", gravity=(0, 0, 0))
m.add_body("rotor", mass=1.0, inertia=(0.01, 0.01, 0.01))
m.add(mbd.Revolute("axle", m.ground, "rotor", point=(0, 0, 0), axis=(0, 0, 1)))
winding = {"resistance": 1.0, "inductance": 0.01, "constant": 0.1}
m.add(mbd.Motor("motor", "axle", command=mbd.Input("voltage", unit="V"), **winding))
system, state = m.build()

# At 10 rad/s the motor is cut off from its supply, and then short-circuited.
switch = [mbd.SetState("motor.current", 0.0), mbd.SetInput("voltage", 0.0)]
options = {"events": [mbd.Event("brake", "axle.rate > 10", action=switch)]}
sol = mbd.simulate(system, state, h=2e-3, t_end=0.2, inputs={"voltage": 12.0}, **options)
print(sol.events["brake"])  # 0.0963 s
print(sol["motor.current"].max())  # 11.56 A
print(sol["motor.current"][-1])  # -0.92 A: the motor brakes

# %% plastic_impact, Impact
m = mbd.Mechanism("caught bar")
m.add_body("bar", shape=mbd.Rod(1.0, mass=2.0), v=(0, 0, -1.0))
m.add(mbd.Revolute("hook", m.ground, "bar", point=(-0.5, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

# A bar that falls at 1 m/s is caught at its left end.
impact = mbd.plastic_impact(system, state)
print(impact.state.omega[0, 1])  # 1.5 rad/s
print(impact.energy)  # 0.25 J of 1 J are lost

# %% start, step, Carry, observe
m = mbd.Mechanism("arm")
m.add_body("arm", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
# About -y, so that the angle grows upwards.
m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, -1, 0)))
m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque", unit="N·m")))
system, state = m.build()


@jax.jit
def sample(carry):
    angle, rate = mbd.observe(system, carry, ["pin.angle", "pin.rate"])
    torque = 9.81 * jnp.cos(angle) + 40.0 * (0.5 - angle) - 10.0 * rate
    return mbd.step(system, carry, {"torque": torque}, steps=2)


carry = mbd.start(system, state, h=5e-3, inputs={"torque": 0.0})  # a Carry
for _ in range(200):
    carry = sample(carry)
print(carry.t, mbd.observe(system, carry, "pin.angle"))  # 2 s, 0.5 rad


# %% Controller
class Holding(mbd.Controller):
    observes = ("pin.angle", "pin.rate")
    commands = ("torque",)
    gains: jax.Array

    def __call__(self, memory, seen, t):
        weight = 9.81 * jnp.cos(seen[0])
        return memory, weight + self.gains @ (jnp.array([0.5, 0.0]) - seen)


m = mbd.Mechanism("arm")
m.add_body("arm", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
# About -y, so that the angle grows upwards.
m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, -1, 0)))
m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque", unit="N·m")))
system, state = m.build()

holding = Holding(jnp.array([40.0, 10.0]), period=2)  # a sample every 10 ms
sol = mbd.simulate(system, state, h=5e-3, t_end=2.0, controller=holding)
print(sol["pin.angle"][-1])  # 0.5 rad

# %% quantities
system, state = mbd.load("four_bar")
units = mbd.quantities(system)
print(units["pin_crank.rate"], units["crank.v.x"])  # rad/s m/s
print([name for name in units if name.endswith(".angle")])  # four joints

# %% Adaptive
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

steps, method = mbd.Adaptive(1e-6), mbd.MuntheKaas(tableau="rk5")
rows = np.linspace(0.0, 2.0, 21)
sol = mbd.simulate(system, state, step=steps, save_at=rows, integrator=method)
print(sol["pin.angle"][-1])  # 0.0321 rad
print(sol.stats["accepted_steps"])  # 29

# %% kinematics
m = mbd.load_mechanism("four_bar")
m.add(mbd.RotationDriver("motor", m.ground, "crank", axis=(0, 1, 0), angle="2*pi*t"))
system, state = m.build()

sol = mbd.kinematics(system, state, np.linspace(0.0, 1.0, 101))
print(np.ptp(sol["pin_rocker.angle"]))  # the rocker swings by 0.827 rad

# %% inverse_dynamics, InverseDynamics
m = mbd.Mechanism("arm")
m.add_body("arm", shape=mbd.Box((1.0, 0.05, 0.05), mass=2.0), r=(0.5, 0, 0))
# About -y, so that the angle grows upwards.
m.add(mbd.Revolute("pin", m.ground, "arm", point=(0, 0, 0), axis=(0, -1, 0)))
up = "0.5*(1-cos(2*pi*t))"
m.add(mbd.RotationDriver("motor", m.ground, "arm", axis=(0, -1, 0), angle=up))
system, state = m.build()

needed = mbd.inverse_dynamics(system, state, np.linspace(0.0, 1.0, 101))
print(needed.efforts["motor"].max())  # 22.98 N·m
print(needed.power["motor"].max())  # 44.08 W

# %% actuator_wrenches
system, state = mbd.load("stewart_platform")
legs = [f"leg {k}" for k in range(1, 7)]
wrenches = mbd.actuator_wrenches(system, state, legs)  # (6 legs, 1 body, 6)
print(jnp.linalg.cond(wrenches[:, 0]))  # 8.0: far from a singular pose

# %% linearize, Linearization
m = mbd.Mechanism("inverted pendulum")
m.add_body("pole", shape=mbd.Box((0.02, 0.02, 1.0), mass=0.2), r=(0, 0, 0.5))
m.add(mbd.Revolute("hinge", m.ground, "pole", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Actuator("motor", "hinge"))
lin = mbd.linearize(*m.build())
print(lin.coordinates)  # ('pole.theta.y',)
print(lin.modes().eigenvalues)  # ±3.836 1/s: it falls
print(lin.lqr(Q=np.diag([10.0, 1.0]), R=1.0))  # 4.292 N·m/rad, 1.254 N·m·s/rad

# %% optimal_control, Plan, track, Tracker, mpc, MPC, Guess
m = mbd.Mechanism("slide", gravity=(0, 0, 0))
m.add_body("block", mass=1.0, inertia=(0.01, 0.01, 0.01), v=(1.0, 0, 0))
ends = {"point_i": (-2, 0, 0), "point_j": (0, 0, 0)}
m.add(mbd.SpringDamper("cylinder", m.ground, "block", **ends, actuator=mbd.Input("pull")))
system, state = m.build()

# A block that starts at 1 m/s comes back within a second, by at most 5 N.
problem = {
    "stage": lambda now: jnp.stack([now["block.r.x"], 0.1 * now["pull"]]),
    "final": lambda now: jnp.stack([now["block.r.x"], now["block.v.x"]]),
    "limits": {"pull": (-5.0, 5.0)},
}
size = {"knots": 10, "steps": 2, "hessian": "gauss_newton"}
plan = mbd.optimal_control(system, state, ["pull"], 1.0, **problem, **size)
print(plan.cost, plan.inputs["pull"])  # 0.0238; from -4.23 N to 1.02 N

# It starts faster than planned: feedback along the plan, or a new plan at every sample.
faster = dataclasses.replace(state, v=jnp.array([[1.2, 0.0, 0.0]]))
along = mbd.track(plan, {"block.r.x": 10.0, "block.v.x": 1.0}, {"pull": 0.1}, h=0.05)
anew = mbd.mpc(plan, h=0.05, every=0.1, hessian="gauss_newton")  # its memory is a Guess
for controller in (along, anew):
    sol = mbd.simulate(system, faster, h=0.05, t_end=2.0, controller=controller)
    print(sol["block.r.x"][20])  # after a second: 0.036 m by feedback, 0.040 m by new plans

# %% equilibrium, Equilibrium, Stability
m = mbd.Mechanism("lever")
m.add_body("rod", shape=mbd.Box((1.0, 0.04, 0.04), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "pin", stiffness=30.0, damping=0.5))
system, state = m.build()

rest = mbd.equilibrium(system, state)
print(rest.motion["pin.angle"])  # 0.3113 rad
print(rest.reactions()["pin"].force)  # [0, 0, 19.62] N
print(rest.stability().stable)  # of a Stability: True

# %% Spin
m = mbd.Mechanism("governor")
m.add_body("shaft", mass=1.0, inertia=(0.1, 0.1, 0.1))
m.add_body("ball", mass=2.0, inertia=(0.02, 0.02, 0.003), r=(0, 0, -0.5))
m.add(mbd.Revolute("bearing", m.ground, "shaft", point=(0, 0, 0), axis=(0, 0, 1)))
m.add(mbd.Revolute("arm", "shaft", "ball", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()
state = mbd.set_joints(system, state, {"arm": 0.1})

turning = mbd.equilibrium(system, state, spin=mbd.Spin(axis=(0, 0, 1), rate=6.0))
print(turning.motion["arm.angle"])  # 1.0156 rad


# %% continuation, Path, SpecialPoint
def column(load):
    m = mbd.Mechanism("column", gravity=(0, 0, 0))
    m.add_body("rod", shape=mbd.Cylinder(0.02, 1.0, mass=2.0), r=(0, 0, 0.5))
    m.add(mbd.Revolute("foot", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.JointSpring("spring", "foot", stiffness=100.0))
    force = load * jnp.array([0.0, 0.0, -1.0])
    m.add(mbd.PointForce("load", "rod", force=force, point=(0, 0, 1.0)))
    return m.build()


upright = mbd.continuation(column, (50.0, 150.0))
point = upright.points[0]  # a SpecialPoint
print(point.kind, point.parameter)  # branch, 100 N
tilted = upright.switch(0)  # the Path that crosses there
print(tilted.parameter[-1], tilted.r[-1, 0])  # 150 N, mass center at x = -0.499 m

# %% buckling, Buckling
m = mbd.Mechanism("column", gravity=(0, 0, 0))
m.add_body("rod", shape=mbd.Cylinder(0.02, 1.0, mass=2.0), r=(0, 0, 0.5))
m.add(mbd.Revolute("foot", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "foot", stiffness=100.0))
m.add(mbd.PointForce("load", "rod", force=(0, 0, -1.0), point=(0, 0, 1.0)))
print(mbd.buckling(*m.build()).factor)  # 100 times the load of 1 N

# %% modes, Modes
m = mbd.Mechanism("lever")
m.add_body("rod", shape=mbd.Box((1.0, 0.04, 0.04), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "pin", stiffness=30.0, damping=0.5))
system, state = m.build()

rest = mbd.equilibrium(system, state)
print(mbd.modes(system, rest).frequency)  # 1.120 Hz
print(mbd.modes(system, rest, damped=True).damping_ratio)  # 0.0533

# %% frequency_response, FrequencyResponse
m = mbd.Mechanism("lever")
m.add_body("rod", shape=mbd.Box((1.0, 0.04, 0.04), mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("spring", "pin", stiffness=30.0, damping=0.5))
system, state = m.build()

rest = mbd.equilibrium(system, state)
omega = np.linspace(1.0, 20.0, 191)
response = mbd.frequency_response(system, rest, ["rod.force.z"], ["rod.r.z"], omega)
peak = jnp.argmax(response.gain[:, 0, 0])
print(omega[peak], response.gain[peak, 0, 0])  # 7.0 rad/s, 0.0645 m/N

# %% campbell, Campbell
m = mbd.Mechanism("rotor", gravity=(0, 0, 0))
m.add_body("housing", mass=0.01, inertia=(1e-5, 1e-5, 1e-5))
m.add_body("disc", mass=3.0, inertia=(0.02, 0.02, 0.035))
m.add(mbd.Revolute("bearing", "housing", "disc", point=(0, 0, 0), axis=(0, 0, 1)))
stiff = {"stiffness": (8e3, 8e3, 5e4), "rotational_stiffness": (300.0, 300.0, 10.0)}
m.add(mbd.Bushing("mount", m.ground, "housing", point=(0, 0, 0), **stiff))
system, state = m.build()

rest = mbd.equilibrium(system, state)
diagram = mbd.campbell(system, rest, "disc", (0, 0, 1), np.linspace(0.0, 150.0, 16))
print(diagram.critical)  # 51.6 rad/s twice, 73.9 and 128.9 rad/s

# %% periodic, Periodic
m = mbd.Mechanism("driven pendulum")
m.add_body("rod", shape=mbd.Box((0.04, 0.04, 1.0), mass=2.0), r=(0, 0, -0.5))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("damper", "pin", damping=1.0))
m.add(mbd.Actuator("motor", "pin", control="4*sin(5*t)"))
system, state = m.build()

orbit = mbd.periodic(system, state, period=2 * np.pi / 5, steps=50)
print(orbit.motion["pin.angle"].max())  # 0.457 rad
print(np.abs(orbit.multipliers))  # 0.391 twice: disturbances die away

# %% accelerations, Accelerations
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Rod(1.0, mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

now = mbd.accelerations(system, state)
print(now.a[0])  # [0, 0, -7.3575] m/s²: three quarters of g
print(now.alpha[0])  # [0, 14.715, 0] rad/s²

# %% state_rate
m = mbd.Mechanism("pendulum")
m.add_body("rod", shape=mbd.Rod(1.0, mass=2.0), r=(0.5, 0, 0))
m.add(mbd.Revolute("pin", m.ground, "rod", point=(0, 0, 0), axis=(0, 1, 0)))
system, state = m.build()

# One explicit step of Euler's method, as an integrator of your own would take it.
rate = mbd.state_rate(0.0, state, system)
later = jax.tree.map(lambda y, slope: y + 1e-3 * slope, state, rate)
print(later.v[0])  # [0, 0, -0.00736] m/s


# %% run_batch
def reach(damping):
    m = mbd.Mechanism("buffer", gravity=(0, 0, 0))
    m.add_body("wagon", mass=1000.0, inertia=(100.0, 500.0, 500.0), v=(2.0, 0, 0))
    ends = {"point_i": (3.0, 0, 0), "point_j": (0, 0, 0)}
    buffer = {"stiffness": 1e5, "damping": damping}
    m.add(mbd.SpringDamper("buffer", m.ground, "wagon", **ends, **buffer))
    sol = mbd.simulate(*m.build(), h=1e-3, steps=200)
    return sol.r[:, 0, 0].max(), sol.result == mbd.RESULTS.successful


reached, good = mbd.run_batch(reach, np.linspace(1e3, 1e4, 100), progress=False)
print(good.all(), reached[[0, -1]])  # True; 0.185 m and 0.109 m

# %% count_steps
print(mbd.count_steps(h=1e-3, t_end=2.0, steps=None))  # 2000
