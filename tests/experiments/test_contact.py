"""The contact experiment: its references, and what its README says in quick form."""

import numpy as np
import pytest

import jaxmbd as mbd
from experiments.contact import mechanisms, orders, scale, stops, woodpecker
from helpers import quick_experiment


def test_the_slopes_of_the_slider_crank_are_those_of_differences():
    step, angle = 1e-6, 0.7
    ahead, behind = (mechanisms.linkage(angle + s * step) for s in (1.0, -1.0))
    crank, crank_slope, rod, rod_slope, rate = mechanisms.linkage(angle)
    for slope, k in ((crank_slope, 0), (rod_slope, 2)):
        np.testing.assert_allclose(slope, (ahead[k] - behind[k]) / (2.0 * step), atol=1e-9)
    assert abs(np.hypot(*rod[[0, 2]]) - mechanisms.ROD) < 1e-15
    assert abs((crank + rod)[2]) < 1e-15
    # The rod turns as its direction does.
    np.testing.assert_allclose(np.cross([0.0, rate, 0.0], rod), rod_slope, atol=1e-15)


def test_balls_of_the_large_scene_start_apart():
    _, state = scale.spheres_in_a_box(50)
    r = np.asarray(state.r)
    between = np.linalg.norm(r[:, None] - r[None, :], axis=-1)[np.triu_indices(50, 1)]
    assert np.min(between) > 2 * 0.09
    assert np.max(np.abs(r[:, :2])) < 0.45 - 0.09 and np.min(r[:, 2]) > 0.09


def test_a_slider_crank_bounces_off_its_stop_as_its_minimal_coordinate_does():
    """The rows of a step are those of its middle, not of the impact: an error of first order. The
    tolerance is what the crank turns in two steps.
    """
    angle, impacts = stops.exact(0.6)
    assert len(impacts) == 1
    sol = mbd.simulate(*stops.slider_crank(), t_end=0.6, h=1e-3)
    turned = stops.ANGLE + np.asarray(sol.joint("main").angle)
    assert np.max(np.abs(turned - angle(np.asarray(sol.t)))) < 2.0 * 1e-3 * abs(stops.SPIN)
    assert np.min(np.asarray(sol.limit("stop").gap)) > -1e-12
    assert np.max(np.asarray(sol.r[:, 2, 0])) < stops.REACH + 1e-12


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        pytest.param("rocking block", (1, 2), marks=pytest.mark.essential),
        *(pytest.param(name, (1, 2, 4), marks=pytest.mark.slow) for name in orders.CASES),
    ],
)
def test_a_step_is_of_second_order_where_contacts_open_and_close(name, parts):
    found = orders.observed(orders.errors(name, parts))
    np.testing.assert_allclose(found, 2.0, rtol=0, atol=0.15)


def test_the_reference_of_the_rocking_block_keeps_its_energy_between_impacts():
    """And loses at each of them what Housner's formula says, 1 - (1 - 3/2 sin²α)²."""
    _, hits = orders.block_by_ode(0.9)
    assert len(hits) == 2

    def energy(t):
        tilt, rate, x, z = orders.block_by_ode(t)[0]
        arm = 0.5 * np.hypot(orders.WIDTH, orders.HEIGHT)
        return orders.WEIGHT * (2.0 / 3.0 * arm**2 * rate**2 + orders.G * (z - 0.5 * orders.HEIGHT))

    before, between, after = (energy(t) for t in (0.1, 0.5, 0.89))
    assert abs(energy(0.3) - before) < 1e-10 and abs(energy(0.7) - between) < 1e-10
    sine = orders.WIDTH / np.hypot(orders.WIDTH, orders.HEIGHT)
    kept = (1.0 - 1.5 * sine**2) ** 2
    np.testing.assert_allclose([between / before, after / between], kept, rtol=1e-9)


def test_the_reference_of_the_woodpecker_toy_is_that_of_siconos():
    """Both are of first order, with other end conditions of their sweeps."""
    t, q, _ = woodpecker.minimal(0.3, 2e-5, woodpecker.turned_linearly)
    row = np.argmin(np.abs(t - woodpecker.SICONOS_TIME))
    assert abs(t[row] - woodpecker.SICONOS_TIME) < 1e-9
    np.testing.assert_allclose(q[row], woodpecker.SICONOS, rtol=2e-4)


@pytest.mark.slow
def test_the_contact_experiment_keeps_its_figures(tmp_path):
    found = quick_experiment("contact", tmp_path)
    pictures = {"motions.png", "play.png", "events.png", "juggling.png", "scale.png"}
    assert {p.name for p in tmp_path.glob("*.png")} == pictures
    assert found["ball_height_error"] < 1e-10
    assert found["ball_energy_drift_100s"] < 1e-8
    assert found["creep_10s"] < 1e-11
    assert found["threshold_error_mu"] < 1e-6
    assert found["sliding_error"] < 1e-10
    assert found["rolling_speed_error"] < 1e-11
    assert found["sliding_cube_lift"] < 1e-9
    assert found["stack_base_force_error"] < 1e-8
    assert found["gradient_tossed_ball"] < 1e-8
    assert found["gradient_two_balls"] < 1e-10
    assert all(x["finite"] for x in found["gradient_cost"].values())
    for batch in found["gradient_batches"].values():
        assert batch["not_finite"] == 0
        assert batch["differ_from_single_runs"] < 1e-8
    assert found["throws_e0_failures"] == found["throws_e03_failures"] == 0
    assert found["random_problems_failures"] == 0
    # The elastic spring and the turning points are exact; the pendulum's own motion is not.
    assert found["dry_oscillator_error"] < 1e-7
    assert found["dry_pendulum_error"]["0.00125"] < 1e-5
    # It falls in every step of the first 10 ms; later the local error of third order shows, 2e-6.
    assert found["slider_crank_with_play"]["energy_rises_by"] < 0.0
    assert found["slider_crank_with_play"]["deepest"] < 1e-8
    # Of second order: 1.3e-3, 3.3e-4, 8e-5 of the first 10 ms with steps of 50, 25, 12.5 µs.
    assert found["slider_crank_dry_guide"]["energy_balance_error"] < 5e-4
    assert found["slider_crank_with_stop"]["beyond_the_stop"] < 1e-12
    assert found["slider_crank_with_stop"]["order"] > 0.8  # first, from two steps
    toy = found["woodpecker"]
    # The reference switches at the ends of its steps of 20 µs.
    reference = toy["strikes_in_minimal_coordinates"]["2e-05"]
    np.testing.assert_allclose(toy["strikes"]["0.0001"], reference, rtol=0, atol=4e-5)
    assert toy["deepest"] < 1e-12 and toy["energy_rises_by"] < 1e-9
    assert found["juggling"]["derivatives"]["miss"][0] < 1e-3
    for name in ("friction", "restitution"):
        one = found["identified"][name]
        assert abs(one["estimate"] - one["truth"]) < 4.0 * one["error"]
