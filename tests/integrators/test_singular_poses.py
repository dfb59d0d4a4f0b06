"""Poses where the constraint Jacobian loses rank: mechanisms that pass them, start near them and
land on them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import jaxmbd as mbd
from helpers import FORMULATIONS, name_of
from jaxmbd.outcomes import RESULTS

INTEGRATORS = [mbd.GeneralizedAlpha(), mbd.BDF2(), mbd.ImplicitEuler()]
OTHERS = [
    (mbd.RA(), mbd.MuntheKaas(stabilization="projection")),
    (mbd.RA(), mbd.MuntheKaas(group="SO3xR3", stabilization="projection")),
    (mbd.RP(), mbd.RungeKutta(projection=True)),
    (mbd.REps(), mbd.RungeKutta(projection=True)),
    (mbd.Directors(), mbd.RungeKutta(projection=True)),
    (mbd.Directors(), mbd.GeneralizedAlpha()),
    (mbd.Directors(), mbd.BDF2()),
    (mbd.Directors(), mbd.EnergyMomentum()),
    (mbd.Directors(), mbd.EnergyMomentum(reduced=True)),
]
Y, G = (0.0, 1.0, 0.0), 9.81
BAR = (1e-3, 1 / 12, 1 / 12)
# [m]: Newton's tolerance, 2e-12 of the system's length, times what contraction is estimated
# wrongly; docs/concepts/choosing.md gives this limit.
CLOSED = 1e-9
STEPS = 8  # of a run across a pose; it lands on it at step 3
# Distances [rad] from the pose at which that step lands.
DISTANCES = [0.0, -1e-6, -1e-5, 1e-4, -2.2e-4]


def turned(angle):
    """About y, from x towards z."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])


# Beside these poses reactions grow without bound, and steps that end there say so.
pytestmark = pytest.mark.filterwarnings("ignore::jaxmbd.SingularPoseWarning")


class Ladder:
    """Parallelograms in a row, in line at θ = 0, where each could also leave as an
    antiparallelogram."""

    singular = 0.0

    def __init__(self, loops: int):
        self.loops = loops
        self.name = f"parallelograms {loops}"

    def inertia(self, theta):
        return (self.loops + 1) / 3 + self.loops, 0.0

    def torque(self, theta):
        return -G * ((self.loops + 1) / 2 + self.loops) * np.cos(theta)

    def build(self, theta, rate, driven=False):
        m = mbd.Mechanism("ladder")
        along = np.array([np.cos(theta), 0.0, np.sin(theta)])
        across = rate * np.array([-np.sin(theta), 0.0, np.cos(theta)])
        x = np.array([1.0, 0.0, 0.0])
        rockers = []
        for k in range(self.loops + 1):
            rocker = m.add_body(
                f"rocker{k}",
                mass=1.0,
                inertia=BAR,
                r=k * x + along / 2,
                A=turned(theta),
                v=across / 2,
                omega=(0.0, -rate, 0.0),
            )
            m.add(mbd.Revolute(f"ground{k}", m.ground, rocker, point=k * x, axis=Y))
            rockers.append(rocker)
        for k in range(self.loops):
            coupler = m.add_body(
                f"coupler{k}", mass=1.0, inertia=BAR, r=(k + 0.5) * x + along, v=across
            )
            m.add(mbd.Revolute(f"left{k}", rockers[k], coupler, point=k * x + along, axis=Y))
            m.add(
                mbd.Revolute(
                    f"right{k}", coupler, rockers[k + 1], point=(k + 1) * x + along, axis=Y
                )
            )
        if driven:
            m.add(
                mbd.RotationDriver("motor", m.ground, rockers[0], axis=Y, angle=lambda t: -rate * t)
            )
        return m.build()

    def off_branch(self, A):
        """How far couplers are from level."""
        return np.max(np.abs(A[:, self.loops + 1 :, 2, 0]))


