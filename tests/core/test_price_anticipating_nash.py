"""Equilibria of the proportional-share market: published numbers, theorems, and hard corners."""

from __future__ import annotations

import doctest
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from share_markets import balanced, population
from walras.mechanisms.price_anticipating import nash
from walras.mechanisms.price_anticipating.market import ShareMarket, ShareMarketError
from walras.mechanisms.price_anticipating.nash import (
    find_nash,
    weight_proportional,
)
from walras_studies.proportional_share.certificate import best_response, certify, proven_gains
from walras_studies.proportional_share.paper_metrics import (
    efficiency,
    envy_freeness,
    utility_uniformity,
)

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
@settings(max_examples=300, deadline=None)
@given(games(5, 12), st.sampled_from([1e-6, 1.0, 1e6]))
def test_best_response_is_the_papers(market: ShareMarket, unit: float) -> None:
    """Section 6.1.1, in any unit of money."""
    scaled = ShareMarket(market.budgets * unit, market.weights)
    bids = weight_proportional(scaled)
    others = scaled.reserve + bids[1:].sum(axis=0)
    expected = paper_response(scaled.weights[0], others, unit)
    np.testing.assert_allclose(best_response(scaled, bids, 0), expected, atol=1e-9 * unit)


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=150, deadline=None)
@given(games())
def test_equilibria_exist_and_are_found(market: ShareMarket) -> None:
    """Theorem 1; equation 1 is what the certificate measures, from two sides."""
    result = find_nash(market, tolerance=1e-7, max_iterations=2000)
    assert result.converged
    np.testing.assert_allclose(result.bids.sum(axis=1), market.budgets, rtol=1e-12)
    assert (result.bids >= 0).all()
    np.testing.assert_allclose(proven_gains(result), result.gains, atol=1e-7)
    others = result.prices - result.bids
    margins = market.weights * others / result.prices**2
    for own, margin in zip(result.bids, margins, strict=True):
        assert own @ margin >= own.sum() * margin.max() * (1 - 0.01)


@settings(max_examples=100, deadline=None)
@given(games(2, 5))
def test_two_players_keep_three_quarters_and_do_not_envy(market: ShareMarket) -> None:
    """Theorem 2 and Claim 2."""
    shares = find_nash(market, tolerance=1e-9, max_iterations=2000).shares
    assert efficiency(market, shares) >= 0.75
    assert envy_freeness(market, shares) >= 1 - 1e-6


@settings(max_examples=100, deadline=None)
@given(games())
def test_nobody_falls_below_an_equal_part_or_envies_much(market: ShareMarket) -> None:
    """Theorems 4 and 5: utilities of 1/m at least, envy-freeness of 2 sqrt 2 - 2 at least.

    And Theorem 3, in these games with 1 for the constant in Omega(1 / sqrt m).
    """
    result = find_nash(market, tolerance=1e-7, max_iterations=2000)
    users = len(market.budgets)
    assert result.utilities.min() >= (1 - 1e-6) / users
    assert utility_uniformity(market, result.shares) >= (1 - 1e-6) / users
    assert envy_freeness(market, result.shares) >= 2 * np.sqrt(2) - 2
    assert efficiency(market, result.shares) >= 1 / np.sqrt(users)


def test_users_of_equal_tastes_share_equally() -> None:
    """Section 4.1, example 1: both bid alpha and 1 - alpha, and nothing is lost."""
    result = find_nash(balanced(np.array([[0.7, 0.3]] * 2)), start=[[0.5, 0.5], [0.9, 0.1]])
    result = find_nash(result.market, start=result.bids, tolerance=1e-12)
    np.testing.assert_allclose(result.bids, [[0.7, 0.3]] * 2, atol=1e-6)
    assert efficiency(result.market, result.shares) == pytest.approx(1, abs=1e-9)


def opposite_tastes(alpha: float) -> ShareMarket:
    return balanced(np.array([[alpha, 1 - alpha], [1 - alpha, alpha]]))


def test_opposite_tastes_lose_the_most_at_one_over_root_two() -> None:
    """Section 4.1, example 2: U / U* = 2 alpha + 1 / alpha - 2, least at 2 sqrt 2 - 2."""
    for alpha in (0.6, np.sqrt(0.5), 0.8):
        market = opposite_tastes(alpha)
        result = find_nash(market, tolerance=1e-12)
        np.testing.assert_allclose(result.bids, market.weights, atol=1e-9)
        found = efficiency(market, result.shares)
        assert found == pytest.approx(2 * alpha + 1 / alpha - 2, abs=1e-9)
        assert found >= 2 * np.sqrt(2) - 2 - 1e-9
    market = opposite_tastes(np.sqrt(0.5))
    assert efficiency(market, find_nash(market).shares) == pytest.approx(0.8284271, abs=1e-7)


def lopsided(alpha: float) -> Floats:
    """Return bids at a root of delta**3 - c delta**2 + c delta - 1 other than 1, if any exists."""
    c = 1 / (2 * alpha * (1 - alpha)) - 1
    ratio = (c - 1 - np.sqrt((c - 1) ** 2 - 4)) / 2
    one = alpha / ((1 - alpha) * ratio**2 + alpha)
    other = (1 - alpha) / (alpha * ratio**2 + 1 - alpha)
    return np.array([[one, 1 - one], [other, 1 - other]])


