"""How many preferences a prediction has right (eq. 2), against counting pairs one by one."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from walras.mechanisms.cooper.preference import DisutilityError
from walras_studies.cooper.preferences import preferences_right

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def count(true: Floats, predicted: Floats) -> float:
    """Count one by one, as the docstring says it."""
    wrong, pairs = 0.0, 0
    for truth, guess in zip(true, predicted, strict=True):
        for i, j in combinations(np.flatnonzero(~np.isnan(truth)), 2):
            pairs += 1
            if truth[i] != truth[j]:
                agree = (truth[i] < truth[j]) == (guess[i] < guess[j])
                wrong += 0.5 if guess[i] == guess[j] else 0 if agree else 1
    return 1 - wrong / max(pairs, 1)


few_values = st.sampled_from([-0.1, 0.0, 0.25, 0.5, 1.0])


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 9)).flatmap(
        lambda shape: st.tuples(
            hnp.arrays(np.float64, shape, elements=few_values | st.just(np.nan)),
            hnp.arrays(np.float64, shape, elements=few_values),
        )
    )
)
def test_counts_as_one_by_one_with_ties_and_missing_pairs(matrices: tuple[Floats, Floats]) -> None:
    assert preferences_right(*matrices) == pytest.approx(count(*matrices), abs=1e-12)


def test_equation_2_on_one_exchange() -> None:
    """One of 6 preferences of one of 4 agents differs: 1 - 1 / (4 * 6)."""
    true = np.tile([0.1, 0.2, 0.3, 0.4], (4, 1))
    predicted = true.copy()
    predicted[2, [1, 2]] = predicted[2, [2, 1]]
    assert preferences_right(true, predicted) == pytest.approx(1 - 1 / 24)


def test_counts_thousands_of_corunners_without_visiting_each_pair() -> None:
    true = np.arange(200_000.0)[None]
    assert preferences_right(true, -true) == 0


@pytest.mark.parametrize(
    ("true", "predicted", "complaint"),
    [
        ([[1, 2]], [[1], [2]], r"predicted has shape \(2, 1\), true has \(1, 2\)"),
        ([[0.1, np.inf]], [[0, 0]], r"true\[0, 1\] = inf is not finite"),
        ([[0.1, 0.2]], [[0, np.nan]], r"predicted\[0, 1\] = nan is not a finite number"),
        ([0.1], [0.1], "true has 1 dimensions"),
    ],
)
def test_says_what_is_wrong(true: list[float], predicted: list[float], complaint: str) -> None:
    with pytest.raises(DisutilityError, match=complaint):
        preferences_right(true, predicted)
