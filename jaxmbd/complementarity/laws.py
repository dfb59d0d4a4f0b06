"""All laws of one step together as equations: their residual, its Jacobian and steps of Newton's
method.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..linalg.dense import DenseFactors
from ..linalg.small_matrices import times
from ..rotations.types import Scalar
from ..xla.lazy_cond import where_needed
from .coulomb import coulomb
from .dry import dry
from .groups import Groups, block_factors
from .row_order import RowOrder
from .stop import stop

# A step of block elimination may leave this share of the residual; another one refines it.
_LOST = 1e-3


class Pressing(eqx.Module):
    """Forces in joints that follow the magnitudes of other impulses: teeth press gears apart.

    Attributes:
        impulse: Of every such tooth without those of the laws, (k,).
        each: What unit impulses of the laws add to it, (k, w).
        borne: What the joint bears per unit of its magnitude, (dry, 3, k).
    """

    impulse: Float[Array, " k"]
    each: Float[Array, "k w"]
    borne: Float[Array, "dry 3 k"]

    def __call__(self, x: Float[Array, " w"]) -> Float[Array, "dry 3"]:
        return self.borne @ jnp.abs(self.impulse + self.each @ x)

    def scaled(self, sigma: Float[Array, " w"], unit: Scalar) -> "Pressing":
        """The same for x / (sigma unit), in units of `unit`."""
        return Pressing(self.impulse / unit, self.each * sigma[None, :], self.borne)


class Laws(eqx.Module):
    """The laws of one step: contacts (three rows each) first, then stops, then dry friction.

    Attributes:
        matrix: G, what unit impulses add to the velocities, (w, w).
        free: b, the velocities without impulses, less those that are wanted, (w,).
        active: Which laws may act, (c,); the others have no impulse.
        friction: μ of every contact, (contacts,).
        bound: Constant part of the bound on friction impulses, (dry,) [N·s] or [N·m·s].
        share: Impulse of friction per unit of impulse in the joint, (dry,) [-] or [m].
        carried: The joint's impulse without those of the laws, (dry, 3) [N·s].
        carries: What unit impulses add to it, (dry, 3, w).
        spent: Parts of the bounds that friction took before it stopped within the step, with
            their signs, (w,); zero on rows that are not of friction.
        stops: Number of stops.
        groups: Of contacts whose matrix has many zeros, if there are no other laws; or None.
        pull: ρ, which is added to the diagonal of G; or None. Kept apart, so that an iteration of
            many contacts copies no matrix.
        pressing: What the joints of dry friction bear of teeth that press gears apart; or None.
    """

    matrix: Float[Array, "w w"]
    free: Float[Array, " w"]
    active: Bool[Array, " c"]
    friction: Float[Array, " contacts"]
    bound: Float[Array, " dry"]
    share: Float[Array, " dry"]
    carried: Float[Array, "dry 3"]
    carries: Float[Array, "dry 3 w"]
    spent: Float[Array, " w"]
    stops: int = eqx.field(static=True)
    groups: Groups | None = eqx.field(static=True, default=None)
    pull: Scalar | None = None
    pressing: Pressing | None = None

    @property
    def contacts(self) -> int:
        return self.friction.shape[0]

    @property
    def width(self) -> int:
        """Number of impulses."""
        return self.free.shape[0]

    @property
    def rows(self) -> RowOrder:
        """Which rows are whose."""
        return RowOrder(self.contacts, self.stops, self.bound.shape[0])

    def of_rows(self, each: Array) -> Array:
        """Numbers of laws, (c,), repeated for their rows, (w,)."""
        return self.rows.of_rows(each)

    def scaled(self) -> tuple["Laws", Float[Array, " w"]]:
        """The same in units in which G has ones on its diagonal and the largest velocity is one,
        and the impulses of those units.

        One number per contact, so that friction cones keep their shape.
        """
        diagonal = jax.lax.stop_gradient(jnp.diagonal(self.matrix))
        by_contact, first = diagonal[self.rows.of_contacts], self.rows.of_stops.start
        each = jnp.concatenate(
            [jnp.mean(by_contact.reshape(self.contacts, 3), axis=1), diagonal[first:]]
        )
        each = jnp.where(each > 0.0, each, 1.0) ** -0.5
        sigma = self.of_rows(each)
        rows = self.of_rows(self.active)
        largest = jnp.max(jnp.where(rows, jnp.abs(sigma * self.free), 0.0), initial=0.0)
        unit = jax.lax.stop_gradient(jnp.where(largest > 0.0, largest, 1.0))
        impulse = sigma * unit
        of_dry = sigma[self.rows.of_dry]
        return (
            Laws(
                sigma[:, None] * self.matrix * sigma[None, :],
                sigma * self.free / unit,
                self.active,
                self.friction,
                self.bound / (of_dry * unit),
                self.share / of_dry,
                self.carried / unit,
                self.carries * sigma[None, None, :],
                self.spent,
                self.stops,
                self.groups,
                pressing=None if self.pressing is None else self.pressing.scaled(sigma, unit),
            ),
            impulse,
        )

    def pulled(self, rho: Scalar, center: Float[Array, " w"]) -> "Laws":
        """The same with v + ρ (P - center) in place of the velocities v."""
        return dataclasses.replace(self, pull=rho, free=self.free - rho * center)

    def answer(self, x: Float[Array, " w"]) -> Float[Array, " w"]:
        """What impulses add to the velocities, with ρ."""
        plain = self.matrix @ x
        return plain if self.pull is None else plain + self.pull * x

    def bounds(self, x: Float[Array, " w"]) -> Float[Array, " dry"]:
        """Bound of every friction at these impulses."""
        if not self.bound.size:
            return self.bound
        force = self.carried + self.carries @ x
        if self.pressing is not None:
            force = force + self.pressing(x)
        return self.bound + self.share * jnp.sqrt(jnp.sum(force**2, axis=1) + 1e-60)

    def _contacts(
        self, x: Float[Array, " w"], v: Float[Array, " w"]
    ) -> tuple[Array, Array, Array, Array]:
        """Impulses, velocities and the rest of what `coulomb` takes, by contact."""
        by_three = [a[self.rows.of_contacts].reshape(-1, 3) for a in (x, v, self.spent)]
        return by_three[0], by_three[1], self.friction, by_three[2][:, 1:]

    def residual(self, x: Float[Array, " w"], kappa: Scalar) -> Float[Array, " w"]:
        """What is missing to all laws, (w,)."""
        v = self.answer(x) + self.free
        stops, last = self.rows.of_stops, self.rows.of_dry
        pushed = jax.vmap(coulomb, (0, 0, 0, 0, None))(*self._contacts(x, v), kappa)
        parts = [
            pushed.reshape(-1),
            jax.vmap(stop, (0, 0, None))(x[stops], v[stops], kappa),
            jax.vmap(dry, (0, 0, 0, 0, None))(
                x[last], v[last], self.bounds(x), self.spent[last], kappa
            ),
        ]
        return jnp.where(self.of_rows(self.active), jnp.concatenate(parts), x)

    def _of_contacts(
        self, x: Float[Array, " w"], v: Float[Array, " w"], kappa: Scalar
    ) -> tuple[Float[Array, "contacts 3 3"], Float[Array, "contacts 3 3"]]:
        """Derivatives of the laws of contact by their impulses and velocities."""
        one = jax.jacfwd(coulomb, (0, 1))
        return jax.vmap(one, (0, 0, 0, 0, None))(*self._contacts(x, v), kappa)

    def newton_step(
        self, x: Float[Array, " w"], kappa: Scalar, value: Float[Array, " w"]
    ) -> Float[Array, " w"]:
        """The change of the impulses that takes away the residual `value`, (w,)."""
        if self.groups is None:
            return -DenseFactors.of(self.jacobian(x, kappa)).solve(value)
        by_x, by_v = self._of_contacts(x, self.answer(x) + self.free, kappa)
        on = self.active[:, None, None]
        by_x = jnp.where(on, by_x, np.eye(3, dtype=x.dtype))
        by_v = jnp.where(on, by_v, 0.0)
        with_pull = by_x if self.pull is None else by_x + self.pull * by_v
        factors = block_factors(self.matrix, with_pull, by_v, self.groups)

        def missing(delta: Array) -> Array:
            """What a change leaves of the residual."""
            change, answer = (a.reshape(-1, 3) for a in (delta, self.answer(delta)))
            return value + (times(by_x, change) + times(by_v, answer)).reshape(-1)

        delta = -factors(value)
        rest = missing(delta)
        # Where blocks lose too many digits, as no pivot is chosen among them, a dense factorization
        # serves.
        far = ~(jnp.max(jnp.abs(rest)) <= _LOST * jnp.max(jnp.abs(value)))

        return where_needed(
            far,
            lambda: -DenseFactors.of(self.jacobian(x, kappa)).solve(value),
            delta - factors(rest),
        )

    def jacobian(self, x: Float[Array, " w"], kappa: Scalar) -> Float[Array, "w w"]:
        """Derivative of `residual`, from those of single laws."""
        v = self.answer(x) + self.free
        n, stops, last = self.rows.of_contacts.stop, self.rows.of_stops, self.rows.of_dry
        width, matrix = self.width, self.matrix
        if self.pull is not None:
            matrix = matrix + self.pull * np.eye(width, dtype=x.dtype)
        # Laws without an impulse are held at a safe place: their rows are those of the identity.
        by_x, by_v = self._of_contacts(x, v, kappa)
        eye = np.eye(width, dtype=x.dtype)
        own = jnp.concatenate(
            [
                jnp.einsum("cij,cjw->ciw", by_x, eye[:n].reshape(-1, 3, width)).reshape(n, width),
                eye[n:],
            ]
        )
        through = jnp.einsum("cij,cjw->ciw", by_v, matrix[:n].reshape(-1, 3, width)).reshape(
            n, width
        )
        a, b = jax.vmap(jax.grad(stop, (0, 1)), (0, 0, None))(x[stops], v[stops], kappa)
        bounds, of_bounds = self.bounds(x), jnp.zeros((0, width), x.dtype)
        c, d, e = jax.vmap(jax.grad(dry, (0, 1, 2)), (0, 0, 0, 0, None))(
            x[last], v[last], bounds, self.spent[last], kappa
        )
        if self.bound.size:
            of_bounds = jax.jacfwd(self.bounds)(x)
        scale = jnp.concatenate([jnp.ones(n, x.dtype), a, c])
        rows = [through, b[:, None] * matrix[stops], d[:, None] * matrix[last]]
        rows[2] = rows[2] + e[:, None] * of_bounds
        whole = scale[:, None] * own + jnp.concatenate(rows)
        return jnp.where(self.of_rows(self.active)[:, None], whole, eye)
