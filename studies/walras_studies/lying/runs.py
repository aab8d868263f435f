"""Rows of the study of lies: the true gain of a user that lies to a mechanism."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.clearing import clear
from walras.market.snapshot import Bid, Deadline, Entitlement, Job, Node, Policy, Snapshot
from walras.mechanisms.abacus.auction import Auction, run_auction
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.upper_bound import (
    allocate_greedily,
    maximise_progress,
    share_proportionally,
)
from walras.mechanisms.karma.baselines import share_max_min, share_strictly
from walras.mechanisms.price_anticipating.market import ShareMarket
from walras.mechanisms.price_anticipating.nash import find_share_market_equilibrium
from walras.speedup.amdahls_law import speedup_in_hardware
from walras_studies.amdahl.populations import FRACTIONS
from walras_studies.amdahl.without_bounds import find_equilibrium
from walras_studies.karma.demands import FAIR_SHARE, draw_demands
from walras_studies.karma.paper_metrics import useful
from walras_studies.karma.runs import by_credits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slices = NDArray[np.int64]

SERVERS, JOBS_OF_USER, CORES_OF_JOB = 8, 4, 3
"""Numbers of servers, of jobs of a user, and of cores for each job."""

DIVISIONS: dict[str, Callable[[AmdahlMarket], Floats]] = {
    "Amdahl market": lambda market: find_equilibrium(market).cores,
    "best response": lambda market: find_nash_equilibrium(market).cores,
    "proportional sharing": share_proportionally,
    "greedy": lambda market: allocate_greedily(market).cores,
    "upper bound": lambda market: maximise_progress(market).cores,
}
"""Mechanisms that divide cores: functions of a market that return the cores of its jobs."""

FRACTION_LIES = {
    f"{jobs}: odds {told}": (factor, jobs == "one job")
    for jobs in ("all jobs", "one job")
    for told, factor in (("x 4", 4.0), ("x 1.2", 1.2), ("/ 1.2", 1 / 1.2), ("/ 4", 0.25))
}
"""Lies about parallel fractions: the factor of the odds f / (1 - f), and whether the lie is about
one job only."""

MARKET = "Amdahl market"

REQUEST_LIES = {"its part of each node": 1.0, "twice its part": 2.0}
"""Lies about requests: the part of each node that a user's pods request, relative to its share."""

PROMISE_FACTORS = (1.2, 2.0, 4.0)
"""Lies about promises: the minimum utility, or the cores for a deadline, relative to what the job
has."""

PRESENT = 0.8
"""Part of the days on which a user has jobs."""

WEIGHT_FACTORS = (4.0, 1.2, 1 / 1.2, 1 / 4)
"""Lies about weights: factors of the weight of the first resource."""

RESOURCES = 4
"""Number of resources that users have weights for."""

BUDGET_LIES = {"budget x 2": 2.0, "budget / 2": 0.5}
"""Lies about budgets: factors of the budget."""

DEMAND_LIES: dict[str, Callable[[Slices], Slices]] = {
    "at least the fair share": lambda wanted: np.maximum(wanted, FAIR_SHARE),
    "twice the demand": lambda wanted: 2 * wanted,
    "half the demand": lambda wanted: (wanted + 1) // 2,
}
"""Lies about demands: functions of the true demands that return the reported ones, in slices."""


@dataclass(frozen=True, slots=True)
class Lie:
    """Gain of a user by one lie.

    Attributes:
        about: Subject of the lie: F, budget, requests, minimum, deadline, weights or demand; or
            others, for what the worst-off other user has by a lie about requests, less its bare
            entitlement.
        mechanism: Mechanism that the user lies to.
        users: Number of users, of whom one lies.
        number: Number of the population.
        liar: Number of the user who lies.
        lie: Name of the lie.
        gain: Change of its true utility or of the slices that it can use, relative to those under
            the truth, or to those of its bare entitlement to cores if these are larger.
    """

    about: str
    mechanism: str
    users: int
    number: int
    liar: int
    lie: str
    gain: float


def draw_market(users: int, random: Generator) -> AmdahlMarket:
    """Draw a market on eight servers, which have more cores if there are more users."""
    jobs = users * JOBS_OF_USER
    server = np.concatenate(
        [random.permutation(SERVERS)[:JOBS_OF_USER] for _ in range(users)]
    ).astype(np.int64)
    cores = max(1, round(jobs * CORES_OF_JOB / SERVERS))
    return AmdahlMarket(
        random.integers(1, 6, users),
        np.full(SERVERS, cores),
        np.repeat(np.arange(users), JOBS_OF_USER),
        server,
        random.choice(FRACTIONS, jobs),
    )


