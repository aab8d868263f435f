"""What measurements of one row say, and whether the agent keeps what it promises; only computes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holding.measure import Found
    from holding.rows import Row

MOST_OUTSIDE = 0.1
"""Part of the CPUs that other programs may take of a measurement that counts."""

PLAIN, THIS, BEFORE = "plain weights", "this", "before"


@dataclass(frozen=True)
class Outcome:
    """How pods divided the CPUs of a row under one way; medians of all runs.

    Attributes:
        error: Worst error of a pod's CPU time against what it bought, in percent (`due`); None
            unless all always compute.
        swing: The same of the worst few seconds.
        cpus: CPUs that all pods used.
        outside: CPUs that programs outside of the pods took.
        steady: Least part of what a pod bought that it had, among those that always compute.
        p50: Milliseconds of a service's median answer; None without one.
        p99: Milliseconds of the 99th percentile.
        work: Blocks of work a second of the pods that do not always compute, or of all.
        writes: Writes of weights a second.
        fsyncs: Calls of fsync a second.
        agent: CPU time of who divides, in percent of a CPU.
    """

    error: float | None
    swing: float | None
    cpus: float
    outside: float
    steady: float | None
    p50: float | None
    p99: float | None
    work: float
    writes: float
    fsyncs: float
    agent: float


def water_fill(amount: float, wants: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Divide an amount by weights, to nobody more than its limit.

    Args:
        amount: What is divided.
        wants: Weight and limit of each.
    """
    got: dict[str, float] = {}
    while left := {name: want for name, want in wants.items() if name not in got}:
        rest, weights = amount - sum(got.values()), sum(weight for weight, _ in left.values())
        full = {n: most for n, (weight, most) in left.items() if most <= rest * weight / weights}
        got |= full or {n: rest * weight / weights for n, (weight, _) in left.items()}
    return got


def due(row: Row, used: Mapping[str, float], idle: float) -> dict[str, float]:
    """Return the CPUs that each pod should have had, by what it bought and its threads.

    What programs outside of the pods took, all lose alike. Idle time is not taken by anybody.
    """
    there = sum(used.values()) + idle
    part = min(1.0, there / row.cpus)
    wants = {name: (pod.cpus, min(pod.threads, row.cpus) * part) for name, pod in row.pods.items()}
    return water_fill(there, wants)


def outcome(row: Row, found: Sequence[Found]) -> Outcome:
    """Return the medians of some measurements of a row."""
    runs = [_outcome(row, each) for each in found]
    medians: dict[str, Any] = {}
    for field in fields(Outcome):
        values = [getattr(run, field.name) for run in runs]
        medians[field.name] = None if None in values else statistics.median(values)
    return Outcome(**medians)


def _outcome(row: Row, found: Found) -> Outcome:
    used, idle = found["used"], found["idle"]
    part = min(1.0, (sum(used.values()) + idle) / row.cpus)
    always = row.kind == "always busy"
    steady = [used[n] / (pod.cpus * part) for n, pod in row.pods.items() if pod.is_steady]
    varying = [name for name, pod in row.pods.items() if pod.kind != "compute"]
    took = next(iter(found["took"].values()), (None, None))
    return Outcome(
        error=_error(row, used, idle) if always else None,
        swing=max(_error(row, each, idle) for each in found["slices"]) if always else None,
        cpus=sum(used.values()),
        outside=row.cpus - sum(used.values()) - idle,
        steady=min(steady, default=None),
        p50=took[0],
        p99=took[1],
        work=sum(found["blocks"][name] for name in varying or row.pods),
        writes=found["writes"],
        fsyncs=found["fsyncs"],
        agent=100 * found["agent"],
    )


def _error(row: Row, used: Mapping[str, float], idle: float) -> float:
    owed = due(row, used, idle)
    return 100 * max(abs(used[name] / owed[name] - 1) for name in owed)


def disturbed(row: Row, by: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield the ways whose measurement says little, since other programs took a tenth or more."""
    for way, found in by.items():
        others = found.outside - found.agent / 100
        if others > MOST_OUTSIDE * row.cpus:
            yield f"{row.name}, {way}: other programs took {others:.2f} CPUs; measure it again"


def missed(row: Row, by: Mapping[str, Outcome], kernel: str) -> Iterator[str]:
    """Yield what the agent of this checkout misses; bounds of ways not measured are left out."""
    ours, plain, before = by.get(THIS), by.get(PLAIN), by.get(BEFORE)
    if ours is None:
        return
    if ours.error is not None:
        bound = _most_error(row, before, kernel)
        if ours.error > bound:
            yield f"{row.name}: error {ours.error:.1f} %, at most {bound:.1f}"
    elif row.kind == "phases":
        if plain and ours.cpus < 0.97 * plain.cpus:
            yield f"{row.name}: {ours.cpus:.2f} CPUs used, at least 0.97 of {plain.cpus:.2f}"
        if ours.steady is not None and ours.steady < 0.97:
            yield f"{row.name}: steady pods have {ours.steady:.3f} of what they bought, least 0.97"
    elif row.kind == "service" and ours.p99 is not None:
        bound = _most_p99(row, plain, before)
        if ours.p99 > bound:
            yield f"{row.name}: p99 {ours.p99:.0f} ms, at most {bound:.0f}"


def _most_error(row: Row, before: Outcome | None, kernel: str) -> float:
    if kernel == "newest":
        return 15.0
    if row.cpus <= 2:
        return 3.0
    return min(5.0, before.error if before and before.error else 5.0)


def _most_p99(row: Row, plain: Outcome | None, before: Outcome | None) -> float:
    """Return the longest 99th percentile: services on whole CPUs had these to themselves before."""
    if row.is_within_whole_cpus:
        return 1.5 * before.p99 if before and before.p99 else float("inf")
    return min((each.p99 for each in (plain, before) if each and each.p99), default=float("inf"))
