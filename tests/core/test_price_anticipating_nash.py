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


def all_of_two_machines(market: ShareMarket) -> list[Floats]:
    """Find the bids of every equilibrium of two players on two machines, also where none leads.

    Appendix B: with the second price tau times the first, players of weights (alpha, 1 - alpha)
    and (beta, 1 - beta) bid x = 1 / (1 + tau**2 beta / (1 - beta)) and y likewise by alpha on the
    first machine, and x + y = 2 / (1 + tau): a cubic in tau.
    """
    one, other = market.weights[:, 0] / market.weights[:, 1]
    roots = np.roots([2 * one * other, -(one + other), one + other, -2])
    real = roots.real[(abs(roots.imag) < 1e-6 * abs(roots)) & (roots.real > 0)]
    first = np.array([[1 / (1 + tau**2 * other), 1 / (1 + tau**2 * one)] for tau in real])
    return [np.column_stack([bids, 1 - bids]) for bids in first]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 3.0]))
def test_every_equilibrium_on_two_machines_keeps_three_quarters(seed: int, spread: float) -> None:
    """Lemma 5, by enumeration: best responses do not lead to every equilibrium."""
    market = balanced(np.exp(spread * np.random.default_rng(seed).standard_normal((2, 2))))
    found = [certify(market, bids) for bids in all_of_two_machines(market)]
    assert found
    for equilibrium in found:
        assert equilibrium.gain <= 1e-6
        assert efficiency(market, equilibrium.shares) >= 0.75


def test_merging_machines_can_raise_the_welfare_of_two_players() -> None:
    """Lemma 8 says that it cannot, and Lemma 4 builds on it; the paper's proof does not stand.

    Machines 2 and 3 are merged, which the second player favours both. The game before has an
    equilibrium of less welfare than the only one after. Theorem 2 holds in all games tried here.
    """
    before = balanced(np.array([[0.90, 0.02, 0.08], [0.20, 0.70, 0.10]]))
    after = balanced(np.array([[0.9, 0.1], [0.2, 0.8]]))
    low = find_nash(before, tolerance=1e-11, max_iterations=500)
    (only,) = all_of_two_machines(after)
    assert low.converged
    assert certify(after, only).gain <= 1e-9
    assert low.utilities.sum() == pytest.approx(1.394, abs=1e-3)
    assert after.utilities(after.shares(only)).sum() == pytest.approx(1.410, abs=1e-3)


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


def test_lopsided_equilibria_approach_the_worst_of_two_players() -> None:
    """Section 4.1: U / U* -> 3/4 (Theorem 2 is tight), and uniformity -> 1/2 (section 5.1)."""
    market = opposite_tastes(1 - 1e-6)
    found = certify(market, lopsided(1 - 1e-6))
    assert found.gain <= 1e-6
    assert efficiency(market, found.shares) == pytest.approx(0.75, abs=2e-3)
    assert utility_uniformity(market, found.shares) == pytest.approx(0.5, abs=2e-3)


@pytest.mark.parametrize("n", [3, 6])
def test_efficiency_can_fall_with_the_root_of_the_number_of_players(n: int) -> None:
    """Theorem 3 is tight (example 3): n**2 players without taste and n with one machine each."""
    weights = np.vstack([np.full((n * n, n), 1 / n), np.eye(n)])
    found = certify(balanced(weights), weights)
    assert found.gain <= 1e-9
    assert efficiency(found.market, found.shares) == pytest.approx(2 / (n + 1))


@pytest.mark.parametrize("users", [3, 5, 10])
def test_uniformity_can_fall_nearly_to_one_over_the_number_of_players(users: int) -> None:
    """Theorem 4: one player has a machine to itself, as hardly anybody else wants it.

    The proof says that this leaves each of the others 1/m. It is 1/(m - 1), since the one does not
    compete with them: the bound is tight for two players only (section 5.1), or very many.
    """
    machines, little = 4, 1e-6
    weights = np.full((users, machines), (1 - little) / (machines - 1))
    weights[:, 0] = little
    weights[0] = [1, 0, 0, 0]
    result = find_nash(balanced(weights), tolerance=1e-9)
    assert result.utilities[0] == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(result.utilities[1:], 1 / (users - 1), atol=1e-4)