class FoldedSliderCrank:
    """Crank and rod of one length: at a quarter turn they fold, and the slider could stay at the
    pivot from there."""

    name = "folded slider-crank"
    singular = np.pi / 2

    def inertia(self, theta):
        c, s = np.cos(theta), np.sin(theta)
        return 1 / 3 + 1 / 12 + 0.25 * c**2 + (2.25 + 4.0) * s**2, 2.0 * s * c * 6.0

    def torque(self, theta):
        return -G * np.cos(theta)

    def build(self, theta, rate):
        c, s = np.cos(theta), np.sin(theta)
        m = mbd.Mechanism("folded slider-crank")
        pin, end = np.array([c, 0.0, s]), np.array([2.0 * c, 0.0, 0.0])
        crank = m.add_body(
            "crank",
            mass=1.0,
            inertia=BAR,
            r=pin / 2,
            A=turned(theta),
            v=rate * np.array([-s, 0, c]) / 2,
            omega=(0.0, -rate, 0.0),
        )
        rod = m.add_body(
            "rod",
            mass=1.0,
            inertia=BAR,
            r=(pin + end) / 2,
            A=turned(-theta),
            v=rate * np.array([-1.5 * s, 0.0, 0.5 * c]),
            omega=(0.0, rate, 0.0),
        )
        slider = m.add_body("slider", mass=1.0, inertia=BAR, r=end, v=(-2.0 * rate * s, 0.0, 0.0))
        m.add(mbd.Revolute("pivot", m.ground, crank, point=(0.0, 0.0, 0.0), axis=Y))
        m.add(mbd.Revolute("pin", crank, rod, point=pin, axis=Y))
        m.add(mbd.Revolute("end", rod, slider, point=end, axis=Y))
        m.add(mbd.Translational("slide", m.ground, slider, point=end, axis=(1.0, 0.0, 0.0)))
        return m.build()

    def off_branch(self, A):
        """How far the rod is from the crank's mirror image."""
        return np.max(np.abs(A[:, 1, 2, 0] + A[:, 0, 2, 0]))


class Sarrus:
    """A platform that two legs guide along a straight line; level with the base, either leg could
    fold away by itself.

    Two singular values are lost at once. The legs' hinges are along y and along x.
    """

    name = "Sarrus"
    singular = 0.0

    def inertia(self, theta):
        c, s = np.cos(theta), np.sin(theta)
        return 2.0 * (1 / 3 + 1 / 12 + 0.25 * s**2 + 2.25 * c**2) + 4.0 * c**2, -16.0 * s * c

    def torque(self, theta):
        return -6.0 * G * np.cos(theta)

    def build(self, theta, rate):
        c, s = np.cos(theta), np.sin(theta)
        m = mbd.Mechanism("Sarrus")
        hinge, knee, top = (
            np.array([0.5, 0.0, 0.0]),
            np.array([0.5 + c, 0.0, s]),
            np.array([0.5, 0.0, 2.0 * s]),
        )
        turns = [np.eye(3), np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])]
        legs = []
        for k, turn in enumerate(turns):
            lower = m.add_body(
                f"lower{k}",
                mass=1.0,
                inertia=BAR,
                r=turn @ (hinge + knee) / 2,
                A=turn @ turned(theta),
                v=turn @ np.array([-s, 0.0, c]) * rate / 2,
                omega=(0.0, -rate, 0.0),
            )
            upper = m.add_body(
                f"upper{k}",
                mass=1.0,
                inertia=BAR,
                r=turn @ (knee + top) / 2,
                A=turn @ turned(-theta),
                v=turn @ np.array([-0.5 * s, 0.0, 1.5 * c]) * rate,
                omega=(0.0, rate, 0.0),
            )
            legs.append((lower, upper))
        platform = m.add_body(
            "platform", mass=1.0, inertia=(0.1, 0.1, 0.2), r=(0, 0, 2 * s), v=(0, 0, 2 * c * rate)
        )
        for k, (turn, (lower, upper)) in enumerate(zip(turns, legs, strict=True)):
            axis = turn @ np.array(Y)
            m.add(mbd.Revolute(f"base{k}", m.ground, lower, point=turn @ hinge, axis=axis))
            m.add(mbd.Revolute(f"knee{k}", lower, upper, point=turn @ knee, axis=axis))
            m.add(mbd.Revolute(f"top{k}", upper, platform, point=turn @ top, axis=axis))
        return m.build()

    def off_branch(self, A):
        """How far the links of the legs are from each other's images."""
        heights = np.stack([A[:, 0, 2, 0], -A[:, 1, 2, 0], A[:, 2, 2, 0], -A[:, 3, 2, 0]])
        return np.max(np.abs(heights - heights[0]))


