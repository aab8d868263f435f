"""Compilation ahead of time of every kernel that `clear` may need, as for a container image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from walras.clearing import clear
from walras.snapshot import (
    Bid,
    ColocationRule,
    CoreMechanism,
    Entitlement,
    Job,
    MemoryDemand,
    MemoryMechanism,
    Node,
    Policy,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1024**3


def compile_kernels() -> Iterator[str]:
    """Clear small markets by every mechanism; yield the name of each as it is done."""
    small = small_market()
    for mechanism in get_args(CoreMechanism):
        for market in (small, market_without_bounds(0.0), market_without_bounds(1 - 1e-9)):
            clear(market, Policy(mechanism))
        yield f"cores by {mechanism}"
    for memory in get_args(MemoryMechanism):
        clear(small, Policy(memory=memory))
        yield f"memory by {memory}"
    waiting = tuple(replace(job, node="") for job in small.jobs)
    for rule in get_args(ColocationRule):
        clear(replace(small, jobs=waiting), Policy(colocation=rule))
        yield f"colocation by {rule}"


def small_market() -> Snapshot:
    """Return two users on two nodes, with bounds, demands, bids and penalties of every kind."""
    everywhere = frozenset({"default"})
    jobs = tuple(
        Job(
            "default",
            f"job-{k}",
            f"user-{k % 2}",
            f"node-{k // 4}",
            (0.7, 0.8, 0.9, 0.95)[k % 4],
            min_cores=1 + k % 2,
            max_cores=4 if k % 3 else None,
            memory=MemoryDemand(k * GIB),
            bid=Bid(utility="Log" if k % 2 else "Linear", minimum_utility=0.1 if k == 5 else None),
            program=f"program-{k % 3}",
            bandwidth=float(k),
        )
        for k in range(8)
    )
    return Snapshot(
        tuple(Entitlement(f"user-{i}", i + 1, namespaces=everywhere) for i in range(2)),
        tuple(Node(f"node-{j}", 8, 8 * GIB) for j in range(2)),
        jobs,
        penalties={("program-0", "program-1"): 0.1, ("program-1", "program-2"): 0.2},
    )


def market_without_bounds(least_fraction: float) -> Snapshot:
    """Return two users with 24 jobs on each of two nodes, where rounding leaves many cores over.

    The Amdahl market has other solvers for bounds, and for parallel fractions close to 1.

    Args:
        least_fraction: Smallest parallel fraction of any job.
    """
    small = small_market()
    jobs = tuple(
        replace(
            job,
            name=f"{job.name}-{copy}",
            fraction=max(job.fraction - copy / 100, least_fraction),
            min_cores=1,
            max_cores=None,
        )
        for job in small.jobs
        for copy in range(6)
    )
    nodes = tuple(replace(node, cores=40 + 9 * j) for j, node in enumerate(small.nodes))
    return replace(small, nodes=nodes, jobs=jobs)
