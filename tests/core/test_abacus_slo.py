"""Auctions of jobs with a minimum (section 6): who runs, who pays, what the lemmas leave out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.abacus.auction import Auction, AuctionError, run_auction
from walras_studies.abacus.pool_auction import SLACK, run_pool_auction


def one_resource(*budgets: float) -> Auction:
    """Shares are in proportion to budgets, so that everything can be checked by hand."""
    return Auction(budgets, np.ones((len(budgets), 1)), alpha=1)


def test_the_best_paying_jobs_whose_minima_hold_run_and_pay() -> None:
    """100 and 60 get .625 and .375; with the 40 the first would fall to .5, with the 20 to .556."""
    result = run_pool_auction(one_resource(60, 100, 40, 20), [0.3, 0.6, 0.1, 0.1])
    assert result.prolific.tolist() == [True, True, False, False]
    np.testing.assert_allclose(result.shares[:, 0], [0.375, 0.625, 0, 0])
    assert result.charges.tolist() == [60, 100, 0, 0]
    assert sorted(result.standby.tolist()) == [2, 3]


def test_a_job_that_asks_too_much_lets_poorer_ones_in() -> None:
    result = run_pool_auction(one_resource(100, 90, 50), [0.5, 0.5, 0.3])
    assert result.prolific.tolist() == [True, False, True]
    np.testing.assert_allclose(result.utilities, [2 / 3, 0, 1 / 3])


def test_leftovers_go_to_jobs_that_wait_and_are_paid_if_they_suffice() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    result = run_pool_auction(Auction([3, 2, 1], weights), [1, 1.5, 0.5], seed=0)
    assert result.prolific.tolist() == [True, False, False]
    assert result.shares[:, 0].tolist() == [1, 0, 0]
    taker = result.standby[0]
    assert result.shares[taker, 1] == 1
    assert result.shares[:, 2].tolist() == [0, 0, 0]
    expected = {1: [3.0, 0.0, 0.0], 2: [3.0, 0.0, 1.0]}[int(taker)]
    assert result.charges.tolist() == expected


def test_who_waits_first_depends_on_the_seed_alone() -> None:
    auction = one_resource(9, 1, 1, 1, 1)
    minima = [0.95, 0.9, 0.9, 0.9, 0.9]
    orders = {tuple(run_pool_auction(auction, minima, seed=s).standby) for s in range(10)}
    assert len(orders) > 1
    again = run_pool_auction(auction, minima, seed=3)
    assert tuple(again.standby) == tuple(run_pool_auction(auction, minima, seed=3).standby)


def test_a_limit_leaves_room_for_the_minimum_of_another_job() -> None:
    """Budgets 2 to 1: a quarter is all that the first can use, and .75 is enough for the second."""
    auction = Auction([2, 1], np.ones((2, 1)), limits=[[0.25], [1.0]])
    result = run_pool_auction(auction, [0.2, 0.6])
    assert result.prolific.all()
    np.testing.assert_allclose(result.shares[:, 0], [0.25, 0.75])
    assert result.charges.tolist() == [2, 1]
    unlimited = run_pool_auction(Auction([2, 1], np.ones((2, 1))), [0.2, 0.6])
    assert unlimited.prolific.tolist() == [True, False]


def test_leftovers_are_divided_up_to_what_each_waiting_job_can_use() -> None:
    auction = Auction([9, 3, 2], np.ones((3, 1)), alpha=0, limits=[[0.5], [0.3], [0.9]])
    result = run_pool_auction(auction, [0.5, 0.3, 0.9])
    assert result.prolific.tolist() == [True, True, False]
    np.testing.assert_allclose(result.shares[:, 0], [0.5, 0.3, 0.2])
    assert result.charges.tolist() == [9, 3, 0]


def test_a_lower_budget_can_pay() -> None:
    """Erratum: Lemma 5's proof leaves out the move from outside into the pool by bidding less."""
    minima = [0.6, 0.3]
    honest = run_pool_auction(one_resource(100, 90), minima)
    modest = run_pool_auction(one_resource(100, 60), minima)
    assert honest.prolific.tolist() == [True, False]
    assert modest.prolific.tolist() == [True, True]
    assert modest.utilities[1] > honest.utilities[1] == 0


