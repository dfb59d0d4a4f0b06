"""The tables of this page, written from the stored results.

python -m experiments.benchmarks.tables

Every block of README.md between two comments, `table: NAME` and `end`, is replaced. A test of the
manual compares the blocks with the stored results.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
PAGE = _HERE / "README.md"
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", flags=re.S)


def _stored(name: str, experiment: str = "benchmarks") -> Any:
    return json.loads((_HERE.parent / experiment / name).read_text(encoding="utf-8"))


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _source(file: str, command: str, experiment: str = "benchmarks") -> str:
    """Machine, versions, commit and date of the run that made a table."""
    run = _stored("provenance.json", experiment)[command]
    machine = run["machine"].replace("(R)", "").replace(" Processor", "")
    peers = {"exudyn": "Exudyn", "mujoco": "MuJoCo", "mujoco-mjx": "MJX"}
    versions = [f"jax {run['versions']['jax']}"]
    versions += [f"{peers[k]} {v}" for k, v in run["versions"].items() if k in peers]
    stored = "stored with commit" if "not recorded" in run.get("note", "") else "commit"
    return (
        f"*{machine}; {', '.join(versions)}; {stored} `{run['commit']}`; {run['date'][:10]}; "
        f"`{file}`, `python -m experiments {command}`.*\n\n"
    )


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return "-"
    return f"{microseconds:.1f}" if microseconds < 100 else f"{microseconds:.0f}"


def _rate(row: dict[str, Any], key: str = "state_steps_per_s") -> str:
    return f"{row[key]:.1e}" if key in row else "-"


def yardstick() -> str:
    rows = []
    for model, found in _stored("results.json")["models"].items():
        numpy = found.get("numpy", {}).get("us_per_step")
        for name in ("rA", "rp", "reps"):
            row, ratio = found[name], found[name]["ratio_to_numpy"]
            rows.append(
                [model, name, _time(row["us_per_step"]), f"{row['compile_s']:.1f}"]
                + [f"{row['iterations']:.2f}", _time(numpy), f"{ratio:.0f}" if ratio else "-"]
            )
    head = ["mechanism", "formulation", "µs per step", "compile [s]", "iterations"]
    head += ["NumPy [µs per step]", "NumPy / jaxmbd"]
    return _source("results.json", "benchmarks") + _table(head, rows)


def chain() -> str:
    rows = [
        [links, _time(x["us_per_step"]), f"{x['us_per_body']:.1f}", f"{x['compile_s']:.1f}"]
        + [_time(x.get(key)) for key in ("kept_us_per_step", "exudyn_us", "mujoco_us")]
        for links, x in _stored("scale.json")["chain"].items()
    ]
    head = ["links", "µs per step", "µs per body", "compile [s]", "kept factors", "Exudyn"]
    return _source("scale.json", "scale --part chain") + _table([*head, "MuJoCo"], rows)


def _sizes(part: str, count: str) -> str:
    rows = [
        [size, str(x["bodies"]), _time(x["us_per_step"]), f"{x['us_per_body']:.1f}"]
        + [f"{x['compile_s']:.1f}", f"{x['violation']:.0e}"]
        for size, x in _stored("scale.json")[part].items()
    ]
    head = [count, "bodies", "µs per step", "µs per body", "compile [s]", "violation"]
    return _source("scale.json", "scale --part ladder --part gears") + _table(head, rows)


def ladder() -> str:
    return _sizes("ladder", "loops")


def gears() -> str:
    return _sizes("gears", "gears")


def single() -> str:
    keys = ("us_per_step", "kept_us_per_step", "implicit_euler_us_per_step")
    keys += ("implicit_euler_kept_us_per_step", "exudyn_us", "mujoco_us")
    found = _stored("scale.json")["single"]
    rows = [[model, *(_time(x.get(key)) for key in keys)] for model, x in found.items()]
    head = ["µs per step", "generalized-alpha", "kept factors", "implicit Euler"]
    head += ["implicit Euler, kept factors", "Exudyn", "MuJoCo"]
    gap = found["four_bar"]["mujoco_gap"]
    text = f"\nMuJoCo's four-bar has opened its loop by {1e3 * gap:.2f} mm at the end.\n"
    return _source("scale.json", "scale --part single") + _table(head, rows) + text


def batch() -> str:
    rows = [
        [name, _rate(x), _rate(x, "state_steps_per_s_in_chunks"), f"{x['violation']:.0e}"]
        for name, x in _stored("scale.json")["batch"].items()
    ]
    head = ["state-steps per second", "one `vmap`", "in chunks of 128", "violation"]
    return _source("scale.json", "scale --part batch") + _table(head, rows)


def gradient() -> str:
    rows = [
        [name, _time(x["forward_us_per_step"]), f"{x['ratio']:.1f}"]
        + [f"{x['hessian_product_ratio']:.1f}"]
        for name, x in _stored("scale.json")["gradient"].items()
    ]
    head = ["mechanism", "forward [µs per step]", "reverse-mode gradient / forward simulation"]
    head += ["Hessian-vector product / gradient"]
    return _source("scale.json", "scale --part gradient") + _table(head, rows)


def _on_gpu(precision: str, command: str) -> str:
    sizes = ("1024", "16384", "131072", "1048576")
    rows = []
    for name, found in _stored("batch_gpu.json")["rows"].items():
        if cells := found.get(precision):
            worst = max(x["violation"] for x in cells.values())
            rows.append([name, *(_rate(cells.get(n, {})) for n in sizes), f"{worst:.0e}"])
    head = ["state-steps per second", *sizes, "largest violation"]
    return _source("batch_gpu.json", command) + _table(head, rows)


def gpu_double() -> str:
    return _on_gpu("float64", "batch --steps 100")


def gpu_single() -> str:
    return _on_gpu("float32", "batch --steps 100 --single")


def first() -> str:
    def seconds(x: dict[str, float]) -> str:
        digits = 0 if x["median"] > 20 else 1
        low, mid, high = (f"{x[key]:.{digits}f}" for key in ("min", "median", "max"))
        return f"{mid} ({low} to {high})"

    rows = [
        [name, seconds(x["cold"]), seconds(x["warm"])]
        for name, x in _stored("first_result.json")["rows"].items()
    ]
    head = ["", "empty cache [s]", "filled cache [s]"]
    return _source("first_result.json", "first_result --repeats 5") + _table(head, rows)


TABLES: tuple[Callable[[], str], ...] = (
    yardstick,
    chain,
    ladder,
    gears,
    single,
    batch,
    gradient,
    gpu_double,
    gpu_single,
    first,
)


def renewed(text: str) -> str:
    """The page with every block generated from the stored results."""
    made = {table.__name__: table for table in TABLES}
    return _BLOCK.sub(lambda match: match[1] + made[match[2]]() + "\n" + match[3], text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
