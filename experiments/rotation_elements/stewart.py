"""The Stewart platform: forward dynamics, inverse kinematics and dynamics, workspace,
calibration.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import jaxmbd as mbd
from jaxmbd.library import stewart_platform
from jaxmbd.library.stewart import HOME, anchors
from jaxmbd.rotations import so3

VARIANTS = {"massless": False, "legs": True}
LEGS = [f"leg {k}" for k in range(1, 7)]
REACH = (0.4, 0.8)  # a rod of 0.4 m in a cylinder of 0.4 m [m]
RADIUS = 0.3  # of the platform [m]: makes moments and forces comparable
TIMES = (0.1, 0.5)


# --- forward dynamics ----------------------------------------------------------------------------


def forward(variant, h, reference_steps, names):
    """Positions of the platform at TIMES by rotation-matrix elements, and by others extrapolated
    from two steps.
    """
    system, state = stewart_platform(legs=VARIANTS[variant]).build()
    every = round(0.1 / h)
    elements = mbd.simulate(
        system,
        state,
        h=h,
        steps=5 * every,
        save_every=every,
        formulation=mbd.RotationElements(),
        integrator=mbd.RungeKutta(),
    )
    at = [1, 5]
    own = np.asarray(elements.r[:, 0])[at]
    others = {}
    for name in names:
        coarse, fine = (
            np.asarray(
                mbd.simulate(
                    system,
                    state,
                    h=step,
                    steps=round(0.5 / step),
                    save_every=round(0.1 / step),
                    formulation=mbd.FORMULATIONS[name](),
                    integrator=mbd.GeneralizedAlpha(newton=mbd.Newton(1e-13)),
                ).r[:, 0]
            )[at]
            for step in reference_steps
        )
        others[name] = (4.0 * fine - coarse) / 3.0  # second order
    return {
        "position": {f"{t:g}": own[k].tolist() for k, t in enumerate(TIMES)},
        "difference": {
            name: float(np.max(np.abs(other[1] - own[1]))) for name, other in others.items()
        },
        "joints": float(
            np.max(np.abs(np.asarray(elements.violation(system).position)), initial=0.0)
        ),
    }


def timings(steps=500):
    """Processor microseconds a step of RK4 on the 13 bodies: both eliminations, and rA on its
    group; best of five.
    """
    system, state = stewart_platform(legs=True).build()
    cases = {
        "two_step": (mbd.RotationElements(), mbd.RungeKutta()),
        "one_shot": (mbd.RotationElements("one_shot"), mbd.RungeKutta()),
        "rA": (mbd.RA(), mbd.MuntheKaas()),
    }
    found = {}
    for name, (formulation, integrator) in cases.items():

        def end(state, formulation=formulation, integrator=integrator):
            return mbd.simulate(
                system,
                state,
                h=1e-3,
                steps=steps,
                save_every=steps,
                formulation=formulation,
                integrator=integrator,
            ).r[-1]

        compiled = jax.jit(end).lower(state).compile()
        best = []
        for _ in range(5):
            start = time.process_time()
            compiled(state).block_until_ready()
            best.append(time.process_time() - start)
        found[name] = min(best) / steps * 1e6
    return found


# --- a prescribed platform -----------------------------------------------------------------------


def displacement(t):
    """A loop that starts and ends at rest [m]."""
    s = 1.0 - jnp.cos(2.0 * jnp.pi * t)
    return jnp.stack([0.05 * s, 0.03 * s * jnp.sin(jnp.pi * t), -0.02 * s])


def rotation(t):
    """Its rotation vector [rad]."""
    return (1.0 - jnp.cos(2.0 * jnp.pi * t)) * jnp.array([0.1, -0.05, 0.15])


def leg_lengths(r, A, base=None, platform=None):
    """Inverse kinematics in closed form: lengths (..., 6) for poses r (..., 3), A (..., 3, 3)."""
    B, P = (
        given if given is not None else own
        for given, own in zip((base, platform), anchors(), strict=True)
    )
    ends = r[..., None, :] + jnp.einsum("...ij,kj->...ki", A, jnp.asarray(P))
    return jnp.linalg.norm(ends - jnp.broadcast_to(jnp.asarray(B), ends.shape), axis=-1)


def at_rest(legs):
    m = stewart_platform(legs=legs)
    return m.with_values(
        {f"bodies.{b}.{part}": np.zeros(3) for b in m.bodies for part in ("v", "omega")}
    )


def inverse(variant, h, t_end):
    """Pushes of the legs for the prescribed loop, and what forward dynamics makes of them."""
    m = at_rest(VARIANTS[variant])
    driven = m.with_values({})
    driven.add(
        mbd.PoseDriver(
            "move", driven.ground, "platform", displacement=displacement, rotation=rotation
        )
    )
    n = round(t_end / h)
    found = mbd.inverse_dynamics(*driven.build(), np.arange(2 * n + 1) * h / 2, actuators=LEGS)
    pushed = m.with_values({f"forces.{leg}.actuator": found.motion(leg) for leg in LEGS})
    system, state = pushed.build()
    back = mbd.simulate(
        system, state, h=h, steps=n, formulation=mbd.RotationElements(), integrator=mbd.RungeKutta()
    )
    gap = {
        "position": float(jnp.max(jnp.abs(back.r[:, 0] - found.solution.r[::2, 0]))),
        "rotation": float(jnp.max(jnp.abs(back.A[:, 0] - found.solution.A[::2, 0]))),
    }
    moved = found.solution
    platform = moved.r[:, 0], moved.A[:, 0]
    rates = jax.vmap(
        lambda t: jax.jvp(lambda s: leg_lengths(*prescribed(s)), (t,), (jnp.ones_like(t),))[1]
    )(moved.t)
    gap["leg_rates"] = float(
        jnp.max(jnp.abs(jnp.stack([found.rates[leg] for leg in LEGS], axis=1) - rates))
    )
    history = {
        "t": np.asarray(moved.t),
        "lengths": np.asarray(leg_lengths(*platform)),
        "pushes": np.stack([np.asarray(found.efforts[leg]) for leg in LEGS], axis=1),
    }
    return gap, history, (system, back)


def prescribed(t):
    """The prescribed pose at an instant."""
    return jnp.asarray(HOME) + displacement(t), so3.exp(rotation(t))


# --- workspace and singularities -----------------------------------------------------------------


def conditions(r, A):
    """Lengths (n, 6), reciprocal condition (n,) and determinant (n,) of the scaled leg Jacobian at
    n poses, one batch.

    Moments are divided by the platform's radius.
    """
    system, state = stewart_platform().build()

    def one(r, A):
        pose = mbd.State(r[None], A[None], state.v, state.omega)
        rows = mbd.actuator_wrenches(system, pose, LEGS)[:, 0] / jnp.array(
            [[1.0] * 3 + [RADIUS] * 3]
        )
        values = jnp.linalg.svd(rows, compute_uv=False)
        return leg_lengths(r, A), values[-1] / values[0], jnp.linalg.det(rows)

    return jax.jit(jax.vmap(one))(jnp.asarray(r), jnp.asarray(A))


def workspace(n):
    """Two cuts of the workspace at level orientation, and the way through yaw at home."""
    x = np.linspace(-0.6, 0.6, n)
    cuts = {}
    for name, points in {
        "y = 0": np.stack([*np.meshgrid(x, [0.0], np.linspace(0.2, 0.9, n), indexing="ij")], -1)[
            :, 0
        ],
        "z = 0.6 m": np.stack([*np.meshgrid(x, x, [0.6], indexing="ij")], -1)[:, :, 0],
    }.items():
        flat = points.reshape(-1, 3)
        lengths, quality, _ = conditions(flat, np.broadcast_to(np.eye(3), (len(flat), 3, 3)))
        inside = np.all(
            (np.asarray(lengths) >= REACH[0]) & (np.asarray(lengths) <= REACH[1]), axis=1
        )
        cuts[name] = (
            points,
            inside.reshape(points.shape[:2]),
            np.asarray(quality).reshape(points.shape[:2]),
        )
    yaw = np.linspace(-np.pi, np.pi, 8 * n + 1)
    turned = jax.vmap(lambda a: so3.exp(jnp.array([0.0, 0.0, 1.0]) * a))(jnp.asarray(yaw))
    _, quality, determinant = conditions(np.broadcast_to(HOME, (len(yaw), 3)), turned)
    return cuts, (yaw, np.asarray(quality), np.asarray(determinant))


def singular_yaw(yaw, determinant):
    """Angles at which the determinant changes its sign [degrees]."""
    change = np.nonzero(np.sign(determinant[1:]) * np.sign(determinant[:-1]) < 0)[0]
    root = yaw[change] - determinant[change] * (yaw[change + 1] - yaw[change]) / (
        determinant[change + 1] - determinant[change]
    )
    exact = yaw[np.nonzero(np.abs(determinant) < 1e-12)[0]]
    return np.unique(np.round(np.degrees(np.concatenate([root, exact])), 6)).tolist()


# --- calibration ---------------------------------------------------------------------------------


def forward_kinematics(base, platform, lengths, guess):
    """Poses at which the legs have the given lengths, (n, 6), near guesses: assembly of a platform
    on six links.
    """

    def one(lengths, r, A):
        m = mbd.Mechanism("links", gravity=(0, 0, 0))
        m.add_body("platform", mass=20.0, inertia=(0.5, 0.5, 0.9), r=r, A=A)
        for k in range(6):
            end = r + A @ platform[k]
            m.add(
                mbd.Distance(
                    LEGS[k], m.ground, "platform", point_i=base[k], point_j=end, length=lengths[k]
                )
            )
        state, report = mbd.assemble(*m.build())
        return state.r[0], state.A[0], report.closed

    return jax.vmap(one)(lengths, *guess)


def calibration(poses, checks, seed=0, offset=2e-3, noise=(5e-5, 1e-4)):
    """Anchor points from measured poses at commanded lengths: 36 numbers by least squares with
    exact Jacobians.

    Args:
        poses: Number of measured poses.
        checks: Number of further poses to judge by.
        seed: Of everything random.
        offset: Standard deviation of the anchors from their drawing [m].
        noise: Of measured positions [m] and rotations [rad].
    """
    rng = np.random.default_rng(seed)
    drawn = np.stack(anchors())
    true = drawn + offset * rng.normal(size=drawn.shape)
    n = poses + checks
    r = HOME + rng.uniform(-0.08, 0.08, (n, 3))
    A = jax.vmap(so3.exp)(jnp.asarray(rng.uniform(-0.35, 0.35, (n, 3))))
    commands = leg_lengths(jnp.asarray(r), A)  # what the drawing takes to reach these poses

    solve = jax.jit(
        lambda x: forward_kinematics(*x.reshape(2, 6, 3), commands, (jnp.asarray(r), A))
    )

    def gaps(found, where):
        # Weighted by the noise.
        r_found, A_found = (x[where] for x in found[:2])
        turn = jax.vmap(lambda a, b: so3.log(a.T @ b))(A_measured[where], A_found)
        return jnp.concatenate([(r_found - r_measured[where]) / noise[0], turn / noise[1]], axis=1)

    r_true, A_true, closed = solve(jnp.asarray(true.reshape(-1)))
    assert bool(jnp.all(closed))
    r_measured = r_true + noise[0] * jnp.asarray(rng.normal(size=(n, 3)))
    A_measured = jax.vmap(lambda A, x: A @ so3.exp(x))(
        A_true, noise[1] * jnp.asarray(rng.normal(size=(n, 3)))
    )
    used, unseen = slice(0, poses), slice(poses, n)

    residual = jax.jit(lambda x: gaps(solve(x), used).reshape(-1))
    jacobian = jax.jit(jax.jacfwd(lambda x: gaps(solve(x), used).reshape(-1)))
    start = drawn.reshape(-1)
    fit = least_squares(
        lambda x: np.asarray(residual(jnp.asarray(x))),
        start,
        jac=lambda x: np.asarray(jacobian(jnp.asarray(x))),
        method="lm",
        x_scale=1e-3,
    )
    spread = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))

    def position_error(x):
        found = solve(jnp.asarray(x))[0][unseen]
        return np.linalg.norm(np.asarray(found - r_true[unseen]), axis=1)

    before, after = position_error(start), position_error(fit.x)
    errors = fit.x - true.reshape(-1)
    return {
        "anchor_error_before_m": float(np.sqrt(np.mean((start - true.reshape(-1)) ** 2))),
        "anchor_error_after_m": float(np.sqrt(np.mean(errors**2))),
        "anchor_standard_error_m": float(np.sqrt(np.mean(spread**2))),
        "normalized_error": float(np.sqrt(np.mean((errors / spread) ** 2))),
        "pose_error_before_m": float(np.mean(before)),
        "pose_error_after_m": float(np.mean(after)),
        "evaluations": int(fit.nfev),
        "rms_weighted_residual": float(np.sqrt(np.mean(fit.fun**2))),
    }, (errors.reshape(2, 6, 3), spread.reshape(2, 6, 3), before, after)
