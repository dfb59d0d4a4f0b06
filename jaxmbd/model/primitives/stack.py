"""All primitives of one type in a mechanism, as one block with a leading axis."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...rotations.types import Scalar
from ..motions import is_motion, jet
from ..stacking import group_alike, stack
from .base import AbstractPrimitive
from .dp1 import DP1


class Driven(eqx.Module):
    """Motions of equal structure that prescribe one field of some rows of a stack."""

    motion: Any  # stacked, leading axis = len(rows)
    field: str = eqx.field(static=True)  # "f" or "a_i_bar"
    rows: tuple[int, ...] = eqx.field(static=True)


class PrimitiveStack(eqx.Module):
    """Primitives of one type: `primitive` has a leading axis n, `i` and `j` are the static body indices.

    The ground has the index nb (one past the last moving body).
    """

    primitive: AbstractPrimitive
    driven: tuple[Driven, ...]
    i: tuple[int, ...] = eqx.field(static=True)
    j: tuple[int, ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.i)

    @staticmethod
    def build(primitives: Sequence[AbstractPrimitive], i: Sequence[int], j: Sequence[int]) -> "PrimitiveStack":
        """Stack primitives of one type, taking their motions aside."""
        motions: list[tuple[str, int, Any]] = []
        plain = []
        turning = any(is_motion(getattr(p, "a_i_bar", None)) for p in primitives)
        branching = any(isinstance(p, DP1) and p.a_j_along is not None for p in primitives)
        for row, p in enumerate(primitives):
            for name in ("f", "a_i_bar"):
                value = getattr(p, name, None)
                if is_motion(value):
                    motions.append((name, row, value))
                    like = p.a_j_bar if name == "a_i_bar" else jnp.zeros((), _dtype(p))
                    p = eqx.tree_at(lambda q, name=name: getattr(q, name), p, jnp.zeros_like(like))
            if turning and isinstance(p, DP1):
                zero = jnp.zeros_like(p.a_j_bar)
                along = p.a_j_along if p.a_j_along is not None or not branching else zero
                p = DP1(p.a_i_bar, p.a_j_bar, p.f, a_j_along=along, a_i_bar_dot=zero, a_i_bar_ddot=zero)
            plain.append(p)
        driven = []
        for name in ("f", "a_i_bar"):
            mine = [(row, motion) for field, row, motion in motions if field == name]
            for members, stacked in group_alike([motion for _, motion in mine]):
                driven.append(Driven(stacked, name, tuple(mine[k][0] for k in members)))
        return PrimitiveStack(stack(plain), tuple(driven), tuple(i), tuple(j))

    def pick(self, rows: Sequence[int]) -> "PrimitiveStack":
        """Some rows of a stack at one instant, by static index."""
        index = np.array(rows, int)
        primitive = jax.tree.map(lambda x: x[index], self.primitive)
        return PrimitiveStack(primitive, (), tuple(self.i[k] for k in rows), tuple(self.j[k] for k in rows))

    def at(self, t: Scalar) -> "PrimitiveStack":
        """The stack with the values of its motions at time t."""
        primitive = self.primitive
        for d in self.driven:
            values = _evaluate(d, lambda motion: jnp.asarray(motion(t), t.dtype))
            primitive = _set(primitive, d.field, d.rows, values)
        return PrimitiveStack(primitive, (), self.i, self.j)

    def jet(self, t: Scalar) -> tuple["PrimitiveStack", Any, Any]:
        """The stack at time t with the rates of its turning vectors, and ḟ and f̈ of its rows, (n,) each."""
        primitive = self.primitive
        f_dot = f_ddot = jnp.zeros(len(self), t.dtype)
        for d in self.driven:
            value, rate, acceleration = _evaluate(d, lambda motion: jet(motion, t))
            primitive = _set(primitive, d.field, d.rows, value)
            if d.field == "f":
                f_dot = f_dot.at[np.array(d.rows)].set(rate)
                f_ddot = f_ddot.at[np.array(d.rows)].set(acceleration)
            else:
                primitive = _set(primitive, "a_i_bar_dot", d.rows, rate)
                primitive = _set(primitive, "a_i_bar_ddot", d.rows, acceleration)
        return PrimitiveStack(primitive, (), self.i, self.j), f_dot, f_ddot


def _evaluate(d: Driven, function) -> Any:
    """Apply `function` to every motion of a group; results have a leading axis of rows."""
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(d.motion)):
        return eqx.filter_vmap(function)(d.motion)
    # A motion without arrays (a plain function, an expression) has nothing to map over.
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (len(d.rows), *x.shape)), function(d.motion))


def _set(primitive: AbstractPrimitive, field: str, rows: tuple[int, ...], values) -> AbstractPrimitive:
    new = getattr(primitive, field).at[np.array(rows)].set(values)
    return eqx.tree_at(lambda p: getattr(p, field), primitive, new)


def _dtype(primitive: AbstractPrimitive):
    return next(leaf.dtype for leaf in jax.tree.leaves(primitive) if eqx.is_array(leaf))
