"""Examples of the page "Identification"."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

mbd.enable_x64()

# %% fit, FitReport, ExperimentReport, Measurements, Experiment, Unknown
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
ends = {"point_i": (-1, 0, 0), "point_j": (0, 0, 0)}
m.add(mbd.SpringDamper("spring", m.ground, "block", **ends, stiffness=40.0, damping=0.5))
m.add(mbd.DistanceSensor("gauge", m.ground, "block", **ends))

# What the gauge read, with noise of 1 mm; its zero is not known.
t, noise = np.linspace(0.0, 1.0, 51), 1e-3 * np.random.default_rng(0).normal(size=51)
distance = 1.02 + 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + noise
data = mbd.Measurements(t, {"gauge.distance": distance}, sigma=1e-3)
run = mbd.Experiment(data, values={"sensors.gauge.bias": mbd.Unknown(0.0)})
paths = ["forces.spring.stiffness", "forces.spring.damping"]
free = {path: mbd.Positive() for path in paths}
report = mbd.fit(m, free, [run], integrator=mbd.MuntheKaas(), progress=False)
print(report)  # 50.13 ± 0.12 N/m, 0.843 ± 0.016 N·s/m, a bias of 20.1 ± 0.2 mm
print(report.experiments[0].rms)  # of its ExperimentReport: 0.79 mm

# %% Free, Positive, Bounded, NormalPrior, LogNormalPrior, Huber, StudentT
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=1.8, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
ends = {"point_i": (-1, 0, 0), "point_j": (0, 0, 0)}
m.add(mbd.SpringDamper("spring", m.ground, "block", **ends, stiffness=40.0, damping=0.5))
m.add(mbd.DistanceSensor("gauge", m.ground, "block", **ends))

t, noise = np.linspace(0.0, 1.0, 51), 1e-3 * np.random.default_rng(0).normal(size=51)
distance = 1.02 + 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + noise
distance[20] += 0.05  # an outlier, which counts less by the loss
data = mbd.Measurements(t, {"gauge.distance": distance}, sigma=1e-3)
free = {
    "bodies.block.mass": mbd.Positive(),
    "forces.spring.stiffness": mbd.Positive(),
    "forces.spring.damping": mbd.Bounded(0.0, 5.0),
    "sensors.gauge.bias": mbd.Free(),
}
scale = mbd.NormalPrior("bodies.block.mass", 2.0, 0.01)  # what a scale said [kg]
sheet = mbd.LogNormalPrior("forces.spring.stiffness", 45.0, 0.1)  # 45 N/m to about 10 %
options = {"priors": [scale, sheet], "loss": mbd.Huber()}
report = mbd.fit(m, free, data, **options, integrator=mbd.MuntheKaas(), progress=False)
print(report.estimate)  # 2.00 kg, 50.1 N/m, 0.84 N·s/m and 0.0202 m
# What a residual of 50 standard deviations still counts, beside a small one:
print(mbd.Huber().slope(jnp.array(50.0**2)))  # 0.027
print(mbd.StudentT().slope(jnp.array(50.0**2)))  # 0.0016

# %% Along, Scaled, PhysicalInertia
m = mbd.Mechanism("thrown part")
m.add_body("part", mass=2.0, inertia=(0.02, 0.03, 0.04), omega=(0, 4.0, 0))
free = {
    "bodies.part.inertia": mbd.PhysicalInertia(),
    "bodies.part.omega": mbd.Along((0, 0, 0), (0, 1, 0)),  # the axis of the spin is known
    "gravity": mbd.Scaled((0, 0, -9.81)),  # and so is the direction of gravity
}
# What `mbd.fit(m, free, data)` varies: six numbers for the inertia, one for each other.
for path, restriction in free.items():
    print(path, restriction.inverse(m.values()[path]))

# %% laplace_posterior, sample_posterior, Posterior, profile_likelihood, Profile, save_report
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
ends = {"point_i": (-1, 0, 0), "point_j": (0, 0, 0)}
m.add(mbd.SpringDamper("spring", m.ground, "block", **ends, stiffness=40.0, damping=0.5))

t, noise = np.linspace(0.0, 1.0, 21), 5e-3 * np.random.default_rng(0).normal(size=21)
x = 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + noise
data = mbd.Measurements(t, {"block.r.x": x}, sigma=5e-3)
paths = ["forces.spring.stiffness", "forces.spring.damping"]
free = {path: mbd.Positive() for path in paths}
report = mbd.fit(m, free, data, integrator=mbd.MuntheKaas(), progress=False)

name = "forces.spring.damping"
print(mbd.laplace_posterior(report).interval(name))  # 0.564 to 1.017 N·s/m
profile = mbd.profile_likelihood(report, name, points=3, progress=False)
print(profile.interval())  # 0.535 to 0.983 N·s/m
# A real run takes the defaults, 1000 draws in each of two chains.
drawn = mbd.sample_posterior(report, draws=100, warmup=100)
print(drawn.interval(name))  # about 0.56 to 0.97 N·s/m
mbd.save_report(report, "report.html", posterior=drawn)

# %% design_experiment, Design, Fourier
m = mbd.Mechanism("shaker", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1))
ends = {"point_i": (-1, 0, 0), "point_j": (0, 0, 0)}
push = mbd.Input("push", unit="N")
m.add(mbd.SpringDamper("leg", m.ground, "block", **ends, damping=4.0, actuator=push))

first = mbd.Fourier(period=1.0, harmonics=1, coefficients=np.array([0.0, 2.0, 0.0]))
design = mbd.design_experiment(
    m,
    {"bodies.block.mass": mbd.Positive(), "forces.leg.damping": mbd.Positive()},
    {"push": first},
    {"block.r.x": 1e-3},
    t=np.linspace(0.0, 1.0, 11),
    limits={"push": (-10.0, 10.0), "block.r.x": (-0.1, 0.1)},
    integrator=mbd.MuntheKaas(tableau="heun"),
    starts=1,
    progress=False,
)
print(design.standard_error)  # 0.5 % of the mass, 1 % of the damping
print(design.inputs["push"].coefficients)  # -1.4, 4.3 and 2.4 N

# %% Spline
m = mbd.Mechanism("shaker", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1))
ends = {"point_i": (-1, 0, 0), "point_j": (0, 0, 0)}
push = mbd.Input("push", unit="N")
m.add(mbd.SpringDamper("leg", m.ground, "block", **ends, damping=4.0, actuator=push))

values = np.array([0.0, 5.0, 2.0, -5.0, 0.0])  # at five instants [N]
excitation = mbd.Spline(duration=1.0, knots=5, coefficients=values)
sol = mbd.simulate(*m.build(), h=1e-2, t_end=1.0, inputs={"push": excitation})
print(sol["push"][25], sol["block.r.x"].max())  # 5 N, 0.273 m
