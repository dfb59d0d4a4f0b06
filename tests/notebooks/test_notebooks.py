"""Every notebook runs from a clean kernel, with quick settings, and is stored without bulky
outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_the_seven_lessons():
    assert [p.name[:2] for p in NOTEBOOKS] == [f"{k:02d}" for k in range(1, 8)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_a_clean_kernel(path, monkeypatch):
    monkeypatch.setenv("JAXMBD_QUICK", "1")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    stored = [cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(stored), f"{path.name} is stored with outputs; clear them"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
