"""Jobs that may hold less than a core, as first and further cores: gains, and prices."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.bid_curve import PricedJob, bid_curve
from walras.division.pricing import price
from walras.market.bounds import bare_entitlement, bounds_of
from walras.market.snapshot import Policy
from walras.mechanisms.amdahl.equilibrium import find_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.metrics import utilities_in_hardware
from walras.mechanisms.amdahl.time_shared import Pieces, pieces_of
from walras.speedup.amdahls_law import FIRST_CORE, speedup, speedup_in_hardware

INF = float("inf")


def pieces(fraction: float, work: float = 1.0, most: float = INF) -> Pieces:
    """Return the pieces of one job."""
    return pieces_of(AmdahlMarket([1], [64], [0], [0], [fraction], [work]), np.array([most]))


def gains(of: Pieces, cores: float) -> float:
    """Return what a job's pieces gain together on some cores."""
    parts = of.within(np.array([cores]))
    return sum(
        work * speedup(x, f) if x else 0.0
        for x, f, work in zip(
            parts.tolist(), of.market.fraction.tolist(), of.market.work.tolist(), strict=True
        )
    )


@given(st.floats(0.001, 1.0), st.floats(0.0, 64.0), st.floats(0.1, 10.0))
def test_gains_of_pieces_add_up_to_the_speedup_in_hardware(
    fraction: float, cores: float, work: float
) -> None:
    """From one core on exactly; below, half a core counts as 0.505, which is the most it is off."""
    of = pieces(fraction, work)
    true = work * speedup_in_hardware(cores, fraction)
    gained = gains(of, cores)
    if cores >= 1:
        assert gained == pytest.approx(true, rel=1e-9)
    assert -1e-9 <= (gained - true) / work <= 0.00506
    assert FIRST_CORE * gained <= true * (1 + 1e-9)
    assert gains(pieces(0.5), 0.5) == pytest.approx(0.505, abs=1e-4)


@given(st.floats(0.001, 1.0), st.floats(0.1, 10.0))
def test_the_first_core_gains_more_than_the_others_wherever_they_are(
    fraction: float, work: float
) -> None:
    """So that no user buys further cores before the first: slopes are w c, then w f and less."""
    of = pieces(fraction, work)

    def slope(cores: float) -> float:
        return (gains(of, cores + 1e-6) - gains(of, cores - 1e-6)) / 2e-6

    assert slope(1 - 1e-5) == pytest.approx(work * max(fraction, FIRST_CORE), rel=1e-3)
    assert slope(1 + 1e-5) == pytest.approx(work * fraction, rel=1e-3)
    slopes = [slope(x) for x in (0.1, 0.5, 0.9, 1.1, 2.0, 8.0, 40.0)]
    assert all(b <= a * (1 + 1e-6) for a, b in pairwise(slopes))


def test_pieces_of_bounds_add_up_to_them() -> None:
    market = AmdahlMarket([1], [64], [0] * 4, [0] * 4, [0.9] * 4)
    most = np.array([INF, 4.0, 1.0, 0.5])
    of = pieces_of(market, most)
    assert of.further.tolist() == [0, 1]
    assert of.within(most).tolist() == [1, 1, 1, 0.5, INF, 3]
    assert of.of_jobs(of.within(most)).tolist() == most.tolist()


class Case:
    """A random market in which one user's requests cost more than its budget."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        users, servers, jobs = 4, 3, 16
        self.market = AmdahlMarket(
            [0.5, *random.uniform(1, 5, users - 1)],
            random.uniform(6, 32, servers),
            np.arange(jobs) % users,
            random.integers(servers, size=jobs),
            random.uniform(0.3, 0.99, jobs),
            random.uniform(0.5, 2, jobs),
        )
        poor = self.market.user == 0
        room = self.market.capacities[self.market.server]
        requested = np.where(poor, room / 6, random.choice([0.0, 0.0, 0.5], jobs))
        unbounded = np.full(jobs, INF)
        self.bounds = bounds_of(self.market, requested, np.zeros(jobs), unbounded, 0.25)


@examples(60)
@given(st.builds(Case, st.integers(0, 2**32 - 1)))
def test_requests_that_cost_more_than_a_budget_are_kept_and_others_buy_what_is_best(
    case: Case,
) -> None:
    market, kept = case.market, case.bounds.kept
    found = price(market, case.bounds, Policy())
    assert found.converged
    assert found.residual <= 1e-6
    spent = market.sum_by_user(found.prices[market.server] * found.cores)
    sold, used = market.sum_by_server(found.cores), np.unique(market.server)
    np.testing.assert_allclose(sold[used], market.capacities[used], rtol=1e-6)
    assert (found.cores >= kept * (1 - 1e-9)).all()
    bare = bare_entitlement(market, case.bounds)
    for user, budget in enumerate(market.budgets.tolist()):
        mine = np.flatnonzero(market.user == user)
        cost = float((found.prices[market.server] * kept)[mine].sum())
        jobs = [
            PricedJob(
                found.cores[k],
                found.prices[market.server[k]],
                market.fraction[k],
                market.work[k],
                floor=kept[k],
                most=market.capacities[market.server[k]],
            )
            for k in mine
        ]
        entitled = utilities_in_hardware(market, bare)[user]
        (best,) = bid_curve(jobs, max(budget, cost), [1.0], entitled=entitled)
        assert spent[user] == pytest.approx(best.spend, rel=1e-4)
        if user or cost <= budget:
            assert found.cores[mine].sum() == pytest.approx(best.cores, rel=1e-3)
    # It is given what nobody else is there for, at next to no price.
    poor = (market.user == 0) & (found.prices[market.server] > 1e-9)
    if spent[0] > market.budgets[0] * (1 + 1e-6):
        np.testing.assert_allclose(found.cores[poor], kept[poor], rtol=1e-6)


def test_who_keeps_more_than_it_can_pay_for_raises_the_price_for_itself_and_others() -> None:
    """A keeps 12 of 16 cores; B spends its 8 on the other 4, at 2 each."""
    market = AmdahlMarket([8, 8], [16], [0, 1], [0, 0], [0.9, 0.9])
    found = find_equilibrium(market, kept=[12, 0])
    assert found.cores.tolist() == pytest.approx([12, 4])
    assert found.prices.tolist() == pytest.approx([2])
    assert found.bids.tolist() == pytest.approx([24, 8])
    assert found.residual <= 1e-6


def test_a_server_of_a_user_without_money_left_is_its_own_and_stops_no_search() -> None:
    """A keeps 12 of 16 cores for more than its budget, and is alone on the other server."""
    market = AmdahlMarket([16, 16], [16, 16], [0, 0, 1], [0, 1, 0], [0.9] * 3)
    least = np.array([12.0, 0.0, 0.0])
    found = price(market, bounds_of(market, least, 0 * least, least + INF, 0.25), Policy())
    assert found.converged
    assert found.iterations < 200
    assert found.cores.tolist() == pytest.approx([12, 16, 4])
    assert found.prices.tolist() == pytest.approx([4, 0])
