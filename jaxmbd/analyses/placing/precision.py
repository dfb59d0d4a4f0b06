"""Tolerances by precision."""

import math

import numpy as np
from jax.typing import DTypeLike


def in_digits_of(dtype: DTypeLike, tolerance: float) -> float:
    """A tolerance of double precision in another one: the same share of its digits."""
    share = math.log(float(np.finfo(dtype).eps)) / math.log(float(np.finfo(np.float64).eps))
    return tolerance**share
