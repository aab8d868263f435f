"""Whole cores and shared pools from a market's real numbers, on any node and under any bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from walras.amdahl.market import AmdahlMarket
from walras.apportion import SHARING_THRESHOLD, Apportionment, apportion
from walras.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NO_LIMIT = 2**31


def on_one_server(
    capacity: int,
    cores: Sequence[float],
    *,
    users: Sequence[int] | None = None,
    minimum: Sequence[int] | None = None,
    maximum: Sequence[int] | None = None,
    floors: Sequence[float] | None = None,
) -> Apportionment:
    """Apportion ``cores`` of one server; every job has a user of its own unless told."""
    count = len(cores)
    user = range(count) if users is None else users
    market = AmdahlMarket([1] * count, [capacity], list(user), [0] * count, [0.9] * count)
    least = np.ones(count, np.int64) if minimum is None else np.array(minimum, np.int64)
    most = np.full(count, NO_LIMIT) if maximum is None else np.array(maximum, np.int64)
    kept = None if floors is None else np.array(floors)
    return apportion(market, np.array(cores, np.float64), least, most, floors=kept)


class Case:
    """A random market, the cores that a mechanism gave, and the bounds of jobs."""

    def __init__(self, seed: int, servers: int, jobs: int, *, bounded: bool) -> None:
        random = np.random.default_rng(seed)
        capacities = random.choice([1, 2, 3, 8, 64], servers)
        server = random.integers(0, servers, jobs)
        user = random.integers(0, random.integers(1, 6), jobs)
        self.market = AmdahlMarket([1] * 6, capacities, user, server, [0.9] * jobs)
        part = random.choice([0.0, 1e-18, 1e-3, 0.5, 1.0, 1.0, 4.0, 30.0], jobs)
        total = self.market.sum_by_server(part)
        part[total[server] == 0] = 1.0
        self.cores = part * (capacities / self.market.sum_by_server(part).clip(1e-300))[server]
        self.minimum = random.choice([1, 1, 2, 3, 8], jobs) if bounded else np.ones(jobs, np.int64)
        spare = random.choice([0, 1, 4, NO_LIMIT], jobs)
        self.maximum = self.minimum + (spare if bounded else NO_LIMIT)

    def __repr__(self) -> str:
        market = self.market
        rows = zip(market.user, market.server, self.cores, self.minimum, self.maximum, strict=True)
        return f"capacities {market.capacities}, jobs {[tuple(map(float, row)) for row in rows]}"

    def apportion(self) -> Apportionment:
        return apportion(self.market, self.cores, self.minimum, self.maximum)

    def pools(self, portions: Apportionment) -> NDArray[np.int64]:
        pool = np.zeros(len(self.market.capacities), np.int64)
        np.maximum.at(pool, self.market.server, portions.shared)
        return pool


cases = st.builds(
    Case,
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 20),
    bounded=st.booleans(),
)


@settings(max_examples=500, deadline=None)
@given(cases)
def test_cores_and_pools_use_up_each_node_and_no_more(case: Case) -> None:
    portions = case.apportion()
    servers = len(case.market.capacities)
    used = np.bincount(case.market.server, portions.whole, servers) + case.pools(portions)
    usable = np.bincount(case.market.server, case.maximum, servers)
    assert used.tolist() == np.minimum(case.market.capacities, usable).tolist()


@settings(max_examples=500, deadline=None)
@given(cases)
def test_every_job_has_cores_of_its_own_or_a_part_of_its_nodes_pool(case: Case) -> None:
    portions = case.apportion()
    assert ((portions.whole > 0) ^ (portions.shared > 0)).all()
    sharing = portions.shared > 0
    assert (portions.shared[sharing] == case.pools(portions)[case.market.server][sharing]).all()
    assert ((portions.weight >= 1) & (portions.weight <= 10_000)).all()
    for server in set(case.market.server[sharing]):
        assert portions.weight[sharing & (case.market.server == server)].max() == 10_000


@settings(max_examples=500, deadline=None)
@given(cases)
def test_no_job_gets_more_cores_than_it_can_use(case: Case) -> None:
    portions = case.apportion()
    assert (portions.whole <= case.maximum).all()
    assert (portions.quota <= case.maximum).all()


@pytest.mark.long
@settings(max_examples=500, deadline=None)
@given(cases)
def test_minimums_are_kept_where_their_users_hold_enough(case: Case) -> None:
    """Unless they would leave no core for the pool: then Hamilton's method has the last word."""
    portions = case.apportion()
    market = case.market
    wanted = np.where(case.minimum > 1, case.minimum, 0)
    floors = np.maximum(wanted, 1)
    for server in range(len(market.capacities)):
        here = market.server == server
        own = here & (portions.whole > 0)
        room_for_pool = market.capacities[server] - (portions.shared[here] > 0).any()
        for user in set(market.user[here]):
            mine = here & (market.user == user)
            fits = wanted[mine].sum() <= case.cores[mine].sum() * (1 + 1e-9)
            if fits and floors[own].sum() <= room_for_pool:
                assert (portions.whole[mine] >= wanted[mine]).all()


