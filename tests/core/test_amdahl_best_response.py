"""Best response: nobody gains by other bids, as an independent optimiser confirms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from examples import examples
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.best_response import AmdahlNashEquilibrium, find_nash_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError
from walras_studies.amdahl.populations import draw_population
from walras_studies.amdahl.without_bounds import find_equilibrium

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RESERVE = 1e-3


@st.composite
def markets(draw: st.DrawFn) -> AmdahlMarket:
    """Draw a few users and servers; several jobs of a user on a server are common."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, servers, jobs = (int(random.integers(1, most)) for most in (8, 6, 30))
    spread = draw(st.sampled_from([0.0, 1.0, 6.0]))
    fractions = draw(st.sampled_from([[0.3, 0.6, 0.9, 0.99], [0.0, 0.5, 1.0], [1.0], [0.0]]))
    return AmdahlMarket(
        10 ** random.uniform(-spread, 0, users),
        random.integers(1, 65, servers),
        random.integers(0, users, jobs),
        random.integers(0, servers, jobs),
        random.choice(fractions, jobs),
        np.exp(random.standard_normal(jobs)),
    )


def best_by_scipy(found: AmdahlNashEquilibrium, user: int, random: np.random.Generator) -> float:
    """Return the best relative gain of ``user`` that SLSQP finds from several starts."""
    market = found.market
    mine = np.flatnonzero(market.user == user)
    f, w, server = market.fraction[mine], market.work[mine], market.server[mine]
    servers = len(market.capacities)
    others = market.sum_by_server(found.bids) - np.bincount(server, found.bids[mine], servers)
    floor = RESERVE * market.capacities * market.budgets.sum() / market.capacities.sum()
    rivals = np.maximum(others, floor)
    budget = market.budgets[user]

    def utility(bids: NDArray[np.float64]) -> float:
        bids = np.maximum(bids, 0)
        x = market.capacities[server] * bids / (np.bincount(server, bids, servers) + rivals)[server]
        return float(np.sum(w * x / (f + (1 - f) * x)))

    now = utility(found.bids[mine])
    gains = []
    for start in [found.bids[mine], *random.dirichlet(np.ones(len(mine)), 2) * budget]:
        result = minimize(
            lambda share: -utility(share * budget) / now,
            start / budget,
            bounds=[(0, 1)] * len(mine),
            constraints={"type": "ineq", "fun": lambda share: 1 - share.sum()},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        if result.x.sum() <= 1 + 1e-9:
            gains.append(-result.fun - 1)
    return float(max(gains))


@pytest.mark.parametrize("seed", range(6))
def test_no_user_gains_by_any_other_bids(seed: int) -> None:
    """The definition of a Nash equilibrium (VI-A); each user has several jobs on a server."""
    random = np.random.default_rng(seed)
    market = AmdahlMarket(
        random.uniform(1, 5, 4),
        random.integers(2, 25, 3),
        np.arange(16) % 4,
        random.integers(0, 3, 16),
        random.uniform(0.3, 0.99, 16),
        np.exp(random.standard_normal(16)),
    )
    found = find_nash_equilibrium(market, tolerance=1e-9, reserve=RESERVE)
    assert found.converged
    for user in range(4):
        assert best_by_scipy(found, user, random) <= 1e-7


@examples(400)
@given(markets())
def test_bids_spend_budgets_and_cores_follow_bids(market: AmdahlMarket) -> None:
    found = find_nash_equilibrium(market)
    busy = np.diff(market.by_user.start) > 0
    spent = market.sum_by_user(found.bids)
    np.testing.assert_allclose(spent[busy], market.budgets[busy], rtol=1e-9)
    sold = np.unique(market.server)
    np.testing.assert_allclose(
        market.sum_by_server(found.cores)[sold], market.capacities[sold], rtol=1e-9
    )
    assert (found.bids >= 0).all()
    assert np.isfinite(found.cores).all()
    assert found.converged == (found.gain <= 1e-6)
    if market.fraction.max() < 1:
        assert found.converged


def test_bidding_goes_on_while_anybody_can_gain() -> None:
    """Prices stood still to the tolerance here while a user could still gain more than that."""
    market = AmdahlMarket(
        [1.70e-4, 6.38e-6, 2.96e-5, 1.81e-2, 0.989, 8.88e-3, 1.20e-5],
        [17, 64, 1],
        [0, 2, 4, 2, 0, 5, 2, 1, 1, 2, 6, 3, 2, 5, 0, 4, 3, 5, 6, 1, 3, 0, 5, 3, 2, 0, 5],
        [2, 1, 0, 0, 1, 2, 1, 2, 2, 0, 0, 2, 2, 0, 0, 1, 1, 0, 2, 1, 1, 0, 0, 2, 0, 2, 2],
        [
            *(0.3, 0.99, 0.9, 0.9, 0.99, 0.6, 0.9, 0.6, 0.9, 0.99, 0.6, 0.99, 0.99, 0.99),
            *(0.3, 0.3, 0.6, 0.9, 0.9, 0.9, 0.9, 0.3, 0.99, 0.99, 0.9, 0.9, 0.9),
        ],
    )
    for tolerance in (1e-4, 1e-5, 1e-6, 1e-7):
        assert find_nash_equilibrium(market, tolerance=tolerance).gain <= tolerance


@examples(200)
@given(markets())
def test_no_user_does_worse_than_by_its_entitlement(market: AmdahlMarket) -> None:
    """VI-C: bids in proportion to others' buy b / B of each server, whatever others bid."""
    found = find_nash_equilibrium(market)
    assume(found.converged)
    got = metrics.user_progress(market, found.cores)
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    assert (got >= bare * (1 - RESERVE - 1e-6)).all()


def test_bids_off_the_equilibrium_have_a_gain() -> None:
    """One round from even bids: not converged, and scipy finds the same gain or less."""
    market = draw_population(40, 1.0, 8, seed=0)
    early = find_nash_equilibrium(market, max_iterations=1)
    assert not early.converged
    random = np.random.default_rng(0)
    best = max(best_by_scipy(early, user, random) for user in range(40))
    assert best == pytest.approx(early.gain, rel=1e-2)


def test_a_user_alone_pays_little_and_spends_the_rest_elsewhere() -> None:
    """Section VI-D: on server C nobody else runs, on D others do; under AB the budget is split."""
    market = AmdahlMarket([1, 1, 1], [24, 24], [0, 0, 1, 2], [0, 1, 1, 1], [0.9] * 4)
    nash = find_nash_equilibrium(market)
    price_taking = find_equilibrium(market)
    assert nash.cores[0] == pytest.approx(24)
    assert nash.bids[0] < 0.1 * price_taking.bids[0]
    assert nash.cores[1] > 1.2 * price_taking.cores[1]


@pytest.mark.parametrize("solve", [find_equilibrium, find_nash_equilibrium])
def test_starts_of_another_shape_are_refused(solve: Callable[..., object]) -> None:
    market = draw_population(12, 3.0, 4, seed=1)
    with pytest.raises(MarketError, match=r"^start has shape \(2,\): \d+ (prices|bids) are needed"):
        solve(market, start=np.ones(2))


def test_bids_to_start_from_may_be_no_numbers() -> None:
    market = draw_population(12, 3.0, 4, seed=1)
    start = np.full(market.jobs, np.inf)
    start[0] = np.nan
    found = find_nash_equilibrium(market, start=start)
    assert found.bids.tolist() == find_nash_equilibrium(market).bids.tolist()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_unit_of_money_plays_no_role(scale: float) -> None:
    market = draw_population(40, 0.5, 8, seed=2)
    scaled = AmdahlMarket(
        market.budgets * scale, market.capacities, market.user, market.server, market.fraction
    )
    np.testing.assert_allclose(
        find_nash_equilibrium(scaled, tolerance=1e-9).cores,
        find_nash_equilibrium(market, tolerance=1e-9).cores,
        rtol=1e-5,
        atol=1e-6,
    )


def test_users_and_servers_without_jobs_are_left_out() -> None:
    found = find_nash_equilibrium(AmdahlMarket([1, 5, 1], [4, 9], [0, 2], [0, 0], [0.9, 0.9]))
    np.testing.assert_allclose(found.cores, [2, 2])
    np.testing.assert_allclose(found.prices, [0.5, 0])


@pytest.mark.parametrize("reserve", [0.0, -1.0, float("nan"), float("inf")])
def test_a_reserve_that_prices_nothing_is_refused(reserve: float) -> None:
    with pytest.raises(MarketError, match=f"reserve = {reserve} is not positive"):
        find_nash_equilibrium(AmdahlMarket([1], [4], [0], [0], [0.5]), reserve=reserve)
