"""Results are used again exactly while all that they follow from is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from walras.market.snapshot import Entitlement, Node, Snapshot
from walras_api.job_inputs import Speedup
from walras_api.kept import Kept

ONE, OTHER = object(), object()
CLUSTER = Snapshot((Entitlement("a", 1),), (Node("n", 4.0),), ())


class Counted:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        self.calls += 1
        return inputs


@pytest.mark.parametrize(
    ("first", "second", "again"),
    [
        (ONE, ONE, True),
        (ONE, OTHER, False),
        ([ONE, OTHER], [ONE, OTHER], True),
        ([ONE, OTHER], [OTHER, ONE], False),
        ([ONE], [ONE, OTHER], False),
        ([ONE], (ONE,), False),
        ([[ONE]], [[ONE]], False),  # of what is equal but changeable, only the list itself is known
        ("x" * 3, "".join("xxx"), True),
        (10**6, int("1000000"), True),
        (1, 1.0, False),  # a sum of these has another type
        (1, True, False),
        (None, 0, False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 2}, False),
        (Speedup(0.5, "Given"), Speedup(float("0.5"), "Given"), True),
        (Speedup(0.5, "Given"), Speedup(0.6, "Given"), False),
        (CLUSTER, replace(CLUSTER), True),
        (CLUSTER, replace(CLUSTER, nodes=(Node("n", 4.5),)), False),
    ],
)
def test_a_result_is_used_again_while_its_inputs_are_the_same(
    first: Any, second: Any, again: bool
) -> None:
    kept, function = Kept(), Counted()
    kept.of("it", function, ONE, first)
    kept.next()
    assert kept.of("it", function, ONE, second)[1] is (first if again else second)
    assert function.calls == (1 if again else 2)


def test_results_are_kept_for_one_function_and_name_and_until_a_decision_does_without() -> None:
    kept, function, other = Kept(), Counted(), Counted()
    kept.of("it", function, ONE)
    kept.next()
    kept.of("it", other, ONE)
    kept.of("another", function, ONE)
    assert (function.calls, other.calls) == (2, 1)
    kept.next()
    kept.of("it", function, ONE)
    assert function.calls == 3
