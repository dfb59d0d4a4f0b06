"""Check what `make dist` built: its contents, and the demo from the wheel in an empty environment.

python tests/check_dist.py dist
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ASSETS = ("page.html", "page.css", "stage.js", "plots.js", "main.js", "three.bundle.js")
NEEDED = {"jaxmbd/py.typed", "jaxmbd/library/slider_crank.json"}
NEEDED |= {f"jaxmbd/viz/assets/{name}" for name in (*ASSETS, "LICENSE-three.txt")}
SCHEMA = "jaxmbd-1.schema.json"


def main(folder: Path) -> None:
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    missing = {*NEEDED, f"jaxmbd/io/{SCHEMA}"} - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        raise SystemExit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    with tarfile.open(archive) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    missing = {*NEEDED, f"docs/{SCHEMA}", "README.md", "LICENSE", "CHANGELOG.md"} - inside
    if missing:
        raise SystemExit(f"{archive.name} lacks {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory() as outside:
        venv.create(f"{outside}/venv", with_pip=True)
        python = f"{outside}/venv/bin/python"
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[viz]"], check=True
        )
        subprocess.run(
            [f"{outside}/venv/bin/jaxmbd", "demo", "--out", "demo"], cwd=outside, check=True
        )
        # A view needs no extra, and nothing but the wheel.
        subprocess.run(
            [f"{outside}/venv/bin/jaxmbd", "view", "four_bar", "--out", "demo/view.html"],
            cwd=outside,
            check=True,
        )
        made = {path.suffix for path in Path(outside, "demo").iterdir()}
        if not {".png", ".gif", ".npz", ".html"} <= made:
            raise SystemExit(f"the demo left {sorted(made)}")
    print(f"{wheel.name} and {archive.name} are complete, and the demo runs from the wheel")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
