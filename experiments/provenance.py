"""Where results come from: the commit, the versions and the machine of every run that replaced
some, and what has changed since.
"""

import importlib.metadata
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

FILE = "provenance.json"
_PACKAGES = ("jaxmbd", "jax", "jaxlib", "numpy", "scipy", "exudyn", "mujoco", "mujoco-mjx", "rejax")
_ROOT = Path(__file__).parents[1]
_CODE = "jaxmbd"


@dataclass(frozen=True)
class Age:
    """What the code has gone through since results were made.

    Attributes:
        command: The run that made them.
        date: Of that run.
        commit: The code of that run; with a plus sign where files were changed beside it.
        package: Commits since then that touched the package, None where git does not know.
        own: Commits since then that touched the experiment's own Python files.
    """

    command: str
    date: str
    commit: str
    package: int | None
    own: int | None


def _git(*arguments: str) -> str | None:
    """What git answers in the repository, None where there is no answer."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()


def _accelerator() -> str:
    """What else JAX computes on, where it does."""
    if (jax := sys.modules.get("jax")) is None:
        return ""
    device = jax.devices()[0]
    return "" if device.platform == "cpu" else f", {jax.device_count()} {device.device_kind}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def record(folder: Path, name: str, arguments: list[str], cores: int, began: datetime) -> None:
    """Write down a run that has ended; one without arguments replaces all of that experiment."""
    path = folder / FILE
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not arguments:
        runs = {command: run for command, run in runs.items() if command.split()[0] != name}
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", _CODE, "experiments/*.py")
    runs[" ".join([name, *arguments])] = {
        "date": began.astimezone(UTC).isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "commit": commit and commit + ("+" if changed else ""),
        "machine": f"{_processor()}, {cores or 'all'} core{'' if cores == 1 else 's'}"
        + _accelerator(),
        "versions": _versions(),
    }
    path.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


def ages(folder: Path) -> list[Age]:
    """Of all runs that a folder holds results of."""
    path = folder / FILE
    if not path.exists():
        return []
    own = f"{folder.resolve().relative_to(_ROOT)}/*.py"
    found = []
    for command, run in json.loads(path.read_text(encoding="utf-8")).items():
        commit = run["commit"] or "unknown"
        counts = [
            _git("rev-list", "--count", f"{commit.rstrip('+')}..HEAD", "--", code)
            for code in (_CODE, own)
        ]
        package, mine = (None if count is None else int(count) for count in counts)
        found.append(Age(command, run["date"], commit, package, mine))
    return found
