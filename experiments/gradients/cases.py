"""Mechanisms whose every kind of number is a parameter, and a loss that everything enters.

`build` and assembly are inside the loss, so moving a joint moves the consistent initial state.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

MODELS = ("double_pendulum", "slider_crank", "four_link", "four_bar")
STEPS, H = 100, 5e-3
# Converged to rounding, so that differences are clean; the default tolerance is meant for one run.
INTEGRATOR = mbd.ImplicitEuler(newton=mbd.Newton(1e-14, exact=True))


class Ramp(eqx.Module):
    """The driver's angle: a rate times t, and a wave."""

    rate: jax.Array
    wave: jax.Array

    def __call__(self, t):
        return self.rate * t + self.wave * jnp.sin(3.0 * t)


class Net(eqx.Module):
    """A small neural network: force and torque on one body from its velocity, height and the
    time.
    """

    layers: eqx.nn.MLP
    scale: float = eqx.field(static=True)
    planar: bool = eqx.field(
        static=True
    )  # a redundant plane loop has no unique answer to loads out of its plane

    def __call__(self, pose, twist, t):
        seen = jnp.concatenate([twist.v[0], twist.omega[0], pose.r[0, 2:], jnp.sin(t)[None]])
        out = self.scale * self.layers(seen)
        if self.planar:
            out = out * jnp.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
        return out[None, :3], out[None, 3:]


def _mechanism(model):
    """A packaged mechanism with a spring, a damper and a neural force on its last body, away from
    symmetry.
    """
    m = mbd.load_mechanism(model)
    last = list(m.bodies)[-1]
    r = np.asarray(m.bodies[last].r)
    # The redundant four-bar stays in its plane: a spring out of it would load the redundant rows
    # alone.
    out_of_plane = np.zeros(3) if model == "four_bar" else np.array([0.3, 0.0, 0.0])
    anchor = r + np.array([0.0, 0.7, 0.9]) + out_of_plane
    weight = 9.81 * float(
        m.bodies[last].mass
    )  # loads of its size: their derivatives stand well above rounding
    spring = {"point_i": anchor, "point_j": r + 0.1, "free_length": 1.0}
    spring |= {"stiffness": weight, "damping": 0.1 * weight}
    if model == "four_bar":
        normal = np.asarray(m.constraints["pin_crank"].axis, float)
        spring["point_i"] = anchor - normal * (normal @ (anchor - r))
        spring["point_j"] = r
    m.add(mbd.SpringDamper("spring", "ground", last, **spring))
    net = eqx.nn.MLP(8, 6, 6, 1, activation=jnp.tanh, key=jax.random.key(1), dtype=jnp.float64)
    m.add(mbd.UserForce("net", [last], Net(net, 0.1 * weight, model == "four_bar")))
    return m


def case(model):
    """The mechanism, its parameters by path (with "h"), and directions in which redundancy
    stays.
    """
    m = _mechanism(model)
    values = m.values()
    params = {"h": jnp.asarray(H), "gravity": values["gravity"]}
    wanted = (
        "mass",
        "inertia",
        ".r",
        ".v",
        ".omega",
        "stiffness",
        "damping",
        "free_length",
        "function",
    )
    wanted += ("point", "axis", "s_i_bar", "s_j_bar", "a_i_bar", "a_j_bar")
    for path, value in values.items():
        if path.endswith(wanted) and not path.endswith("spring.point_j"):
            params[path] = value if isinstance(value, eqx.Module) else jnp.asarray(value, float)
    if "motor" in m.constraints:
        rate = {"slider_crank": -2 * np.pi, "four_link": np.pi}.get(model, 1.0)
        params["joints.motor.angle"] = Ramp(jnp.asarray(rate), jnp.asarray(0.1))
    return m, params


