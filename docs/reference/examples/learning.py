"""Examples of the page "Learning"."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import jaxmbd as mbd

mbd.enable_x64()

# %% Environment, Episode
m = mbd.Mechanism("inverted pendulum")
m.add_body("pole", shape=mbd.Box((0.05, 0.05, 1.0), mass=1.0), r=(0, 0, 0.5))
m.add(mbd.Revolute("pin", m.ground, "pole", point=(0, 0, 0), axis=(0, 1, 0)))
m.add(mbd.Actuator("motor", "pin", control=mbd.Input("torque")))
system, state = m.build()


def begin(key):
    lean = jax.random.uniform(key, minval=-0.1, maxval=0.1)
    return mbd.set_joints(system, state, {"pin": lean})


def reward(system, before, action, after):
    return jnp.cos(mbd.observe(system, after, "pin.angle")) - 0.01 * jnp.sum(action**2)


seen, options = ["pin.angle", "pin.rate"], {"h": 5e-3, "substeps": 4, "horizon": 100}
env = mbd.Environment(system, begin, seen, reward, low=[-5.0], high=[5.0], **options)
observation, episode = jax.jit(env.reset)(jax.random.key(0))  # an Episode
act = jax.jit(env.step)
for key in jax.random.split(jax.random.key(1), 20):
    action = -jnp.array([20.0, 5.0]) @ observation
    observation, episode, gain, done, info = act(key, episode, action[None])
print(observation, gain, done)


# %% train, Training
class Feedback(eqx.Module):
    gains: jax.Array

    def __call__(self, pose, twist, t):
        tilt = jnp.stack([pose.A[0, 0, 2], twist.omega[0, 1]])  # sine of the angle, rate
        return jnp.zeros((1, 3)), jnp.array([[0.0, 1.0, 0.0]]) * (-self.gains @ tilt)


def loss(feedback, rate):
    m = mbd.Mechanism("inverted pendulum")
    omega = rate * jnp.array([0.0, 1.0, 0.0])
    m.add_body("pole", shape=mbd.Box((0.05, 0.05, 1.0), mass=1.0), r=(0, 0, 0.5), omega=omega)
    m.add(mbd.Revolute("pin", m.ground, "pole", point=(0, 0, 0), axis=(0, 1, 0)))
    m.add(mbd.UserForce("feedback", ["pole"], feedback))
    sol = mbd.simulate(*m.build(), h=2e-2, steps=25)
    return jnp.mean(sol["pin.angle"] ** 2), sol.result


def starts(key, share):
    return jax.random.uniform(key, minval=-1.0, maxval=1.0)


# Real trainings take hundreds of updates.
options = {"updates": 20, "batch": 4, "optimizer": optax.adam(1.0), "progress": False}
training = mbd.train(Feedback(jnp.array([10.0, 1.0])), loss, starts, **options)
print(training.loss[0], training.loss[-1], training.model.gains)

# %% names, cart_pole
print(mbd.environments.names())  # each of them is a function that returns one
env = mbd.environments.cart_pole()
observation, episode = jax.jit(env.reset)(jax.random.key(0))
act = jax.jit(env.step)
for key in jax.random.split(jax.random.key(1), 20):
    action = jnp.array([0.15, 0.3, 4.5, 1.2]) @ observation
    observation, episode, reward, done, info = act(key, episode, action[None])
print(observation, reward)

# %% five_bar
env = mbd.environments.five_bar()
begin = jax.jit(jax.vmap(env.reset))
observations, episodes = begin(jax.random.split(jax.random.key(0), 8))
print(observations.shape)
print(episodes.goal)

# %% hopping_leg
env = mbd.environments.hopping_leg()
observation, episode = jax.jit(env.reset)(jax.random.key(0))
print(observation)

# %% stewart
env = mbd.environments.stewart()
observation, episode = jax.jit(env.reset)(jax.random.key(0))
print(env.action_size, observation.shape)
