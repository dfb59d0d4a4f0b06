"""All primitives of one type in a mechanism, as one block with a leading axis."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ...rotations.types import Array, Scalar
from ...xla.indexing import take
from ..motions import is_motion, jet
from ..stacking import each, group_alike
from .base import AbstractPrimitive, AbstractVelocityPrimitive


class Driven(eqx.Module):
    """Motions of equal structure that prescribe one field of some rows of a stack."""

    motion: Any  # stacked, leading axis = len(rows)
    field: str = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)


class PrimitiveStack(eqx.Module):
    """Primitives of one structure: `primitive` has a leading axis n, `bodies` (n, k) are static
    indices.

    The ground has the index nb (one past the last moving body).
    """

    primitive: AbstractPrimitive | AbstractVelocityPrimitive
    driven: tuple[Driven, ...]
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def index(self) -> np.ndarray:
        """Body indices, (n, k)."""
        return np.array(self.bodies, int).reshape(len(self.bodies), -1)

    @property
    def members(self) -> Any:
        """The primitives, with a leading axis."""
        return self.primitive

    @property
    def width(self) -> int:
        """Number of bodies of a row, k."""
        return len(self.bodies[0])

    @property
    def is_holonomic(self) -> bool:
        """Whether the rows are at position level."""
        return isinstance(self.primitive, AbstractPrimitive)

    @staticmethod
    def build(
        primitives: Sequence[Any], bodies: Sequence[tuple[int, ...]]
    ) -> list[tuple[tuple[int, ...], "PrimitiveStack"]]:
        """Stack primitives of one type by structure and number of bodies, taking their motions
        aside.

        Returns:
            Positions of the members among `primitives`, and their stack.
        """
        kind = type(primitives[0])
        motions: list[dict[str, Any]] = []
        plain = []
        for p in primitives:
            mine = {
                name: getattr(p, name) for name in kind.driven if is_motion(getattr(p, name, None))
            }
            for name in mine:
                p = _without_motion(p, name)
            motions.append(mine)
            plain.append(p)
        plain = kind.alike(plain)
        stacks = []
        widths = [len(b) for b in bodies]
        for width in sorted(set(widths)):
            same = [k for k, w in enumerate(widths) if w == width]
            for members, stacked in group_alike([plain[k] for k in same]):
                rows = tuple(same[k] for k in members)
                driven = _driven(kind.driven, [motions[k] for k in rows])
                stacks.append(
                    (rows, PrimitiveStack(stacked, driven, tuple(tuple(bodies[k]) for k in rows)))
                )
        return stacks

    def each(self, function, *args):
        """`function(primitive, *args of that row)` for all rows, with a leading axis of rows."""
        switch = self.primitive.switch
        if switch is None or switch.base is None:
            return each(self.primitive, function, *args)
        return each(self.primitive, lambda p, *x: function(p.placed(), *x), *args)

    def local(self, x: PyTree) -> tuple[Any, ...]:
        """Of an array (or pytree) over all bodies and the ground, the parts of each of the rows' k
        bodies.
        """
        index = self.index
        return tuple(
            jax.tree.map(lambda leaf, k=k: take(leaf, index[:, k]), x) for k in range(self.width)
        )

    @property
    def prescribed(self) -> Float[Array, " n"]:
        """The values f of all rows at one instant."""
        return jnp.broadcast_to(self.primitive.prescribed, (len(self),))

    def pick(self, rows: Sequence[int]) -> "PrimitiveStack":
        """Some rows of a stack at one instant, by static index."""
        index = np.array(rows, int)
        primitive = jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, self.primitive)
        return PrimitiveStack(primitive, (), tuple(self.bodies[k] for k in rows))

    def at(self, t: Scalar) -> "PrimitiveStack":
        """The stack with the values of its motions at time t."""
        primitive = self.primitive
        for d in self.driven:
            values = _evaluate(d, lambda motion: jnp.asarray(motion(t), t.dtype))
            primitive = _set(primitive, d.field, d.rows, values)
        return PrimitiveStack(primitive, (), self.bodies)

    def jet(self, t: Scalar) -> tuple["PrimitiveStack", Any, Any]:
        """The stack at time t with the rates of its turning vectors, and ḟ and f̈ of its rows, (n,)
        each.
        """
        primitive = self.primitive
        f_dot = f_ddot = jnp.zeros(len(self), t.dtype)
        for d in self.driven:
            value, rate, acceleration = _evaluate(d, lambda motion: jet(motion, t))
            primitive = _set(primitive, d.field, d.rows, value)
            if d.field == "f":
                f_dot = f_dot.at[np.array(d.rows)].set(rate)
                f_ddot = f_ddot.at[np.array(d.rows)].set(acceleration)
            else:
                primitive = _set(primitive, d.field + "_dot", d.rows, rate)
                primitive = _set(primitive, d.field + "_ddot", d.rows, acceleration)
        return PrimitiveStack(primitive, (), self.bodies), f_dot, f_ddot


def _without_motion(primitive: Any, name: str) -> Any:
    """The primitive with zeros in place of a motion, and of its rates."""
    dtype = jnp.result_type(float)
    t = np.zeros((), dtype)
    shape = () if name == "f" else jax.eval_shape(getattr(primitive, name), t).shape
    zero = np.zeros(shape, dtype)
    names = [name] if name == "f" else [name, name + "_dot", name + "_ddot"]
    return eqx.tree_at(
        lambda p: [getattr(p, n) for n in names],
        primitive,
        [zero] * len(names),
        is_leaf=lambda x: x is None,
    )


def _driven(fields: Sequence[str], motions: list[dict[str, object]]) -> tuple[Driven, ...]:
    """The motions of the rows of one stack, those of equal structure together."""
    driven = []
    for name in fields:
        mine = [(row, given[name]) for row, given in enumerate(motions) if name in given]
        for members, stacked in group_alike([motion for _, motion in mine]):
            driven.append(Driven(stacked, name, tuple(mine[k][0] for k in members)))
    return tuple(driven)


def _evaluate(d: Driven, function) -> Any:
    """Apply `function` to every motion of a group; results have a leading axis of rows."""
    return each(d.motion, function, count=len(d.rows))


def _set(primitive: Any, field: str, rows: tuple[int, ...], values) -> Any:
    new = getattr(primitive, field).at[np.array(rows)].set(values)
    return eqx.tree_at(lambda p: getattr(p, field), primitive, new)
