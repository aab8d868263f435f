"""The papers' metrics by which studies judge, on cases that can be done in the head."""

from __future__ import annotations

import numpy as np
import pytest

from walras.mechanisms.amdahl.market import AmdahlMarket
from walras_studies.amdahl import paper_metrics as amdahl_metrics
from walras_studies.karma.paper_metrics import (
    disparity,
    fairness,
    useful,
    utilisation,
    welfare,
)


def test_karmas_metrics_of_nothing_are_defined() -> None:
    nothing = np.zeros((3, 2), np.int64)
    assert welfare(nothing, nothing).tolist() == [1, 1]
    assert fairness(nothing, nothing) == disparity(nothing, nothing) == 1
    assert utilisation(nothing[:0], nothing[:0], 6) == utilisation(nothing, nothing, 0) == 0
    assert (
        fairness(nothing[:, :0], nothing[:, :0]) == disparity(nothing[:, :0], nothing[:, :0]) == 1
    )


def test_karmas_metrics_count_only_what_is_of_use() -> None:
    slices, demands = [[2, 5], [2, 0]], [[1, 5], [3, 4]]
    assert useful(slices, demands).tolist() == [3, 5]
    assert welfare(slices, demands).tolist() == [3 / 4, 5 / 9]
    assert fairness(slices, demands) == pytest.approx((5 / 9) / (3 / 4))
    assert disparity(slices, demands) == 5 / 3
    assert utilisation(slices, demands, 8) == 0.5
    assert disparity([[0, 5]], [[1, 5]]) == float("inf")


def test_entitlement_error_is_relative_to_the_clusterwide_share() -> None:
    market = AmdahlMarket([1, 3], [4, 4], [0, 1], [0, 1], [0.5, 0.5])
    np.testing.assert_allclose(amdahl_metrics.entitled_cores(market), [2, 6])
    assert amdahl_metrics.entitlement_error(market, [4, 4]) == pytest.approx((1 + 1 / 3) / 2)
    assert amdahl_metrics.mean_absolute_error([4, 4], [3, 2]) == 1.5
