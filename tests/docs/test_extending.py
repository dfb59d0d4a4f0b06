"""The examples of docs/extending.md run as printed, one after another."""

import re
from pathlib import Path

import numpy as np

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
