"""The benchmark bicycle of Meijaard, Papadopoulos, Ruina and Schwab, with its nonlinear motion."""

from typing import Any

import numpy as np

from ..model.joints import Revolute
from ..model.mechanism import Mechanism
from ..model.rolling import RollingDisc
from ..rotations.types import library_of


def whipple_bicycle(
    speed: Any = 4.6,
    *,
    wheelbase: Any = 1.02,
    trail: Any = 0.08,
    steer_tilt: Any = np.pi / 10,
    rear_radius: Any = 0.3,
    front_radius: Any = 0.35,
    rider: bool = True,
    frame_mass: Any = 85.0,
    fork_mass: Any = 4.0,
    front_mass: Any = 3.0,
    frame_center: Any = (0.3, 0.9),
    roll_rate: Any = 0.0,
) -> Mechanism:
    """The benchmark bicycle, upright and rolling straight along x: two wheels that are knife-edge
    discs, a frame with a rigid rider, and a fork. x forward, z upward, the rear contact below the
    origin.

    The numbers are those of Proc. R. Soc. A 463 (2007) 1955-1982, Table 1, whose z axis points
    down. All may be traced by JAX.

    Args:
        speed: Forward [m/s].
        wheelbase: Distance of the contacts [m].
        trail: How far the front contact is behind the steering axis on the ground [m].
        steer_tilt: Of the steering axis against the vertical, backwards [rad].
        rear_radius: Of the rear wheel [m].
        front_radius: Of the front wheel [m].
        rider: Whether the frame carries its rider; without, its mass and inertia are those of a
            frame alone (12 kg, a guess), and `frame_mass` and `frame_center` are not used.
        frame_mass: Of the frame with its rider [kg].
        fork_mass: Of the fork with its handlebar [kg].
        front_mass: Of the front wheel [kg].
        frame_center: Mass center of the frame with its rider, (x, z) [m].
        roll_rate: Initial rate about x of the whole bicycle [rad/s]; it leans to the right for a
            positive one.

    Returns:
        The mechanism, with bodies rear_wheel, frame, fork and front_wheel.
    """
    xp = np if isinstance(steer_tilt, float | int) else library_of(steer_tilt)
    if not rider:
        frame_mass, frame_center = 12.0, (0.45, 0.55)
    inertia = (
        [[9.2, 0.0, -2.4], [0.0, 11.0, 0.0], [-2.4, 0.0, 2.8]]
        if rider
        else [[0.45, 0.0, -0.15], [0.0, 1.1, 0.0], [-0.15, 0.0, 0.75]]
    )
    m = Mechanism("whipple_bicycle")
    y, lean = (0.0, 1.0, 0.0), (roll_rate, 0.0, 0.0)

    def moving(z: float) -> tuple[Any, Any, float]:
        """Velocity of a point at height z: forward, and to the side where it leans."""
        return (speed, -roll_rate * z, 0.0)

    rear = m.add_body(
        "rear_wheel",
        mass=2.0,
        inertia=(0.0603, 0.12, 0.0603),
        r=(0.0, 0.0, rear_radius),
        v=moving(rear_radius),
        omega=(roll_rate, speed / rear_radius, 0.0),
    )
    frame = m.add_body(
        "frame",
        mass=frame_mass,
        inertia=inertia,
        r=(frame_center[0], 0.0, frame_center[1]),
        v=moving(frame_center[1]),
        omega=lean,
    )
    fork = m.add_body(
        "fork",
        mass=fork_mass,
        inertia=[[0.05892, 0.0, 0.00756], [0.0, 0.06, 0.0], [0.00756, 0.0, 0.00708]],
        r=(0.9, 0.0, 0.7),
        v=moving(0.7),
        omega=lean,
    )
    front = m.add_body(
        "front_wheel",
        mass=front_mass,
        inertia=(0.1405, 0.28, 0.1405),
        r=(wheelbase, 0.0, front_radius),
        v=moving(front_radius),
        omega=(roll_rate, speed / front_radius, 0.0),
    )
    m.add(Revolute("rear_hub", frame, rear, point=(0.0, 0.0, rear_radius), axis=y))
    steering = (-xp.sin(steer_tilt), 0.0, xp.cos(steer_tilt))
    m.add(Revolute("steer", frame, fork, point=(wheelbase + trail, 0.0, 0.0), axis=steering))
    m.add(Revolute("front_hub", fork, front, point=(wheelbase, 0.0, front_radius), axis=y))
    m.add(RollingDisc("rear_contact", m.ground, rear, axis=y, radius=rear_radius))
    m.add(RollingDisc("front_contact", m.ground, front, axis=y, radius=front_radius))
    return m