class Gimbal:
    """A payload hinged to the ground and held by two rings; at θ = 0 the first axis of the rings is
    along the last."""

    name = "gimbal"
    singular = 0.0

    def inertia(self, theta):
        return 1 / 3 + 0.02, 0.0

    def torque(self, theta):
        return -G / 2 * np.cos(theta)

    def build(self, theta, rate):
        m = mbd.Mechanism("gimbal")
        along, across = (
            np.array([np.cos(theta), 0.0, np.sin(theta)]),
            np.array([-np.sin(theta), 0.0, np.cos(theta)]),
        )
        spin = {"A": turned(theta), "omega": (0.0, -rate, 0.0)}
        payload = m.add_body(
            "payload", mass=1.0, inertia=BAR, r=along / 2, v=rate * across / 2, **spin
        )
        outer = m.add_body("outer", mass=1.0, inertia=(0.03, 0.03, 0.04))
        inner = m.add_body("inner", mass=1.0, inertia=(0.01, 0.02, 0.025), **spin)
        center = (0.0, 0.0, 0.0)
        m.add(mbd.Revolute("hinge", m.ground, payload, point=center, axis=Y))
        m.add(mbd.Revolute("first", m.ground, outer, point=center, axis=(0.0, 0.0, 1.0)))
        m.add(mbd.Revolute("second", outer, inner, point=center, axis=Y))
        m.add(mbd.Revolute("third", inner, payload, point=center, axis=across))
        # The rings could turn together, the payload at rest, and this spring would turn them.
        m.add(
            mbd.TorsionalSpringDamper(
                "preload", m.ground, outer, axis=(0, 0, 1), stiffness=2.0, free_angle=0.5
            )
        )
        return m.build()

    def off_branch(self, A):
        """How far the outer ring is turned."""
        return np.max(np.abs(A[:, 1, 1, 0]))


MECHANISMS = [Ladder(1), Ladder(2), FoldedSliderCrank(), Sarrus(), Gimbal()]


def motion(mechanism, start, t):
    """Angles of the one degree of freedom, M(θ) θ̈ + ½ M' θ̇² = torque(θ), by scipy."""

    def rate(_, y):
        M, slope = mechanism.inertia(y[0])
        return [y[1], (mechanism.torque(y[0]) - 0.5 * slope * y[1] ** 2) / M]

    if t[-1] == 0.0:
        return np.array(start)[:, None]
    return solve_ivp(rate, (0.0, t[-1]), start, t_eval=t, method="DOP853", rtol=1e-12, atol=1e-13).y


def first_angle(A):
    return np.unwrap(np.arctan2(A[:, 0, 2, 0], A[:, 0, 0, 0]))


def crosses(mechanism, formulation, integrator, h, distances, rate=5.0):
    """Runs whose third step lands at each distance from the pose; the largest errors of angles over
    h²."""
    # Local errors of the second order's methods are h³; in a fixed number of steps Euler's grow to
    # parts of h² too.
    # A stage of an explicit method beside the gimbal's pose sees a force that grows as one over the
    # distance.
    explicit = isinstance(integrator, (mbd.MuntheKaas, mbd.RungeKutta))
    allowed = 200.0 if integrator.name == "implicit_euler" else 60.0 if explicit else 20.0
    tolerance = allowed * h**2
    for distance in distances:
        before = motion(
            mechanism, [mechanism.singular + distance, rate], np.array([0.0, -3.0 * h])
        )[:, -1]
        system, state = mechanism.build(*before)
        sol = mbd.simulate(
            system,
            state,
            h=h,
            steps=STEPS,
            formulation=formulation,
            integrator=integrator,
            throw=False,
        )
        told = f"{mechanism.name} {integrator.name} h={h} distance={distance}"
        assert sol.result == RESULTS.successful, f"{told}: {RESULTS[sol.result]}"
        truth = motion(mechanism, before, np.arange(STEPS + 1) * h)[0]
        error = np.angle(np.exp(1j * (first_angle(np.asarray(sol.A)) - truth)))
        assert np.max(np.abs(error)) < tolerance, f"{told}: {np.max(np.abs(error)) / h**2} h²"
        assert mechanism.off_branch(np.asarray(sol.A)) < tolerance, told
        assert np.max(np.abs(sol.violation(system).position)) < CLOSED, told
        # Forces of a bar on each side: undetermined parts of the multipliers are taken away, or
        # told.
        bounded = np.max(np.abs(sol.lam[3])) < 1e4 or int(sol.stats["undetermined_steps"]) > 0
        assert np.all(np.isfinite(sol.lam)) and bounded, told