@settings(max_examples=500, deadline=None)
@given(cases)
def test_what_bounds_move_goes_to_the_users_other_jobs_first(case: Case) -> None:
    """Every user keeps its market cores on a server where nobody has a maximum."""
    portions = case.apportion()
    market = case.market
    for server in range(len(market.capacities)):
        here = market.server == server
        if (case.maximum[here] < NO_LIMIT).any():
            continue
        before = np.bincount(market.user[here], case.cores[here])
        after = np.bincount(market.user[here], portions.quota[here])
        np.testing.assert_allclose(after, before, atol=1e-5)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([2, 8, 24, 64]),
    st.lists(st.floats(1, 20), min_size=1, max_size=6),
    st.floats(1, 20),
    st.integers(2, 50),
)
@example(8, [3.4], 3.6, 40)
def test_splitting_a_job_takes_no_core_from_others(
    capacity: int, others: list[float], mine: float, pieces: int
) -> None:
    """One job of x cores, and n jobs of x/n that share, leave the others the same whole cores.

    Remainders that tie are left out: what ten tenths add up to would decide who goes first.
    """
    unit = capacity / (sum(others) + mine)
    others = [each * unit for each in others]
    mine *= unit
    remainders = np.sort(np.array([*others, mine]) % 1)
    assume(min(mine, *others) >= 1 and mine / pieces < SHARING_THRESHOLD)
    assume(np.diff(remainders, append=1 + remainders[0]).min() > 1e-9)
    together = on_one_server(capacity, [*others, mine])
    split = on_one_server(capacity, [*others, *[mine / pieces] * pieces])
    count = len(others)
    assert split.whole[:count].tolist() == together.whole[:count].tolist()
    assert set(split.shared[count:]) == {together.whole[count]}
    assert set(split.whole[count:]) == {0}


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 64), st.floats(0.5, 0.95), st.integers(2, 60))
def test_splitting_beside_small_jobs_gains_less_than_a_core(
    capacity: int, other: float, pieces: int
) -> None:
    mine = capacity - other
    assume(mine / pieces < SHARING_THRESHOLD)
    split = on_one_server(capacity, [other, *[mine / pieces] * pieces])
    pool = int(split.shared[0])
    assert pool == capacity
    assert pool * mine / (mine + other) < mine + 1


@pytest.mark.parametrize("capacity", [1, 2, 8, 64])
def test_exactly_one_core_each_is_a_core_each(capacity: int) -> None:
    portions = on_one_server(capacity, [1.0] * capacity)
    assert portions.whole.tolist() == [1] * capacity


@pytest.mark.parametrize("capacity", [1, 2, 8, 64])
def test_a_core_that_the_solver_missed_by_its_tolerance_is_a_core(capacity: int) -> None:
    portions = on_one_server(capacity, [1 - 5e-7] * capacity)
    assert portions.whole.tolist() == [1] * capacity


@pytest.mark.parametrize("capacity", [1, 2, 8, 64])
def test_more_jobs_than_cores_share_all_of_them(capacity: int) -> None:
    jobs = 3 * capacity
    portions = on_one_server(capacity, [1 / 3] * jobs)
    assert portions.whole.tolist() == [0] * jobs
    assert portions.shared.tolist() == [capacity] * jobs
    assert portions.weight.tolist() == [10_000] * jobs


def test_small_jobs_weigh_in_the_pool_what_they_would_hold() -> None:
    portions = on_one_server(4, [3, 0.6, 0.3, 0.1])
    assert portions.whole.tolist() == [3, 0, 0, 0]
    assert portions.shared.tolist() == [0, 1, 1, 1]
    assert portions.weight[1:].tolist() == [10_000, 5000, 1667]


