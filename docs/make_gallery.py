"""The gallery: a view, a sentence and ten lines for every packaged mechanism.

`make gallery` runs the lines of every entry below, draws the motion that they compute and writes
docs/gallery/index.md, so that a page never shows code that was not run. An entry has a film and a
picture of it, which a page shows, and a view that a click loads in their place; all views share the
code of the viewer, which `conf.py` puts beside them.
"""

import contextlib
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

# XLA writes a line about the processor for every program that it reads from the cache.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from embedding import embedded, thumbnails
from PIL import Image
from tqdm import tqdm

import jaxmbd as mbd
from jaxmbd.library import names

DOCS = Path(__file__).parent
FOLDER, PAGE = DOCS / "_static" / "gallery", DOCS / "gallery" / "index.md"
START = DOCS / "index.md"
_START = """import jaxmbd as mbd

mbd.enable_x64()
"""
# What is switched on beside the mechanism itself.
_SHOWN = {
    **dict.fromkeys(("double_pendulum", "spherical_double_pendulum", "bar_pendulum"), ("paths",)),
    **dict.fromkeys(("rolling_disc", "gyro_top", "heavy_top", "three_bar_loop"), ("paths",)),
    **dict.fromkeys(("slider_crank", "four_bar", "flexible_slider_crank"), ("reactions",)),
}
_FIRST = "slider_crank"
_FRONT = (
    *("stewart_platform_legs", "whipple_bicycle", "planetary_gear", "bennett", "cam_follower"),
    *("flexible_slider_crank", "rolling_disc", "differential"),
)
_SECONDS = 2.0, 6.0  # what a film lasts; motions within are shown in real time
_SIZE, _FPS = (480, 320), 20


class Entry(NamedTuple):
    """One mechanism of the gallery.

    Attributes:
        title: The heading.
        text: What it is and why one would look at it.
        code: Lines that leave the motion in `sol` and print one number of it.
        view: Elevation and azimuth of the camera [degrees].
    """

    title: str
    text: str
    code: str
    view: tuple[float, float] = (22.0, -55.0)


def _run(name: str, t_end: float, h: str, every: int, last: str, options: str = "") -> str:
    """Lines that simulate a mechanism."""
    more = f"{options}, save_every={every}" if every > 1 else options
    call = f"sol = mbd.simulate(system, state, t_end={t_end}, h={h}{more})"
    if len(call) > 100:
        call = f"sol = mbd.simulate(\n    system, state, t_end={t_end}, h={h}{more}\n)"
    return f'system, state = mbd.load("{name}")\n{call}\n{last}\n'


ENERGY = """energy = sol.energy().total
print(f"the energy changes by {abs(energy - energy[0]).max():.1e} J")"""
VIOLATION = """print(f"joints are violated by {abs(sol.violation().position).max():.1e}")"""
MOMENTUM = """momentum = sol.momentum().angular
print(f"the angular momentum changes by {abs(momentum - momentum[0]).max():.1e} kg m^2/s")"""
MOMENT = """moment = abs(sol.beam("{}").moment).max()
print(f"bending moments of up to {{moment:.3g}} N m")"""
ALPHA = ", integrator=mbd.GeneralizedAlpha()"
EM = ", formulation=mbd.Directors(), integrator=mbd.EnergyMomentum()"
MK = ', integrator=mbd.MuntheKaas(group="SE3")'
PROJECTED = ', integrator=mbd.MuntheKaas(stabilization="projection")'

