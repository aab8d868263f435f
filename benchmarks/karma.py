"""Compare our Karma with Algorithm 1 of the paper, which hands out slices one by one with heaps.

Ours goes from arrays to arrays, input checks and the new ledger included. The peers get prepared
input; in plain Python. Before the measurement,
their slices are compared with ours.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402

from walras.mechanisms.karma.ledger import UNIT, Ledger  # noqa: E402
from walras.mechanisms.karma.quantum import allocate  # noqa: E402
from walras.mechanisms.karma.shares import Shares  # noqa: E402
from walras_studies.karma.trace import simulate  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

FAIR_SHARE = 10


def slice_by_slice(
    purse: Counts, price: Counts, guaranteed: Counts, demands: Counts, capacity: int
) -> Counts:
    """Return the slices by Algorithm 1 for each quantum of demands; update the purse in place."""
    slices = np.minimum(guaranteed, demands)
    for t in range(len(demands)):
        borrowers: list[tuple[int, int]] = []
        donors: list[tuple[int, int]] = []
        donated = np.maximum(guaranteed - demands[t], 0)
        shared = capacity - guaranteed.sum()
        left = shared + donated.sum()
        for u in range(len(purse)):
            purse[u] += capacity * UNIT // len(purse) - guaranteed[u] * price[u]
            if slices[t, u] < demands[t, u] and purse[u] >= price[u]:
                borrowers.append((-purse[u], u))
            if donated[u] > 0:
                donors.append((purse[u], u))
        heapq.heapify(borrowers)
        heapq.heapify(donors)
        while left > 0 and len(borrowers) > 0:
            left -= 1
            u = heapq.heappop(borrowers)[1]
            slices[t, u] += 1
            purse[u] -= price[u]
            if slices[t, u] < demands[t, u] and purse[u] >= price[u]:
                heapq.heappush(borrowers, (-purse[u], u))
            if len(donors) > 0:
                u = heapq.heappop(donors)[1]
                donated[u] -= 1
                purse[u] += price[u]
                if donated[u] > 0:
                    heapq.heappush(donors, (purse[u], u))
    return slices


def richest_first(purse: list[int], want: Counts, supply: list[int]) -> Counts:
    """Return slices of several pools, handed out one by one with a heap in plain Python.

    All prices are 1, no slices are guaranteed, and nobody runs out of credits.
    """
    pools, users = want.shape
    wanted, slices = want.tolist(), np.zeros_like(want).tolist()
    turn = [0] * users
    line = [(-purse[u], u) for u in range(users)]
    heapq.heapify(line)
    while line:
        rank, u = line[0]
        while turn[u] < pools and not (wanted[turn[u]][u] and supply[turn[u]]):
            turn[u] += 1
        if turn[u] == pools:
            heapq.heappop(line)
            continue
        pool = turn[u]
        wanted[pool][u] -= 1
        supply[pool] -= 1
        slices[pool][u] += 1
        heapq.heapreplace(line, (rank + 1, u))
    return np.array(slices)


def settled(users: int, demands: Counts, weights: Counts | None) -> Ledger:
    """Return a ledger after some quanta with such demands, so that balances differ."""
    random = np.random.default_rng(users)
    ledger = Ledger.open(map(str, range(users)))
    past = np.stack([random.permutation(demands) for _ in range(40)])
    return simulate(ledger, past, FAIR_SHARE * users, weights=weights).ledger


def one_quantum(
    name: str, users: int, mean: float, target: float, weights: Counts | None = None
) -> Case:
    """Return the case of one quantum of one pool; ``mean`` is the mean demand in fair shares."""
    random = np.random.default_rng(1)
    most = round(2 * mean * FAIR_SHARE)
    demands, capacity = random.integers(0, most + 1, users), FAIR_SHARE * users
    ledger = settled(users, demands, weights)
    shares = Shares.of(users, capacity, weights=weights)

    def peer() -> Counts:
        return slice_by_slice(
            ledger.balances.copy(),
            shares.prices,
            shares.guaranteed[0],
            demands[np.newaxis],
            capacity,
        )

    ours = partial(allocate, ledger, demands, capacity, weights=weights)
    np.testing.assert_array_equal(ours().slices, peer())
    return Case(name, target, ours, "heap, Python", peer, warm_peer=True)


def trace(users: int, quanta: int) -> Case:
    """Return the case of the paper's setting: users want ten slices on average, and often none."""
    random = np.random.default_rng(0)
    busy = random.random((quanta, users)) < 0.6
    demands = (busy * random.integers(0, 34, (quanta, users))).astype(np.int64)
    capacity = FAIR_SHARE * users
    ledger, shares = Ledger.open(map(str, range(users))), Shares.of(users, capacity)

    def peer() -> Counts:
        return slice_by_slice(
            ledger.balances.copy(), shares.prices, shares.guaranteed[0], demands, capacity
        )

    ours = partial(simulate, ledger, demands, capacity)
    np.testing.assert_array_equal(ours().slices, peer())
    return Case(f"{users} users x {quanta} quanta", 1, ours, "heap, Python", peer)


def several_pools(users: int, pools: int, per_user: int, target: float) -> Case:
    """Return the case of nodes that share a ledger, where each user has demands on a few nodes."""
    random = np.random.default_rng(3)
    demands = np.zeros((pools, users), np.int64)
    for u in range(users):
        demands[random.choice(pools, per_user, replace=False), u] = random.integers(1, 60, per_user)
    supply = demands.sum(axis=1) * 4 // 5
    purse = random.integers(10**6, 10**6 + 200, users)
    ledger = Ledger(tuple(map(str, range(users))), purse * UNIT)
    ours = partial(allocate, ledger, demands, supply, guaranteed_fraction="0")

    def peer() -> Counts:
        return richest_first(purse.tolist(), demands, supply.tolist())

    np.testing.assert_array_equal(ours().slices, peer())
    return Case(f"{users} users x {pools} pools, scarce", target, ours, "heap in Python", peer)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield trace(100, 900)
    yield one_quantum("100k users, a quantum, scarce", 100_000, 1.2, 1)
    yield one_quantum("100k users, a quantum, plenty", 100_000, 0.8, 1)
    weights = np.random.default_rng(2).integers(1, 11, 100_000)
    yield one_quantum("100k users by weight, scarce", 100_000, 1.2, 2, weights)
    yield several_pools(1000, 100, 5, 5)
    yield several_pools(1000, 1000, 5, 20)
    yield several_pools(100, 1000, 100, 20)
    yield several_pools(1000, 5000, 25, 120)


if __name__ == "__main__":
    run("Karma: slices of a quantum, and of a trace", cases())
