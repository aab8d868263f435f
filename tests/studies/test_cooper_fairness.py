"""Rank correlations against scipy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from walras_studies.cooper.rank_correlation import FairnessError, kendall, spearman

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

lists = st.integers(2, 30).flatmap(
    lambda size: st.tuples(
        *[
            hnp.arrays(
                np.float64,
                size,
                elements=st.sampled_from([-1e12, 0.0, 1e-12, 1.0, 2.0]) | st.floats(-9, 9),
            ).filter(lambda values: len(np.unique(values)) > 1)
        ]
        * 2
    )
)


@given(lists)
def test_agree_with_scipy_ties_included(both: tuple[Floats, Floats]) -> None:
    x, y = both
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("correlate", [spearman, kendall])
@pytest.mark.parametrize(
    ("penalty", "demand", "complaint"),
    [
        ([1, 1, 1], [1, 2, 3], "penalty has no two different entries"),
        ([1, 2], [5, 5], "demand has no two different entries"),
        ([], [], "penalty has no two different entries"),
        ([1, np.nan], [1, 2], r"penalty\[1\] = nan is not a finite number"),
        ([1, 2], [-np.inf, 2], r"demand\[0\] = -inf is not a finite number"),
        ([1, 2], [1, 2, 3], "penalty has 2 entries, demand has 3: one per agent is needed"),
        ([[1, 2]], [1, 2], "penalty has 2 dimensions: a flat list is needed"),
    ],
)
def test_says_why_there_is_no_correlation(
    correlate: Callable[[list[float], list[float]], float],
    penalty: list[float],
    demand: list[float],
    complaint: str,
) -> None:
    with pytest.raises(FairnessError, match=complaint):
        correlate(penalty, demand)
