"""Every notebook runs from a clean kernel, with quick settings, and is stored with the outputs of
its present code."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_the_eight_lessons():
    assert [p.name[:2] for p in NOTEBOOKS] == [f"{k:02d}" for k in range(1, 9)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_stored_with_the_outputs_of_its_code(path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    from run_notebooks import fingerprint

    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.get("jaxmbd", {}).get("code") == fingerprint(notebook), (
        f"{path.name} holds outputs of other code, or none: run `make notebooks`"
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert path.stat().st_size < 600_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_a_clean_kernel(path, monkeypatch):
    monkeypatch.setenv("JAXMBD_QUICK", "1")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
