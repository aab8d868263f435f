"""Upper bound and greedy: optimal, proven so, and equal to the plain procedure."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from examples import examples
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError
from walras.mechanisms.amdahl.upper_bound import allocate_greedily, maximise_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@st.composite
def bounded_markets(draw: st.DrawFn) -> tuple[AmdahlMarket, Floats, Floats]:
    """Draw a market with whole bounds whose minimums fit."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, servers, jobs = 4, 3, int(random.integers(1, 40))
    fractions = draw(st.sampled_from([[0.0, 0.5, 1.0], [0.9], [1.0], [0.55, 0.7, 0.99, 1 - 1e-13]]))
    market = AmdahlMarket(
        random.integers(1, 6, users),
        random.integers(1, draw(st.sampled_from([3, 40, 500])), servers),
        random.integers(0, users, jobs),
        random.integers(0, servers, jobs),
        random.choice(fractions, jobs),
        np.exp(random.standard_normal(jobs)) if draw(st.booleans()) else None,
    )
    minimum = random.integers(0, 3, jobs).astype(np.float64)
    crowded = market.sum_by_server(minimum) > market.capacities
    minimum[crowded[market.server]] = 0.0
    spread = draw(st.sampled_from([2, 12, 1000]))
    return market, minimum, minimum + random.integers(1, spread, jobs)


def core_by_core(market: AmdahlMarket, share: Floats, lower: Floats, upper: Floats) -> float:
    """Give every core to where it adds most, from a heap, as section VI-A describes it."""
    rate = (share / np.maximum(market.sum_by_user(market.work), 1e-300))[market.user] * market.work
    cores = lower.copy()

    def gain(k: int) -> float:
        f, x = market.fraction[k], cores[k]
        before = x / (f + (1 - f) * x) if x else 0.0
        return float(rate[k] * ((x + 1) / (f + (1 - f) * (x + 1)) - before))

    for server, capacity in enumerate(market.capacities):
        jobs = np.flatnonzero(market.server == server).tolist()
        heap = [(-gain(k), k) for k in jobs if cores[k] < upper[k]]
        heapq.heapify(heap)
        for _ in range(int(capacity - lower[jobs].sum())):
            if not heap:
                break
            _, k = heapq.heappop(heap)
            cores[k] += 1
            if cores[k] < upper[k]:
                heapq.heappush(heap, (-gain(k), k))
    return float(share @ metrics.user_progress(market, cores))


@examples(400)
@given(bounded_markets())
def test_whole_cores_are_worth_what_the_core_by_core_division_is(
    case: tuple[AmdahlMarket, Floats, Floats],
) -> None:
    market, minimum, maximum = case
    share = market.budgets / market.budgets.sum()
    best = maximise_progress(market, whole=True, minimum=minimum, maximum=maximum)
    assert best.progress == pytest.approx(
        core_by_core(market, share, minimum, maximum), rel=1e-12, abs=1e-300
    )
    assert (best.cores == np.floor(best.cores)).all()
    assert ((minimum <= best.cores) & (best.cores <= maximum)).all()
    sold = market.sum_by_server(best.cores)
    np.testing.assert_array_equal(
        sold, np.minimum(market.capacities, market.sum_by_server(maximum))
    )
    assert -1e-12 <= best.gap <= 1e-9
    assert best.progress == pytest.approx(metrics.system_progress(market, best.cores))


@examples(200)
@given(bounded_markets())
def test_greedy_divides_core_by_core_whoever_asks(
    case: tuple[AmdahlMarket, Floats, Floats],
) -> None:
    market, minimum, maximum = case
    share = np.full(len(market.budgets), 1 / len(market.budgets))
    found = allocate_greedily(market, minimum=minimum, maximum=maximum)
    assert found.progress == pytest.approx(
        core_by_core(market, share, minimum, maximum), rel=1e-12, abs=1e-300
    )
    rich = AmdahlMarket(
        market.budgets[::-1] * 7,
        market.capacities,
        market.user,
        market.server,
        market.fraction,
        market.work,
    )
    again = allocate_greedily(rich, minimum=minimum, maximum=maximum)
    np.testing.assert_array_equal(again.cores, found.cores)


@examples(200)
@given(bounded_markets())
def test_real_numbers_beat_whole_ones_and_are_proven_optimal(
    case: tuple[AmdahlMarket, Floats, Floats],
) -> None:
    market, minimum, maximum = case
    real = maximise_progress(market, minimum=minimum, maximum=maximum)
    whole = maximise_progress(market, whole=True, minimum=minimum, maximum=maximum)
    assert real.progress >= whole.progress * (1 - 1e-9)
    assert whole.progress <= real.bound * (1 + 1e-12)
    assert -1e-12 <= real.gap <= 1e-6  # f = 1 on 500 cores; 1e-9 without
    if market.fraction.max() < 0.999 and market.fraction.min() > 0:
        assert real.gap <= 1e-9
    assert ((minimum <= real.cores) & (real.cores <= maximum)).all()
    np.testing.assert_allclose(
        market.sum_by_server(real.cores),
        np.minimum(market.capacities, market.sum_by_server(maximum)),
        rtol=1e-9,
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_general_optimiser_finds_no_better_division(seed: int) -> None:
    """Equation 10 maximised by scipy's SLSQP, within bounds."""
    random = np.random.default_rng(seed)
    market = AmdahlMarket(
        random.integers(1, 6, 3),
        [24, 12],
        random.integers(0, 3, 9),
        np.arange(9) % 2,
        random.uniform(0.5, 0.99, 9),
    )
    maximum = random.integers(3, 12, 9)
    best = maximise_progress(market, maximum=maximum)
    servers = [np.flatnonzero(market.server == j) for j in range(2)]
    found = minimize(
        lambda x: -metrics.system_progress(market, np.maximum(x, 0)),
        np.ones(9),
        bounds=[(0, most) for most in maximum],
        constraints=[
            {"type": "ineq", "fun": lambda x, k=k, c=c: c - x[k].sum()}
            for k, c in zip(servers, market.capacities, strict=True)
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert best.progress == pytest.approx(-found.fun, rel=1e-7)
    assert best.bound >= -found.fun * (1 - 1e-9)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"minimum": [3, 3]}, "server 0: the minimums of its jobs add up to 6 cores, it has 4"),
        ({"minimum": [-1, 0]}, r"minimum\[0\] = -1 is not finite and at least 0"),
        ({"maximum": [1, 0]}, r"maximum\[1\] = 0 is not positive"),
        ({"maximum": [1, float("nan")]}, r"maximum\[1\] = nan is not positive"),
        ({"minimum": [2, 2], "maximum": [2, 1]}, r"minimum\[1\] = 2 is above the maximum"),
        ({"maximum": [1]}, r"maximum has shape \(1,\): one entry for each of 2 jobs"),
    ],
)
def test_bounds_that_make_no_sense_are_named(bounds: dict[str, Any], message: str) -> None:
    market = AmdahlMarket([1, 1], [4], [0, 1], [0, 0], [0.5, 0.5])
    with pytest.raises(MarketError, match=message):
        maximise_progress(market, **bounds)
