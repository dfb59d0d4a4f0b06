"""The model format of the paper's codes: bodies by number, constraints as single primitives.

Bodies have `id, name, r, r_dot, A, omega` (the ground only id and name), constraints `type` DP1, DP2, D or CD with
`a_bar_i, a_bar_j, s_bar_p_i, s_bar_q_j, c` as the type needs, and `f` (with `f_dot, f_ddot`) as strings in t. Masses
are absent there: `mass`, `inertia` and `gravity` are accepted as extensions; without them only kinematics is possible.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import model
from ..model.mechanism import Mechanism
from .expressions import Expression

_VECTORS = {
    "DP1": {"a_bar_i": "a_i_bar", "a_bar_j": "a_j_bar"},
    "DP2": {"a_bar_i": "a_i_bar", "s_bar_p_i": "s_i_bar", "s_bar_q_j": "s_j_bar"},
    "D": {"s_bar_p_i": "s_i_bar", "s_bar_q_j": "s_j_bar"},
    "CD": {"c": "c", "s_bar_p_i": "s_i_bar", "s_bar_q_j": "s_j_bar"},
}


def is_older_format(data: dict) -> bool:
    """Whether a parsed file looks like the older format."""
    return "format" not in data and "constraints" in data and "bodies" in data


def read_older_format(data: dict) -> Mechanism:
    """The mechanism; a ValueError names the part that makes no sense."""
    m = Mechanism(str(data.get("name", "mechanism")), gravity=data.get("gravity", (0.0, 0.0, -9.81)))
    names: dict[Any, str] = {}
    for k, body in enumerate(_list(data, "bodies")):
        name = str(_get(body, "name", f"bodies[{k}]"))
        key = _get(body, "id", f"body {name!r}")
        if key in names:
            raise ValueError(f"body {name!r}: the id {key!r} is taken by {names[key]!r}")
        names[key] = name
        if name != "ground":
            m.add_body(
                name,
                mass=body.get("mass"),
                inertia=body.get("inertia"),
                r=_get(body, "r", f"body {name!r}"),
                A=_get(body, "A", f"body {name!r}"),
                v=body.get("r_dot"),
                omega=body.get("omega"),
                # The published inertias violate the triangle inequality, and this format is theirs.
                allow_unphysical_inertia=True,
            )
    names.setdefault(0, "ground")
    used: dict[str, int] = {}
    for k, row in enumerate(_list(data, "constraints")):
        name = str(row.get("name", f"constraint {k + 1}")) if isinstance(row, dict) else ""
        used[name] = used.get(name, 0) + 1
        unique = name if used[name] == 1 else f"{name} ({used[name]})"  # names need not be unique there
        m.add(_constraint(row, unique, names))
    return m


def _constraint(row: dict, name: str, names: dict) -> Any:
    what = f"constraint {name!r}"
    kind = _get(row, "type", what)
    if kind not in _VECTORS:
        raise ValueError(f"{what}: unknown type {kind!r}; known are {', '.join(_VECTORS)}")
    fields = {ours: _get(row, theirs, what) for theirs, ours in _VECTORS[kind].items()}
    bodies = []
    for key in ("body_i", "body_j"):
        number = _get(row, key, what)
        if number not in names:
            raise ValueError(f"{what}: {key} is {number!r}, but no body has that id")
        bodies.append(names[number])
    fields["f"] = _f(row, what)
    return model.Constraint(name, *bodies, primitives=[getattr(model, kind)(**fields)])


def _f(row: dict, what: str) -> Any:
    text = row.get("f", 0.0)
    if not isinstance(text, str):
        return text
    f = Expression(text)
    if "t" not in text.replace("tan", ""):
        return float(f(jnp.zeros(())))
    _compare_derivatives(row, f, what)
    return f


def _compare_derivatives(row: dict, f: Expression, what: str) -> None:
    """Derivatives are taken by JAX; those in the file are only checked, because some published ones are wrong."""
    for key, order in (("f_dot", 1), ("f_ddot", 2)):
        if not isinstance(row.get(key), str):
            continue
        g = f
        for _ in range(order):
            g = jax.grad(g)
        given = Expression(row[key])
        ts = [jnp.asarray(t) for t in (0.13, 0.71, 1.37)]
        if not np.allclose([g(t) for t in ts], [given(t) for t in ts], rtol=1e-4, atol=1e-6):
            warnings.warn(
                f"{what}: {key} = {row[key]!r} is not the derivative of f = {row['f']!r}; ignored", stacklevel=2
            )


def _list(data: dict, key: str) -> list:
    if not isinstance(data[key], list):
        raise ValueError(f"{key!r} must be a list")
    return data[key]


def _get(part: Any, key: str, what: str) -> Any:
    if not isinstance(part, dict):
        raise ValueError(f"{what}: must be an object with named fields")
    if key not in part:
        raise ValueError(f"{what}: the field {key!r} is missing")
    return part[key]