def four_players(little: float, poor: float) -> tuple[ShareMarket, Floats]:
    weights = np.array([[little, 1 - little], [1 - little, little], [1, 0], [0, 1]])
    even = np.array([[0.5, 0.5], [0.5, 0.5], [poor, 0], [0, poor]])
    return ShareMarket([1, 1, poor, poor], weights), even


def test_best_responses_of_all_at_once_go_in_circles() -> None:
    """Claim 4's four players, with epsilon 0.01 and delta 0.001: a circle of two."""
    market, bids = four_players(0.01, 0.001)
    history = [bids]
    for _ in range(50):
        history.append(np.array([best_response(market, history[-1], i) for i in range(4)]))
    np.testing.assert_allclose(history[-1], history[-3], atol=1e-9)
    assert np.abs(history[-1] - history[-2]).max() > 0.4
    assert find_nash(market, start=bids, tolerance=1e-9).iterations <= 3


def test_best_responses_in_turn_can_go_in_circles_too() -> None:
    """Claim 4 as printed, players 1 and 2 alternating: a circle of four at epsilon 0.1.

    Half steps find the equilibrium, which exists by Theorem 1.
    """
    market, start = four_players(0.1, 0.001)
    bids = start.copy()
    rounds = []
    for _ in range(400):
        for user in (0, 1):
            bids[user] = best_response(market, bids, user)
        rounds.append(bids.copy())
    np.testing.assert_allclose(rounds[-1], rounds[-5], atol=1e-9)
    assert np.abs(rounds[-1] - rounds[-2]).max() > 0.03
    result = find_nash(market, start=start, tolerance=1e-9)
    assert result.converged
    assert 20 < result.iterations <= 100


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("users", [20, 80, 250])
def test_users_who_all_answer_at_once_do_not_come_to_rest(users: int, *, correlated: bool) -> None:
    """Section 7's populations, which users in turn settle within five rounds (section 2)."""
    market = population(users, correlated=correlated)
    bids = weight_proportional(market)
    for _ in range(40):
        bids = np.array([best_response(market, bids, user) for user in range(users)])
    left = certify(market, bids)
    assert (left.gains * left.utilities).max() > 0.1


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


def averages(users: int, *, correlated: bool) -> list[float]:
    """Return mean efficiency, uniformity and envy-freeness of ten populations' equilibria."""
    found = [find_nash(population(users, correlated=correlated, seed=seed)) for seed in range(10)]
    assert all(each.converged for each in found)
    return [
        float(np.mean([metric(each.market, each.shares) for each in found]))
        for metric in (efficiency, utility_uniformity, envy_freeness)
    ]


@pytest.mark.long
def test_ten_populations_of_uniform_tastes_average_the_published_numbers() -> None:
    """Section 7.1, left of Fig. 2: efficiency about 0.9 whatever the users, uniformity > 0.7."""
    for users in (5, 20, 80, 250):
        kept, even, content = averages(users, correlated=False)
        assert 0.885 < kept < 0.915
        assert 0.71 < even < 0.95
        assert content > 0.9999


@pytest.mark.long
def test_ten_populations_of_correlated_tastes_average_the_published_numbers() -> None:
    """Section 7.1, right of Fig. 2: efficiency falls from about .92 to .86, uniformity to .63."""
    kept, even, content = np.transpose([averages(n, correlated=True) for n in (10, 40, 100, 250)])
    assert (np.diff(kept) < 0).all()
    assert (np.diff(even) < 0).all()
    assert kept[0] == pytest.approx(0.92, abs=0.015)
    assert kept[-1] == pytest.approx(0.86, abs=0.015)
    assert even[-1] == pytest.approx(0.63, abs=0.03)
    assert (content >= 0.95).all()
    assert (content <= 0.99).all()


