"""Parts and sums at places that are known."""

import jax
import numpy as np
import pytest

from jaxmbd.indexing import sums_at


@pytest.mark.parametrize(
    ("values", "count", "scatters"), [(0, 3, False), (40, 5, False), (40, 900, True), (1, 1, False)]
)
def test_sums_at_places_are_those_of_adding_one_by_one(values, count, scatters):
    rng = np.random.default_rng(values)
    x, index = rng.normal(size=(values, 2)), rng.integers(-1, count + 2, values)
    inside = (index >= 0) & (index < count)
    wanted = np.zeros((count, 2))
    np.add.at(wanted, index[inside], x[inside])
    np.testing.assert_allclose(sums_at(x, index, count), wanted, rtol=1e-14, atol=1e-15)
    assert ("scatter" in str(jax.make_jaxpr(lambda x: sums_at(x, index, count))(x))) == scatters
