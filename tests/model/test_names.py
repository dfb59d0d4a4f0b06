"""Names that are not known are answered with the nearest ones."""

import jax
import pytest

from jaxmbd.model.names import ByName, UnknownNameError, unknown


@pytest.mark.parametrize(
    ("name", "meant"), [("Pin", "did you mean 'pin'"), ("elbw", "did you mean 'elbow'")]
)
def test_a_dictionary_by_name_says_what_was_meant(name, meant):
    with pytest.raises(KeyError, match=meant) as caught:
        ByName(pin=1.0, elbow=2.0)[name]
    assert isinstance(caught.value, UnknownNameError)
    assert str(caught.value).endswith("The joints are pin, elbow")  # no quotes of KeyError


def test_a_name_like_no_other_is_answered_with_all():
    assert unknown("joint", "joints", "x", ["pin"]) == "there is no joint 'x'; the joints are pin"
    assert unknown("joint", "joints", "x", []) == "there is no joint 'x'; the joints are none"


def test_a_dictionary_by_name_is_a_dictionary_and_a_pytree():
    found = ByName(b=1.0, a=2.0)
    assert found == {"b": 1.0, "a": 2.0} and found.get("x") is None and "x" not in found
    twice = jax.tree.map(lambda x: 2.0 * x, found)
    assert isinstance(twice, ByName) and twice == {"b": 2.0, "a": 4.0}
    assert jax.tree.leaves(found) == jax.tree.leaves({"b": 1.0, "a": 2.0})
