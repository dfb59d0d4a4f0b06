"""The same chains and four-bars in Exudyn and MuJoCo, where these are installed (the extra
`bench`).
"""

import math
import time

import numpy as np

import jaxmbd as mbd

H = 1e-3


def versions():
    """Installed peers and their versions."""
    from importlib import metadata

    found = {}
    for name in ("exudyn", "mujoco", "mujoco-mjx"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def exudyn_us(model, steps):
    """Microseconds per step of generalized-alpha in Exudyn, the better of its dense and its sparse
    solver.

    NaN where the solver gives up, as it does on redundant rows.
    """
    import exudyn as exu
    from exudyn.utilities import RigidBodyInertia

    best = math.nan
    m = mbd.load_mechanism(model)
    system, _ = m.build()
    small = system.nb <= 32  # the dense one takes minutes beyond
    for solver in [exu.LinearSolverType.EXUdense] * small + [exu.LinearSolverType.EigenSparse]:
        mbs = exu.SystemContainer().AddSystem()
        bodies = {"ground": mbs.CreateGround()}
        for k, (name, body) in enumerate(m.bodies.items()):
            bodies[name] = mbs.CreateRigidBody(
                inertia=RigidBodyInertia(float(system.mass[k]), np.asarray(system.inertia[k])),
                referencePosition=np.asarray(body.r).tolist(),
                referenceRotationMatrix=np.asarray(body.A),
                initialVelocity=np.asarray(body.v).tolist(),
                initialAngularVelocity=(np.asarray(body.A) @ np.asarray(body.omega)).tolist(),
                gravity=np.asarray(m.gravity).tolist(),
            )
        for joint in m.constraints.values():
            mbs.CreateRevoluteJoint(
                bodyNumbers=[bodies[_name(joint.body_i)], bodies[_name(joint.body_j)]],
                position=np.asarray(joint.point).tolist(),
                axis=np.asarray(joint.axis).tolist(),
                useGlobalFrame=True,
            )
        mbs.Assemble()
        settings = exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps = steps
        settings.timeIntegration.endTime = steps * H
        settings.timeIntegration.verboseMode = 0
        settings.solutionSettings.writeSolutionToFile = False
        settings.linearSolverType = solver
        begin = time.perf_counter()
        try:
            good = mbs.SolveDynamic(
                settings, solverType=exu.DynamicSolverType.GeneralizedAlpha, showHints=False
            )
        except Exception:  # what Exudyn raises depends on where it gives up
            good = False
        if good:
            best = np.fmin(best, (time.perf_counter() - begin) / steps * 1e6)
    return float(best)


def _name(body):
    return body if isinstance(body, str) else body.name


def mujoco_chain_us(n, steps):
    """Microseconds per step of MuJoCo on `revolute_chain:n`, in minimal coordinates with its
    default integrator.
    """
    import mujoco

    opened = closed = ""
    for k in range(n):
        axis = "1 0 0" if k % 2 == 0 else "0 1 0"
        opened += (
            f'<body pos="0 0 {-min(k, 1)}"><joint type="hinge" axis="{axis}"/>'
            f'<inertial pos="0 0 -0.5" mass="1" diaginertia="{1 / 12} {1 / 12} 1e-3"/>'
        )
        closed += "</body>"
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{H}" gravity="3 1 -9"/>'
        f"<worldbody>{opened}{closed}</worldbody></mujoco>"
    )
    return _mujoco_us(model, steps)


def _four_bar_in_mujoco():
    """The four-bar with three hinges and a soft connection in place of the fourth, and where its
    tip should stay.
    """
    import mujoco

    system, state = mbd.load("four_bar")
    r, A = np.asarray(state.r), np.asarray(state.A)
    hinges = [
        np.zeros(3),
        r[0] + A[0] @ [0.5, 0, 0],
        r[1] + A[1] @ [1.75, 0, 0],
        np.array([4.0, 0, 0]),
    ]
    text, last = "", np.zeros(3)
    for k in range(3):
        i = np.asarray(system.inertia[k])
        world = A[k] @ i @ A[k].T
        center = r[k] - hinges[k]
        full = [world[0, 0], world[1, 1], world[2, 2], world[0, 1], world[0, 2], world[1, 2]]
        text += (
            f'<body name="b{k}" pos="{_text(hinges[k] - last)}"><joint type="hinge" axis="0 1 0"/>'
            f'<inertial pos="{_text(center)}" mass="{float(system.mass[k])}" '
            f'fullinertia="{_text(full)}"/>'
        )
        last = hinges[k]
    tip = _text(hinges[3] - hinges[2])
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{H}"/><worldbody>{text}<site name="tip" pos="{tip}"/>'
        f"{'</body>' * 3}</worldbody>"
        f'<equality><connect body1="b2" anchor="{tip}"/></equality></mujoco>'
    )
    return model, hinges[3]


def mujoco_four_bar(steps):
    """Microseconds per step of MuJoCo on the four-bar, its loop closed softly, and the largest gap
    of the loop [m].
    """
    import mujoco

    model, place = _four_bar_in_mujoco()
    data = mujoco.MjData(model)
    gap = 0.0
    for _ in range(steps):
        mujoco.mj_step(model, data)
        gap = max(gap, float(np.linalg.norm(data.site_xpos[0] - place)))
    return _mujoco_us(model, steps), gap


def mjx_four_bar_lowered(size, steps):
    """The program of a batch of four-bars of different speeds in MJX, not yet compiled, and its
    argument; it gives the gaps at the end [m].
    """
    import jax
    import jax.numpy as jnp
    from mujoco import mjx

    model, place = _four_bar_in_mujoco()
    model = mjx.put_model(model)
    start = mjx.make_data(model)

    @jax.jit
    @jax.vmap
    def run(speed):
        data = start.replace(qvel=start.qvel.at[0].set(speed))
        data = jax.lax.fori_loop(0, steps, lambda _, d: mjx.step(model, d), data)
        return jnp.linalg.norm(data.site_xpos[0] - place)

    speeds = jnp.linspace(0.0, 0.1, size)
    return run.lower(speeds), speeds


def mjx_four_bar(size, steps):
    """State-steps per second of MJX on a batch of four-bars of different speeds, and the largest
    gap at the end [m].
    """
    import jax

    lowered, speeds = mjx_four_bar_lowered(size, steps)
    run = lowered.compile()
    gap = float(np.max(run(speeds)))
    best = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        jax.block_until_ready(run(speeds))
        best = min(best, time.perf_counter() - begin)
    return size * steps / best, gap


def _text(x):
    return " ".join(repr(float(v)) for v in x)


def _mujoco_us(model, steps):
    import mujoco

    best = math.inf
    for _ in range(3):
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 10)
        begin = time.perf_counter()
        mujoco.mj_step(model, data, steps)
        best = min(best, (time.perf_counter() - begin) / steps * 1e6)
    return best