def about_cores(users: int, number: int, liars: int, seed: list[int]) -> Iterator[Lie]:
    """Yield the gains of lies about F and about budgets under each mechanism of `DIVISIONS`."""
    random = np.random.default_rng([*seed, users, number])
    market = draw_market(users, random)
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    for mechanism, divide in DIVISIONS.items():
        honest = metrics.user_progress(market, divide(market))
        for liar in range(min(liars, users)):
            for about, lie, told in _told(market, liar):
                has = metrics.user_progress(market, divide(told))[liar]
                gain = float((has - honest[liar]) / max(honest[liar], bare[liar]))
                yield Lie(about, mechanism, users, number, liar, lie, gain)


def _told(market: AmdahlMarket, liar: int) -> Iterator[tuple[str, str, AmdahlMarket]]:
    mine = np.flatnonzero(market.user == liar)
    for lie, (factor, single) in FRACTION_LIES.items():
        chosen = mine[:1] if single else mine
        fraction = market.fraction.copy()
        odds = factor * fraction[chosen] / (1 - fraction[chosen])
        fraction[chosen] = odds / (1 + odds)
        yield "F", lie, _with(market, market.budgets, fraction)
    for lie, factor in BUDGET_LIES.items():
        budgets = market.budgets.copy()
        budgets[liar] *= factor
        yield "budget", lie, _with(market, budgets, market.fraction)


def _with(market: AmdahlMarket, budgets: Floats, fraction: Floats) -> AmdahlMarket:
    return AmdahlMarket(budgets, market.capacities, market.user, market.server, fraction)


def about_requests(users: int, number: int, liars: int, seed: list[int]) -> Iterator[Lie]:
    """Yield what requests that nobody needs gain their owner, and what the worst-off other loses.

    Both are told by what pods hold, the latter relative to the user's bare entitlement.
    """
    market = draw_market(users, np.random.default_rng([*seed, users, number]))
    snapshot, parts = _cluster(market), market.budgets / market.budgets.sum()
    honest = {user.name: user for user in clear(snapshot, Policy()).users}
    for liar in range(min(liars, users)):
        name = str(liar)
        for lie, factor in REQUEST_LIES.items():
            told = tuple(
                replace(each, floor=cores, requested=cores) if each.entitlement == name else each
                for each in snapshot.jobs
                for cores in (factor * parts[liar] * market.capacities[int(each.node)],)
            )
            plan = clear(replace(snapshot, jobs=told), Policy())
            held = {user.name: user.held_utility for user in plan.users}
            truth = max(honest[name].held_utility, honest[name].entitlement_utility)
            left = min(
                held[other] / user.entitlement_utility
                for other, user in honest.items()
                if other != name
            )
            yield Lie("requests", MARKET, users, number, liar, lie, held[name] / truth - 1)
            yield Lie("others", MARKET, users, number, liar, lie, left - 1)


def _cluster(market: AmdahlMarket) -> Snapshot:
    rows = zip(market.user.tolist(), market.server.tolist(), market.fraction.tolist(), strict=True)
    return Snapshot(
        tuple(
            Entitlement(str(user), int(each), namespaces=frozenset({str(user)}))
            for user, each in enumerate(market.budgets)
        ),
        tuple(Node(str(node), float(each)) for node, each in enumerate(market.capacities)),
        tuple(
            Job(str(user), f"{user}-{node}", str(user), str(node), fraction)
            for user, node, fraction in rows
        ),
    )


def about_promises(
    users: int, days: int, number: int, liars: int, seed: list[int]
) -> Iterator[Lie]:
    """Yield the gains of false minimum utilities and deadlines in auctions, over some days.

    The gain is that of the sum of the utilities of all of the liar's jobs, which truly need no
    minimum. Every other user truly needs a minimum for one job, of 0.5 to 1.5 times what it has.
    """
    random = np.random.default_rng([*seed, users, number])
    cluster = _cluster(draw_market(users, random))
    liars_named = [str(user) for user in range(0, users, 2)[:liars]]
    plain = {bid.name: bid.utility for bid in clear(cluster, Policy("Auction")).bids}
    honest_jobs = tuple(
        replace(job, bid=Bid(minimum_utility=float(random.uniform(0.5, 1.5)) * plain[job.name]))
        if int(job.entitlement) % 2 and first
        else job
        for job, first in _with_first(cluster.jobs)
    )
    told = _promises(cluster, liars_named, plain)
    has: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for _ in range(days):
        present = {str(user) for user in np.flatnonzero(random.random(users) < PRESENT)}
        there = tuple(job for job in honest_jobs if job.entitlement in present)
        truth = clear(replace(cluster, jobs=there), Policy("Auction"))
        for bid in truth.bids:
            has[bid.entitlement, "", ""] += bid.utility
        for (liar, about, lie), jobs in told.items():
            if liar in present:
                has[liar, about, lie] += _auctioned(cluster, there, jobs, liar)
    for (liar, about, lie), utility in has.items():
        if about:
            gain = utility / has[liar, "", ""] - 1
            yield Lie(about, "auction", users, number, int(liar), lie, gain)


