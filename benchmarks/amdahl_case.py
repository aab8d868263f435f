"""Measure one case of the Amdahl market, and print the result as a JSON object.

`amdahl_market.py` runs this program once for each size, so that each has its own peak memory, and
once to time the first decision of a process. It has pinned the process to one CPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from walras.market.snapshot import Snapshot
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras_studies.amdahl.without_bounds import ProvenEquilibrium

TOLERANCE = 1e-6
"""Bound of the proven relative price error for ours, and of the last price step for the peer."""

CORES = 24
FEWEST_ON_SERVER, MOST_ON_SERVER = 5, 11
"""Jobs of a server: drawn from {d/2, ..., d} for density d = 11, so 8 on average (section VI)."""

LEAST_FRACTION, GREATEST_FRACTION = 0.55, 0.99
"""Range of F in the paper; that F is uniform within it is our assumption."""


class MarketArrays(NamedTuple):
    """Arrays of a market, unchecked."""

    budgets: NDArray[np.int64]
    capacities: NDArray[np.int64]
    user: NDArray[np.int64]
    server: NDArray[np.int64]
    fraction: NDArray[np.float64]
    work: NDArray[np.float64]


@dataclass(frozen=True)
class DecisionTimes:
    """Seconds of one decision: wall time of each phase, and CPU time of all."""

    prepare: float
    solve: float
    round: float
    cpu: float


@dataclass(frozen=True)
class CaseResult:
    """Measurements of one case; times in seconds, memory in bytes.

    Attributes:
        users: Number of users, and of servers.
        jobs: Number of jobs.
        ours: Times of each repeat of our solver.
        passes: Passes of our solver over the market.
        price_error: Proven relative error of our prices.
        base_memory: Memory of the process with libraries loaded.
        peak_memory: Peak memory of the process after all repeats of ours.
        peer: Times of each repeat of the peer; `solve` includes one certificate, which the paper
            does not compute.
        peer_iterations: Iterations of bidding.
        peer_price_error: Proven relative error of the peer's prices.
        certificate: Time to prove the peer's price error.
        split: Times of the parts of our solver at the equilibrium.
    """

    users: int
    jobs: int
    ours: list[DecisionTimes]
    passes: int
    price_error: float
    base_memory: int
    peak_memory: int
    peer: list[DecisionTimes]
    peer_iterations: int
    peer_price_error: float
    certificate: float
    split: dict[str, float]


def draw(jobs: int, *, seed: int, spread_work: bool) -> MarketArrays:
    """Draw a population as in section VI, with as many servers as users and exactly ``jobs``."""
    import numpy as np

    random = np.random.default_rng(seed)
    users = servers = jobs // 8
    count = random.integers(FEWEST_ON_SERVER, MOST_ON_SERVER + 1, servers)
    while surplus := int(count.sum()) - jobs:
        movable = count > FEWEST_ON_SERVER if surplus > 0 else count < MOST_ON_SERVER
        chosen = random.permutation(np.flatnonzero(movable))[: abs(surplus)]
        count[chosen] -= np.sign(surplus)
    user = np.concatenate([np.arange(users), random.integers(0, users, jobs - users)])
    return MarketArrays(
        random.integers(1, 6, users),
        np.full(servers, CORES),
        random.permutation(user),
        np.repeat(np.arange(servers), count),
        random.uniform(LEAST_FRACTION, GREATEST_FRACTION, jobs),
        np.exp(random.standard_normal(jobs)) if spread_work else np.ones(jobs),
    )


def decide(
    population: MarketArrays, solve: Callable[[AmdahlMarket], ProvenEquilibrium]
) -> tuple[DecisionTimes, ProvenEquilibrium]:
    """Decide once, from arrays to whole cores: check and sort, solve, round."""
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras_studies.amdahl.whole_cores import round_cores

    cpu = time.process_time()
    begin = time.perf_counter()
    market = AmdahlMarket(*population)
    _ = market.by_user, market.by_server
    prepared = time.perf_counter()
    found = solve(market)
    solved = time.perf_counter()
    whole = round_cores(found.cores, market.capacities, market.by_server)
    end = time.perf_counter()
    cpu = time.process_time() - cpu
    if whole.sum() != population.capacities.sum():
        raise SystemExit("the rounded cores do not add up to the servers' cores")
    return DecisionTimes(prepared - begin, solved - prepared, end - solved, cpu), found


def bid_until_steady(market: AmdahlMarket) -> ProvenEquilibrium:
    """Bid until no price moves by more than the tolerance, the paper's stopping rule."""
    from walras_studies.amdahl.paper_bidding import bid

    return bid(market, step=TOLERANCE)


