"""Compare all mechanisms for cores on the same clusters, and count the cores that a switch moves.

    python benchmarks/choosing.py

Clusters are drawn as in section VI of "Amdahl's Law in the Datacenter Era": budgets of 1 to 5, 8
jobs per node on average, 24 cores; that fractions are uniform in .55 to .99 is an assumption. Each
is cleared by every mechanism; the table shows means over the clusters. Moved cores are counted from
the allocation of AmdahlBidding, with the Market's default hysteresis and without.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from walras.analysis.plan_quality import evaluate_plan
from walras.clearing import clear
from walras.market.snapshot import CoreMechanism, Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from walras.market.plan import Plan

CLUSTERS, USERS, NODES, CORES, JOBS = 10, 20, 20, 24, 160
HYSTERESIS = 0.02


class MechanismScores(NamedTuple):
    """Scores of one mechanism on one cluster.

    Attributes:
        progress: System progress divided by that of ProportionalSharing.
        error: Mean absolute percentage error of entitlements.
        uniformity: Uniformity of users' progress.
        envy: Envy-freeness; 0 if it is not defined.
        below: Share of users below the utility of their entitlement.
        moved: Cores that a switch from AmdahlBidding moves with hysteresis.
        differs: Cores that it moves without hysteresis.
        seconds: Time to clear.
    """

    progress: float
    error: float
    uniformity: float
    envy: float
    below: float
    moved: float
    differs: float
    seconds: float


def draw(seed: int) -> Snapshot:
    """Draw a cluster."""
    random = np.random.default_rng(seed)
    users = tuple(
        Entitlement(f"u{i}", int(random.integers(1, 6)), None, frozenset({"a"}))
        for i in range(USERS)
    )
    jobs = tuple(
        Job(
            "a",
            f"j{k}",
            f"u{k % USERS if k < USERS else random.integers(USERS)}",
            f"n{random.integers(NODES)}",
            float(random.uniform(0.55, 0.99)),
        )
        for k in range(JOBS)
    )
    return Snapshot(users, tuple(Node(f"n{j}", CORES) for j in range(NODES)), jobs)


def moved(before: Plan, after: Plan) -> float:
    """Return the number of cores that jobs gain."""
    had = {grant.name: grant.held for grant in before.grants}
    return sum(max(grant.held - had[grant.name], 0.0) for grant in after.grants)


def measure(snapshot: Snapshot, mechanism: CoreMechanism) -> MechanismScores:
    """Clear a cluster by a mechanism, from scratch and after AmdahlBidding."""
    before = clear(snapshot, Policy(hysteresis=HYSTERESIS))
    policy = Policy(mechanism, hysteresis=HYSTERESIS)
    began = time.perf_counter()
    anew = clear(snapshot, policy)
    seconds = time.perf_counter() - began
    switched = clear(replace(snapshot, held=before.holdings()), policy)
    scores, rival = evaluate_plan(snapshot, anew), clear(snapshot, Policy("ProportionalSharing"))
    short = [user.utility < user.entitlement_utility * (1 - 1e-6) for user in anew.users]
    return MechanismScores(
        anew.system_progress / rival.system_progress,
        scores.entitlement_error,
        scores.uniformity,
        scores.envy_freeness or 0.0,
        sum(short) / len(short),
        moved(before, switched),
        moved(before, anew),
        seconds,
    )


def main() -> None:
    """Measure all mechanisms, and print a table."""
    print(
        f"{CLUSTERS} clusters of {USERS} users, {JOBS} jobs, {NODES} nodes of {CORES} cores\n\n"
        f"{'':20} progress   MAPE  uniform.  envy-free  below  moved  differs       ms"
    )
    clusters = [draw(seed) for seed in range(CLUSTERS)]
    for mechanism in get_args(CoreMechanism):
        measure(clusters[0], mechanism)  # loads what it needs
        rows = [measure(each, mechanism) for each in clusters]
        means = [fmean(column) for column in zip(*rows, strict=True)]
        p, error, uniform, envy, below, some, most, _ = means
        print(
            f"{mechanism:20} {p:8.3f} {error:6.1%} {uniform:9.3f} {envy:10.3f} {below:6.1%} "
            f"{some:6.1f} {most:8.1f} {1000 * median(row.seconds for row in rows):8.2f}"
        )


if __name__ == "__main__":
    main()
