"""Interference: lower parallel fractions of jobs that lose throughput beside others.

Parallel fractions are measured in isolation, but colocation degrades performance, which implies
smaller speedups and smaller effective values of F ("Amdahl's Law in the Datacenter Era", VI-E). As
in the paper, a loss of some percent of throughput lowers F by as many percent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.snapshot import identity
from walras.speedup import MIN_FRACTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.plan import Grant
    from walras.snapshot import Job, JobKey


class ThroughputLoss(NamedTuple):
    """Part of its throughput that a program loses, and the program beside which it does."""

    part: float
    beside: str


class AdjustedJobs(NamedTuple):
    """All jobs, with fractions lowered where they lose throughput, and these losses by job."""

    jobs: tuple[Job, ...]
    losses: Mapping[JobKey, ThroughputLoss]


def lower_fractions(
    jobs: Sequence[Job], penalties: Mapping[tuple[str, str], float]
) -> AdjustedJobs:
    """Lower the parallel fractions of jobs by what they lose beside the others on their node.

    Of several programs on a node, the one beside which a job loses most counts: penalties are
    measured in pairs, and how those of more programs add up is not known. Pairs that were not
    measured lose nothing. A fraction that was measured beside the node's programs stays as it is.

    Args:
        jobs: Jobs that have a node.
        penalties: Part of its throughput that a program loses, by program and co-runner.
    """
    worst = _worst(jobs, penalties)
    if not worst:
        return AdjustedJobs(tuple(jobs), {})
    losses: dict[JobKey, ThroughputLoss] = {}
    result = []
    for job in jobs:
        loss = None if job.measured_together else worst.get((job.node, job.program))
        if loss is None:
            result.append(job)
        else:
            losses[identity(job)] = loss
            fraction = max(job.fraction * (1 - loss.part), MIN_FRACTION)
            result.append(replace(job, fraction=fraction))
    return AdjustedJobs(tuple(result), losses)


def add_interference_reasons(
    grants: Iterable[Grant], jobs: Sequence[Job], losses: Mapping[JobKey, ThroughputLoss]
) -> list[Grant]:
    """Return grants whose reasons name the lowered fractions.

    Args:
        grants: Grants of the jobs.
        jobs: Jobs with the parallel fractions that were measured, in the order of the grants.
        losses: Losses of the jobs with a lowered fraction, by key.
    """
    if not losses:
        return list(grants)
    result = []
    for grant, job in zip(grants, jobs, strict=True):
        loss = losses.get(identity(job))
        if loss is not None:
            grant = replace(  # noqa: PLW2901 - the grant is replaced
                grant,
                reason=f"{grant.reason}; its parallel fraction of {job.fraction:.3f} counts as "
                f"{grant.fraction:.3f}, since it loses {loss.part:.1%} of its throughput beside "
                f"{loss.beside}",
            )
        result.append(grant)
    return result


def _worst(
    jobs: Iterable[Job], penalties: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], ThroughputLoss]:
    """Return the largest loss above 0 of each program on each node."""
    if not penalties:
        return {}
    there: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        there[job.node][job.program] += 1
    found = {}
    for node, programs in there.items():
        for mine, copies in programs.items():
            others = [other for other in programs if other != mine or copies > 1]
            losses = [ThroughputLoss(penalties.get((mine, other), 0.0), other) for other in others]
            worst = max(losses, default=ThroughputLoss(0.0, ""))
            if worst.part > 0:
                found[node, mine] = worst
    return found
