"""Requests for cores by jobs with deadlines, in the order in which they are accepted."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.division.deadlines.need import (
    cores_for,
    cores_needed,
    in_thousandths,
    reservation,
    speed_for,
)
from walras.market.snapshot import identity
from walras.speedup.amdahls_law import speedup_in_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras.market.plan import DeadlineState, Plan
    from walras.market.snapshot import Job, JobKey, Policy, Snapshot

    Decide = Callable[[Snapshot, Policy], Plan]


class Part(NamedTuple):
    """A pod of a job with a deadline.

    Attributes:
        number: Position of the pod in the snapshot.
        needed: Cores that it needs, by the work on the safe side.
        cores: Cores to reserve; 0 for none.
        enough: Those of them without any to spare.
        likely: Those of them by the expected work.
    """

    number: int
    needed: float
    cores: float
    enough: float
    likely: float


class Request(NamedTuple):
    """A job whose deadline is to be kept.

    Attributes:
        rank: Place in the order of acceptance.
        user: Entitlement that pays.
        parts: Its pods.
        standing: Whether cores are reserved for it now.
        within_reach: Whether the cores that it can use suffice.
    """

    rank: tuple[bool, float, str, str]
    user: str
    parts: tuple[Part, ...]
    standing: bool
    within_reach: bool

    @property
    def job(self) -> tuple[str, str]:
        """Namespace and name of the job."""
        return self.rank[2], self.rank[3]

    @property
    def without_spare(self) -> Request:
        """The request without cores to spare."""
        parts = tuple(part._replace(cores=min(part.cores, part.enough)) for part in self.parts)
        return self._replace(parts=parts)

    @property
    def more_modest(self) -> Request:
        """The request without cores to spare, then without the margin for its work's error."""
        modest = self.without_spare
        if modest != self:
            return modest
        parts = tuple(part._replace(cores=min(part.cores, part.likely)) for part in self.parts)
        return self._replace(parts=parts)

    @property
    def reserves(self) -> bool:
        """Whether any core is to be reserved."""
        return any(part.cores for part in self.parts)


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        payable: Cores that the user's budget could reserve, if it decided.
        sure: Whether the cores are within the user's share of their nodes, which nobody takes.
    """

    state: DeadlineState
    payable: float | None = None
    sure: bool = False


def requests_of(
    snapshot: Snapshot, bidding: Iterable[Job], cores: Mapping[str, float]
) -> list[Request]:
    """Return the jobs with deadlines in the order of acceptance.

    Args:
        snapshot: Snapshot in canonical order.
        bidding: Jobs that take part in the market, with the parallel fractions that they bid with.
            A refused job names an entitlement that is not its own, whose deadlines it must not
            displace.
        cores: Most cores that a job can have of each node, by name.
    """
    fractions = {identity(job): job.fraction for job in bidding}
    of_job: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number, job in enumerate(snapshot.jobs):
        takes_part = cores.get(job.node, 0) > 0 and identity(job) in fractions
        if job.deadline is not None and takes_part:
            of_job[job.namespace, job.name, job.entitlement].append(number)
    return sorted(
        _request(snapshot, fractions, cores, key, numbers) for key, numbers in of_job.items()
    )


def _request(
    snapshot: Snapshot,
    fractions: Mapping[JobKey, float],
    cores: Mapping[str, float],
    key: tuple[str, str, str],
    numbers: Iterable[int],
) -> Request:
    parts: list[Part] = []
    standing, within_reach, seconds = False, True, math.inf
    for number in numbers:
        job = snapshot.jobs[number]
        deadline, most, fraction = job.deadline, cores[job.node], fractions[identity(job)]
        if deadline is None:
            continue
        most = min(most, job.max_cores or most)
        needed = cores_needed(deadline, fraction)
        likely = cores_for(speed_for(deadline.left, deadline.seconds), fraction)
        wanted = reservation(needed, deadline.reserved, most)
        least = (in_thousandths(each, most) for each in (needed, likely))
        parts.append(Part(number, needed, wanted, *least))
        standing = standing or deadline.reserved > 0
        seconds = min(seconds, deadline.seconds)
        # What was promised is kept as long as it is possible at all.
        work = deadline.left - (deadline.error if deadline.reserved else 0.0)
        fastest = speedup_in_hardware(most, fraction)
        within_reach = within_reach and speed_for(work, deadline.seconds) <= fastest
    namespace, name, user = key
    rank = not standing, seconds, namespace, name
    return Request(rank, user, tuple(parts), standing, within_reach)


def with_reserved(snapshot: Snapshot, chosen: Iterable[Request]) -> Snapshot:
    """Return the snapshot with the cores of these deadlines reserved, and no others."""
    cores = {part.number: part.cores for request in chosen for part in request.parts}
    return replace(
        snapshot,
        jobs=tuple(
            job
            if job.deadline is None
            else replace(job, deadline=replace(job.deadline, reserved=cores.get(number, 0)))
            for number, job in enumerate(snapshot.jobs)
        ),
    )