@pytest.mark.parametrize("mechanism", [Ladder(2), FoldedSliderCrank()], ids=name_of)
def test_generalized_alpha_passes_a_change_point_wherever_a_step_lands(mechanism):
    for h in (5e-3, 2.5e-4):
        crosses(mechanism, mbd.RA(), mbd.GeneralizedAlpha(), h, DISTANCES)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=name_of)
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=name_of)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_a_change_point_is_passed_wherever_a_step_lands(mechanism, formulation, integrator):
    for h in (5e-3, 2e-3, 1e-3, 5e-4, 2.5e-4, 1e-4):
        crosses(mechanism, formulation, integrator, h, DISTANCES)


@pytest.mark.parametrize(
    "mechanism, formulation, integrator",
    [
        (Gimbal(), mbd.RA(), mbd.GeneralizedAlpha()),
        (FoldedSliderCrank(), mbd.RA(), mbd.MuntheKaas(stabilization="projection")),
        (FoldedSliderCrank(), mbd.Directors(), mbd.EnergyMomentum()),
    ],
    ids=["gimbal", "Munthe-Kaas", "energy and momentum"],
)
def test_other_mechanisms_and_methods_pass_a_change_point(mechanism, formulation, integrator):
    crosses(mechanism, formulation, integrator, 1e-3, DISTANCES)


@pytest.mark.slow
@pytest.mark.parametrize("formulation, integrator", OTHERS, ids=lambda x: name_of(x))
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_other_methods_pass_a_change_point_wherever_a_step_lands(
    mechanism, formulation, integrator
):
    for h in (5e-3, 1e-3, 1e-4):
        distances = DISTANCES
        if h == 1e-4 and isinstance(integrator, mbd.EnergyMomentum):
            distances = DISTANCES[1:]  # see the next test
        crosses(mechanism, formulation, integrator, h, distances)


@pytest.mark.parametrize("reduced", [False, True])
def test_an_energy_momentum_scheme_that_meets_the_pose_itself_is_right_or_says_so(reduced):
    # Newton's correction is undetermined there, and rounding decides whether a step finds its way.
    mechanism, h = Ladder(2), 1e-4
    start = motion(mechanism, [0.0, 5.0], np.array([0.0, -3.0 * h]))[:, -1]
    system, state = mechanism.build(*start)
    sol = mbd.simulate(
        system,
        state,
        h=h,
        steps=STEPS,
        formulation=mbd.Directors(),
        integrator=mbd.EnergyMomentum(reduced=reduced),
        throw=False,
    )
    done = int(sol.stats["completed_steps"])
    assert done == STEPS or sol.result == RESULTS.newton_max_steps
    assert done >= 2  # of the three that lead there
    truth = motion(mechanism, start, np.arange(STEPS + 1) * h)[0]
    error = np.angle(np.exp(1j * (first_angle(np.asarray(sol.A)) - truth)))
    assert np.max(np.abs(error[: done + 1])) < 20.0 * h**2
    assert np.all(np.isnan(error[done + 1 :]))


def test_reactions_without_bound_are_told_and_bounded_ones_are_not():
    h = 5e-3
    for mechanism, unbounded in ((Ladder(2), True), (FoldedSliderCrank(), False)):
        start = motion(mechanism, [mechanism.singular + 1e-4, 5.0], np.array([0.0, -3.0 * h]))[
            :, -1
        ]
        system, state = mechanism.build(*start)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sol = mbd.simulate(
                system,
                state,
                h=h,
                steps=STEPS,
                formulation=mbd.RA(),
                integrator=mbd.GeneralizedAlpha(),
            )
        assert (int(sol.stats["undetermined_steps"]) > 0) == unbounded
        assert [w.category for w in caught] == unbounded * [mbd.SingularPoseWarning]


@pytest.mark.parametrize(
    "formulation, integrator",
    [
        (mbd.RA(), mbd.GeneralizedAlpha()),
        (mbd.RA(), mbd.MuntheKaas(stabilization="projection")),
        (mbd.REps(), mbd.RungeKutta(projection=True)),
        (mbd.Directors(), mbd.EnergyMomentum()),
    ],
    ids=name_of,
)
def test_every_method_tells_of_multipliers_that_it_could_not_determine(formulation, integrator):
    # The truth grows as one over the distance: 17,300 at 1e-4 rad, where methods differ by factors.
    mechanism, h, told = Sarrus(), 5e-3, []
    for distance in (1e-4, 0.3):
        start = motion(mechanism, [distance, 5.0], np.array([0.0, -3.0 * h]))[:, -1]
        system, state = mechanism.build(*start)
        sol = mbd.simulate(
            system, state, h=h, steps=3, formulation=formulation, integrator=integrator
        )
        told.append(int(sol.stats["undetermined_steps"]))
    assert told == [1, 0]