@pytest.mark.parametrize("users", [5, 20, 80, 250])
def test_uniform_tastes_keep_nine_tenths_and_envy_nobody(users: int) -> None:
    """Section 7.1, left of Fig. 2: efficiency about 0.9, uniformity above 0.7, no envy."""
    market = population(users)
    result = find_nash(market)
    assert result.converged
    assert 0.87 <= efficiency(market, result.shares) <= 0.93
    assert 0.70 <= utility_uniformity(market, result.shares) <= 0.97
    assert envy_freeness(market, result.shares) >= 0.999
    careless = market.shares(weight_proportional(market))
    assert (
        result.utilities.sum() >= (1.05 if users < 20 else 1.25) * market.utilities(careless).sum()
    )
    assert utility_uniformity(market, careless) >= 0.75


@pytest.mark.parametrize("users", [5, 20, 80, 250])
def test_correlated_tastes_lose_more_than_the_abstract_says(users: int) -> None:
    """Section 7.1, right of Fig. 2. The abstract's bounds .90, .65 and .97 do not hold here."""
    market = population(users, correlated=True)
    result = find_nash(market)
    assert result.converged
    assert 0.84 <= efficiency(market, result.shares) <= 0.94
    assert 0.60 <= utility_uniformity(market, result.shares) <= 0.95
    assert 0.94 <= envy_freeness(market, result.shares) <= 1


@pytest.mark.long
def test_correlated_tastes_break_the_abstracts_bounds() -> None:
    """Abstract and section 1: > 0.90, > 0.65, > 0.97 "independent of the number of users"."""
    seen = []
    for users in (80, 250):
        market = population(users, correlated=True)
        shares = find_nash(market, tolerance=1e-5, max_iterations=500).shares
        seen.append([f(market, shares) for f in (efficiency, utility_uniformity, envy_freeness)])
    assert min(row[0] for row in seen) < 0.89


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("users", [5, 40, 250])
def test_five_rounds_reach_the_papers_utility_gap(users: int, *, correlated: bool) -> None:
    """Section 7: a gap of 0.001 of what all machines are worth, within 5 iterations."""
    result = find_nash(population(users, correlated=correlated), tolerance=0, max_iterations=5)
    assert (result.gains * result.utilities).max() <= 1e-3


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


@pytest.mark.parametrize(
    ("users", "parallelism"), [(5, 5), (10, 5), (80, 5), (250, 5), (20, 20), (80, 20)]
)
def test_limited_parallelism_converges_with_little_or_much_competition(
    users: int, parallelism: int
) -> None:
    """Section 7.2 and Fig. 4; efficiency stays high (Fig. 5)."""
    market = population(users, parallelism=parallelism)
    result = find_nash(market)
    assert result.converged
    assert result.iterations <= 15
    assert efficiency(market, result.shares) >= 0.85


@pytest.mark.long
@pytest.mark.parametrize(("users", "parallelism"), [(20, 5), (30, 5), (7, 20)])
def test_limited_parallelism_with_about_two_users_a_machine_may_not_settle(
    users: int, parallelism: int
) -> None:
    """Section 7.2: users x k / machines in [1, 2] does not converge; the result says so."""
    market = population(users, parallelism=parallelism)
    result = find_nash(market, max_iterations=60)
    assert not result.converged
    assert result.iterations == 60
    assert result.gain > 1e-3
    assert efficiency(market, result.shares) >= 0.6


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


def test_equal_users_bid_equally() -> None:
    result = find_nash(ShareMarket(np.ones(50), np.ones((50, 20))))
    np.testing.assert_allclose(result.bids, 1 / 20, rtol=1e-9)


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
