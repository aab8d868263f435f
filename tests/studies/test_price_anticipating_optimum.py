"""The social optimum against other solvers, the metrics, and what a market refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from examples import examples
from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras_studies.proportional_share.optimum import social_optimum
from walras_studies.proportional_share.paper_metrics import (
    efficiency,
    envy_freeness,
    utility_uniformity,
)

Floats = NDArray[np.float64]


@st.composite
def limited_markets(draw: st.DrawFn) -> ShareMarket:
    users, machines = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = random.random((users, machines))
    if draw(st.booleans()):  # many ties
        weights = random.integers(1, 4, (users, machines)).astype(float)
    return ShareMarket(np.ones(users), weights, random.integers(1, machines + 1, users))


def repeated(market: ShareMarket) -> Floats:
    """Return the weights of the paper's bipartite graph, where user i appears k_i times (6.2)."""
    return np.repeat(market.weights, market.parallelism, axis=0)


@examples(200)
@given(limited_markets())
def test_limited_optimum_is_a_matching_of_largest_weight(market: ShareMarket) -> None:
    """Lemma 6, against scipy; the prices of the matching prove it."""
    best = social_optimum(market)
    graph = repeated(market)
    expected = graph[linear_sum_assignment(graph, maximize=True)].sum()
    assert best.welfare == pytest.approx(expected, rel=1e-12)
    assert best.bound == pytest.approx(best.welfare, rel=1e-12)
    taken = np.bincount(best.owner[best.owner >= 0], minlength=len(market.budgets))
    assert (taken <= market.parallelism).all()
    assert market.utilities(best.shares).sum() == pytest.approx(best.welfare, rel=1e-12)


def test_unlimited_optimum_gives_each_machine_to_who_likes_it_most() -> None:
    """Claim 1 of the paper on the social optimum."""
    best = social_optimum(ShareMarket([1, 1], [[1, 5, 2], [3, 4, 2]]))
    assert best.owner.tolist() == [1, 0, 0]
    assert best.welfare == 10


def test_metrics_of_a_small_allocation() -> None:
    """Section 2: U = 3 of U* = 8; utilities 1 and 2; the first would have 3 with the other's."""
    market = ShareMarket([1, 1], [[4, 1], [4, 0]])
    shares = np.array([[0.0, 1.0], [0.5, 0.0]])
    assert efficiency(market, shares) == pytest.approx(3 / 5)
    assert utility_uniformity(market, shares) == pytest.approx(1 / 2)
    assert envy_freeness(market, shares) == pytest.approx(1 / 2)


def test_metrics_count_only_the_machines_that_a_user_can_use() -> None:
    market = ShareMarket([1, 1], [[3, 2, 1], [1, 1, 1]], [1, 2])
    shares = np.full((2, 3), 0.5)
    np.testing.assert_allclose(market.utilities(shares), [1.5, 1.0])
    assert efficiency(market, shares) == pytest.approx(2.5 / 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0], np.ones((2, 2))), r"budgets\[1\] = 0 is not positive"),
        (([1, np.nan], np.ones((2, 2))), r"budgets\[1\] = nan is not a finite number"),
        (([1], np.ones((2, 2))), r"weights has shape \(2, 2\): 1 x any entries are needed"),
        (([1, 1], [[1, 0], [0, -2]]), r"weights\[1, 1\] = -2 is negative"),
        (([1, 1], [[1, 0], [0, 0]]), r"weights\[1\] has no positive entry: give the user"),
        (([1], [[1, 1]], [0]), r"parallelism\[0\] = 0 is below 1"),
        (([1], [[1, 1]], [1.5]), r"parallelism must be 1 integers, one per user"),
        (([1], [[1, 1]], [2, 2]), r"parallelism must be 1 integers, one per user"),
        (([1], [[1, 1]], [2], [1, 0]), r"reserve\[1\] = 0 is not positive"),
    ],
)
def test_senseless_markets_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ShareMarketError, match=message):
        ShareMarket(*arguments)