def _with_first(jobs: Iterable[Job]) -> Iterator[tuple[Job, bool]]:
    """Yield jobs, and whether each is the first of its user."""
    seen: set[str] = set()
    for job in jobs:
        yield job, job.entitlement not in seen
        seen.add(job.entitlement)


def _promises(
    cluster: Snapshot, liars: Iterable[str], utilities: Mapping[str, float]
) -> dict[tuple[str, str, str], dict[str, Job]]:
    """Return the false jobs of each liar by name, by the liar, the subject and the lie."""
    found = {}
    size = {node.name: node.cores for node in cluster.nodes}
    for liar in liars:
        mine = [job for job in cluster.jobs if job.entitlement == liar]
        for which, jobs in (("all jobs", mine), ("one job", mine[:1])):
            for factor in PROMISE_FACTORS:
                lie = f"{which}: x {factor:g}"
                share = {job.name: min(factor * utilities[job.name], 1.0) for job in jobs}
                found[liar, "minimum", lie] = {
                    job.name: replace(job, bid=Bid(minimum_utility=share[job.name])) for job in jobs
                }
                found[liar, "deadline", lie] = {
                    job.name: replace(job, deadline=Deadline(3600.0, 3600.0 * speed))
                    for job in jobs
                    for speed in (
                        speedup_in_hardware(share[job.name] * size[job.node], job.fraction),
                    )
                }
    return found


def _auctioned(cluster: Snapshot, jobs: Iterable[Job], told: Mapping[str, Job], user: str) -> float:
    """Return the sum of a user's utilities in an auction if it tells of its jobs so."""
    there = tuple(told.get(job.name, job) for job in jobs)
    plan = clear(replace(cluster, jobs=there), Policy("Auction"))
    return sum(bid.utility for bid in plan.bids if bid.entitlement == user)


def about_weights(users: int, number: int, liars: int, seed: list[int]) -> Iterator[Lie]:
    """Yield the gains of lies about weights under mechanisms for users with linear utilities."""
    random = np.random.default_rng([*seed, users, number])
    budgets = random.uniform(50, 200, users)
    weights = random.uniform(0.5, 2, (users, RESOURCES))
    divisions: dict[str, Callable[[Floats], Floats]] = {
        "auction": lambda told: run_auction(Auction(budgets, told)).shares,
        "price-anticipating": lambda told: (
            find_share_market_equilibrium(ShareMarket(budgets, told), tolerance=1e-6).shares
        ),
    }
    for mechanism, divide in divisions.items():
        honest = (weights * divide(weights)).sum(axis=1)
        for liar in range(min(liars, users)):
            for factor in WEIGHT_FACTORS:
                told = weights.copy()
                told[liar, 0] *= factor
                gain = float(weights[liar] @ divide(told)[liar] / honest[liar] - 1)
                yield Lie("weights", mechanism, users, number, liar, f"first x {factor:.3g}", gain)


def about_demands(
    users: int, quanta: int, number: int, liars: int, seed: list[int]
) -> Iterator[Lie]:
    """Yield the gains of lies about demands under each mechanism that divides memory."""
    demands = draw_demands(users, quanta, np.random.default_rng([*seed, users, number]))
    capacity = users * FAIR_SHARE
    divisions: dict[str, Callable[[Slices], Slices]] = {
        "Karma": by_credits,
        "max-min": lambda told: share_max_min(told, capacity),
        "strict": lambda told: share_strictly(told, capacity),
    }
    for mechanism, divide in divisions.items():
        honest = useful(divide(demands), demands)
        for liar in np.flatnonzero(honest)[:liars].tolist():
            for lie, tell in DEMAND_LIES.items():
                told = demands.copy()
                told[:, liar] = tell(demands[:, liar])
                has = useful(divide(told), demands)[liar]
                gain = float(has / honest[liar] - 1)
                yield Lie("demand", mechanism, users, number, liar, lie, gain)
