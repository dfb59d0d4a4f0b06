"""Priors: what is known about numbers before an experiment. A new kind is a class here."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .transforms import Values

Of = str | Mapping[str, float] | Callable[[Mapping[str, Any]], Any]


class AbstractPrior(eqx.Module):
    """Base class of priors."""

    @abc.abstractmethod
    def residual(self, values: Values) -> Float[Array, " n"]:
        """How many standard deviations the values are away from what is expected, (n,).

        Args:
            values: Of parameters, by path.
        """

    @abc.abstractmethod
    def check(self, paths: Values) -> None:
        """Refuse what has no parameter among some paths.

        Raises:
            ValueError: The message names it.
        """


class NormalPrior(AbstractPrior):
    """A normal distribution of a parameter or of a combination of parameters.

    Attributes:
        of: A path; a combination `{path: coefficient}`, such as the sum of two masses that was
            weighed; or a function of the parameters by path.
        mean: Expected value, a number or an array like the parameter.
        sigma: Standard deviation.
    """

    of: Any
    mean: Any
    sigma: Any

    def __check_init__(self):
        if not np.all(np.asarray(self.sigma) > 0.0):
            raise ValueError(f"{type(self).__name__}: sigma must be positive, not {self.sigma}")

    def residual(self, values: Values) -> Float[Array, " n"]:
        return jnp.ravel((_value(self.of, values) - self.mean) / self.sigma)

    def check(self, paths: Values) -> None:
        _check(type(self).__name__, self.of, paths)


class LogNormalPrior(AbstractPrior):
    """A normal distribution of the logarithm of a positive parameter or combination.

    Attributes:
        of: As in `NormalPrior`.
        median: Expected value.
        sigma: Standard deviation of the logarithm: 0.1 for about ten per cent.
    """

    of: Any
    median: Any
    sigma: Any

    def __check_init__(self):
        for name in ("median", "sigma"):
            if not np.all(np.asarray(getattr(self, name)) > 0.0):
                raise ValueError(f"{type(self).__name__}: {name} must be positive")

    def residual(self, values: Values) -> Float[Array, " n"]:
        return jnp.ravel(jnp.log(_value(self.of, values) / self.median) / self.sigma)

    def check(self, paths: Values) -> None:
        _check(type(self).__name__, self.of, paths)


def _value(of: Of, values: Values) -> Any:
    if isinstance(of, str):
        return values[of]
    if isinstance(of, Mapping):
        return sum(c * values[path] for path, c in of.items())
    return of(values)


def _check(who: str, of: Of, paths: Values) -> None:
    named = [of] if isinstance(of, str) else list(of) if isinstance(of, Mapping) else []
    for path in named:
        if path not in paths:
            raise ValueError(
                f"fit: {who}: {path} is no parameter of this fit; these are {', '.join(paths)}"
            )
