"""Examples of the page "Identification"."""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

mbd.enable_x64()

# %% fit, FitReport, ExperimentReport, Measurements, Experiment, Unknown
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
m.add(mbd.Translational("rail", m.ground, "block", point=(0, 0, 0), axis=(1, 0, 0)))
m.add(mbd.JointSpring("spring", "rail", stiffness=40.0, damping=0.5))  # guesses
m.add(mbd.Encoder("encoder", "rail"))

t = np.linspace(0.0, 1.0, 51)
noise = 1e-3 * np.random.default_rng(0).normal(size=t.size)
x = 0.02 + 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + noise  # what the encoder read
data = mbd.Measurements(t, {"encoder.displacement": x}, sigma=1e-3)
run = mbd.Experiment(data, values={"sensors.encoder.bias": mbd.Unknown(0.0)})
free = {"forces.spring.stiffness": mbd.Positive(), "forces.spring.damping": mbd.Positive()}
report = mbd.fit(m, free, [run], integrator=mbd.MuntheKaas(), progress=False)
print(report)  # 50.2 N/m, 0.8 N·s/m and a bias of 0.02 m, with standard errors
print(report.experiments[0].rms)  # of its ExperimentReport

# %% Free, Positive, Bounded, NormalPrior, LogNormalPrior, Huber, StudentT
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=1.8, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
m.add(mbd.Translational("rail", m.ground, "block", point=(0, 0, 0), axis=(1, 0, 0)))
m.add(mbd.JointSpring("spring", "rail", stiffness=40.0, damping=0.5))
m.add(mbd.Encoder("encoder", "rail"))

t = np.linspace(0.0, 1.0, 51)
noise = 1e-3 * np.random.default_rng(0).normal(size=t.size)
x = 0.02 + 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + noise
x[20] += 0.05  # an outlier, which the loss makes light of
data = mbd.Measurements(t, {"encoder.displacement": x}, sigma=1e-3)
free = {
    "bodies.block.mass": mbd.Positive(),
    "forces.spring.stiffness": mbd.Positive(),
    "forces.spring.damping": mbd.Bounded(0.0, 5.0),
    "sensors.encoder.bias": mbd.Free(),
}
scale = mbd.NormalPrior("bodies.block.mass", 2.0, 0.01)  # what a scale said
data_sheet = mbd.LogNormalPrior("forces.spring.stiffness", 45.0, 0.1)  # to about 10 %
options = {"priors": [scale, data_sheet], "loss": mbd.Huber()}  # or mbd.StudentT()
report = mbd.fit(m, free, data, **options, integrator=mbd.MuntheKaas(), progress=False)
print(report)

# %% Along, Scaled, PhysicalInertia
m = mbd.Mechanism("thrown part")
m.add_body("part", mass=2.0, inertia=(0.02, 0.03, 0.04), omega=(0, 4.0, 0))
free = {
    "bodies.part.inertia": mbd.PhysicalInertia(),
    "bodies.part.omega": mbd.Along((0, 0, 0), (0, 1, 0)),  # the axis of the spin is known
    "gravity": mbd.Scaled((0, 0, -9.81)),  # and so is the direction of gravity
}
# These coordinates of the guesses are what `mbd.fit(m, free, data)` varies.
for path, restriction in free.items():
    print(path, restriction.inverse(m.values()[path]))

# %% laplace_posterior, sample_posterior, Posterior, profile_likelihood, Profile, save_report
m = mbd.Mechanism("oscillator", gravity=(0, 0, 0))
m.add_body("block", mass=2.0, inertia=(0.1, 0.1, 0.1), v=(0.5, 0, 0))
m.add(mbd.Translational("rail", m.ground, "block", point=(0, 0, 0), axis=(1, 0, 0)))
m.add(mbd.JointSpring("spring", "rail", stiffness=40.0, damping=0.5))

t = np.linspace(0.0, 1.0, 21)
x = 0.1 * np.exp(-0.2 * t) * np.sin(5.0 * t) + 5e-3 * np.random.default_rng(0).normal(size=21)
data = mbd.Measurements(t, {"rail.displacement": x}, sigma=5e-3)
free = {"forces.spring.stiffness": mbd.Positive(), "forces.spring.damping": mbd.Positive()}
report = mbd.fit(m, free, data, integrator=mbd.MuntheKaas(), progress=False)

name = "forces.spring.damping"
print(mbd.laplace_posterior(report).interval(name))
print(mbd.profile_likelihood(report, name, points=3, progress=False).interval())
drawn = mbd.sample_posterior(report, draws=100, warmup=100)  # real runs take 1000 and more
print(drawn.interval(name))
mbd.save_report(report, "report.html", posterior=drawn)

# %% design_experiment, Design, Fourier
m = mbd.Mechanism("arm")
m.add_body("link", mass=1.0, inertia=(0.02, 0.02, 0.02), r=(0, 0, -0.3))
m.add(mbd.Revolute("pin", m.ground, "link", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.JointSpring("friction", "pin", damping=0.1))
m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque")))

design = mbd.design_experiment(
    m,
    {"bodies.link.mass": mbd.Positive(), "forces.friction.damping": mbd.Positive()},
    {"torque": mbd.Fourier(period=1.0, harmonics=1, coefficients=np.array([0.0, 1.0, 0.0]))},
    {"pin.angle": 1e-3},
    t=np.linspace(0.0, 1.0, 11),
    limits={"torque": (-2.0, 2.0), "pin.angle": (-1.0, 1.0)},
    integrator=mbd.MuntheKaas(),
    starts=1,
    max_evaluations=10,
    progress=False,
)
print(design.standard_error)
print(design.inputs["torque"].coefficients)

# %% Spline
m = mbd.Mechanism("arm")
m.add_body("link", mass=1.0, inertia=(0.02, 0.02, 0.02), r=(0, 0, -0.3))
m.add(mbd.Revolute("pin", m.ground, "link", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque")))

values = np.array([0.0, 1.0, 0.5, -1.0, 0.0])  # at five instants, or those of `Design.inputs`
torque = mbd.Spline(duration=1.0, knots=5, coefficients=values)
sol = mbd.simulate(*m.build(), h=1e-2, t_end=1.0, inputs={"torque": torque})
print(sol["torque"][25], sol["pin.angle"].max())