def test_lopsided_equilibria_appear_beyond_their_threshold() -> None:
    """Section 4.1: from alpha = (2 + sqrt 2) / 4 = 0.8536 on, and worse than the symmetric one."""
    threshold = (2 + np.sqrt(2)) / 4
    for alpha in (threshold + 1e-3, 0.9, 0.99):
        market = opposite_tastes(alpha)
        bids = lopsided(alpha)
        found = certify(market, bids)
        assert found.gain <= 1e-9
        assert abs(bids[0, 0] - alpha) > 0.005
        symmetric = efficiency(market, market.shares(market.weights))
        assert efficiency(market, found.shares) < symmetric
    with np.errstate(invalid="ignore"):
        assert np.isnan(lopsided(threshold - 1e-3)).any()
    market = opposite_tastes(threshold - 1e-3)
    result = find_nash(market, start=[[0.999, 0.001], [0.9, 0.1]], tolerance=1e-10)
    np.testing.assert_allclose(result.bids, market.weights, atol=1e-3)


@pytest.mark.parametrize(("patience", "least", "most"), [(20, 97, 100), (10**9, 40, 65)])
def test_half_steps_end_circles_that_half_of_small_games_run_into(
    patience: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log-normal weights of sigma 2; the other row is without half steps."""
    monkeypatch.setattr(nash, "PATIENCE", patience)
    random = np.random.default_rng(0)
    rested = 0
    for _ in range(100):
        users, machines = random.integers(2, 7, 2)
        weights = np.exp(2 * random.standard_normal((users, machines)))
        rested += find_nash(balanced(weights), max_iterations=500).converged
    assert least <= rested <= most


@settings(max_examples=150, deadline=None)
@given(games(5, 7), st.integers(1, 6))
def test_search_finds_the_best_set_of_machines(market: ShareMarket, most: int) -> None:
    """Section 6.2, against every set; the paper suspects that local maxima are global."""
    limited = ShareMarket(market.budgets, market.weights, [most] * len(market.budgets))
    bids = weight_proportional(limited)
    others = limited.reserve + bids[1:].sum(axis=0)
    weights = limited.weights[0]
    best = 0.0
    for chosen in combinations(range(len(weights)), min(most, len(weights))):
        inside = list(chosen)
        own = paper_response(weights[inside], others[inside], 1.0)
        best = max(best, float(weights[inside] @ (own / (own + others[inside]))))
    ours = best_response(limited, bids, 0)
    assert (ours > 0).sum() <= most
    assert float(weights @ (ours / (ours + others))) >= best * (1 - 1e-9)
    assert proven_gains(certify(limited, bids))[0] >= certify(limited, bids).gains[0] - 1e-9


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
    result = find_nash(ShareMarket([1e12, 1e-12], [[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(proven_gains(result), 0, atol=1e-9)


def test_a_machine_that_one_user_wants_goes_to_it_for_next_to_nothing() -> None:
    """Section 2: player 2 alone wants machine 2, and without a reserve no bid is its best."""
    result = find_nash(ShareMarket([1, 1], [[1, 0], [1, 1]]), tolerance=1e-9)
    assert result.converged
    np.testing.assert_allclose(result.shares, [[0.5, 0], [0.5, 1]], atol=1e-5)
    assert 0 < result.bids[1, 1] < 1e-5
    dear = find_nash(ShareMarket([1, 1], [[1, 0], [1, 1]], reserve=[0.1, 0.1]), tolerance=1e-9)
    assert dear.shares[1, 1] < 0.95


def test_one_user_alone_gets_all_of_thousands_of_machines() -> None:
    weights = np.random.default_rng(0).random((1, 5000))
    result = find_nash(ShareMarket([3], weights))
    assert result.converged
    assert result.utilities[0] >= 0.99999 * weights.sum()


def test_thousands_of_users_share_one_machine_by_budget() -> None:
    budgets = np.random.default_rng(0).uniform(1, 5, 4000)
    result = find_nash(ShareMarket(budgets, np.ones((4000, 1))))
    assert result.iterations == 1
    np.testing.assert_allclose(result.shares[:, 0], budgets / budgets.sum(), rtol=1e-9)


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_units_of_weights_and_money_do_not_matter(weight: float) -> None:
    plain = population(20)
    expected = find_nash(plain, tolerance=1e-6).shares
    scaled = ShareMarket(plain.budgets / weight, plain.weights * weight)
    found = find_nash(scaled, tolerance=1e-6)
    assert found.converged
    np.testing.assert_allclose(found.shares, expected, atol=1e-9)


def test_rich_and_poor_users_meet_without_losing_digits() -> None:
    weights = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
    result = find_nash(ShareMarket([1e12, 1e-12, 1], weights))
    assert result.converged
    assert np.isfinite(result.utilities).all()
    assert (result.utilities > 0).all()
    np.testing.assert_allclose(result.bids.sum(axis=1), [1e12, 1e-12, 1], rtol=1e-9)


def test_the_same_market_gives_the_same_bits() -> None:
    one, other = (find_nash(population(30)).bids for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_a_market_without_users_is_at_rest() -> None:
    result = find_nash(ShareMarket([], np.zeros((0, 3))))
    assert result.converged
    assert result.bids.shape == (0, 3)
    assert result.gain == 0


def test_bids_to_start_from_must_spend_the_budget() -> None:
    market = ShareMarket([1, 1], np.ones((2, 2)))
    with pytest.raises(ShareMarketError, match=r"sum of bids\[1\] = 0\.5 is not the user's budget"):
        find_nash(market, start=[[1.0, 0.0], [0.5, 0.0]])
    with pytest.raises(ShareMarketError, match=r"bids\[0, 1\] = -1 is negative"):
        certify(market, [[2, -1], [1, 0]])


def test_examples_of_the_page_about_it_are_right() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "price-anticipating.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0
