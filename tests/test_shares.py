"""Every slow test runs in one of the shares."""

import pytest
import shares


def test_every_name_is_in_one_share_and_shares_are_alike():
    names = [f"tests/a.py::test_{k}[{m}]" for k in range(100) for m in "xyz"]
    of = [[name for name in names if shares.is_in(name, (k, 6))] for k in range(6)]
    assert sorted(sum(of, [])) == sorted(names)
    assert all(len(x) > 25 for x in of)  # of 50, with a deviation of 6.5


@pytest.mark.parametrize("text", ["6/6", "1", "-1/6", "1/0", "a/6", ""])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="K/N with K from 0 to N - 1"):
        shares.parsed(text)
    assert shares.parsed("5/6") == (5, 6)
