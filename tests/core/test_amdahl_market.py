"""The Amdahl market: published numbers, properties of any market, and the hard corners."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.conditions import kkt_residual
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError
from walras.mechanisms.amdahl.upper_bound import share_proportionally
from walras.numerics.segments import group
from walras_studies.amdahl.paper_bidding import bid
from walras_studies.amdahl.whole_cores import RoundingError, round_cores
from walras_studies.amdahl.without_bounds import ProvenEquilibrium, find_equilibrium, price_error

if TYPE_CHECKING:
    from collections.abc import Callable


def alice_and_bob() -> AmdahlMarket:
    """Section V-B: dedup and bodytrack of Alice, x264 and raytrace of Bob, ten cores each."""
    return AmdahlMarket([1, 1], [10, 10], [0, 0, 1, 1], [0, 1, 0, 1], [0.53, 0.93, 0.96, 0.68])


@st.composite
def markets(draw: st.DrawFn, max_fraction: float = 0.99) -> AmdahlMarket:
    """Draw a market of a few users and servers, with every user and server in it or not."""
    users = draw(st.integers(1, 8))
    servers = draw(st.integers(1, 6))
    jobs = draw(st.integers(1, 24))
    seed = draw(st.integers(0, 2**32 - 1))
    spread = draw(st.sampled_from([0.0, 1.0, 6.0]))
    random = np.random.default_rng(seed)
    return AmdahlMarket(
        10 ** random.uniform(-spread, 0, users),
        random.integers(1, 65, servers),
        random.integers(0, users, jobs),
        random.integers(0, servers, jobs),
        random.uniform(0.05, max_fraction, jobs),
        np.exp(random.standard_normal(jobs)),
    )


@pytest.mark.parametrize("solve", [find_equilibrium, bid])
def test_two_users_trade_as_the_paper_prints(solve: Callable[..., ProvenEquilibrium]) -> None:
    """Section V-C prints p = (0.100, 0.099), x = 1.34, 8.68 and 8.66, 1.32; six digits here."""
    result = solve(alice_and_bob(), tolerance=1e-9)
    assert result.converged
    np.testing.assert_allclose(result.prices, [0.10023234, 0.09976766], atol=5e-9)
    np.testing.assert_allclose(
        result.cores, [1.3363738, 8.6806897, 8.6636262, 1.3193103], atol=5e-8
    )


@pytest.mark.long
@examples(2000)
@given(markets())
def test_equilibrium_conditions_hold_in_any_market(market: AmdahlMarket) -> None:
    result = find_equilibrium(market)
    assert result.price_error <= 1e-6
    busy_servers = np.bincount(market.server, minlength=len(market.capacities)) > 0
    busy_users = np.bincount(market.user, minlength=len(market.budgets)) > 0
    sold = market.sum_by_server(result.cores)
    np.testing.assert_allclose(sold[busy_servers], market.capacities[busy_servers], rtol=1e-9)
    spent = market.sum_by_user(result.bids)
    np.testing.assert_allclose(spent[busy_users], market.budgets[busy_users], rtol=1e-5)
    assert (result.cores >= 0).all()
    assert result.residual <= 1e-5


@pytest.mark.long
@examples(1000)
@given(markets())
def test_no_user_does_worse_than_their_bare_entitlement(market: AmdahlMarket) -> None:
    """Section V-C: the entitlement is affordable at equilibrium prices, the best is chosen."""
    busy = np.bincount(market.server, minlength=len(market.capacities)) > 0
    present = np.bincount(market.user, minlength=len(market.budgets)) > 0
    user = (np.cumsum(present) - 1)[market.user]
    server = (np.cumsum(busy) - 1)[market.server]
    whole = AmdahlMarket(
        market.budgets[present],
        market.capacities[busy],
        user,
        server,
        market.fraction,
        market.work,
    )
    got = metrics.user_progress(whole, find_equilibrium(whole).cores)
    bare = metrics.user_progress(whole, metrics.bare_entitlement(whole))
    assert (got >= bare * (1 - 1e-6)).all()


@examples(200)
@given(markets(), st.floats(1e-6, 1e6))
def test_scaling_all_budgets_scales_prices_and_moves_no_core(
    market: AmdahlMarket, factor: float
) -> None:
    one = find_equilibrium(market, tolerance=1e-9)
    other = find_equilibrium(
        AmdahlMarket(
            market.budgets * factor,
            market.capacities,
            market.user,
            market.server,
            market.fraction,
            market.work,
        ),
        tolerance=1e-9,
    )
    np.testing.assert_allclose(other.cores, one.cores, atol=1e-4, rtol=1e-6)
    np.testing.assert_allclose(other.prices, one.prices * factor, rtol=1e-8)


@examples(200)
@given(markets(), st.randoms(use_true_random=False))
def test_renaming_users_servers_and_jobs_renames_the_result(
    market: AmdahlMarket, random: object
) -> None:
    shuffle = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    users = shuffle.permutation(len(market.budgets))
    servers = shuffle.permutation(len(market.capacities))
    jobs = shuffle.permutation(market.jobs)
    other = find_equilibrium(
        AmdahlMarket(
            market.budgets[np.argsort(users)],
            market.capacities[np.argsort(servers)],
            users[market.user[jobs]],
            servers[market.server[jobs]],
            market.fraction[jobs],
            market.work[jobs],
        ),
        tolerance=1e-9,
    )
    one = find_equilibrium(market, tolerance=1e-9)
    np.testing.assert_allclose(other.cores, one.cores[jobs], atol=1e-4, rtol=1e-6)
    np.testing.assert_allclose(other.prices[servers], one.prices, rtol=1e-8)


def population(users: int, servers: int, density: int, *, seed: int) -> AmdahlMarket:
    """Draw a market as in section VI, with work weights spread as well."""
    random = np.random.default_rng(seed)
    count = random.integers(max(1, density // 2), density + 1, servers)
    server = np.repeat(np.arange(servers), count)
    user = random.integers(0, users, len(server))
    idle = np.setdiff1d(np.arange(users), user)
    user = np.concatenate([user, idle])
    server = np.concatenate([server, random.integers(0, servers, len(idle))])
    return AmdahlMarket(
        random.integers(1, 6, users),
        np.full(servers, 24),
        user,
        server,
        random.uniform(0.55, 0.99, len(user)),
        np.exp(random.standard_normal(len(user))),
    )


def test_the_proven_price_error_is_no_less_than_the_true_one() -> None:
    market = population(50, 30, 8, seed=2)
    exact = find_equilibrium(market, tolerance=1e-12)
    assert exact.price_error <= 1e-12
    random = np.random.default_rng(0)
    for size in (1e-8, 1e-5, 1e-3):
        off = exact.prices * np.exp(size * random.uniform(-1, 1, len(exact.prices)))
        true = np.abs(off / exact.prices - 1).max()
        assert true * 0.99 <= price_error(market, off) < np.inf


HARD = {
    "f within 1e-12 of 0 and 1": [1e-12, 1 - 1e-12],
    "f exactly 0 and 1": [0.0, 1.0],
    "f all 1": [1.0],
    "f all 0": [0.0],
    "f up to 0.9999": [0.5, 0.9, 0.9999],
}


@pytest.mark.parametrize("budget_spread", [0, 6])
@pytest.mark.parametrize("fractions", HARD.values(), ids=HARD.keys())
def test_hard_markets_end_at_the_equilibrium(fractions: list[float], budget_spread: int) -> None:
    for seed, (users, servers, density) in enumerate(
        [(30, 20, 6), (3, 2, 4), (1, 8, 2), (8, 1, 9)]
    ):
        drawn = population(users, servers, density, seed=seed)
        random = np.random.default_rng(seed)
        market = AmdahlMarket(
            10 ** random.uniform(-budget_spread, 0, users),
            drawn.capacities,
            drawn.user,
            drawn.server,
            random.choice(fractions, drawn.jobs),
            drawn.work,
        )
        result = find_equilibrium(market)
        assert result.converged, (users, servers, result.iterations, result.residual)
        assert np.isfinite(result.cores).all()
        assert np.isfinite(result.prices).all()


def test_an_unreached_equilibrium_is_owned_up_to() -> None:
    market = population(1600, 1600, 6, seed=1)
    result = find_equilibrium(market, tolerance=1e-12, max_passes=3)
    assert not result.converged
    assert result.price_error == np.inf
    assert result.residual > 1e-12


def test_an_empty_market_clears() -> None:
    result = find_equilibrium(AmdahlMarket([1.0], [4.0], [], [], []))
    assert result.converged
    assert result.prices.tolist() == [0.0]
    assert kkt_residual(result.market, result.prices, result.cores) == 0.0


def test_users_and_servers_without_jobs_are_left_out() -> None:
    result = find_equilibrium(AmdahlMarket([1, 5, 1], [4, 9], [0, 2], [0, 0], [0.9, 0.9]))
    np.testing.assert_allclose(result.cores, [2, 2])
    np.testing.assert_allclose(result.prices, [0.5, 0])
    assert result.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budgets": [1, 0]}, r"budgets\[1\] = 0 is not positive"),
        ({"budgets": [1, float("nan")]}, r"budgets\[1\] = nan is not a finite number"),
        ({"capacities": [-1, 1]}, r"capacities\[0\] = -1 is not positive"),
        ({"capacities": [float("inf"), 1]}, r"capacities\[0\] = inf is not a finite number"),
        ({"fraction": [0.5, 1.5]}, r"fraction\[1\] = 1.5 is above 1"),
        ({"fraction": [-0.1, 0.5]}, r"fraction\[0\] = -0.1 is below 0"),
        ({"fraction": [0.5]}, r"fraction has 1 entries, user has 2: one per job is needed"),
        ({"work": [1, 0]}, r"work\[1\] = 0 is not positive"),
        ({"user": [0, 2]}, r"user\[1\] = 2 is outside 0..1"),
        ({"server": [-1, 0]}, r"server\[0\] = -1 is outside 0..1"),
        ({"server": [0.5, 0]}, r"server must be a flat array of integers"),
        ({"budgets": [[1, 1]]}, r"budgets has shape \(1, 2\): a flat array is needed"),
    ],
)
def test_bad_arrays_are_named(change: dict[str, list[float]], message: str) -> None:
    arrays: dict[str, list[float]] = {
        "budgets": [1, 1],
        "capacities": [4, 4],
        "user": [0, 1],
        "server": [0, 1],
        "fraction": [0.5, 0.5],
    }
    with pytest.raises(MarketError, match=message):
        AmdahlMarket(**(arrays | change))


def test_proportional_sharing_passes_on_what_a_job_cannot_use() -> None:
    """Section II-B: demands (8, 4, 0), (0, 4, 8), (8, 8, 8) on three servers of 12 cores."""
    market = AmdahlMarket(
        [1, 1, 1],
        [12, 12, 12],
        [0, 0, 1, 1, 2, 2, 2],
        [0, 1, 1, 2, 0, 1, 2],
        [0.9] * 7,
    )
    cores = share_proportionally(market, maximum=[8, 4, 4, 8, 8, 8, 8])
    np.testing.assert_allclose(cores, [6, 4, 4, 6, 6, 4, 6])


@pytest.mark.parametrize(
    ("maximum", "message"),
    [([0, 2], r"maximum\[0\] = 0 is not positive"), ([2], "one entry for each of 2 jobs")],
)
def test_proportional_sharing_names_bad_maximums(maximum: list[float], message: str) -> None:
    market = AmdahlMarket([1, 2], [12], [0, 1], [0, 0], [0.5] * 2)
    with pytest.raises(MarketError, match=message):
        share_proportionally(market, maximum=maximum)


@examples(500)
@given(markets())
def test_hamilton_stays_within_one_core_and_sums_exactly(market: AmdahlMarket) -> None:
    cores = find_equilibrium(market).cores
    whole = round_cores(cores, market.capacities, market.by_server)
    assert (np.abs(whole - cores) < 1 + 1e-9).all()
    busy = np.bincount(market.server, minlength=len(market.capacities)) > 0
    sums = np.bincount(market.server, whole, len(market.capacities))
    assert (sums[busy] == market.capacities[busy]).all()


@examples(500)
@given(markets(), st.integers(0, 2**32 - 1))
def test_bounded_rounding_keeps_bounds_and_sums(market: AmdahlMarket, seed: int) -> None:
    random = np.random.default_rng(seed)
    cores = share_proportionally(market)
    lower = random.integers(0, 3, market.jobs)
    upper = lower + random.integers(0, 12, market.jobs)
    least = np.bincount(market.server, lower, len(market.capacities))
    most = np.bincount(market.server, upper, len(market.capacities))
    if (least > market.capacities).any():
        with pytest.raises(RoundingError, match="add up to"):
            round_cores(cores, market.capacities, market.by_server, minimum=lower, maximum=upper)
        return
    whole = round_cores(cores, market.capacities, market.by_server, minimum=lower, maximum=upper)
    assert (lower <= whole).all()
    assert (whole <= upper).all()
    sums = np.bincount(market.server, whole, len(market.capacities))
    assert (sums == np.minimum(market.capacities, most)).all()


def test_a_minimum_above_a_maximum_is_named() -> None:
    market = AmdahlMarket([1], [4], [0], [0], [0.5])
    with pytest.raises(RoundingError, match="job 0: minimum 3 is above maximum 2"):
        round_cores(np.array([4.0]), [4], market.by_server, minimum=[3], maximum=[2])


@pytest.mark.parametrize("left", [1, 8, 9, 30, 39])
def test_few_and_many_cores_left_over_go_by_remainder_then_by_order(left: int) -> None:
    """Hamilton's method (VI, Rounding Allocations), beside servers with none and one left."""
    remainders = np.random.default_rng(left).permutation(np.repeat(np.arange(8) / 8, 5))
    cores = np.concatenate([2 + remainders, [3.0, 1.25, 0.75]])
    server = np.repeat([0, 1, 2], [40, 1, 2])
    best = sorted(range(40), key=lambda job: (-remainders[job], job))[:left]
    expected = [2 + (job in best) for job in range(40)]
    whole = round_cores(cores, [80 + left, 3, 2], group(server, 3))
    assert whole.tolist() == [*expected, 3, 1, 1]


def test_cores_left_over_that_no_job_may_take_stay_free() -> None:
    whole = round_cores(np.full(20, 1.9), [38], group(np.zeros(20, np.int64), 1), maximum=[1] * 20)
    assert whole.tolist() == [1] * 20


def test_progress_is_normalised_as_in_equations_4_and_10() -> None:
    market = AmdahlMarket([1, 3], [4, 4], [0, 0, 1], [0, 1, 1], [0.5, 1.0, 0.0], [1, 3, 2])
    cores = [2, 1, 3]
    np.testing.assert_allclose(metrics.job_progress(market, cores), [4 / 3, 3, 2])
    np.testing.assert_allclose(metrics.user_progress(market, cores), [13 / 12, 1])
    assert metrics.system_progress(market, cores) == pytest.approx((13 / 12 + 3) / 4)
    assert metrics.user_progress(market, [1, 1, 1]).tolist() == [1, 1]
