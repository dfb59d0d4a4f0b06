"""Model files that several tests read and spoil: one of either format."""

import numpy as np

GOOD = {
    "format": "jaxmbd-1",
    "name": "pendulum",
    "bodies": [{"name": "rod", "mass": 2.0, "inertia": [0.1, 0.2, 0.2], "r": [1, 0, 0]}],
    "joints": [
        {
            "type": "Revolute",
            "name": "pin",
            "body_i": "ground",
            "body_j": "rod",
            "point": [0, 0, 0],
            "axis": [0, 1, 0],
        }
    ],
    "forces": [
        {"type": "ViscousFriction", "name": "friction", "joint": "pin", "rotational": 0.2},
        {"type": "PointForce", "name": "push", "body": "rod", "force": ["sin(2*t)", 0, 1]},
        {"type": "Actuator", "name": "motor", "joint": "pin", "control": "0.5*sin(t)"},
        {
            "type": "SpringDamper",
            "name": "spring",
            "body_i": "ground",
            "body_j": "rod",
            "point_i": [0, 0, 1],
            "point_j": [1, 0, 0],
            "stiffness": 10,
            "actuator": "cos(t)",
        },
    ],
}

OLDER = {
    "name": "old pendulum",
    "bodies": [
        {"name": "ground", "id": 0},
        {
            "name": "rod",
            "id": 1,
            "r": [0, 1.41421356, -1.41421356],
            "r_dot": [0, 0, 0],
            "A": [[0, 0, 1], [0.70710678, 0.70710678, 0], [-0.70710678, 0.70710678, 0]],
            "omega": [0, 0, 0],
        },
    ],
    "constraints": [
        {
            "name": "x1",
            "type": "DP1",
            "body_i": 1,
            "body_j": 0,
            "a_bar_i": [1, 0, 0],
            "a_bar_j": [1, 0, 0],
            "f": "0",
        },
        {
            "name": "x2",
            "type": "DP1",
            "body_i": 1,
            "body_j": 0,
            "a_bar_i": [0, 1, 0],
            "a_bar_j": [1, 0, 0],
            "f": "0",
        },
        *(
            {
                "name": "ball",
                "type": "CD",
                "body_i": 1,
                "body_j": 0,
                "c": c,
                "s_bar_p_i": [-2, 0, 0],
                "s_bar_q_j": [0, 0, 0],
                "f": "0",
            }
            for c in np.eye(3).tolist()
        ),
        {
            "name": "driver",
            "type": "DP1",
            "body_i": 1,
            "body_j": 0,
            "a_bar_i": [0, 1, 0],
            "a_bar_j": [0, 0, -1],
            "f": "cos(pi/2 + pi/4*cos(2*t))",
            "f_dot": "sin(pi/2 + pi/4*cos(2*t))*pi/2*sin(2*t)",
            "f_ddot": "1.0*t",
        },
    ],
}
