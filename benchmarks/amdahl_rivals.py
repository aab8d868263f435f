"""Compare alternatives to the Amdahl market, bounds and warm starts with peers.

Populations are those of `amdahl_case.draw`: drawn as in section VI, 8 jobs per server on average.
Peers: SciPy's SLSQP computes one best response of 20 users, while ours finds the Nash equilibrium
of all; the standard library's heap divides servers core by core; and our own market without bounds,
or from a cold start.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from walras.mechanisms.amdahl.market import AmdahlMarket

    Floats = NDArray[np.float64]

SIZES = {8_000: (3.0, 0.6), 80_000: (30.0, 6.0), 1_000_000: (600.0, 60.0)}
"""Target milliseconds of the Nash equilibrium and of the upper bound, by number of jobs."""

NANOSECONDS_WITHIN_BOUNDS = 2000
"""Target of an equilibrium within bounds, for each job."""

NANOSECONDS_OF_WARM_START = 330
NANOSECONDS_OF_ROUNDING = 40


def cases() -> Iterator[Case]:
    """Yield every problem at every size."""
    from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
    from walras.mechanisms.amdahl.equilibrium import find_equilibrium
    from walras.mechanisms.amdahl.upper_bound import allocate_greedily, maximise_progress
    from walras_studies.amdahl import without_bounds

    for jobs, (nash_ms, bound_ms) in SIZES.items():
        market = _market(jobs)
        small = jobs < 10_000
        size = f"{jobs // 1000:,}k jobs"
        yield Case(
            f"Nash equilibrium, {size}",
            nash_ms,
            partial(find_nash_equilibrium, market),
            "SciPy, 20 answers" if small else "",
            partial(_answer_with_scipy, market, 20) if small else None,
        )
        yield Case(
            f"upper bound, whole, {size}",
            bound_ms,
            partial(maximise_progress, market, whole=True),
            "heapq" if jobs < 100_000 else "",
            partial(_core_by_core, market) if jobs < 100_000 else None,
        )
        yield Case(f"upper bound, real, {size}", bound_ms, partial(maximise_progress, market))
        yield Case(f"greedy, {size}", bound_ms, partial(allocate_greedily, market))
        for part in (0.3, 1.0):
            maximum = _maximums(market, part)
            yield Case(
                f"bounds for {part:.0%}, {size}",
                jobs * NANOSECONDS_WITHIN_BOUNDS / 1e6,
                partial(find_equilibrium, market, maximum=maximum),
                "without bounds",
                partial(without_bounds.find_equilibrium, market),
                warm_peer=True,
            )
        yield _pods(market, size)
        yield _warm_start(market, size)
        yield _rounding(market, size)


def _market(jobs: int) -> AmdahlMarket:
    from amdahl_case import draw

    from walras.mechanisms.amdahl.market import AmdahlMarket

    market = AmdahlMarket(*draw(jobs, seed=1, spread_work=False))
    _ = market.by_user, market.by_server
    return market


def _rounding(market: AmdahlMarket, size: str) -> Case:
    """Return the case of Hamilton's method on an equilibrium; the peer sorts remainders."""
    import numpy as np

    from walras_studies.amdahl.whole_cores import round_cores
    from walras_studies.amdahl.without_bounds import find_equilibrium

    cores = find_equilibrium(market).cores
    ours = partial(round_cores, cores, market.capacities, market.by_server)
    peer = partial(_round_by_sorting, cores, market.capacities.astype(np.int64), market.server)
    np.testing.assert_array_equal(ours(), peer())
    target = market.jobs * NANOSECONDS_OF_ROUNDING / 1e6
    return Case(f"Hamilton, {size}", target, ours, "NumPy, one sort", peer)


def _round_by_sorting(
    cores: Floats, capacities: NDArray[np.int64], server: NDArray[np.int64]
) -> NDArray[np.int64]:
    import numpy as np

    whole = np.floor(cores).astype(np.int64)
    left = capacities - np.bincount(server, whole, len(capacities)).astype(np.int64)
    order = np.lexsort((whole - cores, server))
    first = np.concatenate([[0], np.cumsum(np.bincount(server, minlength=len(capacities)))])
    rank = np.arange(len(order)) - first[server[order]]
    whole[order[rank < left[server[order]]]] += 1
    return whole


def _maximums(market: AmdahlMarket, part: float) -> Floats:
    import numpy as np

    random = np.random.default_rng(0)
    bounded = random.random(market.jobs) < part
    return np.where(bounded, random.integers(2, 9, market.jobs), np.inf)