ENTRIES = {
    "single_pendulum": Entry(
        "Driven pendulum",
        "A steel bar on a hinge whose angle a driver prescribes (Kissel, Taves, Negrut). The "
        "constraints alone "
        "determine the motion; inverse dynamics returns the torque that the driver needs.",
        """system, state = mbd.load("single_pendulum")
ts = np.linspace(0.0, 3.1, 125)
found = mbd.inverse_dynamics(system, state, ts)
sol = found.solution
for name, effort in found.efforts.items():
    print(f"{name}: at most {abs(effort).max():.0f} N m")
""",
        (10.0, -20.0),
    ),
    "double_pendulum": Entry(
        "Double pendulum",
        "Two steel bars on hinges, the first benchmark of Kissel, Taves and Negrut.",
        _run("double_pendulum", 4.0, "1e-3", 20, ENERGY),
        (10.0, -20.0),
    ),
    "spherical_double_pendulum": Entry(
        "Spherical double pendulum",
        "Two boxes in a row on ball joints; the second spins about an axis that is no principal "
        "axis (Mueller and "
        "Terze).",
        _run("spherical_double_pendulum", 4.0, "1e-3", 20, VIOLATION, PROJECTED),
    ),
    "bar_pendulum": Entry(
        "Double pendulum in rotation-matrix elements",
        "Two bars on ball joints, with the x axis pointing down (Dumitriu and Margaritescu). Here "
        "in their own "
        "coordinates, with their own elimination of the multipliers.",
        _run(
            "bar_pendulum",
            2.0,
            "1e-3",
            10,
            VIOLATION,
            ", formulation=mbd.RotationElements(), integrator=mbd.RungeKutta()",
        ),
        (10.0, -80.0),
    ),
    "n_pendulum": Entry(
        "Chain of bars on ball joints",
        "`n_pendulum:N` generates a chain of N bars. Time per step grows linearly with N.",
        _run("n_pendulum:6", 2.0, "1e-3", 10, VIOLATION),
    ),
    "revolute_chain": Entry(
        "Chain on hinges",
        "`revolute_chain:N` alternates the hinges between two directions, and gravity is askew, "
        "so that the chain "
        "moves in space.",
        _run("revolute_chain", 2.0, "1e-3", 10, ENERGY),
    ),
    "slider_crank": Entry(
        "Spatial slider crank",
        "A driven crank, a rod between a ball joint and a universal joint, and a slider; all four "
        "primitive "
        "constraints take part (Haug 1989, chapter 10).",
        """system, state = mbd.load("slider_crank")
ts = np.linspace(0.0, 1.0, 100)
sol = mbd.kinematics(system, state, ts)
slider = sol.r[:, 2, 0]
print(f"the stroke is {slider.max() - slider.min():.4f} m")
""",
    ),
    "slider_crank_free": Entry(
        "Spatial slider crank without a motor",
        "The same mechanism with one degree of freedom, moving under gravity.",
        _run("slider_crank_free", 2.0, "1e-3", 10, ENERGY),
    ),
    "slider_crank_haug": Entry(
        "Spatial slider crank, frames of the book",
        "The slider's body frame is that of Haug's book: angular velocities and inertias have "
        "other components, and "
        "the motion is the same.",
        _run("slider_crank_haug", 1.0, "1e-3", 10, VIOLATION),
    ),
    "four_link": Entry(
        "Spatial four-link mechanism",
        "Rotor, link and link in a closed loop (Haug 1989, chapter 10).",
        _run("four_link", 3.0, "1e-3", 20, VIOLATION),
    ),
    "four_link_haug": Entry(
        "Spatial four-link mechanism, frames of the book",
        "The rotor's body frame is that of Haug's book.",
        _run("four_link_haug", 3.0, "1e-3", 20, VIOLATION),
    ),
    "four_bar": Entry(
        "Four-bar linkage of four hinges",
        "Three of its 20 constraint rows are redundant. Multipliers of minimum norm are returned, "
        "and `mobility` "
        "says which rows repeat.",
        """system, state = mbd.load("four_bar")
report = mbd.mobility(system, state)
print(f"degrees of freedom: {report.freedoms}, redundant rows: {report.redundant_rows}")
sol = mbd.simulate(system, state, t_end=3.0, h=1e-3, save_every=20)
""",
        (8.0, -85.0),
    ),
    "four_bar_ladder": Entry(
        "Ladder of four-bar linkages",
        "`four_bar_ladder:N` puts N four-bar linkages side by side. They share their rockers, and "
        "each adds redundant "
        "rows.",
        _run("four_bar_ladder:3", 2.0, "1e-3", 10, VIOLATION),
        (12.0, -80.0),
    ),
    "bennett": Entry(
        "Bennett linkage",
        "Four hinges in space, which would be rigid but for the relation between their twists and "
        "lengths.",
        _run("bennett", 3.0, "1e-3", 20, VIOLATION),
    ),
    "bricard": Entry(
        "Bricard linkage",
        "Six hinges in a loop: a count of rows denies the degree of freedom that it has.",
        _run("bricard", 3.0, "1e-3", 20, VIOLATION),
    ),
    "six_body_linkage": Entry(
        "Six-body linkage",
        "A closed loop of the ground and five tetrahedra on six hinges along the edges of a cube "
        "(Betsch and "
        "Leyendecker). The energy-momentum method conserves the energy to rounding at a large "
        "time step.",
        _run("six_body_linkage", 10.0, "1e-2", 8, ENERGY, EM),
    ),
    "cylindrical_pair": Entry(
        "Cylindrical pair in free flight",
        "A sleeve that slides along a shaft and turns on it, without gravity (Betsch and "
        "Leyendecker).",
        _run("cylindrical_pair", 0.2, "1e-3", 2, ENERGY, EM),
    ),
    "planar_pair": Entry(
        "Planar pair in free flight",
        "A pyramid that slides on a plate, without gravity (Betsch and Leyendecker).",
        _run("planar_pair", 0.1, "1e-3", 1, ENERGY, EM),
    ),
    "floating_pair": Entry(
        "Two boxes on a ball joint, in free flight",
        "No joint to the ground and no gravity (Mueller and Terze): momentum and angular momentum "
        "are conserved.",
        _run("floating_pair", 1.0, "1e-3", 10, MOMENTUM),
    ),
    "three_bar_loop": Entry(
        "Closed loop on three ball joints",
        "Two boxes and the ground; the boxes also spin about the lines between their joints "
        "(Mueller and Terze).",
        _run("three_bar_loop", 3.0, "1e-3", 20, VIOLATION),
    ),
    "heavy_top": Entry(
        "Fast top",
        "A box on a ball joint that spins fast, without gravity (Mueller and Terze). On SE(3) the "
        "ball joint is "
        "satisfied to machine precision for any step size.",
        _run("heavy_top", 0.5, "1e-4", 50, VIOLATION, MK),
    ),
    "gyro_top": Entry(
        "Steady precession",
        "A cone on its tip under gravity, started in steady precession (Betsch and Leyendecker).",
        _run("gyro_top", 2.0, "1e-3", 20, ENERGY),
    ),
    "gear_train": Entry(
        "Gear train",
        "`gear_train:N` puts N gears in a row, alternately of 20 and 40 teeth. A motor turns the "
        "first; all small gears turn as fast, the large ones half as fast.",
        _run(
            "gear_train:8",
            0.15,
            "5e-4",
            5,
            """first, last = sol.joint("shaft1").angle, sol.joint("shaft8").angle
print(f"last / first = {last[-1] / first[-1]:.12f}")""",
        ),
        view=(60.0, -90.0),
    ),
    "planetary_gear": Entry(
        "Planetary gear",
        "Three planets of 20 teeth run between a sun of 20 and a ring of 60 that is held: the arm "
        "turns a quarter as fast as the sun (Willis). One planet would do; two of the meshes are "
        "redundant.",
        _run(
            "planetary_gear",
            1.5,
            "5e-3",
            5,
            """sun, arm = sol.joint("sun_bearing").angle, sol.joint("arm_bearing").angle
print(f"arm / sun = {arm[-1] / sun[-1]:.12f}")""",
        ),
        view=(60.0, -60.0),
    ),
    "differential": Entry(
        "Differential",
        "Bevel pinions share the engine's torque between two shafts, of which one drags: the mean "
        "of their angles is that of the case.",
        _run(
            "differential",
            1.5,
            "5e-3",
            5,
            """turned = {n: sol.joint(f"{n}_bearing").angle[-1] for n in ("left", "right", "case")}
print({n: f"{angle:.3f} rad" for n, angle in turned.items()})""",
        ),
    ),
    "cam_follower": Entry(
        "Cam and follower",
        "A disc cam whose center is off its shaft lifts a follower with a roller; a spring keeps "
        "them in contact. The contact is found on a spline through 48 points.",
        _run(
            "cam_follower",
            0.5,
            "1e-3",
            5,
            """force = sol.normal_forces()["profile"]
print(f"normal force {force.min():.1f} to {force.max():.1f} N")""",
        ),
        view=(15.0, -75.0),
    ),
    "rolling_disc": Entry(
        "Rolling disc",
        "A leaning disc rolls round and round without slipping. It has five coordinates and three "
        "independent velocities.",
        _run("rolling_disc", 3.0, "2e-3", 20, ENERGY),
    ),
    "whipple_bicycle": Entry(
        "Whipple bicycle",
        "The benchmark bicycle with a rigid rider rolls at 4.6 m/s. Straight running is stable "
        "between 4.29 and 6.02 m/s; the [experiment](../experiments/bicycle.md) shows why.",
        _run(
            "whipple_bicycle",
            1.0,
            "5e-3",
            5,
            """print(f"distance {sol.r[-1, 1, 0] - sol.r[0, 1, 0]:.3f} m")""",
        ),
        view=(15.0, -70.0),
    ),
    "cantilever": Entry(
        "Cantilever",
        "`cantilever:N` is a steel strip of N beam elements that gravity bends from its straight "
        "start; its bending is damped.",
        _run("cantilever", 3.0, "4e-3", 10, MOMENT.format("strip"), ALPHA),
        (10.0, -75.0),
    ),
    "spin_up_beam": Entry(
        "Spin-up beam",
        "`spin_up_beam:N` is a beam of 10 m on a hinge that is driven up to 6 rad/s in 15 s (Simo "
        "and Vu-Quoc). It bends back by half a meter on the way.",
        _run("spin_up_beam", 20.0, "1e-2", 20, MOMENT.format("beam"), ALPHA),
        (75.0, -90.0),
    ),
    "flexible_slider_crank": Entry(
        "Flexible slider-crank",
        "`flexible_slider_crank:N` has a crank at 150 rad/s and a connecting rod of N beam "
        "elements (Jonker).",
        _run("flexible_slider_crank", 0.084, "1e-4", 20, MOMENT.format("rod"), ALPHA),
        (75.0, -90.0),
    ),
    "four_bar_flexible_coupler": Entry(
        "Four-bar with a flexible coupler",
        "`four_bar_flexible_coupler:N` has a steel strip of N beam elements between crank and "
        "rocker. The strip can twist, so no row is redundant.",
        _run("four_bar_flexible_coupler", 3.2, "4e-3", 20, MOMENT.format("coupler"), ALPHA),
        (10.0, -80.0),
    ),
    "stewart_platform": Entry(
        "Stewart platform",
        "A platform on six springs, dampers and actuators without mass, thrown from its home pose.",
        _run("stewart_platform", 3.0, "1e-3", 20, ENERGY),
        (16.0, -55.0),
    ),
    "stewart_platform_legs": Entry(
        "Stewart platform with legs",
        "The same on twelve leg bodies with universal joints, slides and ball joints: 13 bodies, "
        "six degrees of "
        "freedom.",
        _run("stewart_platform_legs", 2.0, "1e-3", 20, VIOLATION),
        (16.0, -55.0),
    ),
}


