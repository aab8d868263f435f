"""What pods hold of what they bought: everything but thousandths, and whole cores where asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.division.holdings import THOUSANDTH, hold, in_thousandths
from walras.market.bounds import Bounds, bounds_of
from walras.mechanisms.amdahl.market import AmdahlMarket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.numerics.arrays import Bools, Floats


class Case:
    """A random market, the cores that a mechanism gave, and the bounds of jobs."""

    def __init__(self, seed: int, servers: int, jobs: int, *, bounded: bool) -> None:
        random = np.random.default_rng(seed)
        capacities = random.choice([0.6, 1.0, 2.0, 3.87, 8.0, 64.0], servers)
        server = random.integers(0, servers, jobs)
        user = random.integers(0, random.integers(1, 6), jobs)
        self.market = AmdahlMarket([1] * 6, capacities, user, server, [0.9] * jobs)
        part = random.choice([0.0, 1e-18, 1e-3, 0.5, 1.0, 1.0, 4.0, 30.0], jobs)
        part[self.market.sum_by_server(part)[server] == 0] = 1.0
        self.cores = part * (capacities / self.market.sum_by_server(part).clip(1e-300))[server]
        unbounded = np.full(jobs, np.inf)
        most = random.choice([1.0, 3.0, np.inf], jobs) if bounded else unbounded
        requested = random.choice([0.0, 0.0, 0.25, 2.0], jobs) if bounded else np.zeros(jobs)
        asked = random.choice([0.0, 0.0, 2.0], jobs) if bounded else np.zeros(jobs)
        self.bounds: Bounds = bounds_of(
            self.market, requested, asked, most, 0.25 if bounded else 0.0
        )
        self.whole: Bools = random.random(jobs) < random.choice([0.0, 0.4])

    def __repr__(self) -> str:
        market = self.market
        rows = zip(market.user, market.server, self.cores, self.whole, strict=True)
        return f"capacities {market.capacities}, jobs {[tuple(map(float, row)) for row in rows]}"


cases = st.builds(
    Case,
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 20),
    bounded=st.booleans(),
)


@examples(400)
@given(cases)
def test_nothing_is_lost_but_thousandths(case: Case) -> None:
    real, held = hold(case.market, case.cores, case.bounds, case.whole)
    assert (held >= THOUSANDTH).all()
    np.testing.assert_array_equal(held, np.round(held, 3))
    market = case.market
    sum_of = market.sum_by_server
    assert (sum_of(held) <= market.capacities + 1e-9).all()
    tiny = sum_of((real < THOUSANDTH).astype(np.float64))  # each of them is given one
    np.testing.assert_array_less(np.abs(held - real), THOUSANDTH * (1 + tiny[market.server]) + 1e-9)
    np.testing.assert_array_less(sum_of(real) - sum_of(held), THOUSANDTH)
    usable = np.minimum(market.capacities, sum_of(case.bounds.most))
    if not case.whole.any():
        np.testing.assert_allclose(sum_of(real), np.where(sum_of(case.cores) > 0, usable, 0))


@examples(400)
@given(cases)
def test_bounds_hold_and_what_they_move_goes_to_the_users_other_jobs_first(case: Case) -> None:
    real, _ = hold(case.market, case.cores, case.bounds, np.zeros(case.market.jobs, np.bool_))
    assert (real >= case.bounds.kept - 1e-9).all()
    assert (real <= case.bounds.most + 1e-9).all()
    pairs, pair = np.unique(case.market.pair, return_inverse=True)
    had, least = np.bincount(pair, case.cores), np.bincount(pair, case.bounds.kept)
    crowded = had < least - 1e-9  # such users have cores of others
    for server in range(len(case.market.capacities)):
        here = pairs % len(case.market.capacities) == server
        jobs = case.market.server == server
        if not crowded[here].any() and not np.isfinite(case.bounds.most[jobs]).any():
            np.testing.assert_allclose(np.bincount(pair, real)[here], had[here], atol=1e-9)


@examples(400)
@given(cases)
def test_jobs_that_share_no_core_hold_whole_ones_at_their_own_users_expense(case: Case) -> None:
    without, _ = hold(case.market, case.cores, case.bounds, np.zeros_like(case.whole))
    real, held = hold(case.market, case.cores, case.bounds, case.whole)
    large = case.whole & (without >= 1)
    tiny = case.market.sum_by_server((real < THOUSANDTH).astype(np.float64)) > 0
    assert (real[large] % 1 < 1e-9).all()
    assert (held[large & ~tiny[case.market.server]] % 1 == 0).all()
    assert (np.abs(real - without)[large] < 1).all()
    pairs, pair = np.unique(case.market.pair, return_inverse=True)
    asks = np.bincount(pair, large) > 0
    others = ~asks[pair]
    assert (real[others] >= without[others] - 1e-9).all()
    more = np.bincount(pair, real, len(pairs)) - np.bincount(pair, without, len(pairs))
    assert (more[asks] <= 1e-4 + 1e-9).all() or (real[~large] >= without[~large] - 1e-9).all()


def held_by(
    capacity: float, cores: Sequence[float], users: Sequence[int], whole: Sequence[bool]
) -> list[float]:
    """Return what jobs of one server hold that have no bounds."""
    count = len(cores)
    market = AmdahlMarket([1] * count, [capacity], list(users), [0] * count, [0.9] * count)
    zero = np.zeros(count)
    bounds = Bounds(zero, zero, zero, np.full(count, np.inf))
    found: Floats = hold(market, np.array(cores), bounds, np.array(whole)).held
    return [float(each) for each in found]


def test_what_whole_cores_are_rounded_by_stays_with_their_user() -> None:
    assert held_by(8, [2.6, 1.4, 4], [0, 0, 1], [True, False, False]) == [2, 2, 4]
    assert held_by(8, [2.6, 2.4, 3], [0, 0, 1], [True, True, False]) == [3, 2, 3]
    assert held_by(8, [1.5, 1.5, 1.5, 3.5], [0, 0, 0, 1], [True] * 3 + [False]) == [2, 1, 1, 4]


def test_what_no_other_job_of_the_user_takes_falls_to_others() -> None:
    assert held_by(8, [2.6, 5.4], [0, 1], [True, False]) == [2, 6]
    assert held_by(8, [2.6, 5.4], [0, 1], [True, True]) == [2, 5]


def test_less_than_a_core_is_shared_though_whole_ones_were_asked_for() -> None:
    assert held_by(1, [0.7, 0.3], [0, 1], [True, False]) == [0.7, 0.3]


@pytest.mark.parametrize(
    ("cores", "held"),
    [
        ([4 - 5e-6, 4 + 5e-6], [4, 4]),  # prices have errors
        ([1.0004, 0.0006], [1, 0.001]),  # 0.6 of 0 thousandths is more than 0.4 of 1000
        ([1 / 3, 1 / 3, 1 / 3], [0.334, 0.333, 0.333]),  # the earlier job first
        ([2.0, 0.0, 1e-12], [1.998, 0.001, 0.001]),  # every pod has one; the largest job pays
        ([2.0, 1.5, 0.0], [2, 1.499, 0.001]),  # or one that has a part of a core, if any does
        ([0.87, 3.0], [0.87, 3]),
    ],
)
def test_thousandths(cores: list[float], held: list[float]) -> None:
    found = in_thousandths(np.zeros(len(cores), np.int64), np.array(cores), np.array([sum(cores)]))
    assert found.tolist() == held


def test_no_jobs_hold_nothing() -> None:
    none = np.zeros(0)
    market = AmdahlMarket([], [4], [], [], [])
    assert hold(market, none, Bounds(none, none, none, none), none > 0).held.tolist() == []
