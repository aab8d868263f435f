"""Bidding by users who only measure what money does for them (6.3)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from share_markets import population
from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras_studies.proportional_share.adjustment_in_turn import adjust
from walras_studies.proportional_share.certificate import certify

Floats = NDArray[np.float64]


def test_gaps_bound_what_a_best_response_gains() -> None:
    """The bound holds for any concave utility; here the linear one, whose gains are known."""
    market = population(20)
    result = adjust(market, max_iterations=60)
    assert (result.gaps >= certify(market, result.bids).gains - 1e-12).all()
    assert not result.converged
    assert adjust(market, max_iterations=60, tolerance=2 * result.gaps.max()).converged


def test_users_with_utilities_that_no_formula_gives_still_find_their_best() -> None:
    """Square roots of shares, measured by trial: a little more money, a little more utility."""
    random = np.random.default_rng(3)
    market = ShareMarket(np.ones(3), random.uniform(0.5, 2, (3, 4)))

    def utility(user: int, bids: Floats) -> float:
        return float(market.weights[user] @ np.sqrt(market.shares(bids)[user]))

    def measured(user: int, bids: Floats) -> Floats:
        more = np.tile(bids, (4, 1, 1))
        more[np.arange(4), user, np.arange(4)] += 1e-7
        return np.array([(utility(user, each) - utility(user, bids)) / 1e-7 for each in more])

    result = adjust(market, measured, amount=0.001, tolerance=0.02, max_iterations=2000)
    assert result.converged
    for user in range(3):
        before = utility(user, result.bids)
        for other in random.dirichlet(np.ones(4), 200):
            tried = result.bids.copy()
            tried[user] = other
            assert utility(user, tried) <= before * 1.02


def test_users_next_to_whom_all_others_vanish_have_no_gap() -> None:
    """Nobody can move money with one machine, be the others' part of it less than a float shows."""
    result = adjust(ShareMarket([1e12, 1e-12], [[1.0], [1.0]]))
    assert result.gaps.tolist() == [0, 0]
    assert result.converged


def test_users_whose_money_does_nothing_have_everything_to_gain() -> None:
    result = adjust(
        ShareMarket([1.0], [[1.0, 1.0]]),
        lambda _user, _bids: np.array([0.0, 1.0]),
        start=[[1.0, 0.0]],
        max_iterations=0,
    )
    assert result.gaps.tolist() == [np.inf]


@pytest.mark.parametrize("amount", [0, -0.1, 1.5, np.nan])
def test_amounts_that_cannot_be_moved_are_refused(amount: float) -> None:
    with pytest.raises(ShareMarketError, match="a part of the budget from above 0 to 1 is needed"):
        adjust(population(5), amount=amount)


def test_limited_parallelism_needs_margins_of_its_own() -> None:
    with pytest.raises(ShareMarketError, match="parallelism is limited: margins must be given"):
        adjust(population(5, parallelism=3))