def loss_of(model, formulation):
    """loss(params): positions, velocities and net joint reactions at the end of a short run."""
    m, _ = case(model)
    weight = 9.81 * sum(float(b.mass) for b in m.bodies.values())

    def loss(params):
        h = params["h"]
        system, state = m.with_values({k: v for k, v in params.items() if k != "h"}).build()
        sol = mbd.simulate(
            system, state, h=h, steps=STEPS, formulation=formulation, integrator=INTEGRATOR
        )
        weights = 1.0 + 0.1 * jnp.arange(3.0 * system.nb).reshape(system.nb, 3)
        reactions = [jnp.sum(x.force[-1] ** 2) for x in sol.reactions(system).values()]
        load = jnp.sqrt(sum(reactions[:1]))  # net load of the first joint
        motion = jnp.sum(weights * sol.r[-1]) + 0.1 * jnp.sum(weights * sol.v[-1])
        middle = jnp.sum(sol.A[STEPS // 2] * weights[:, :, None]) + 0.01 * jnp.sum(
            sol.omega[-1] * weights
        )
        return motion + middle + load / weight

    return loss


KINDS = {
    "mass": (".mass",),
    "inertia": (".inertia",),
    "initial position": (".r",),
    "initial velocity": (".v", ".omega"),
    "joint points": (".point", "s_i_bar", "s_j_bar"),
    "joint axes": (".axis", "a_i_bar", "a_j_bar"),
    "gravity": ("gravity",),
    "spring": ("stiffness", "damping", "free_length"),
    "driver": ("angle",),
    "neural force": ("function",),
    "step size": ("h",),
}


def directions(model, params, seed=0):
    """A random direction of every kind of parameter, scaled to the parameters; redundancy is
    kept.
    """
    rng = np.random.default_rng(seed)
    normal = np.array([0.0, 1.0, 0.0])  # of the planar loop
    tilt = jnp.array([0.3, 0.0, -0.2])  # of all axes of the planar loop at once

    def random(path, x):
        scale = 0.3 + np.abs(x)
        d = rng.normal(size=np.shape(x)) * scale
        if path.endswith("inertia"):
            # By second moments of mass, S = tr(J)/2 I - J, relative to those on both sides: an
            # inertia stays one that a body can have, since a run with any other ends as invalid.
            eye = np.eye(3)
            second = 0.5 * np.trace(x) * eye - np.asarray(x)
            root = np.sqrt(np.maximum(np.diag(second), 0.0))
            d = rng.normal(size=np.shape(x)) * np.outer(root, root)
            d = 0.5 * (d + d.T)
            d = np.trace(d) * eye - d
        if path == "h":
            d = float(x) * rng.normal()
        return jnp.asarray(d)

    found = {}
    for kind, endings in KINDS.items():
        chosen = {
            p: x
            for p, x in params.items()
            if p.endswith(endings) and (p != "h") == (kind != "step size")
        }
        if kind == "step size":
            chosen = {"h": params["h"]}
        if not chosen:
            continue
        direction = jax.tree.map(
            lambda x: jnp.zeros_like(x) if eqx.is_inexact_array(x) else x, params
        )
        for path, x in chosen.items():
            leaves, tree = jax.tree.flatten(x)
            moved = [random(path, leaf) if eqx.is_inexact_array(leaf) else leaf for leaf in leaves]
            d = jax.tree.unflatten(tree, moved)
            if model == "four_bar" and path.endswith((".point", ".r")):
                d = d - normal * (normal @ d)
            if path.endswith(".axis") and model == "four_bar":
                d = tilt
            direction[path] = d
        found[kind] = direction
    return found


def moved(params, direction, step):
    return jax.tree.map(
        lambda x, d: x + step * d if eqx.is_inexact_array(x) else x, params, direction
    )


def errors(model, formulation, steps=(1e-3, 3e-4, 1e-4, 3e-5)):
    """Relative error of the reverse gradient along a direction of every kind, against differences
    of fourth order.
    """
    _, params = case(model)
    loss = loss_of(model, formulation)
    numbers, rest = eqx.partition(params, eqx.is_inexact_array)
    # One program serves the differences too: compiling takes far longer than a few gradients too
    # many.
    both = jax.jit(jax.value_and_grad(lambda numbers: loss(eqx.combine(numbers, rest))))
    value, gradient = both(numbers)
    found = {}
    for kind, direction in directions(model, params).items():
        d = eqx.filter(direction, eqx.is_inexact_array)
        exact = sum(
            jnp.sum(g * x)
            for g, x in zip(jax.tree.leaves(gradient), jax.tree.leaves(d), strict=True)
        )
        estimates = []
        for step in steps:
            f = [float(both(moved(numbers, d, s * step))[0]) for s in (-2, -1, 1, 2)]
            estimates.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
        # The best of several steps: too long a step is inaccurate, too short a one drowns in
        # rounding.
        gap = min(abs(e - float(exact)) for e in estimates)
        # Velocities that a driver sets have no effect: then the loss itself is the measure.
        without_effect = abs(float(exact)) < 1e-15 * abs(float(value))
        scale = abs(float(value)) if without_effect else abs(float(exact))
        found[kind] = {"value": float(exact), "relative_error": gap / scale}
    return found