def _pods(market: AmdahlMarket, size: str) -> Case:
    """Return the case of pods: two jobs with bounds for each, and a least part of a quarter."""
    import numpy as np

    from walras.mechanisms.amdahl.equilibrium import Equilibrium, find_equilibrium
    from walras.mechanisms.amdahl.time_shared import pieces_of
    from walras_studies.amdahl import without_bounds

    share = market.budgets / market.budgets.sum()
    together = np.bincount(market.pair)[market.pair]
    equal = share[market.user] * market.capacities[market.server] / together
    least, most = 0.25 * np.minimum(equal, 1.0), np.full(market.jobs, np.inf)

    def ours() -> Equilibrium:
        pieces = pieces_of(market, most)
        return find_equilibrium(
            pieces.market, kept=pieces.within(least), maximum=pieces.within(most)
        )

    target = market.jobs * NANOSECONDS_WITHIN_BOUNDS / 1e6
    peer = partial(without_bounds.find_equilibrium, market)
    return Case(f"pods, {size}", target, ours, "without bounds", peer, warm_peer=True)


def _warm_start(market: AmdahlMarket, size: str) -> Case:
    """Return the case of a change of 1 % of jobs, from the old prices; the peer starts cold."""
    import numpy as np

    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras_studies.amdahl.without_bounds import find_equilibrium

    random = np.random.default_rng(0)
    fraction = market.fraction.copy()
    changed = random.choice(market.jobs, market.jobs // 100, replace=False)
    fraction[changed] = random.uniform(0.55, 0.99, len(changed))
    after = AmdahlMarket(market.budgets, market.capacities, market.user, market.server, fraction)
    _ = after.by_user, after.by_server
    start = find_equilibrium(market).prices
    warm, cold = find_equilibrium(after, start=start), find_equilibrium(after)
    return Case(
        f"1 % changed, {size}",
        market.jobs * NANOSECONDS_OF_WARM_START / 1e6,
        partial(find_equilibrium, after, start=start),
        f"cold ({cold.iterations} passes, {warm.iterations})",
        partial(find_equilibrium, after),
        warm_peer=True,
    )


def _core_by_core(market: AmdahlMarket) -> Floats:
    """Give each core to the job whose progress it raises most, with a heap for each server."""
    import numpy as np

    share = market.budgets / market.budgets.sum() / market.sum_by_user(market.work)
    weight = (share[market.user] * market.work).tolist()
    fraction = market.fraction.tolist()
    cores = [0] * market.jobs
    start, order = market.by_server
    for server, capacity in enumerate(market.capacities.astype(int).tolist()):
        members = order[start[server] : start[server + 1]].tolist()
        heap = [(-weight[k], k) for k in members]
        heapq.heapify(heap)
        for _ in range(capacity if heap else 0):
            _, k = heap[0]
            cores[k] += 1
            f = fraction[k]
            before = f + (1 - f) * cores[k]
            heapq.heapreplace(heap, (-weight[k] * f / (before * (before + 1 - f)), k))
    return np.array(cores, np.float64)


def _answer_with_scipy(market: AmdahlMarket, users: int) -> None:
    """Compute one best response to even bids, for some users, by SLSQP with its gradient."""
    import numpy as np
    from scipy.optimize import minimize

    start, order = market.by_user
    bids = (market.budgets / np.diff(start))[market.user]
    totals = market.sum_by_server(bids)
    for user in range(users):
        mine = order[start[user] : start[user + 1]]
        f, server, budget = market.fraction[mine], market.server[mine], market.budgets[user]
        capacity, rivals = market.capacities[server], np.maximum(totals[server] - bids[mine], 1e-3)

        def loss(
            b: Floats, f: Floats = f, capacity: Floats = capacity, rivals: Floats = rivals
        ) -> tuple[float, Floats]:
            x = capacity * b / (b + rivals)
            scale = f + (1 - f) * x
            slope = f / scale**2 * capacity * rivals / (b + rivals) ** 2
            return -float(np.sum(x / scale)), -slope

        minimize(
            loss,
            bids[mine],
            jac=True,
            bounds=[(0, budget)] * len(mine),
            constraints={"type": "eq", "fun": lambda b, budget=budget: b.sum() - budget},
            method="SLSQP",
        )


def main() -> None:
    """Measure and print."""
    one_thread()
    run("Rivals and bounds of the Amdahl market, one thread", cases())


if __name__ == "__main__":
    main()
