"""Every notebook runs from a clean kernel, with quick settings, and is stored with the outputs of
its present code."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_lessons_are_numbered():
    assert len(NOTEBOOKS) >= 8
    assert [p.name[:2] for p in NOTEBOOKS] == [f"{k + 1:02d}" for k in range(len(NOTEBOOKS))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_stored_with_the_outputs_of_its_code(path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    from run_notebooks import fingerprint

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.get("jaxmbd", {}).get("code") == fingerprint(notebook), (
        f"{path.name} holds outputs of other code, or none: run `make notebooks`"
    )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
    assert path.stat().st_size < 900_000  # a view takes a third of a megabyte


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_a_clean_kernel(path, monkeypatch):
    monkeypatch.setenv("JAXMBD_QUICK", "1")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()


def outputs_of(notebook) -> str:
    """All that its cells print and show as text."""
    found = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    texts = [out.text for out in found if out.output_type == "stream"]
    return "\n".join(texts + [out.data.get("text/plain", "") for out in found if "data" in out])


def test_figures_of_the_prose_are_those_of_the_outputs():
    wrong, seen = [], 0
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        shown = outputs_of(notebook)
        for cell in notebook.cells:
            if cell.cell_type != "markdown" or "figures" not in cell.metadata.get("tags", []):
                continue
            figures = re.findall(r"(?<![\w.])\d+(?:\.\d+)?e[-+]?\d+|(?<![\w.])\d+\.\d+", cell.source)
            seen += len(figures)
            wrong += [f"{path.stem}: {x}" for x in figures if x not in shown]
    assert seen > 8 and not wrong, wrong


def test_lessons_show_their_motions():
    without = [p.stem for p in NOTEBOOKS if "mbd.view(" not in p.read_text(encoding="utf-8")]
    assert without == []
