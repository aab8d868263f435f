"""Figures and names as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_view.text import cores, decimal, natural, thousandths


def test_names_are_in_the_order_in_which_people_count() -> None:
    names = ["node-10", "node-2", "node-1b", "node-1", "b", "a9", "10", "9", "node-02"]
    in_order = ["9", "10", "a9", "b", "node-1", "node-1b", "node-02", "node-2", "node-10"]
    assert sorted(names, key=natural) == in_order


@given(st.text("ab019-", max_size=6), st.text("ab019-", max_size=6))
def test_of_any_two_names_one_comes_first(one: str, other: str) -> None:
    before, after = natural(one) < natural(other), natural(other) < natural(one)
    assert before + after == (one != other)


@pytest.mark.parametrize("nothing", [-0.0, -0.0004, 0.0004])
def test_nothing_has_no_sign(nothing: float) -> None:
    assert decimal(nothing) == "0.00"
    assert cores(nothing) == "0"
    assert thousandths(nothing) == "0"