def measure(
    jobs: int, repeat: int, peer_repeat: int, *, seed: int, spread_work: bool
) -> CaseResult:
    """Measure ours, then the peer, on one population; both have run before."""
    from walras_studies.amdahl.without_bounds import find_equilibrium, price_error

    small = draw(80, seed=0, spread_work=False)
    for solve in (find_equilibrium, bid_until_steady):
        decide(small, solve)
    base = _peak_memory()
    population = draw(jobs, seed=seed, spread_work=spread_work)
    ours = [decide(population, find_equilibrium)[0] for _ in range(repeat)]
    peak = _peak_memory()
    peer = [decide(population, bid_until_steady)[0] for _ in range(peer_repeat - 1)]
    last, bidden = decide(population, bid_until_steady)
    _, found = decide(population, find_equilibrium)
    return CaseResult(
        users=len(population.budgets),
        jobs=len(population.user),
        ours=ours,
        passes=found.iterations,
        price_error=found.price_error,
        base_memory=base,
        peak_memory=peak,
        peer=[*peer, last],
        peer_iterations=bidden.iterations,
        peer_price_error=bidden.price_error,
        certificate=_least(lambda: price_error(bidden.market, bidden.prices)),
        split=split_solve(found.market, found),
    )


def split_solve(market: AmdahlMarket, found: ProvenEquilibrium) -> dict[str, float]:
    """Return the seconds of each part of the solver, at the equilibrium where that matters."""
    import numpy as np

    from walras.mechanisms.amdahl.equilibrium import even_bids
    from walras_studies.amdahl import _alternation as alternation
    from walras_studies.amdahl import without_bounds

    largest = without_bounds.LARGEST_ALTERNATING_FRACTION
    users, servers = without_bounds._job_layouts(market, largest)
    root, mu = np.sqrt(found.prices), np.full(len(market.budgets), np.inf)
    alternation.answer_prices(users, root, mu)
    answer = root.copy()
    jobs = (market.user, market.server, market.fraction.copy(), market.work)

    def alternate() -> None:
        start, unknown = even_bids(market), np.full(len(mu), np.inf)
        alternation.alternate(users, servers, start, unknown, np.log1p(TOLERANCE), 1000)

    return {
        "layout": _least(lambda: without_bounds._job_layouts(market, largest)),
        "alternate": _least(alternate),
        "users": _least(lambda: alternation.answer_prices(users, root, mu)),
        "servers": _least(lambda: alternation.answer_users(servers, mu, answer)),
        "certify": _least(lambda: alternation.certify(users, servers, root, mu, answer, TOLERANCE)),
        "cores": _least(lambda: alternation.cores_of_jobs(*jobs, mu, root, market.capacities)),
    }


def first_decision() -> dict[str, float]:
    """Return the seconds of imports and of the first two decisions of a process."""
    package = _seconds(lambda: importlib.import_module("walras"))
    begin = time.perf_counter()
    from walras.clearing import clear

    imported = time.perf_counter() - begin
    snapshot = _small_snapshot()
    first, second = (_seconds(lambda: clear(snapshot)) for _ in range(2))
    return {"package": package, "import": imported, "first": first, "second": second}


def _small_snapshot() -> Snapshot:
    from walras.market.snapshot import Entitlement, Job, Node, Snapshot

    users = tuple(Entitlement(f"user-{i}", i + 1, namespaces=frozenset({"a"})) for i in range(3))
    nodes = tuple(Node(f"node-{j}", 8) for j in range(2))
    jobs = tuple(
        Job("a", f"job-{k}", f"user-{k % 3}", f"node-{k % 2}", 0.6 + k / 100) for k in range(24)
    )
    return Snapshot(users, nodes, jobs)


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _least(action: Callable[[], object], patience: float = 0.3) -> float:
    """Return the shortest time of ``action`` in at least three runs and ``patience`` seconds."""
    times = [_seconds(action) for _ in range(3)]
    while sum(times) < patience:
        times.append(_seconds(action))
    return min(times)


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure the case on the command line, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", action="store_true", help="time first decisions of the process")
    parser.add_argument("--jobs", type=int, default=8000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--peer-repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spread-work", action="store_true")
    arguments = parser.parse_args()
    if arguments.first:
        print(json.dumps(first_decision()))
        return
    outcome = measure(
        arguments.jobs,
        arguments.repeat,
        arguments.peer_repeat,
        seed=arguments.seed,
        spread_work=arguments.spread_work,
    )
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