def _draw(name: str, entry: Entry) -> str:
    """Run an entry's lines, draw the motion, and return what they print."""
    printed, known = io.StringIO(), {}
    start = _START + ("import numpy as np\n" if "np." in entry.code else "")
    with contextlib.redirect_stdout(printed):
        exec(compile(start + entry.code, name, "exec"), known)  # our own lines, above
    sol: Any = known["sol"]
    span = float(sol.t[-1] - sol.t[0])
    speed = span / min(max(span, _SECONDS[0]), _SECONDS[1])
    view = mbd.view(sol, camera=entry.view, speed=speed, show=_SHOWN.get(name, ()))
    view.save(FOLDER / f"{name}.html", shared=True)
    view.save(FOLDER / f"{name}.webm", size=_SIZE, fps=_FPS)
    if name == _FIRST:  # for pages that show no films
        view.save(DOCS / f"{name}.gif", size=(480, 300), fps=15)
    picture = FOLDER / f"{name}.png"
    view.save(picture, size=_SIZE, at=float(sol.t[0]) + 0.3 * span)
    with Image.open(picture) as image:
        image.convert("RGB").save(picture.with_suffix(".jpg"), quality=82)
    picture.unlink()
    return printed.getvalue()


def _page(outputs: dict[str, str]) -> str:
    """The gallery's page."""
    small = thumbnails({name: x.title for name, x in ENTRIES.items()}, "../_static", "")
    parts = [
        "# Gallery\n\nEvery packaged mechanism: `mbd.load(name)` returns its system and its "
        "state, and\n`jaxmbd simulate NAME` runs it from the shell. The lines below made what "
        "you see; a film\nbecomes a view that you can turn, stop and question, as "
        f"[`mbd.view`](../how_to/view.md)\nshows it in a notebook.\n\n{small}"
    ]
    for name, entry in ENTRIES.items():
        imports = "import jaxmbd as mbd\n" + ("import numpy as np\n" if "np." in entry.code else "")
        parts.append(
            f"## {entry.title}\n\n{entry.text}\n\n{embedded(name, entry.title, '../_static')}\n"
            f"```python\n{imports}\nmbd.enable_x64()\n{entry.code}```\n"
            + (f"\n```text\n{outputs[name].strip()}\n```\n" if outputs[name].strip() else "")
        )
    return "\n".join(parts)