def test_rows_between_chosen_steps_and_accelerations_tell_too():
    system, state = Ladder(2).build(1e-4, 5.0)
    assert bool(mbd.accelerations(system, state).undetermined)
    far, beside = Ladder(2).build(-0.3, 5.0)
    assert not bool(mbd.accelerations(far, beside).undetermined)
    passed = brentq(lambda t: motion(Ladder(2), [-0.3, 5.0], np.array([0.0, t]))[0, -1], 0.01, 0.2)
    with pytest.warns(mbd.SingularPoseWarning, match="1 row"):
        sol = mbd.simulate(far, beside, save_at=[0.0, passed + 2e-5, 0.2], step=mbd.Adaptive(1e-8))
    assert int(sol.stats["undetermined_rows"]) == 1


def test_a_run_that_meets_the_pose_between_two_rows_goes_on_with_the_whole_method():
    # Outside `jit` the fallbacks of Newton's method are compiled only once a step needs them.
    h, start = 5e-3, motion(Ladder(2), [0.0, 5.0], np.array([0.0, -4.0 * 5e-3]))[:, -1]
    system, state = Ladder(2).build(*start)

    def run(system, state, pieces=None):
        return mbd.simulate(
            system,
            state,
            h=h,
            steps=9,
            save_every=3,
            integrator=mbd.BDF2(),
            throw=False,
            on_chunk=pieces,
        )

    whole = jax.jit(lambda state: run(system, state))(state)
    for pieces in (None, lambda _: None):
        sol = run(system, state, pieces)
        assert sol.result == whole.result == RESULTS.successful
        assert int(sol.stats["completed_steps"]) == 9
        assert int(sol.stats["undetermined_steps"]) == int(whole.stats["undetermined_steps"])
        # The whole method goes on from the last row without the steps that the predictor knew: it
        # may take an iteration more, and both end somewhere within the tolerance e of positions.
        # Accelerations may then differ by 60 e/h² (see `Newton`), and multipliers, here of bars of
        # 1 kg, by ten times that, because beside the pose rows see some motion by little.
        assert np.max(np.abs(sol.iterations - whole.iterations)) <= 1
        e = float(np.finfo(float).eps) ** 0.75
        bounds = {"r": 4.0 * e, "A": 4.0 * e, "v": 4.0 * e / h, "omega": 4.0 * e / h}
        bounds |= {"a": 60.0 * e / h**2, "lam": 600.0 * e / h**2}
        for field, bound in bounds.items():
            one, other = np.asarray(getattr(sol, field)), np.asarray(getattr(whole, field))
            assert np.max(np.abs(one - other)) <= bound, field


