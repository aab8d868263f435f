"""The batched allocation equals one that hands out slices one by one, whatever the input.

Three references in plain Python integers, written from the paper and not from the kernels:
Algorithm 1 as printed, for one pool (with its line 15 put right); richest first across pools; and
the same by level, for numbers so large that nobody could hand out slices one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.karma.ledger import UNIT, Ledger
from walras.mechanisms.karma.quantum import allocate
from walras_studies.karma.trace import simulate


@dataclass
class World:
    """One quantum: micro-credits, and demands as one row a pool."""

    balances: list[int]
    carry: int
    demands: list[list[int]]
    capacities: list[int]
    fraction: Fraction
    weights: list[int]

    def prices(self) -> list[int]:
        users, total = len(self.weights), sum(self.weights)
        return [floor(UNIT / (users * Fraction(weight, total))) for weight in self.weights]

    def guaranteed(self) -> list[list[int]]:
        total = sum(self.weights)
        return [
            [floor(self.fraction * Fraction(weight * each, total)) for weight in self.weights]
            for each in self.capacities
        ]


@dataclass
class Outcome:
    balances: list[int]
    carry: int
    slices: list[list[int]]


def algorithm_1(world: World) -> Outcome:
    """Algorithm 1, line by line, for one pool; a credit is the price where weights differ."""
    (demand,), (capacity,), (share,) = world.demands, world.capacities, world.guaranteed()
    prices, users = world.prices(), range(len(world.weights))
    shared = capacity - sum(share)
    earned, carry = divmod(capacity * UNIT + world.carry, len(world.weights))
    purse = [world.balances[u] + earned - share[u] * prices[u] for u in users]
    donated = [max(0, share[u] - demand[u]) for u in users]
    alloc = [min(demand[u], share[u]) for u in users]
    while sum(donated) > 0 or shared > 0:
        borrowers = [u for u in users if alloc[u] < demand[u] and purse[u] >= prices[u]]
        if not borrowers:
            break
        borrower = max(borrowers, key=lambda u: (purse[u], -u))
        donors = [u for u in users if donated[u] > 0]
        if donors:
            donor = min(donors, key=lambda u: (purse[u], u))
            purse[donor] += prices[donor]
            donated[donor] -= 1
        else:
            shared -= 1
        alloc[borrower] += 1
        purse[borrower] -= prices[borrower]
    return Outcome(purse, carry, [alloc])


def richest_first(world: World) -> Outcome:
    """Slice by slice across pools: the richest borrower, from the first pool that has one for it.

    Donors are paid when all is borrowed, the poorest first, for slices of their first pool.
    """
    prices, users = world.prices(), range(len(world.weights))
    pools, share = range(len(world.capacities)), world.guaranteed()
    earned, carry = divmod(sum(world.capacities) * UNIT + world.carry, len(world.weights))
    purse = [
        world.balances[u] + earned - sum(share[p][u] for p in pools) * prices[u] for u in users
    ]
    slices = [[min(share[p][u], world.demands[p][u]) for u in users] for p in pools]
    donated = [[share[p][u] - slices[p][u] for u in users] for p in pools]
    supply = [world.capacities[p] - sum(slices[p]) for p in pools]
    borrowed = [0 for _ in pools]

    def pool_for(user: int) -> int | None:
        wanted = (p for p in pools if slices[p][user] < world.demands[p][user] and supply[p] > 0)
        return next(wanted, None)

    while able := [u for u in users if purse[u] >= prices[u] and pool_for(u) is not None]:
        user = max(able, key=lambda u: (purse[u], -u))
        pool = pool_for(user)
        assert pool is not None
        slices[pool][user] += 1
        supply[pool] -= 1
        borrowed[pool] += 1
        purse[user] -= prices[user]
    due = [min(borrowed[p], sum(donated[p])) for p in pools]

    def pool_of(user: int) -> int | None:
        return next((p for p in pools if donated[p][user] and due[p]), None)

    while lenders := [u for u in users if pool_of(u) is not None]:
        user = min(lenders, key=lambda u: (purse[u], u))
        pool = pool_of(user)
        assert pool is not None
        donated[pool][user] -= 1
        due[pool] -= 1
        purse[user] += prices[user]
    return Outcome(purse, carry, slices)


def served(keys: list[tuple[int, int, int]], amount: int) -> list[int]:
    """Return how many of each user's keys are among the ``amount`` largest of all.

    A user's keys are its first one, that less its step, and so on, as many as it may have slices.
    """
    if sum(most for _, _, most in keys) <= amount:
        return [most for _, _, most in keys]

    def above(level: int) -> list[int]:
        return [min(most, max(0, (top - level) // step + 1)) for top, step, most in keys]

    low, high = -(2**200), 2**200  # keys down to low are too many, those down to high are not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sum(above(middle)) <= amount else (middle, high)
    got, more = above(high), above(low)
    for u in range(len(keys)):
        got[u] += int(more[u] > got[u] and sum(got) < amount)
    return got


def by_level(world: World) -> Outcome:
    """Richest first across pools, each of which is divided at the level of its last slice."""
    prices, users = world.prices(), range(len(world.weights))
    pools, share = range(len(world.capacities)), world.guaranteed()
    earned, carry = divmod(sum(world.capacities) * UNIT + world.carry, len(world.weights))
    purse = [
        world.balances[u] + earned - sum(share[p][u] for p in pools) * prices[u] for u in users
    ]
    own = [[min(share[p][u], world.demands[p][u]) for u in users] for p in pools]
    borrowed = []
    for p in pools:
        want = [min(world.demands[p][u], world.capacities[p]) - own[p][u] for u in users]
        keys = [(purse[u], prices[u], min(want[u], purse[u] // prices[u])) for u in users]
        borrowed.append(served(keys, world.capacities[p] - sum(own[p])))
        purse = [purse[u] - borrowed[p][u] * prices[u] for u in users]
    for p in pools:
        keys = [(-purse[u], prices[u], share[p][u] - own[p][u]) for u in users]
        lent = served(keys, sum(borrowed[p]))
        purse = [purse[u] + lent[u] * prices[u] for u in users]
    return Outcome(purse, carry, [[own[p][u] + borrowed[p][u] for u in users] for p in pools])


def batched(world: World) -> Outcome:
    names = tuple(str(u) for u in range(len(world.weights)))
    result = allocate(
        Ledger(names, np.array(world.balances), world.carry),
        world.demands,
        world.capacities,
        guaranteed_fraction=world.fraction,
        weights=world.weights,
    )
    return Outcome(result.ledger.balances.tolist(), result.ledger.carry, result.slices.tolist())


@st.composite
def worlds(draw: st.DrawFn, most_pools: int) -> World:
    """Draw small worlds full of ties, empty purses, idle users and scarce pools."""
    users, pools = draw(st.integers(1, 6)), draw(st.integers(1, most_pools))
    largest = draw(st.sampled_from([1, 4, 12]))
    unit = draw(st.sampled_from([UNIT, UNIT // 2, 333_333, 1]))
    rich = draw(st.sampled_from([0, 3, 40]))
    even = draw(st.booleans())
    return World(
        draw(st.lists(st.integers(0, rich).map(unit.__mul__), min_size=users, max_size=users)),
        draw(st.integers(0, 5)),
        [
            draw(st.lists(st.integers(0, largest), min_size=users, max_size=users))
            for _ in range(pools)
        ],
        draw(st.lists(st.integers(0, 2 * largest), min_size=pools, max_size=pools)),
        draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])),
        [1] * users if even else draw(st.lists(st.integers(1, 4), min_size=users, max_size=users)),
    )


@pytest.mark.long
@examples(300)
@given(worlds(1))
def test_one_pool_equals_algorithm_1(world: World) -> None:
    assert batched(world) == algorithm_1(world)


@pytest.mark.long
@examples(600)
@given(worlds(5))
def test_several_pools_equal_richest_first_slice_by_slice(world: World) -> None:
    assert batched(world) == richest_first(world)


@examples(300)
@given(worlds(5))
def test_by_level_equals_slice_by_slice(world: World) -> None:
    assert by_level(world) == richest_first(world)


@st.composite
def clusters(draw: st.DrawFn) -> World:
    """Draw nodes of up to 4 TiB in slices of 4 KiB to 1 GiB, and weights from 1 to a million."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, pools = draw(st.sampled_from([1, 2, 3, 30])), draw(st.integers(1, 8))
    slices = 2 ** draw(st.sampled_from([12, 15, 22, 30, 39]))
    capacities = random.integers(slices // 2, slices + 1, pools)
    wanted = random.integers(0, 2 * slices, (pools, users)) * (random.random((pools, users)) < 0.6)
    weights = {
        "equal": np.ones(users, np.int64),
        "drawn": (10 ** random.uniform(0, 6, users)).astype(np.int64),
        "of all memory": np.full(users, 2**35 // users),
        "one light": np.array([1] + [10**6] * (users - 1)),
        "one heavy": np.array([10**6] + [1] * (users - 1)),
    }[draw(st.sampled_from(["equal", "drawn", "of all memory", "one light", "one heavy"]))]
    richest = draw(st.sampled_from([10**6, 10**15, 10**18, 2**60]))
    return World(
        random.integers(0, richest, users).tolist(),
        draw(st.integers(0, users - 1)),
        wanted.tolist(),
        capacities.tolist(),
        draw(
            st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(33333333, 10**8), Fraction(1)])
        ),
        weights.tolist(),
    )