def test_a_higher_minimum_can_pay() -> None:
    """Erratum: Lemma 6's proof takes it that a job's utility does not change within the pool."""
    honest = run_pool_auction(one_resource(100, 90), [0.3, 0.3])
    greedy = run_pool_auction(one_resource(100, 90), [0.9, 0.3])
    assert honest.prolific.all()
    assert greedy.prolific.tolist() == [True, False]
    assert greedy.utilities[0] == 1 > honest.utilities[0]
    assert greedy.charges[0] == honest.charges[0] == 100


def test_a_minimum_that_cannot_be_met_is_never_promised() -> None:
    """Lemma 6, the part that holds: asking for more than there is leaves a job outside."""
    result = run_pool_auction(one_resource(100, 90), [1.1, 0.3])
    assert result.prolific.tolist() == [False, True]
    assert result.charges.tolist() == [0, 90]


@examples(60)
@given(
    jobs=st.integers(1, 7),
    resources=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    logarithmic=st.booleans(),
)
def test_promises_are_kept_and_only_kept_ones_paid(
    jobs: int, resources: int, seed: int, *, logarithmic: bool
) -> None:
    random = np.random.default_rng(seed)
    auction = Auction(
        random.uniform(1, 5, jobs),
        random.uniform(0.5, 2, (jobs, resources)),
        logarithmic=logarithmic,
        limits=np.where(random.random((jobs, resources)) < 0.5, random.random(), 1.0),
    )
    whole = auction.weights.sum(axis=1)
    minima = whole * (np.log if logarithmic else np.asarray)(random.uniform(0.05, 0.6, jobs))
    result = run_pool_auction(auction, minima, seed=seed)
    met = result.utilities >= minima - SLACK * whole
    assert met[result.prolific].all()
    np.testing.assert_array_equal(result.charges, np.where(met, auction.budgets, 0))
    assert (result.shares.sum(axis=0) <= 1 + 1e-9).all()
    assert set(result.standby) == set(np.flatnonzero(~result.prolific))
    inside = np.flatnonzero(result.prolific)
    for job in result.standby:  # the pool is maximal at its end for those who came last
        if auction.budgets[job] < auction.budgets[inside].min(initial=np.inf):
            trial = [*inside, job]
            wider = Auction(
                auction.budgets[trial],
                auction.weights[trial],
                logarithmic=logarithmic,
                limits=auction.limits[trial],
            )
            assert (run_auction(wider).utilities < minima[trial] + 1e-4).any()


def test_who_comes_after_the_last_trial_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, then four, then two, then the first alone, which can have its minimum."""
    auction = one_resource(8, 7, 6, 5, 4, 3, 2, 1)
    minima = [0.9, *[0.05] * 7]
    assert run_pool_auction(auction, minima).prolific.tolist() == [True] + [False] * 7
    monkeypatch.setattr("walras_studies.abacus.pool_auction.MAX_TRIALS", 3)
    result = run_pool_auction(auction, minima)
    assert not result.prolific.any()


def test_no_minima_are_a_plain_auction() -> None:
    random = np.random.default_rng(0)
    auction = Auction(random.uniform(1, 5, 20), random.uniform(0.5, 2, (20, 3)))
    result = run_pool_auction(auction, np.zeros(20))
    assert result.prolific.all()
    np.testing.assert_allclose(result.shares, run_auction(auction).shares, atol=1e-5)


def test_nobody_is_no_pool() -> None:
    result = run_pool_auction(Auction([], np.zeros((0, 2))), [])
    assert result.prolific.shape == (0,)
    assert result.shares.shape == (0, 2)


def test_senseless_minima_are_refused() -> None:
    with pytest.raises(AuctionError, match=r"minima\[1\] = nan is not a finite number"):
        run_pool_auction(one_resource(1, 1), [0, np.nan])
    with pytest.raises(AuctionError, match=r"minima has shape \(1,\): 2 entries are needed"):
        run_pool_auction(one_resource(1, 1), [0])
