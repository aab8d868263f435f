"""Bounds on cores that can all be met, and what each user could do with its share alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.market.bounds import Bounds, bare_entitlement, bounds_of
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.speedup.amdahls_law import FIRST_CORE, speedup

if TYPE_CHECKING:
    from collections.abc import Sequence

INF = float("inf")
STEP = 0.002


def on_one_server(
    capacity: float,
    users: Sequence[int],
    *,
    budgets: Sequence[float] = (1, 1, 1),
    requested: Sequence[float] | None = None,
    asked: Sequence[float] | None = None,
    most: Sequence[float] | None = None,
    least_part: float = 0.25,
) -> Bounds:
    """Return the bounds of jobs of one server, of which a part of an equal part is the least."""
    count = len(users)
    market = AmdahlMarket(list(budgets), [capacity], list(users), [0] * count, [0.9] * count)

    def of(
        values: Sequence[float] | None, default: float
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.full(count, default) if values is None else np.array(values, np.float64)

    return bounds_of(market, of(requested, 0.0), of(asked, 0.0), of(most, INF), least_part)


def test_the_least_part_is_a_quarter_of_a_core_or_of_an_equal_part_of_the_share() -> None:
    """Two users have 4 of 8 cores each: one job may use 4, ten jobs 0.4 each."""
    bounds = on_one_server(8, [0, *[1] * 10], budgets=[1, 1])
    assert bounds.kept.tolist() == pytest.approx([0.25, *[0.1] * 10])
    assert bounds.least.tolist() == bounds.own.tolist() == bounds.kept.tolist()


@pytest.mark.parametrize("users", [3, 9, 11, 13])
def test_whole_equal_parts_of_users_may_fill_a_server_and_exceed_it_by_rounding(users: int) -> None:
    bounds = on_one_server(1, list(range(users)), budgets=[1] * users, least_part=1.0)
    assert bounds.kept.tolist() == pytest.approx([1 / users] * users)
    assert bounds.least.tolist() == bounds.own.tolist() == bounds.kept.tolist()


def test_requests_beyond_the_server_give_way_in_proportion_to_least_parts_of_all() -> None:
    bounds = on_one_server(8, [0, 1, 2], requested=[4, 4, 0])
    assert bounds.kept.tolist() == pytest.approx([3.875, 3.875, 0.25])
    assert bounds.own.tolist() == [4, 4, 0.25]
    bounds = on_one_server(8, [0, 1, 2], requested=[9, 1, 0])
    # 7.25 cores are left of 8.75 and 0.75 that were requested beyond least parts.
    assert bounds.kept.tolist() == pytest.approx(
        [0.25 + 8.75 * 7.25 / 9.5, 0.25 + 0.75 * 7.25 / 9.5, 0.25]
    )


def test_requests_are_bounded_by_what_a_job_can_use() -> None:
    bounds = on_one_server(8, [0, 1, 2], requested=[4, 0, 0], most=[2, 8, INF])
    assert bounds.kept[0] == 2
    assert bounds.most.tolist() == [2, INF, INF]


def test_of_minimums_that_do_not_fit_those_within_shares_hold() -> None:
    bounds = on_one_server(9, [0, 1, 2], asked=[3, 7, 0])
    assert bounds.least.tolist() == [3, 0.25, 0.25]
    bounds = on_one_server(9, [0, 1, 2], asked=[3, 5, 0])
    assert bounds.least.tolist() == [3, 5, 0.25]
    bounds = on_one_server(9, [0, 1, 2], asked=[3, 0, 0], requested=[0, 8, 0])
    assert bounds.least.tolist() == bounds.kept.tolist()  # a request comes before a minimum


class Case:
    """A random market and bounds of its jobs."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        users, servers, jobs = (int(random.integers(1, n)) for n in (4, 4, 9))
        self.market = AmdahlMarket(
            random.choice([1.0, 2.0, 10.0], users),
            random.choice([0.6, 1.0, 3.87, 16.0], servers),
            random.integers(users, size=jobs),
            random.integers(servers, size=jobs),
            random.choice([0.1, 0.6, 0.9, 0.985, 1.0], jobs),
            random.choice([0.5, 1.0, 3.0], jobs),
        )
        self.requested = random.choice([0.0, 0.0, 0.3, 1.0, 6.0], jobs)
        self.asked = random.choice([0.0, 0.0, 2.0, 3.0], jobs)
        self.most = random.choice([1.0, 2.0, 4.0, INF, INF], jobs)
        self.bounds = bounds_of(self.market, self.requested, self.asked, self.most, 0.25)

    def __repr__(self) -> str:
        return f"{vars(self.market)}, {self.bounds}"


