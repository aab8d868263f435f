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
    from collections.abc import Hashable, Mapping, Sequence

    from walras.market.snapshot import Job, JobKey


class ThroughputLoss(NamedTuple):
    """Part of its throughput that a program loses, and the program beside which it does."""

    part: float
    beside: str

    def lowered(self, fraction: float) -> float:
        """Return the parallel fraction that a job bids with that loses this."""
        return max(fraction * (1 - self.part), MIN_FRACTION)


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
    losses: dict[JobKey, str] = {}
    result = []
    worst = losses_beside(jobs, [job.node for job in jobs], penalties)
    for job, loss in zip(jobs, worst, strict=True):
        if loss is None:
            result.append(job)
        else:
            fraction = loss.lowered(job.fraction)
            result.append(replace(job, fraction=fraction))
            losses[identity(job)] = (
                f"its parallel fraction of {job.fraction:.3f} counts as {fraction:.3f}, since it "
                f"loses {loss.part:.1%} of its throughput beside {loss.beside}"
            )
    return AdjustedJobs(tuple(result), losses)


def losses_beside(
    jobs: Sequence[Job], places: Sequence[Hashable], penalties: Mapping[tuple[str, str], float]
) -> list[ThroughputLoss | None]:
    """Return what each job loses at its place that its fraction does not contain, if anything.

    Args:
        jobs: Jobs, wherever they are.
        places: Where each job is to be, as a key of its node.
        penalties: As for `lower_fractions`.
    """
    there: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
    for job, place in zip(jobs, places, strict=True):
        there[place][job.program] += 1
    by_company: dict[tuple[Hashable, str, frozenset[str]], ThroughputLoss | None] = {}
    losses: list[ThroughputLoss | None] = []
    for job, place in zip(jobs, places, strict=True):
        if job.measured_beside is None:
            losses.append(None)
            continue
        key = place, job.program, job.measured_beside
        if key not in by_company:
            largest = _largest_loss(job.program, there[place], job.measured_beside, penalties)
            by_company[key] = largest if largest.part > 0 else None
        losses.append(by_company[key])
    return losses


def _largest_loss(
    program: str,
    there: Mapping[str, int],
    contained: frozenset[str],
    penalties: Mapping[tuple[str, str], float],
) -> ThroughputLoss:
    """Return the largest loss of a program beside those that are there, by number of copies."""
    losses = [
        ThroughputLoss(penalties.get((program, other), 0.0), other)
        for other, copies in there.items()
        if (other != program or copies > 1) and other not in contained
    ]
    return max(losses, default=ThroughputLoss(0.0, ""))
