"""A user's bid curve goes through what it buys in the market, and is what it would do best."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.bid_curve import FACTORS, PricedJob, bid_curve
from walras.division.pricing import price
from walras.market.bounds import bare_entitlement, bounds_of
from walras.market.snapshot import Policy
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.speedup.amdahls_law import FIRST_CORE, SPARED, speedup, speedup_in_hardware

TIGHT = 1e-12


@st.composite
def users(draw: st.DrawFn) -> tuple[list[PricedJob], float]:
    """Draw some jobs at different prices, some with bounds, and an amount of money."""
    jobs = []
    for _ in range(draw(st.integers(1, 5))):
        floor = draw(st.sampled_from([0.0, 0.0, 0.5, 2.0]))
        least = draw(st.sampled_from([0.0, 0.0, 3.0]))
        jobs.append(
            PricedJob(
                cores=1.0,
                price=draw(st.floats(0.2, 3)),
                fraction=draw(st.floats(0.05, 1)),
                work=draw(st.sampled_from([0.1, 1.0, 5.0])),
                floor=floor,
                least=least,
                most=draw(st.sampled_from([float("inf"), 8.0, max(floor, least, 4.0)])),
            )
        )
    return jobs, draw(st.floats(0, 40))


@pytest.mark.parametrize("seed", range(8))
def test_at_todays_prices_a_user_buys_what_the_market_sold_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    users_, servers, jobs = 4, 3, 16
    user, server = np.arange(jobs) % users_, random.integers(servers, size=jobs)
    market = AmdahlMarket(
        random.uniform(1, 5, users_),
        random.uniform(4, 32, servers),
        user,
        server,
        random.uniform(0.3, 0.99, jobs),
        random.uniform(0.5, 2, jobs),
    )
    least = 0.3 * random.random(jobs)
    bounds = bounds_of(market, least, np.zeros(jobs), np.full(jobs, np.inf), least_part=0.0)
    found = price(market, bounds, Policy(tolerance=1e-9))
    entitled = metrics.utilities_in_hardware(market, bare_entitlement(market, bounds))
    spent = market.sum_by_user(found.prices[server] * found.cores)
    assert (spent <= market.budgets * (1 + 1e-9)).all()
    for number in range(users_):
        mine = np.flatnonzero(user == number)
        priced = [
            PricedJob(
                found.cores[k],
                found.prices[server[k]],
                market.fraction[k],
                market.work[k],
                floor=bounds.kept[k],
            )
            for k in mine
        ]
        budget = float(market.budgets[number])
        (now,) = bid_curve(priced, budget, [1.0], entitled=float(entitled[number]))
        assert now.cores == pytest.approx(found.cores[mine].sum(), rel=1e-5)
        assert now.spend == pytest.approx(spent[number], rel=1e-5)


@examples(200)
@given(users())
def test_money_and_bounds_are_kept_and_dearer_cores_are_bought_less(
    user: tuple[list[PricedJob], float],
) -> None:
    jobs, money = user
    curve = bid_curve(jobs, money)
    assert [each.factor for each in curve] == list(FACTORS)
    for each in curve:
        kept = each.factor * sum(job.price * job.floor for job in jobs)
        assert each.spend <= max(money, kept) * (1 + TIGHT) + TIGHT
        assert each.cores >= sum(job.floor for job in jobs) - TIGHT
        assert each.cores <= sum(max(job.most, job.floor) for job in jobs) + TIGHT
    bounded = any(job.least for job in jobs)  # what cannot be paid for does not count any more
    for cheaper, dearer in pairwise(curve):
        assert bounded or dearer.cores <= cheaper.cores * (1 + 1e-9) + TIGHT
        assert bounded or dearer.utility <= cheaper.utility * (1 + 1e-9) + TIGHT


@examples(200)
@given(users(), st.randoms(use_true_random=False))
def test_no_other_purchase_for_the_money_is_better(
    user: tuple[list[PricedJob], float], random: object
) -> None:
    """Up to what a sated user leaves, and how the first core of a job is taken (`time_shared`)."""
    jobs, money = user
    jobs = [PricedJob(each.cores, each.price, each.fraction, each.work) for each in jobs]
    (best,) = bid_curve(jobs, money, [1.0])
    parts = [random.random() + 1e-3 for _ in jobs]  # type: ignore[attr-defined]
    done = sum(
        job.work * speedup_in_hardware(money * part / sum(parts) / job.price, job.fraction)
        for job, part in zip(jobs, parts, strict=True)
    )
    least = FIRST_CORE * (1 - SPARED)
    assert best.utility >= least * done / sum(job.work for job in jobs) - 1e-6


def test_half_the_price_of_one_job_doubles_its_cores() -> None:
    curve = bid_curve([PricedJob(4.0, 1.5, 0.9)], 6.0, [0.5, 1.0, 2.0])
    assert [each.cores for each in curve] == pytest.approx([8.0, 4.0, 2.0])
    assert [each.spend for each in curve] == pytest.approx([6.0] * 3)
    assert [each.utility for each in curve] == pytest.approx([speedup(x, 0.9) for x in (8, 4, 2)])


def test_cores_without_a_price_stay_as_they_are() -> None:
    """With them, the user is content with a little less than the half core that it could pay."""
    (point,) = bid_curve([PricedJob(4.0, 0.0, 0.9), PricedJob(1.0, 1.0, 0.9)], 2.0, [4.0])
    assert point.cores == pytest.approx(4.5, abs=0.04)


def test_a_minimum_that_cannot_be_paid_does_not_count() -> None:
    jobs = [PricedJob(4.0, 1.0, 0.5, least=4.0), PricedJob(2.0, 1.0, 0.9)]
    rich, poor = bid_curve(jobs, 6.0, [1.0, 2.0])
    assert rich.cores == pytest.approx(6)
    (free,) = bid_curve([PricedJob(4.0, 1.0, 0.5), jobs[1]], 6.0, [2.0])
    assert (poor.cores, poor.utility) == pytest.approx((free.cores, free.utility))


def test_a_request_that_costs_more_than_the_budget_is_kept_and_nothing_else_bought() -> None:
    jobs = [PricedJob(4.0, 1.0, 0.9, floor=4.0), PricedJob(1.0, 1.0, 0.9)]
    (point,) = bid_curve(jobs, 3.0, [1.0])
    assert (point.cores, point.spend) == pytest.approx((4, 4))


def test_part_of_a_core_is_worth_that_part() -> None:
    """Two equal jobs have half a core each; one core of the larger work comes before the other."""
    (point,) = bid_curve([PricedJob(0.5, 1.0, 0.6), PricedJob(0.5, 1.0, 0.9)], 1.0, [1.0])
    assert (point.cores, point.utility) == pytest.approx((1.0, 0.5))
    (point,) = bid_curve([PricedJob(1.0, 1.0, 0.6, work=2), PricedJob(0.0, 1.0, 0.9)], 1.0, [1.0])
    assert point.utility == pytest.approx(2 / 3)