@examples(300)
@given(clusters())
def test_clusters_of_any_size_equal_richest_first_in_unbounded_integers(world: World) -> None:
    """Nothing overflows, nothing is rounded, and no credit is lost or created."""
    assert batched(world) == by_level(world)


@examples(200)
@given(clusters())
def test_max_min_and_strict_shares_of_any_size_are_those_of_unbounded_integers(
    world: World,
) -> None:
    prices, total = world.prices(), sum(world.weights)
    for wanted, capacity in zip(world.demands, world.capacities, strict=True):
        keys = [(0, price, min(each, capacity)) for price, each in zip(prices, wanted, strict=True)]
        assert share_max_min(wanted, capacity, world.weights).tolist() == served(keys, capacity)
        exact = [Fraction(capacity * weight, total) for weight in world.weights]
        held = share_strictly([capacity] * len(wanted), capacity, world.weights).tolist()
        assert sum(held) == capacity
        assert all(abs(have - due) < 1 for have, due in zip(held, exact, strict=True))


@given(worlds(3), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_simulation_equals_allocations_one_by_one(world: World, quanta: int, seed: int) -> None:
    shape = (quanta, len(world.capacities), len(world.weights))
    demands = np.random.default_rng(seed).integers(0, 9, shape)
    ledger = Ledger(tuple(map(str, range(shape[2]))), np.array(world.balances), world.carry)
    trace = simulate(
        ledger,
        demands,
        world.capacities,
        guaranteed_fraction=world.fraction,
        weights=world.weights,
    )
    for t in range(quanta):
        step = allocate(
            ledger,
            demands[t],
            world.capacities,
            guaranteed_fraction=world.fraction,
            weights=world.weights,
        )
        ledger = step.ledger
        assert trace.slices[t].tolist() == step.slices.tolist()
        assert trace.balances[t].tolist() == ledger.balances.tolist()
    assert trace.ledger == ledger


@pytest.mark.parametrize("seed", range(6))
def test_many_users_equal_algorithm_1(seed: int) -> None:
    """Populations on which the level takes several guesses: spread, clustered, heavy-tailed."""
    random = np.random.default_rng(seed)
    users = 150
    balances = [
        random.integers(0, 60, users) * UNIT,
        random.integers(0, 60 * UNIT, users),
        (10 ** random.uniform(0, 12, users)).astype(np.int64),
    ][seed % 3]
    demands = np.minimum(random.pareto(1, users) * 4, 400).astype(np.int64)
    weights = random.integers(1, 30, users) if seed >= 3 else np.ones(users, np.int64)
    capacity = int(demands.sum() * random.uniform(0.4, 0.9))
    world = World(
        balances.tolist(), 0, [demands.tolist()], [capacity], Fraction("0.3"), weights.tolist()
    )
    assert batched(world) == algorithm_1(world)
