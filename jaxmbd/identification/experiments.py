"""Experiments: what was measured in one run, how the run began, and what the inputs were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..analyses.running.schedule import Inputs
from ..model.mechanism import Mechanism
from ..model.names import nearest
from ..model.system import Connection, System
from ..model.validation import number
from .measurements import Measurements
from .transforms import AbstractTransform, Free, Values

_FIELDS = {"angle": ("angle", "rate"), "displacement": ("displacement", "speed")}


@dataclass(frozen=True)
class Unknown:
    """A number of one experiment that the fit estimates.

    Attributes:
        guess: Where the search begins.
        sigma: Standard deviation of what is known about it beforehand, around the guess; None for
            nothing.
        restriction: As for parameters: `Free()`, `Positive()`, `Bounded(a, b)`.
    """

    guess: float
    sigma: float | None = None
    restriction: AbstractTransform = field(default_factory=Free)

    def __post_init__(self):
        number(self.guess, "Unknown: guess")
        if self.sigma is not None and not number(self.sigma, "Unknown: sigma") > 0.0:
            raise ValueError(f"Unknown: sigma must be positive, not {self.sigma}")


@dataclass(frozen=True, eq=False)
class Experiment:
    """One run of a mechanism that was measured.

    Attributes:
        measurements: What was measured; the motion begins at t = 0.
        inputs: What the mechanism's inputs were, as in `simulate`.
        start: Where the joints were at t = 0 and how they moved, as `set_joints` takes it:
            `{"pin": {"angle": 0.3, "rate": Unknown(0.0)}}`. Numbers are known, an `Unknown` is
            estimated. Joints that are left out are as described.
        values: Numbers of the mechanism that are this experiment's own, by their paths in
            `Mechanism.values`: a payload that is known, or the bias of an encoder that was switched
            on anew, `{"sensors.encoder.bias": Unknown(0.0)}`. Others have them as described.
        clock_offset: How much later the clock of the samples is than that of the inputs and of the
            start [s]; a number or an `Unknown`.
        weight: How often the squares of its residuals count.
        name: For reports and messages; "experiment 1" and so on by default.
    """

    measurements: Measurements
    inputs: Inputs | None = None
    start: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    clock_offset: float | Unknown = 0.0
    weight: float = 1.0
    name: str | None = None

    def __post_init__(self):
        if not number(self.weight, f"{self.title}: weight") >= 0.0:
            raise ValueError(f"{self.title}: weight must not be negative, is {self.weight}")
        if not isinstance(self.measurements, Measurements):
            raise TypeError(
                f"{self.title}: measurements must be mbd.Measurements, not "
                f"{type(self.measurements).__name__}"
            )

    @property
    def title(self) -> str:
        """How messages call it."""
        name = self.name or "experiment"
        return name if name.startswith("experiment") else f"experiment {name!r}"


Place = tuple[str, ...]  # ("start", "pin", "angle"), ("values", path), or ("clock_offset",)


@dataclass(frozen=True, eq=False)
class OwnNumbers:
    """The numbers that are each experiment's own, in the order of the experiments.

    Attributes:
        places: Where each number belongs.
        restrictions: Of each number.
        values: Known numbers and guesses, (E, k).
        is_unknown: Which of them are estimated, (E, k).
        sigmas: What is known about them beforehand, (E, k); infinite for nothing.
    """

    places: tuple[Place, ...]
    restrictions: tuple[AbstractTransform, ...]
    values: np.ndarray
    is_unknown: np.ndarray
    sigmas: np.ndarray

    @staticmethod
    def of(experiments: Sequence[Experiment], mechanism: Mechanism, system: System) -> "OwnNumbers":
        """From their descriptions.

        Raises:
            ValueError: A joint or a path is not known, or experiments differ in what they give.
        """
        known = mechanism.values()
        each = [_own(e, known, system) for e in experiments]
        places = tuple(dict.fromkeys(place for own in each for place in own))
        for place in places:
            missing = [e.name for e, own in zip(experiments, each, strict=True) if place not in own]
            if not missing:
                continue
            if place[0] == "start":
                raise ValueError(
                    f"fit: {', '.join(map(repr, missing))} say nothing about the start of "
                    f"{'.'.join(place[1:])}, and other experiments do; give it to all"
                )
            for own in each:
                own.setdefault(place, 0.0 if place[0] == "clock_offset" else known[place[1]])
        table = [[own[place] for place in places] for own in each]
        restrictions = []
        for k, place in enumerate(places):
            found = {repr(r): r for row in table for r in _restrictions(row[k])}
            if len(found) > 1:
                raise ValueError(
                    f"fit: {label_of(place)} has different restrictions in different experiments"
                )
            restrictions.append(next(iter(found.values()), Free()))
        shape = len(experiments), len(places)
        unknown = np.array([[isinstance(x, Unknown) for x in row] for row in table], bool)
        return OwnNumbers(
            places,
            tuple(restrictions),
            np.array([[_guess(x) for x in row] for row in table], float).reshape(shape),
            unknown.reshape(shape),
            np.array([[_sigma(x) for x in row] for row in table], float).reshape(shape),
        )

    def coordinates(self) -> np.ndarray:
        """Unrestricted coordinates of the numbers as given, (E, k)."""
        found = np.zeros(self.values.shape)
        for k, (place, restriction) in enumerate(zip(self.places, self.restrictions, strict=True)):
            try:
                found[:, k] = np.asarray(restriction.inverse(self.values[:, k]))
            except ValueError as error:
                raise ValueError(f"fit: {label_of(place)}: {error}") from None
        return found

    def labels(self, names: Sequence[str]) -> list[str]:
        """Names of the estimated numbers, one experiment after the other."""
        return [
            f"{name}: {label_of(self.places[k])}"
            for e, name in enumerate(names)
            for k in np.flatnonzero(self.is_unknown[e])
        ]


def named(experiments: Measurements | Experiment | Sequence[Experiment]) -> list[Experiment]:
    """A list of experiments with different names.

    Raises:
        TypeError: One is something else.
        ValueError: Two have the same name, or there is none.
    """
    if isinstance(experiments, Measurements):
        experiments = Experiment(experiments)
    given = [experiments] if isinstance(experiments, Experiment) else list(experiments)
    if not given:
        raise ValueError("fit: no experiment is given")
    found = []
    for k, e in enumerate(given):
        if isinstance(e, Measurements):
            e = Experiment(e)
        if not isinstance(e, Experiment):
            raise TypeError(
                "fit: experiments must be mbd.Measurements or mbd.Experiment, not "
                f"{type(e).__name__}"
            )
        found.append(replace(e, name=e.name or f"experiment {k + 1}"))
    names = [e.name for e in found]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"fit: more than one experiment is called {', '.join(twice)}")
    return found


def label_of(place: Place) -> str:
    """What reports call a number of an experiment."""
    return {"start": "start of ", "values": ""}.get(place[0], "") + (
        ".".join(place[1:]) if len(place) > 1 else "clock offset"
    )


def _own(e: Experiment, known: Values, system: System) -> dict[Place, Any]:
    """The own numbers of one experiment by place."""
    found: dict[Place, Any] = {}
    for joint, given in e.start.items():
        fields = _coordinates(e, system, joint)
        by_field = given if isinstance(given, Mapping) else {fields[0]: given}
        for name, value in by_field.items():
            if name not in fields:
                raise ValueError(
                    f"{e.title}: start: joint {joint!r} has no {name!r}; it has {', '.join(fields)}"
                )
            found["start", joint, name] = value
    for path, value in e.values.items():
        if path not in known:
            meant = " or ".join(nearest(path, known))
            raise ValueError(
                f"{e.title}: the mechanism has no value {path!r}"
                + (f"; did you mean {meant}?" if meant else "")
            )
        if np.ndim(known[path]) or np.ndim(_guess(value)):
            raise ValueError(f"{e.title}: {path} is no single number")
        found["values", path] = value
    if isinstance(e.clock_offset, Unknown) or e.clock_offset != 0.0:
        found[("clock_offset",)] = e.clock_offset
    for place, value in found.items():
        if not isinstance(value, Unknown):
            number(value, f"{e.title}: {label_of(place)}")
    return found


def _coordinates(e: Experiment, system: System, joint: str) -> list[str]:
    """Names of the coordinates of a joint and of their rates."""
    connection: Connection | None = next((c for c in system.connections if c.name == joint), None)
    if connection is None:
        meant = " or ".join(nearest(joint, [c.name for c in system.connections]))
        raise ValueError(
            f"{e.title}: start: there is no joint {joint!r}"
            + (f"; did you mean {meant}?" if meant else "")
        )
    has = {
        "angle": connection.angle is not None,
        "displacement": connection.element.has_displacement,
    }
    fields = [name for key, yes in has.items() if yes for name in _FIELDS[key]]
    if not fields:
        raise ValueError(
            f"{e.title}: start: joint {joint!r} is {connection.kind}, which has no coordinate"
        )
    return fields


def _guess(x: object) -> Any:
    return x.guess if isinstance(x, Unknown) else x


def _sigma(x: object) -> float:
    return float(x.sigma) if isinstance(x, Unknown) and x.sigma is not None else np.inf


def _restrictions(x: object) -> list[AbstractTransform]:
    return [x.restriction] if isinstance(x, Unknown) else []


def smallest_spacing(experiments: Sequence[Experiment]) -> float:
    """The smallest spacing of samples, from t = 0."""
    times = (np.concatenate([[0.0], e.measurements.t]) for e in experiments)
    gaps = np.concatenate([np.diff(t) for t in times])
    return float(np.min(gaps[gaps > 0.0]))
