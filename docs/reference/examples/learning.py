"""Examples of the page "Learning"."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmbd as mbd

mbd.enable_x64()

# %% Environment, Episode
m = mbd.Mechanism("drone")
m.add_body("drone", mass=1.0, inertia=(0.01, 0.01, 0.02))
m.add(mbd.PointForce("thrust", "drone", force=mbd.Input("thrust", size=3, unit="N")))
system, state = m.build()


def begin(key):
    return dataclasses.replace(state, r=jax.random.uniform(key, (1, 3), minval=-1.0))


def reward(system, before, action, after):
    return -jnp.sum(after.state.r[0] ** 2)  # hover at the origin


seen = ["drone.r.x", "drone.r.y", "drone.r.z", "drone.v.x", "drone.v.y", "drone.v.z"]
bounds = {"low": [-20.0] * 3, "high": [20.0] * 3}  # of the thrust
times = {"h": 1e-2, "substeps": 2, "horizon": 100}
env = mbd.Environment(system, begin, seen, reward, **bounds, **times)

observation, episode = jax.jit(env.reset)(jax.random.key(0))  # an Episode
act = jax.jit(env.step)
for key in jax.random.split(jax.random.key(1), 99):
    action = jnp.array([0.0, 0.0, 9.81]) - 9.0 * observation[:3] - 6.0 * observation[3:]
    observation, episode, value, done, info = act(key, episode, action)
print(jnp.linalg.norm(observation[:3]), done)  # 0.019 m from the origin, False


# %% train, Training
class Damping(eqx.Module):
    gains: jax.Array

    def __call__(self, pose, twist, t):
        return jnp.zeros((1, 3)), (-self.gains * twist.omega[0])[None]


def loss(damping, omega):
    m = mbd.Mechanism("satellite", gravity=(0, 0, 0))
    m.add_body("satellite", mass=50.0, inertia=(2.0, 3.0, 4.0), omega=omega)
    m.add(mbd.UserForce("wheels", ["satellite"], damping))
    sol = mbd.simulate(*m.build(), h=0.1, steps=20)
    torques = sol.omega[:, 0] @ jnp.diag(damping.gains)
    return jnp.mean(sol.omega**2) + 0.1 * jnp.mean(torques**2), sol.result


def starts(key, share):
    return jax.random.uniform(key, (3,), minval=-1.0)


# A network takes hundreds of updates, and larger batches.
options = {"updates": 100, "batch": 8, "progress": False}
training = mbd.train(Damping(jnp.ones(3)), loss, starts, **options)
print(training.loss[0], training.loss[-1])  # 0.227, 0.191
print(training.model.gains)  # about 1.4 N·m·s each

# %% names, cart_pole
print(mbd.environments.names())  # cart_pole, five_bar, hopping_leg, stewart
env = mbd.environments.cart_pole()
print(env)  # 1 action, observation 4 quantities, 250 actions an episode
observation, episode = jax.jit(env.reset)(jax.random.key(0))
print(observation)  # 0.47 m, at rest, 0.074 rad from upright, at rest

# %% five_bar
env = mbd.environments.five_bar()
many = env.to_gymnasium(8)  # a gymnasium.vector.VectorEnv
print(many.single_observation_space.shape)  # (8,)
print(many.single_action_space.shape)  # (2,)

# %% hopping_leg
env = mbd.environments.hopping_leg()
other = env.to_gymnax()  # for libraries such as rejax, which train it
print(other.observation_space(other.default_params).shape)  # (5,)

# %% stewart
env = mbd.environments.stewart()
print(env.action_size, env.period)  # 6 motors, an action every 20 ms
print(list(env.system.bodies))  # platform, cylinder 1, ... cylinder 6
