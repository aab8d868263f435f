"""One measurement of the Amdahl market in a process of its own; prints a JSON object.

`amdahl_market.py` starts this once for every size, so that peak memory does not mix, and with an
empty and a full compile cache to time the first decision of a process. It pins the process first.
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

    from walras.amdahl.equilibrium import Equilibrium
    from walras.amdahl.market import AmdahlMarket
    from walras.snapshot import Snapshot

TOLERANCE = 1e-6
"""On the proven relative error of prices for ours, on the last step of prices for the peer."""

CORES = 24
FEWEST_ON_SERVER, MOST_ON_SERVER = 5, 11
"""Jobs of a server: drawn from {d/2, ..., d} for a density d of 11, so 8 on average (VI)."""

LEAST_FRACTION, GREATEST_FRACTION = 0.55, 0.99
"""The paper prints only the range of F. That F is uniform within it is our assumption."""


class Population(NamedTuple):
    """The arrays of a market, before anything has looked at them."""

    budgets: NDArray[np.int64]
    capacities: NDArray[np.int64]
    user: NDArray[np.int64]
    server: NDArray[np.int64]
    fraction: NDArray[np.float64]
    work: NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """Seconds that one decision took: its phases by the clock, and all of it in CPU time."""

    prepare: float
    solve: float
    round: float
    cpu: float


@dataclass(frozen=True)
class Outcome:
    """What was measured; times in seconds, memory in bytes.

    Attributes:
        users: and as many servers.
        jobs: of all users.
        ours: one a repeat.
        passes: over the market.
        price_error: proven for ours.
        base_memory: of the process with libraries loaded and kernels compiled.
        peak_memory: of the process after the repeats of ours.
        peer: one a repeat; `solve` includes one certificate, since the procedure itself has none.
        peer_iterations: of bidding.
        peer_price_error: proven for the peer's prices.
        certificate: what proving the peer's price error took.
        split: what the parts of our solver take at the equilibrium.
    """

    users: int
    jobs: int
    ours: list[Times]
    passes: int
    price_error: float
    base_memory: int
    peak_memory: int
    peer: list[Times]
    peer_iterations: int
    peer_price_error: float
    certificate: float
    split: dict[str, float]


def draw(jobs: int, *, seed: int, spread_work: bool) -> Population:
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
    return Population(
        random.integers(1, 6, users),
        np.full(servers, CORES),
        random.permutation(user),
        np.repeat(np.arange(servers), count),
        random.uniform(LEAST_FRACTION, GREATEST_FRACTION, jobs),
        np.exp(random.standard_normal(jobs)) if spread_work else np.ones(jobs),
    )


def decide(
    population: Population, solve: Callable[[AmdahlMarket], Equilibrium]
) -> tuple[Times, Equilibrium]:
    """Go once from arrays to whole cores: check and sort, solve, round."""
    from walras.amdahl.market import AmdahlMarket
    from walras.rounding import round_cores

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
    return Times(prepared - begin, solved - prepared, end - solved, cpu), found


def bid_as_the_paper(market: AmdahlMarket) -> Equilibrium:
    """Bid until no price moves by more than the tolerance, which is the paper's stopping rule."""
    from walras.amdahl.bidding import bid

    return bid(market, step=TOLERANCE)


def measure(jobs: int, repeat: int, peer_repeat: int, *, seed: int, spread_work: bool) -> Outcome:
    """Measure ours, then the peer, on one population; both are compiled beforehand."""
    from walras.amdahl.equilibrium import find_equilibrium, price_error

    small = draw(80, seed=0, spread_work=False)
    for solve in (find_equilibrium, bid_as_the_paper):
        decide(small, solve)
    base = _peak_memory()
    population = draw(jobs, seed=seed, spread_work=spread_work)
    ours = [decide(population, find_equilibrium)[0] for _ in range(repeat)]
    peak = _peak_memory()
    peer = [decide(population, bid_as_the_paper)[0] for _ in range(peer_repeat - 1)]
    last, bidden = decide(population, bid_as_the_paper)
    _, found = decide(population, find_equilibrium)
    return Outcome(
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


def split_solve(market: AmdahlMarket, found: Equilibrium) -> dict[str, float]:
    """Time each part of the solver, at the equilibrium where that matters."""
    import numpy as np

    from walras.amdahl import _alternation as alternation
    from walras.amdahl import equilibrium

    largest = equilibrium.LARGEST_ALTERNATING_FRACTION
    users, servers = equilibrium._job_layouts(market, largest)
    root, mu = np.sqrt(found.prices), np.full(len(market.budgets), np.inf)
    alternation.answer_prices(users, root, mu)
    answer = root.copy()
    jobs = (market.user, market.server, market.fraction.copy(), market.work)

    def alternate() -> None:
        start, unknown = alternation.even_bids(users, servers), np.full(len(mu), np.inf)
        alternation.alternate(users, servers, start, unknown, np.log1p(TOLERANCE), 1000)

    return {
        "layout": _least(lambda: equilibrium._job_layouts(market, largest)),
        "alternate": _least(alternate),
        "users": _least(lambda: alternation.answer_prices(users, root, mu)),
        "servers": _least(lambda: alternation.answer_users(servers, mu, answer)),
        "certify": _least(lambda: alternation.certify(users, servers, root, mu, answer, TOLERANCE)),
        "cores": _least(lambda: alternation.cores_of_jobs(*jobs, mu, root, market.capacities)),
    }


def first_decision() -> dict[str, float]:
    """Time imports and the first two decisions of a process, in seconds."""
    package = _seconds(lambda: importlib.import_module("walras"))
    begin = time.perf_counter()
    from walras.clearing import clear

    imported = time.perf_counter() - begin
    snapshot = _small_snapshot()
    first, second = (_seconds(lambda: clear(snapshot)) for _ in range(2))
    return {"package": package, "import": imported, "first": first, "second": second}


def _small_snapshot() -> Snapshot:
    from walras.snapshot import Entitlement, Job, Node, Snapshot

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
    """Return the least seconds of ``action`` in at least three and ``patience`` seconds of runs."""
    times = [_seconds(action) for _ in range(3)]
    while sum(times) < patience:
        times.append(_seconds(action))
    return min(times)


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", action="store_true", help="time the first decision instead")
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
