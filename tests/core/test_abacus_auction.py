"""The Abacus auction: published numbers, lemmas, what they leave out, and hard corners."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from examples import examples
from walras.mechanisms.abacus.auction import Auction, AuctionError, AuctionOutcome, run_auction
from walras_studies.abacus.concave_auction import optimize_job, run_concave_auction

Floats = NDArray[np.float64]


class Weighted:
    """Linear or logarithmic utilities, as functions."""

    def __init__(self, weights: Floats, *, logarithmic: bool = False) -> None:
        self.weights = np.asarray(weights, dtype=float)
        self.logarithmic = logarithmic

    def value(self, job: int, shares: Floats) -> float:
        return float(self.weights[job] @ (np.log(shares) if self.logarithmic else shares))

    def marginal(self, job: int, shares: Floats) -> Floats:
        return np.asarray(self.weights[job] / (shares if self.logarithmic else 1.0))


def population(jobs: int, *, logarithmic: bool = False, seed: int = 1) -> Auction:
    """Section 7.1.1: 4 resources, budgets U[50, 200], weights U[.5, 2]."""
    random = np.random.default_rng([seed, jobs])
    budgets = random.uniform(50, 200, jobs)
    return Auction(budgets, random.uniform(0.5, 2, (jobs, 4)), logarithmic=logarithmic)


@st.composite
def auctions(draw: st.DrawFn, most_jobs: int = 6) -> Auction:
    jobs, resources = draw(st.integers(1, most_jobs)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = np.exp(random.standard_normal((jobs, resources)))
    if draw(st.booleans()):
        weights *= random.random((jobs, resources)) < 0.7
        weights[np.arange(jobs), random.integers(0, resources, jobs)] = 1
    limited = draw(st.booleans())
    limits = np.where(random.random(weights.shape) < 0.6, random.random(weights.shape), 1.0)
    return Auction(
        np.exp(random.standard_normal(jobs)),
        weights,
        logarithmic=random.random(jobs) < 0.5,
        alpha=draw(st.sampled_from([0.1, 0.25, 0.5] if limited else [0.1, 0.25, 0.5, 0.75, 1.0])),
        limits=limits if limited else 1.0,
    )


def contested(auction: Auction) -> NDArray[np.bool_]:
    """Return for each resource whether the jobs that want it can use more of it than there is."""
    return np.asarray(((auction.weights > 0) * auction.limits).sum(axis=0) > 1)


def utility_of_split(auction: Auction, outcome: AuctionOutcome, job: int, split: Floats) -> float:
    """Utility of one job that divides its budget by itself while the others stay."""
    bids = np.array(outcome.sub_budgets)
    bids[job] = split
    powers = np.where(bids > 0, bids, 0) ** auction.alpha * (bids > 0)
    totals = powers.sum(axis=0)
    free = ~contested(auction)
    shares = np.where(totals > 0, powers / np.where(totals > 0, totals, 1), 0)
    shares[:, free] = ((auction.weights > 0) * auction.limits)[:, free]
    return float(auction.utilities(shares)[job])


def test_sub_budgets_of_the_example_are_64_and_36() -> None:
    """Fig. 2 and 3: u = 3x + 2y, budget 100, alpha 0.5 and s = (.310, .236) fit Algorithm 2."""
    own = np.sqrt([64.0, 36.0])
    others = own / np.array([0.310, 0.236]) - own
    bids = np.array([True, True])
    utilities = Weighted(np.array([[3, 2], [1, 1]]))
    found = optimize_job(0, 100, bids, np.array([own, others]), utilities)
    np.testing.assert_allclose(found, [64, 36], atol=0.5)
    assert found.sum() == pytest.approx(100)


@examples(200)
@given(auctions())
def test_budgets_are_spent_and_resources_shared_out(auction: Auction) -> None:
    """Equation 1 within limits; budgets are spent, but where jobs get all they can use for less."""
    result = run_auction(auction)
    wanted = auction.weights > 0
    useful = wanted * auction.limits
    contended = wanted & contested(auction)
    full = result.shares > useful - 1e-6
    spent = result.sub_budgets.sum(axis=1)
    keeps = (full | ~contended).all(axis=1)
    np.testing.assert_allclose(spent[~keeps], auction.budgets[~keeps], rtol=1e-9)
    assert (spent <= auction.budgets * (1 + 1e-6)).all()
    sold = np.minimum(useful.sum(axis=0), 1.0)
    np.testing.assert_allclose(result.shares.sum(axis=0), sold, atol=1e-9)
    assert (result.sub_budgets >= 0).all()
    assert (result.shares <= useful).all()
    positive = np.where(contended, result.sub_budgets, 1.0)
    powers = np.where(contended, positive**auction.alpha, 0)
    for column in np.flatnonzero(contended.any(axis=0)):
        expected = powers[:, column] / powers[:, column].sum()
        near = 1e-5 if auction.limited else 1e-9  # the last round may leave a bid above its limit
        np.testing.assert_allclose(result.shares[:, column], expected, atol=near)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("jobs", [2, 32, 128])
def test_sub_budgets_are_in_proportion_to_the_margins(jobs: int, *, logarithmic: bool) -> None:
    """Lemma 2: b_ij = b_i v_ij / sum_k v_ik, with v_ij = (du_i/ds_ij) s_ij (1 - s_ij)."""
    auction = population(jobs, logarithmic=logarithmic)
    result = run_auction(auction, tolerance=1e-10)
    assert result.converged
    gradient = auction.weights / (result.shares if logarithmic else 1)
    v = gradient * result.shares * (1 - result.shares)
    expected = auction.budgets[:, None] * v / v.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.sub_budgets, expected, rtol=1e-7)


@examples(150)
@given(auctions(), st.integers(0, 2**32 - 1))
def test_no_job_gains_by_dividing_its_budget_itself(auction: Auction, seed: int) -> None:
    """Lemma 3; and the certificate bounds what any division could give."""
    result = run_auction(auction, tolerance=1e-7, max_iterations=3000)
    assert result.converged
    random = np.random.default_rng(seed)
    for job, own in enumerate(result.sub_budgets):
        bids = own > 0
        if bids.sum() < 2:
            continue
        worth = np.where(auction.logarithmic[job], 1, result.shares[job]) @ auction.weights[job]
        for near in (1.0, 0.1):
            split = np.zeros(len(own))
            split[bids] = auction.budgets[job] * random.dirichlet(np.ones(bids.sum()))
            split = near * split + (1 - near) * own
            found = utility_of_split(auction, result, job, split)
            assert found <= result.utilities[job] + (result.gains[job] + 1e-9) * worth


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
def test_every_job_divides_its_budget_as_a_general_optimiser_would(seed: int, alpha: float) -> None:
    random = np.random.default_rng(seed)
    auction = Auction(
        random.uniform(0.5, 2, 4),
        random.uniform(0.5, 2, (4, 3)),
        logarithmic=random.random(4) < 0.5,
        alpha=alpha,
    )
    result = run_auction(auction, tolerance=1e-9)
    for job, budget in enumerate(auction.budgets):
        best = minimize(
            lambda split, job=job: -utility_of_split(auction, result, job, split),
            np.full(3, budget / 3),
            bounds=[(1e-9, None)] * 3,
            constraints={"type": "eq", "fun": lambda split, b=budget: split.sum() - b},
            options={"ftol": 1e-15},
        )
        assert result.utilities[job] >= -best.fun - 1e-7
        np.testing.assert_allclose(result.sub_budgets[job], best.x, atol=1e-3)


def test_the_last_auction_is_a_good_start_when_a_job_comes() -> None:
    auction = population(200)
    last = run_auction(Auction(auction.budgets[1:], auction.weights[1:]), tolerance=1e-6)
    start = np.vstack([np.zeros(4), last.sub_budgets / 1000])  # the unit does not matter
    warm = run_auction(auction, tolerance=1e-4, start=start)
    cold = run_auction(auction, tolerance=1e-4)
    assert warm.converged
    assert warm.iterations < cold.iterations
    np.testing.assert_allclose(warm.shares, cold.shares, atol=1e-4)


def test_what_one_job_alone_wants_is_free_and_what_none_wants_stays() -> None:
    result = run_auction(Auction([1, 1], [[1, 1, 0], [1, 0, 0]]))
    np.testing.assert_allclose(result.shares, [[0.5, 1, 0], [0.5, 0, 0]])
    np.testing.assert_allclose(result.sub_budgets, [[1, 0, 0], [1, 0, 0]])
    lonely = run_auction(Auction([1, 1], [[1, 0], [0, 1]]))
    assert lonely.converged
    np.testing.assert_allclose(lonely.shares, np.eye(2))
    assert not lonely.sub_budgets.any()


def test_logarithms_of_nothing_are_minus_infinity_only_where_something_is_wanted() -> None:
    auction = Auction([1, 1], [[1, 1], [1, 0]], logarithmic=[True, True])
    assert auction.utilities(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist() == [2 * np.log(0.5), 0]
    assert auction.utilities(np.array([[1.0, 0.0], [1.0, 0.0]]))[0] == -np.inf


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_what_a_job_cannot_use_of_a_resource_goes_to_the_others_by_their_bids(
    alpha: float,
) -> None:
    """Budgets 4, 2, 1 and limits .2 and 1: the others share the remaining .8 as by equation 1."""
    auction = Auction([4, 2, 1], np.ones((3, 1)), alpha=alpha, limits=[[0.2], [1.0], [1.0]])
    result = run_auction(auction)
    parts = np.array([2.0, 1.0]) ** alpha
    np.testing.assert_allclose(result.shares[1:, 0], 0.8 * parts / parts.sum(), rtol=1e-9)
    assert result.shares[0, 0] == pytest.approx(0.2)
    assert result.sub_budgets[0, 0] < 4
    assert result.sub_budgets[1:, 0] == pytest.approx([2, 1])


def test_a_job_at_its_limit_spends_the_rest_of_its_budget_elsewhere() -> None:
    """Without the limit, it would put half of its budget where a tenth is all it can use."""
    plain = run_auction(Auction([1, 1], np.ones((2, 2))))
    bounded = run_auction(Auction([1, 1], np.ones((2, 2)), limits=[[0.1, 1.0], [1.0, 1.0]]))
    np.testing.assert_allclose(plain.shares, 0.5)
    assert bounded.shares[0, 0] == pytest.approx(0.1)
    assert bounded.sub_budgets[0].sum() == pytest.approx(1)
    assert bounded.shares[0, 1] > 0.53
    assert bounded.utilities[1] > plain.utilities[1]


@pytest.mark.parametrize("seed", range(6))
def test_jobs_divide_budgets_within_limits_as_a_general_optimiser_would(seed: int) -> None:
    """Lemma 2 with limits: no division that a general method finds is better by 1e-6."""
    random = np.random.default_rng(seed)
    auction = Auction(
        random.uniform(0.5, 2, 4),
        random.uniform(0.5, 2, (4, 3)),
        logarithmic=random.random(4) < 0.5,
        limits=random.uniform(0.1, 0.8, (4, 3)),
    )
    result = run_auction(auction, tolerance=1e-9)
    assert result.converged
    for job, budget in enumerate(auction.budgets):
        for start in random.dirichlet(np.ones(3), 3):
            best = minimize(
                lambda split, job=job: -utility_of_split(auction, result, job, split),
                budget * start,
                bounds=[(1e-9, None)] * 3,
                constraints={"type": "ineq", "fun": lambda split, b=budget: b - split.sum()},
                options={"ftol": 1e-15},
            )
            assert result.utilities[job] >= -best.fun - 1e-6


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.01, 0.9, 1.0])
def test_limits_hold_at_every_exponent(alpha: float) -> None:
    random = np.random.default_rng(3)
    limits = random.uniform(0.05, 0.5, (9, 4))
    weights = random.uniform(0.5, 2, (9, 4))
    auction = Auction(random.uniform(1, 9, 9), weights, alpha=alpha, limits=limits)
    result = run_auction(auction)
    assert result.converged
    assert (result.shares <= limits).all()
    np.testing.assert_allclose(result.shares.sum(axis=0), np.minimum(limits.sum(axis=0), 1))


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_units_of_money_and_utility_do_not_matter(unit: float) -> None:
    plain = population(32)
    expected = run_auction(plain, tolerance=1e-9)
    other = run_auction(Auction(plain.budgets * unit, plain.weights / unit), tolerance=1e-9)
    np.testing.assert_allclose(other.shares, expected.shares, atol=1e-9)
    np.testing.assert_allclose(other.gains, expected.gains, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.75, 0.99, 1.0])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_rich_and_poor_jobs_meet_without_losing_digits(alpha: float, *, logarithmic: bool) -> None:
    weights = np.array([[1.0, 2.0], [2.0, 1.0], [1e-12, 1e12]])
    auction = Auction([1e12, 1e-12, 1], weights, logarithmic=logarithmic, alpha=alpha)
    result = run_auction(auction)
    assert np.isfinite(result.sub_budgets).all()
    assert np.isfinite(result.utilities).all()
    np.testing.assert_allclose(result.sub_budgets.sum(axis=1), auction.budgets, rtol=1e-9)
    assert (result.shares > 0).all()


def test_too_few_rounds_are_told() -> None:
    result = run_auction(population(32), max_iterations=1)
    assert not result.converged
    assert result.iterations == 1
    assert result.change > 1e-3
    assert result.gain > 1e-3


def test_an_auction_without_jobs_is_over() -> None:
    result = run_auction(Auction([], np.zeros((0, 3))))
    assert result.converged
    assert result.shares.shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1, 0], np.ones((2, 2))), {}, r"budgets\[1\] = 0 is not positive"),
        (([1, 1], np.ones((3, 2))), {}, r"weights has shape \(3, 2\): 2 x any entries are needed"),
        (([1], [[1, -1]]), {}, r"weights\[0, 1\] = -1 is negative"),
        (([1], [[1, np.inf]]), {}, r"weights\[0, 1\] = inf is not a finite number"),
        (([1], [[0, 0]]), {}, r"weights\[0\] has no positive entry: give the job a"),
        (([1], [[1]]), {"alpha": 1.5}, r"alpha = 1\.5 is outside 0\.\.1"),
        (([1], [[1]]), {"logarithmic": [True, False]}, r"one truth value, or 1, one per job"),
        (([1], [[1]]), {"limits": [[1.5]]}, r"limits\[0, 0\] = 1\.5 is outside 0\.\.1"),
        (
            ([1], [[1]]),
            {"limits": [[1, 1]]},
            r"limits has shape \(1, 2\): 1 x 1 entries are needed",
        ),
        (([1], [[1]]), {"logarithmic": 1}, r"one truth value, or 1, one per job"),
    ],
)
def test_senseless_auctions_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AuctionError, match=message):
        Auction(*arguments, **options)


def test_senseless_starts_and_functions_are_refused() -> None:
    with pytest.raises(AuctionError, match=r"start\[0, 0\] = -1 is negative"):
        run_auction(Auction([1], [[1]]), start=[[-1]])
    falling = Weighted(np.array([[1, -1], [1, 1]]))
    with pytest.raises(AuctionError, match=r"marginal utility of job 0\[1\] = -1 is negative"):
        run_concave_auction([1, 1], 2, falling)
    with pytest.raises(AuctionError, match=r"has shape \(3,\): \(2,\) is needed"):
        run_concave_auction([1, 1], 2, Weighted(np.ones((2, 3))))


def test_examples_of_the_page_about_it_are_right() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "abacus.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 3
    assert found.failed == 0