def _front(text: str) -> str:
    """The start page with its pictures."""
    begin, end = "<!-- pictures -->\n", "<!-- end of pictures -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    shown = embedded(_FIRST, ENTRIES[_FIRST].title, "_static")
    titles = {name: ENTRIES[name].title for name in _FRONT}
    small = thumbnails(titles, "_static", "gallery/index.html")
    return f"{before}{begin}{shown}\n{small}{end}{after}"


def main(wanted: list[str]) -> None:
    """Renew the pictures of the wanted mechanisms, by default of all, and the page."""
    missing = set(names()) - set(ENTRIES)
    if missing:
        raise SystemExit(f"make_gallery: no entry for {', '.join(sorted(missing))}")
    mbd.enable_compilation_cache()
    outputs = {}
    chosen = {name: entry for name, entry in ENTRIES.items() if not wanted or name in wanted}
    for name, entry in (bar := tqdm(chosen.items(), unit="entry")):
        bar.set_description(name)
        with warnings.catch_warnings():
            warnings.simplefilter("error", mbd.AssemblyWarning)
            try:
                outputs[name] = _draw(name, entry)
            except Exception as error:
                raise SystemExit(f"make_gallery: {name}: {error!r}") from error
    if not wanted:  # the page shows what every entry printed
        START.write_text(_front(START.read_text(encoding="utf-8")), encoding="utf-8")
        PAGE.write_text(_page(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
