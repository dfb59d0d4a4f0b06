"""Run the notebooks and store them with their outputs: `make notebooks`.

Each notebook keeps a fingerprint of its code, so that the suite notices outputs that belong to
other code.
"""

import hashlib
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def fingerprint(notebook: nbformat.NotebookNode) -> str:
    """Of all code cells."""
    code = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def main(wanted: list[str]) -> None:
    """Run the wanted notebooks, by default all."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for path in sorted(FOLDER.glob("*.ipynb")):
        if wanted and not any(path.name.startswith(name) for name in wanted):
            continue
        print(path.name, flush=True)
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(
            notebook, timeout=900, resources={"metadata": {"path": str(FOLDER)}}
        ).execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # times of day
        notebook.metadata["jaxmbd"] = {"code": fingerprint(notebook)}
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