@pytest.mark.parametrize(
    ("cores", "floor", "whole", "shared"),
    [
        ([1.6], 1.5, [2], 0),
        ([1.6] * 5, 1.5, [0] * 5, 8),
        ([8 / 7] * 7, 1.01, [0] * 7, 8),
        ([2.0] * 4, 1.5, [2] * 4, 0),
        ([2.5] * 3, 2.0, [2, 2, 2], 0),
    ],
)
def test_floors_are_rounded_up_as_far_as_their_user_has_bought_the_cores(
    cores: list[float], floor: float, whole: list[int], shared: int
) -> None:
    """Beyond that, jobs have their floors as parts of a pool, and others keep what is theirs."""
    count, rest = len(cores), 16 - round(sum(cores))
    portions = on_one_server(
        16,
        [*cores, 16 - sum(cores)],
        users=[*[0] * count, count],
        floors=[*[floor] * count, 0.0],
    )
    assert portions.shared[:count].tolist() == [shared] * count
    assert portions.whole[count] >= rest - 1
    if shared:
        assert portions.whole[:count].tolist() == whole
        parts = shared * portions.weight[:count] / portions.weight[:count].sum()
        assert (parts >= floor - 0.01).all()
    else:
        assert (portions.whole[:count] >= whole).all()


def test_a_hundred_small_parts_hold_no_more_than_one_job_of_their_sum() -> None:
    weights = on_one_server(1, [0.9, *[0.001] * 100]).weight
    assert weights[0] / weights.sum() == pytest.approx(0.9, abs=0.01)


def test_a_job_that_buys_nothing_still_has_a_place_to_run() -> None:
    portions = on_one_server(2, [1.0, 1.0, 0.0])
    assert portions.whole.tolist() == [0, 1, 0]
    assert portions.shared.tolist() == [1, 0, 1]
    assert portions.weight.tolist() == [10_000, 10_000, 1]


def test_a_minimum_is_paid_by_the_users_other_jobs_alone() -> None:
    portions = on_one_server(12, [1.5, 4.5, 6], users=[0, 0, 1], minimum=[4, 1, 1])
    np.testing.assert_allclose(portions.quota, [4, 2, 6])
    assert portions.whole.tolist() == [4, 2, 6]


def test_a_minimum_survives_the_core_that_a_pool_is_rounded_up_to() -> None:
    portions = on_one_server(8, [4, 1.9, 1.9, 0.2], minimum=[4, 1, 1, 1])
    assert portions.whole.tolist()[0] == 4
    assert portions.shared[3] == 1


def test_minimums_that_their_user_cannot_pay_are_dropped_together() -> None:
    portions = on_one_server(8, [2, 3, 3], users=[0, 0, 1], minimum=[3, 3, 1])
    np.testing.assert_allclose(portions.quota, [2, 3, 3])


def test_a_minimum_gives_way_where_the_pool_would_find_no_core() -> None:
    portions = on_one_server(4, [4, 0], minimum=[4, 1])
    assert portions.whole.tolist() == [3, 0]
    assert portions.shared.tolist() == [0, 1]


def test_what_a_maximum_leaves_goes_to_the_user_then_to_others_in_proportion() -> None:
    one = on_one_server(12, [6, 2, 4], users=[0, 0, 1], maximum=[3, 99, 99])
    np.testing.assert_allclose(one.quota, [3, 5, 4])
    two = on_one_server(12, [6, 2, 4], users=[0, 1, 2], maximum=[3, 99, 99])
    np.testing.assert_allclose(two.quota, [3, 3, 6])


def test_cores_that_nobody_can_use_stay_free() -> None:
    portions = on_one_server(12, [6, 6], maximum=[2, 3])
    assert portions.whole.tolist() == [2, 3]


def test_a_vanishing_job_takes_what_the_capped_leave_and_no_more() -> None:
    """Progressive filling must not lose a weight of 1e-17 beside one of 8."""
    groups = AmdahlMarket([1], [8], [0, 0], [0, 0], [0.5, 0.5]).by_server
    for tiny in (1e-17, 1e-150, 1e-320, 0.0):
        filled = water_fill(
            np.array([8.0, tiny]), np.zeros(2), np.array([4.0, 2.0**31]), np.array([8.0]), groups
        )
        np.testing.assert_allclose(filled, [4, 4])


def test_no_jobs_need_no_cores() -> None:
    none = np.zeros(0, np.int64)
    portions = apportion(AmdahlMarket([], [4], [], [], []), np.zeros(0), none, none)
    assert [len(each) for each in portions] == [0, 0, 0, 0]