cases = st.builds(Case, st.integers(0, 2**32 - 1))


@examples(300)
@given(cases)
def test_bounds_can_all_be_met(case: Case) -> None:
    market, bounds = case.market, case.bounds
    for each in (bounds.kept, bounds.least):
        assert (market.sum_by_server(each) <= market.capacities * (1 + 1e-9)).all()
        assert (each <= bounds.most).all()
    assert (bounds.kept <= bounds.least).all()
    assert (bounds.kept <= bounds.own * (1 + 1e-12)).all()
    assert (bounds.kept > 0).all()
    fits = market.sum_by_server(bounds.own) <= market.capacities
    np.testing.assert_allclose(bounds.kept[fits[market.server]], bounds.own[fits[market.server]])


def gain(case: Case, job: int, cores: float) -> float:
    """Return what the market takes a job's work to be on some cores."""
    f, work = float(case.market.fraction[job]), float(case.market.work[job])
    first = work * speedup(min(cores, 1.0), max(f, FIRST_CORE))
    return first if cores <= 1 else work * speedup(cores, f)


@given(cases)
def test_the_bare_entitlement_is_the_best_division_of_each_users_share(case: Case) -> None:
    """Work done by it is that of giving every small part to the job that gains most by it."""
    market, bounds = case.market, case.bounds
    bare = bare_entitlement(market, bounds)
    part = market.budgets / market.budgets.sum()
    for pair in set(market.pair.tolist()):
        mine = np.flatnonzero(market.pair == pair)
        share = float(part[market.user[mine[0]]] * market.capacities[market.server[mine[0]]])
        most = np.minimum(bounds.most[mine], share)
        assert bare[mine].sum() <= share * (1 + 1e-9)
        assert (bare[mine] <= bounds.most[mine] + 1e-9).all()
        lower = np.maximum(bounds.own, bounds.least)[mine]
        if lower.sum() > share:
            lower = bounds.own[mine] * min(share / bounds.own[mine].sum(), 1.0)
        assert (bare[mine] >= lower - 1e-9).all()
        best = lower.copy()
        while share - best.sum() > 1e-9 and (best < most - 1e-9).any():
            step = min(STEP, share - best.sum())
            gains = [
                gain(case, job, x + step) - gain(case, job, x) if x < top - 1e-9 else -1.0
                for job, x, top in zip(mine.tolist(), best.tolist(), most.tolist(), strict=True)
            ]
            chosen = int(np.argmax(gains))
            best[chosen] = min(best[chosen] + step, most[chosen])
        done, could = (
            sum(gain(case, job, x) for job, x in zip(mine.tolist(), cores.tolist(), strict=True))
            for cores in (bare[mine], best)
        )
        assert done >= could * (1 - 1e-9)
        assert done <= could * (1 + 2 * STEP)


def test_equal_jobs_divide_a_share_equally() -> None:
    """Of 3 cores of 6, each of four equal jobs has three quarters of a core."""
    market = AmdahlMarket([1, 1], [6], [0, 0, 0, 0, 1], [0] * 5, [0.9] * 5)
    zero = np.zeros(5)
    bare = bare_entitlement(market, Bounds(zero, zero, zero, np.full(5, INF)))
    assert bare.tolist() == pytest.approx([0.75] * 4 + [3])
