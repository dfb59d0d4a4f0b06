"""The examples of docs/extending.md run as printed, one after another."""

import re
from pathlib import Path

import numpy as np
from scipy.linalg import expm

DOCS = Path(__file__).parents[2] / "docs"


def test_the_examples_of_extending_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (DOCS / "extending.md").read_text(encoding="utf-8"), flags=re.S
    )
    names: dict = {"__name__": "extending"}
    for block in blocks:
        exec(compile(block, "extending.md", "exec"), names)  # our own page, as a reader runs it
    speed = np.linalg.norm(np.asarray(names["sol"].v[:, 0]), axis=1)
    assert speed[0] > speed[-1] > 1.9  # the pull slows the blade
    # The delayed spring: angle, rate and torque follow a linear equation.
    A = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0 / 0.1], [-3.0 / 0.05, 0.0, -1.0 / 0.05]])
    exact = (expm(0.2 * A) @ [0.0, 2.0, 0.0])[[0, 2]]
    found = [float(names["turned"][name][-1]) for name in ("pin.angle", "coil.delayed")]
    np.testing.assert_allclose(found, exact, rtol=1e-4)  # second order: (h/0.05 s)² is 4e-4
