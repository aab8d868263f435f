"""Random clusters, and a judge of what their pods hold that knows no market.

The judge believes a plan in one thing only: the cores that it says each pod holds, and on which
sockets. Everything else it works out from the snapshot, in plain Python.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.plan import Plan

UNBOUNDED = 1e9


class Verdict(NamedTuple):
    """What a user's pods get done, what its share alone would, and whether its bounds fit."""

    held: float
    entitled: float
    fits: bool


def random_cluster(random: np.random.Generator, *, modest: bool) -> Snapshot:
    """Return a cluster; the requests and minimums of a modest one fit into users' shares."""
    users, nodes, jobs = int(random.integers(2, 9)), [], []
    shares = [int(random.choice([1, 1, 2, 3, 5, 20, 100])) for _ in range(users)]
    names = [f"u{number}" for number in range(users)]
    for number in range(int(random.integers(1, 7))):
        cores = float(random.choice([2, 3, 4, 8, 16, 32, 64])) + float(
            random.choice([0, 0, 0, 0.5])
        )
        sockets = int(random.choice([1, 1, 2])) if cores >= 4 else 1
        nodes.append(Node(f"n{number}", cores, sockets=sockets))
        crowd = math.exp(random.uniform(math.log(0.1), math.log(3)))
        room = cores
        for pod in range(int(np.clip(round(crowd * cores), 1, 60))):
            user = str(random.choice(names))
            most = int(random.choice([1, 2, 4])) if random.random() < 0.15 else None
            request = float(random.choice([0.1, 0.25, 0.5, 1, 1.01, 2, 4]))
            request = min(request, room, most or cores) if random.random() < 0.3 else 0.0
            room -= request
            least = 2 if random.random() < 0.05 and (most or 2) >= 2 else 1
            jobs.append(
                Job(
                    user,
                    f"j{number}-{pod}",
                    user,
                    f"n{number}",
                    float(random.uniform(0.01, 0.999)),
                    work=float(random.choice([1, 1, 1, 2, 0.5])),
                    pod=f"p{number}-{pod}",
                    min_cores=least,
                    max_cores=most,
                    requested=request,
                    floor=request,
                )
            )
    entitlements = tuple(
        Entitlement(name, share, None, frozenset([name]))
        for name, share in zip(names, shares, strict=True)
    )
    snapshot = Snapshot(entitlements, tuple(nodes), tuple(jobs))
    return _modest(snapshot) if modest else snapshot


def _modest(snapshot: Snapshot) -> Snapshot:
    shares = _shares(snapshot)
    together = Counter((job.entitlement, job.node) for job in snapshot.jobs)
    smallest = {node.name: node.cores / node.sockets - 1 for node in snapshot.nodes}
    jobs = []
    for job in snapshot.jobs:
        part = shares[job.entitlement] * max(smallest[job.node], 0.5)
        part /= together[job.entitlement, job.node]
        floor = min(job.floor, part)
        least = job.min_cores if job.min_cores <= part else 1
        jobs.append(replace(job, floor=floor, requested=floor, min_cores=least))
    return replace(snapshot, jobs=tuple(jobs))


def moved(random: np.random.Generator, snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the snapshot of the next decision, after fractions were measured anew."""
    jobs = (
        replace(job, fraction=min(0.999, job.fraction * float(random.uniform(0.9, 1.1))))
        for job in snapshot.jobs
    )
    return replace(snapshot, jobs=tuple(jobs), held=plan.holdings())


def _shares(snapshot: Snapshot) -> dict[str, float]:
    present = {job.entitlement for job in snapshot.jobs}
    together = sum(each.shares for each in snapshot.entitlements if each.name in present)
    return {each.name: each.shares / together for each in snapshot.entitlements}


def verdicts(snapshot: Snapshot, policy: Policy, plan: Plan) -> dict[str, Verdict]:
    """Return the verdict on every user with jobs."""
    held = {identity(grant): grant.held for grant in plan.grants}
    on = {identity(grant): grant.sockets or (0,) for grant in plan.grants}
    by_socket = any(grant.sockets for grant in plan.grants)
    shares = _shares(snapshot)
    found = {}
    for user in sorted({job.entitlement for job in snapshot.jobs}):
        mine = [job for job in snapshot.jobs if job.entitlement == user]
        work = sum(job.work for job in mine)
        done = sum(job.work * _speedup(job, held[identity(job)]) for job in mine) / work
        entitled, fits = 0.0, True
        for node in snapshot.nodes:
            for socket, cores in enumerate(_units(node, by_socket=by_socket)):
                here = [j for j in mine if j.node == node.name and socket in on[identity(j)]]
                if here:
                    worth, fit = _alone(here, shares[user] * cores, policy.least_part)
                    entitled, fits = entitled + worth / work, fits and fit
        found[user] = Verdict(done, entitled, fits)
    return found


def _units(node: Node, *, by_socket: bool) -> list[float]:
    sockets = max(min(node.sockets, int(node.cores)), 1) if by_socket else 1
    few, more = divmod(int(node.cores), sockets)
    sizes = [float(few + (number < more)) for number in range(sockets)]
    return [*sizes[:-1], sizes[-1] + node.cores % 1]


def _speedup(job: Job, cores: float) -> float:
    x = min(cores, job.max_cores or UNBOUNDED)
    return x if x < 1 else x / (job.fraction + (1 - job.fraction) * x)


def _alone(jobs: Sequence[Job], cores: float, least_part: float) -> tuple[float, bool]:
    """Return the most that jobs could do with some cores alone, and whether their bounds fit."""
    kept = [
        max(min(least_part * min(1.0, cores / len(jobs)), j.max_cores or UNBOUNDED), j.floor)
        for j in jobs
    ]
    least = [max(k, j.min_cores if j.min_cores > 1 else 0) for k, j in zip(kept, jobs, strict=True)]
    fits = sum(least) <= cores * (1 + 1e-9)
    if not fits:
        least = [k * min(1.0, cores / sum(kept)) for k in kept]
    most = [max(job.max_cores or UNBOUNDED, k) for job, k in zip(jobs, least, strict=True)]

    def wanted(level: float) -> list[float]:
        return [
            min(max(_wanted(job, level), low), high)
            for job, low, high in zip(jobs, least, most, strict=True)
        ]

    low, high = 1e-12, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if sum(wanted(middle)) > cores else (low, middle)
    got = wanted(high)
    rest = cores - sum(got)
    for index in sorted(range(len(jobs)), key=lambda each: -jobs[each].work):
        # First cores are worth the same, however they are divided among jobs of the same work.
        more = max(min(1.0 - got[index], rest, most[index] - got[index]), 0.0)
        got[index], rest = got[index] + more, rest - more
    return sum(j.work * _speedup(j, x) for j, x in zip(jobs, got, strict=True)), fits


def _wanted(job: Job, level: float) -> float:
    """Return the cores up to which the next one adds more than ``level``."""
    if job.work < level:
        return 0.0
    f = job.fraction
    return max((math.sqrt(job.work * f / level) - f) / (1 - f), 1.0)
