"""Interference: lower parallel fractions of jobs that lose throughput beside others.

Parallel fractions are measured in isolation, but colocation degrades performance, which implies
smaller speedups and smaller effective values of F ("Amdahl's Law in the Datacenter Era", VI-E). As
in the paper, a loss of some percent of throughput lowers F by as many percent.

All jobs on a node count as co-runners, even on different sockets. The sockets that a job runs on
follow from its number of cores, and this follows from F. If F followed from the sockets in turn,
cores could move at every decision.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.market.snapshot import identity
from walras.speedup.amdahls_law import MIN_FRACTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.market.snapshot import Job, JobKey


class ThroughputLoss(NamedTuple):
    """Part of its throughput that a program loses, and the program beside which it does."""

    part: float
    beside: str


class AdjustedJobs(NamedTuple):
    """All jobs, with fractions lowered where they lose throughput, and a sentence on each loss."""

    jobs: tuple[Job, ...]
    losses: Mapping[JobKey, str]


def lower_fractions(
    jobs: Sequence[Job], penalties: Mapping[tuple[str, str], float]
) -> AdjustedJobs:
    """Lower the parallel fractions of jobs by what they lose beside the others on their node.

    Of several programs on a node, the one beside which a job loses most counts: penalties are
    measured in pairs, and how those of more programs add up is not known. Pairs that were not
    measured lose nothing. A fraction that was measured beside a program has that loss in it, so
    what the job loses there does not count again.

    Args:
        jobs: Jobs that have a node.
        penalties: Part of its throughput that a program loses, by program and co-runner.
    """
    if not penalties:
        return AdjustedJobs(tuple(jobs), {})
    worst = _WorstLosses(jobs, penalties)
    losses: dict[JobKey, str] = {}
    result = []
    for job in jobs:
        loss = worst.of(job)
        if loss is None:
            result.append(job)
        else:
            fraction = max(job.fraction * (1 - loss.part), MIN_FRACTION)
            result.append(replace(job, fraction=fraction))
            losses[identity(job)] = (
                f"its parallel fraction of {job.fraction:.3f} counts as {fraction:.3f}, since it "
                f"loses {loss.part:.1%} of its throughput beside {loss.beside}"
            )
    return AdjustedJobs(tuple(result), losses)


class _WorstLosses:
    """The largest losses of programs on nodes, each computed once."""

    def __init__(self, jobs: Iterable[Job], penalties: Mapping[tuple[str, str], float]) -> None:
        self._penalties = penalties
        self._there: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._known: dict[tuple[str, str, frozenset[str]], ThroughputLoss] = {}
        for job in jobs:
            self._there[job.node][job.program] += 1

    def of(self, job: Job) -> ThroughputLoss | None:
        """Return what a job loses on its node that its fraction does not contain, if anything."""
        if job.measured_beside is None:
            return None
        key = job.node, job.program, job.measured_beside
        if key not in self._known:
            self._known[key] = self._largest(*key)
        return self._known[key] if self._known[key].part > 0 else None

    def _largest(self, node: str, program: str, contained: frozenset[str]) -> ThroughputLoss:
        losses = [
            ThroughputLoss(self._penalties.get((program, other), 0.0), other)
            for other, copies in self._there[node].items()
            if (other != program or copies > 1) and other not in contained
        ]
        return max(losses, default=ThroughputLoss(0.0, ""))
