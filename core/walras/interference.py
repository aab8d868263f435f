"""What programs lose beside others, taken off the parallel fractions that they bid with (pure).

Parallel fractions are measured in isolation, but colocation degrades performance, which implies
smaller speedups and smaller effective values of F ("Amdahl's Law in the Datacenter Era", VI-E). As
there, a loss of some percent of throughput lowers F by as many percent.
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
    from walras.snapshot import Job, Key


class Loss(NamedTuple):
    """What a program loses beside another.

    Attributes:
        part: of its throughput.
        beside: the other program.
    """

    part: float
    beside: str


class Disturbed(NamedTuple):
    """Jobs as they bid.

    Attributes:
        jobs: with the parallel fractions that are left of theirs.
        losses: of those whose fraction is lower for it, by identity.
    """

    jobs: tuple[Job, ...]
    losses: Mapping[Key, Loss]


def disturb(jobs: Sequence[Job], penalties: Mapping[tuple[str, str], float]) -> Disturbed:
    """Take off jobs' parallel fractions what they lose beside their neighbours.

    Of several programs on a node, the one beside which a job loses most counts: penalties are
    measured in pairs, and how those of more programs add up is not known. Where nothing was
    measured nothing is lost; what was measured among the node's programs has lost it already.

    Args:
        jobs: admitted and placed.
        penalties: (program, beside which) to the share of its throughput that it loses there.
    """
    worst = _worst(jobs, penalties)
    if not worst:
        return Disturbed(tuple(jobs), {})
    losses: dict[Key, Loss] = {}
    result = []
    for job in jobs:
        loss = None if job.measured_together else worst.get((job.node, job.program))
        if loss is None:
            result.append(job)
        else:
            losses[identity(job)] = loss
            fraction = max(job.fraction * (1 - loss.part), MIN_FRACTION)
            result.append(replace(job, fraction=fraction))
    return Disturbed(tuple(result), losses)


def explained(
    grants: Iterable[Grant], jobs: Sequence[Job], losses: Mapping[Key, Loss]
) -> list[Grant]:
    """Return grants whose reasons tell of what interference takes.

    Args:
        grants: of the jobs.
        jobs: with the parallel fractions that were measured, in the same order.
        losses: of those that bid with less.
    """
    if not losses:
        return list(grants)
    result = []
    for grant, job in zip(grants, jobs, strict=True):
        loss = losses.get(identity(job))
        if loss is not None:
            grant = replace(  # noqa: PLW2901 - as it is from here on
                grant,
                reason=f"{grant.reason}; its parallel fraction of {job.fraction:.3f} counts as "
                f"{grant.fraction:.3f}, since it loses {loss.part:.1%} beside {loss.beside}",
            )
        result.append(grant)
    return result


def _worst(
    jobs: Iterable[Job], penalties: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], Loss]:
    """Return the largest loss of each program on each node, where it loses anything."""
    if not penalties:
        return {}
    there: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        there[job.node][job.program] += 1
    found = {}
    for node, programs in there.items():
        for mine, copies in programs.items():
            others = [other for other in programs if other != mine or copies > 1]
            losses = [Loss(penalties.get((mine, other), 0.0), other) for other in others]
            worst = max(losses, default=Loss(0.0, ""))
            if worst.part > 0:
                found[node, mine] = worst
    return found
