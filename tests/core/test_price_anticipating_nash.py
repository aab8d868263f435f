"""Equilibria of the proportional-share market: published numbers, theorems, and hard corners."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from examples import examples
from share_markets import balanced, population
from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras.mechanisms.price_anticipating.nash import (
    find_share_market_equilibrium,
    weight_proportional,
)
from walras_studies.proportional_share.certificate import best_response, certify, proven_gains

Floats = NDArray[np.float64]


@st.composite
def games(draw: st.DrawFn, most_users: int = 6, most_machines: int = 6) -> ShareMarket:
    users = draw(st.integers(2, most_users))
    machines = draw(st.integers(1, most_machines))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return balanced(np.exp(spread * random.standard_normal((users, machines))))


def paper_response(weights: Floats, others: Floats, budget: float) -> Floats:
    """Section 6.1.1 as it is printed: sort by w / y, then the largest k that bids on all."""
    order = np.argsort(-weights / others, kind="stable")
    w, y = weights[order], others[order]
    bids = np.zeros(len(w))
    for k in range(len(w), 0, -1):
        root = np.sqrt(w[:k] * y[:k])
        last = root[-1] / root.sum() * (budget + y[:k].sum()) - y[k - 1]
        if w[k - 1] > 0 and last >= 0:
            bids[order[:k]] = root / root.sum() * (budget + y[:k].sum()) - y[:k]
            break
    return bids


@pytest.mark.long
@examples(300)
@given(games(5, 12), st.sampled_from([1e-6, 1.0, 1e6]))
def test_best_response_is_the_papers(market: ShareMarket, unit: float) -> None:
    """Section 6.1.1, in any unit of money."""
    scaled = ShareMarket(market.budgets * unit, market.weights)
    bids = weight_proportional(scaled)
    others = scaled.reserve + bids[1:].sum(axis=0)
    expected = paper_response(scaled.weights[0], others, unit)
    np.testing.assert_allclose(best_response(scaled, bids, 0), expected, atol=1e-9 * unit)


@examples(200)
@given(games(5, 12))
def test_best_response_is_on_the_machines_of_highest_weight_by_price(market: ShareMarket) -> None:
    """Claim 3: whoever bids nothing on a machine bids nothing on those of lower w / y."""
    bids = weight_proportional(market)
    order = np.argsort(-market.weights[0] / market.against(bids, 0), kind="stable")
    positive = best_response(market, bids, 0)[order] > 0
    assert positive[: positive.sum()].all()


@pytest.mark.parametrize("seed", range(8))
def test_best_response_is_what_a_general_optimiser_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    market = ShareMarket(random.uniform(0.5, 2, 4), random.random((4, 6)))
    bids = weight_proportional(market)
    others = market.reserve + bids[1:].sum(axis=0)

    def loss(own: Floats) -> float:
        return -float(market.weights[0] @ (own / (own + others)))

    budget = market.budgets[0]
    best = minimize(
        loss,
        np.full(6, budget / 6),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda own: own.sum() - budget},
        options={"ftol": 1e-14},
    )
    ours = best_response(market, bids, 0)
    assert ours.sum() == pytest.approx(budget, rel=1e-12)
    assert loss(ours) <= best.fun + 1e-12
    np.testing.assert_allclose(ours, best.x, atol=1e-5)


@examples(150)
@given(games())
def test_equilibria_exist_and_are_found(market: ShareMarket) -> None:
    """Theorem 1; equation 1 is what the certificate measures, from two sides."""
    result = find_share_market_equilibrium(market, tolerance=1e-7, max_iterations=2000)
    assert result.converged
    np.testing.assert_allclose(result.bids.sum(axis=1), market.budgets, rtol=1e-12)
    assert (result.bids >= 0).all()
    np.testing.assert_allclose(proven_gains(result), result.gains, atol=1e-7)
    others = result.prices - result.bids
    margins = market.weights * others / result.prices**2
    for own, margin in zip(result.bids, margins, strict=True):
        assert own @ margin >= own.sum() * margin.max() * (1 - 0.01)


def test_certificates_count_no_more_machines_than_a_user_can_use() -> None:
    """Section 2: a user of one machine who bids on three has one third of its bids' worth only."""
    market = ShareMarket([1, 1], np.ones((2, 3)), [1, 3])
    spread = certify(market, np.full((2, 3), 1 / 3))
    moved = np.array([best_response(market, spread.bids, 0), spread.bids[1]])
    gain = market.utilities(market.shares(moved)) / spread.utilities - 1
    assert spread.gains[0] == pytest.approx(gain[0])
    assert gain[0] == pytest.approx(0.5)


def test_whoever_bids_on_nothing_of_worth_has_everything_to_gain() -> None:
    found = certify(ShareMarket([1, 1], [[1, 0], [1, 1]]), [[0.0, 1.0], [0.5, 0.5]])
    assert found.gains[0] == proven_gains(found)[0] == np.inf
    assert not found.converged


def test_bounds_hold_for_users_next_to_whom_all_others_vanish() -> None:
    """The rich one's price differs from its own bid in no digit that a float has."""
    result = find_share_market_equilibrium(ShareMarket([1e12, 1e-12], [[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(proven_gains(result), 0, atol=1e-9)


def test_a_machine_that_one_user_wants_goes_to_it_for_next_to_nothing() -> None:
    """Section 2: player 2 alone wants machine 2, and without a reserve no bid is its best."""
    result = find_share_market_equilibrium(ShareMarket([1, 1], [[1, 0], [1, 1]]), tolerance=1e-9)
    assert result.converged
    np.testing.assert_allclose(result.shares, [[0.5, 0], [0.5, 1]], atol=1e-5)
    assert 0 < result.bids[1, 1] < 1e-5
    dear = find_share_market_equilibrium(
        ShareMarket([1, 1], [[1, 0], [1, 1]], reserve=[0.1, 0.1]), tolerance=1e-9
    )
    assert dear.shares[1, 1] < 0.95


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_units_of_weights_and_money_do_not_matter(weight: float) -> None:
    plain = population(20)
    expected = find_share_market_equilibrium(plain, tolerance=1e-6).shares
    scaled = ShareMarket(plain.budgets / weight, plain.weights * weight)
    found = find_share_market_equilibrium(scaled, tolerance=1e-6)
    assert found.converged
    np.testing.assert_allclose(found.shares, expected, atol=1e-9)


def test_rich_and_poor_users_meet_without_losing_digits() -> None:
    weights = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
    result = find_share_market_equilibrium(ShareMarket([1e12, 1e-12, 1], weights))
    assert result.converged
    assert np.isfinite(result.utilities).all()
    assert (result.utilities > 0).all()
    np.testing.assert_allclose(result.bids.sum(axis=1), [1e12, 1e-12, 1], rtol=1e-9)


def test_bids_to_start_from_must_spend_the_budget() -> None:
    market = ShareMarket([1, 1], np.ones((2, 2)))
    with pytest.raises(
        ShareMarketError, match=r"sum of start\[1\] = 0\.5 is not the user's budget"
    ):
        find_share_market_equilibrium(market, start=[[1.0, 0.0], [0.5, 0.0]])
    with pytest.raises(ShareMarketError, match=r"bids\[0, 1\] = -1 is negative"):
        certify(market, [[2, -1], [1, 0]])


def test_examples_of_the_page_about_it_are_right() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "price-anticipating.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0