def test_a_run_that_fails_between_two_rows_keeps_its_steps():
    system, state = driven_slider_crank(0.03)
    options = {"h": 1e-3, "steps": 60, "integrator": mbd.GeneralizedAlpha(), "throw": False}
    by_six = mbd.simulate(system, state, save_every=6, **options)
    by_one = mbd.simulate(system, state, **options)
    done = int(by_one.stats["completed_steps"])
    assert done % 6 and int(by_six.stats["completed_steps"]) == done
    assert by_six.result == by_one.result == RESULTS.singular
    assert np.allclose(by_six.r[: done // 6 + 1], by_one.r[: done + 1 : 6], atol=1e-12)
    assert np.all(np.isnan(by_six.r[done // 6 + 1 :]))


def test_multipliers_after_a_landing_on_the_pose_are_those_of_the_motion():
    # They once rang at twenty times their size: on the pose itself a step fell freely off the
    # branch.
    mechanism, h = Ladder(2), 5e-3
    start = motion(mechanism, [0.0, 5.0], np.array([0.0, -3.0 * h]))[:, -1]
    found = []
    for integrator in (mbd.BDF2(), mbd.MuntheKaas(stabilization="projection")):
        system, state = mechanism.build(*start)
        sol = mbd.simulate(
            system, state, h=h, steps=STEPS, formulation=mbd.RA(), integrator=integrator
        )
        found.append(np.max(np.abs(sol.lam[4:]), axis=1))
    assert np.max(np.abs(found[0] / found[1] - 1.0)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS, ids=name_of)
@pytest.mark.parametrize("formulation", FORMULATIONS, ids=name_of)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_ten_seconds_through_change_points(mechanism, formulation, integrator):
    start, last = [np.pi / 4, 6.0], None
    system, state = mechanism.build(*start)
    truth = motion(mechanism, start, np.array([0.0, 10.0]))[0, -1]
    for h in (5e-3, 1e-3, 5e-4, 2.5e-4, 1e-4):
        sol = mbd.simulate(
            system,
            state,
            h=h,
            t_end=10.0,
            save_every=round(5e-3 / h),
            formulation=formulation,
            integrator=integrator,
            throw=False,
        )
        assert sol.result == RESULTS.successful, f"h={h}: {RESULTS[sol.result]}"
        error = abs(np.angle(np.exp(1j * (first_angle(np.asarray(sol.A))[-1] - truth))))
        if h < 1e-3 and last is not None and integrator.error_order == 2:
            assert error < 0.5 * last + 1e-7, f"h={h}: {error} after {last}"
        last = error


def driven_slider_crank(lead):
    """A crank that its slider drives through the dead center, which it reaches after `lead`
    seconds.

    The drive is consistent with a crank turning at 1 rad/s, but gravity turns the crank at the dead
    center, where no force of the slider holds it.
    """
    r, rod = 0.5, 1.0
    pin = r * np.array([np.cos(lead), 0.0, -np.sin(lead)])
    end = np.array([pin[0] + np.sqrt(rod**2 - pin[2] ** 2), 0.0, 0.0])
    m = mbd.Mechanism("driven slider-crank")
    crank = m.add_body("crank", mass=1.0, inertia=BAR, r=pin / 2, A=turned(-lead))
    link = m.add_body(
        "rod",
        mass=1.0,
        inertia=BAR,
        r=(pin + end) / 2,
        A=turned(np.arctan2(-pin[2], end[0] - pin[0])),
    )
    slider = m.add_body("slider", mass=1.0, inertia=BAR, r=end)
    m.add(mbd.Revolute("pivot", m.ground, crank, point=(0.0, 0.0, 0.0), axis=Y))
    m.add(mbd.Revolute("pin", crank, link, point=pin, axis=Y))
    m.add(mbd.Revolute("end", link, slider, point=end, axis=Y))
    m.add(mbd.Translational("slide", m.ground, slider, point=end, axis=(1.0, 0.0, 0.0)))

    def displacement(t):
        angle = t - lead
        return r * jnp.cos(angle) + jnp.sqrt(rod**2 - (r * jnp.sin(angle)) ** 2) - end[0]

    m.add(
        mbd.TranslationDriver(
            "drive", m.ground, slider, axis=(1.0, 0.0, 0.0), displacement=displacement
        )
    )
    return m.build()


@pytest.mark.parametrize("offset", [0.0, 5e-4])
def test_an_unbounded_force_at_a_dead_center_ends_the_run_as_singular(offset):
    system, state = driven_slider_crank(0.03 + offset)
    sol = mbd.simulate(
        system, state, h=1e-3, steps=60, integrator=mbd.GeneralizedAlpha(), throw=False
    )
    assert sol.result == RESULTS.singular
    assert 20 <= int(sol.stats["completed_steps"]) < 32


def test_a_driven_crank_carries_parallelograms_through_their_change_point():
    # Forces without bound are in the pins here; the driver holds a bounded one, so the run goes on.
    h, rate = 5e-3, 5.0
    mechanism = Ladder(2)
    start = -3.0 * h * rate
    system, state = mechanism.build(start, rate, driven=True)
    sol = mbd.simulate(system, state, h=h, steps=STEPS, integrator=mbd.GeneralizedAlpha())
    assert np.allclose(first_angle(np.asarray(sol.A)), start + rate * np.asarray(sol.t), atol=1e-10)
    assert mechanism.off_branch(np.asarray(sol.A)) < 20.0 * h**2


def test_derivatives_across_a_change_point_are_finite():
    mechanism, h = Ladder(1), 1e-3
    before = motion(mechanism, [0.0, 5.0], np.array([0.0, -3.0 * h]))[:, -1]
    system, state = mechanism.build(*before)

    def outcome(h):
        return mbd.simulate(
            system, state, h=h, steps=5, integrator=mbd.GeneralizedAlpha(), throw=False
        ).r[-1, 0, 2]

    assert np.isfinite(jax.jacfwd(outcome)(jnp.asarray(h)))
