"""Chooses (pure): who is measured next: at most one pod of a node, and of a profile, at a time.

First come jobs of which nothing is known, then those that depart from their profiles, then further
pods (`MOST_MEASUREMENTS` in all), and last looks at whether progress is as predicted, which take no
core from anybody. Among equals the one goes first that has waited longest. After a failure the next
pod has its turn, later after every further one in a row: it may be the pod's, or its node's.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras.resources.statuses import MOST_MEASUREMENTS, OnlineRequest
from walras_operator.measuring.record import departed
from walras_operator.measuring.requests import name_of, request_of, until_of
from walras_operator.measuring.times import is_to_come, later

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from walras.resources.allocation import ProfilingRequest
    from walras.resources.market import ProfilingPolicy
    from walras.resources.statuses import OnlineCheck, OnlineFailure, OnlineMeasurement
    from walras.resources.terms import Name
    from walras_operator.measuring.record import Record
    from walras_operator.measuring.subjects import Candidate, Subject

FIRST_PAUSE = 30
"""Seconds after a measurement that failed; twice as many after every further one in a row."""

LONGEST_PAUSE = 3600
"""Seconds."""

SECOND_LOOK = 60
"""Seconds from a look that found progress depart to the next."""


class Turn(NamedTuple):
    """What a profile waits for.

    Attributes:
        rank: smaller goes first.
        since: when it was last looked after (RFC 3339); empty if never.
        purpose: of the measurement.
        candidates: on which pods, the preferred first.
    """

    rank: int
    since: str
    purpose: Literal["Speedup", "Progress"]
    candidates: Sequence[Candidate]


class Asked(NamedTuple):
    """A measurement that is to begin.

    Attributes:
        request: as the profile notes it.
        order: as the node is told.
    """

    request: OnlineRequest
    order: ProfilingRequest


def ask(
    waiting: Iterable[Subject],
    busy: Collection[str],
    active: int,
    rules: ProfilingPolicy,
    now: str,
) -> dict[Name, Asked]:
    """Return the measurements that are to begin, by namespace and name of the profile.

    Args:
        waiting: profiles of which nothing is being measured.
        busy: nodes that measure.
        active: measurements that are being made.
        rules: how often, and how many at a time.
        now: the time (RFC 3339).
    """
    turns = [(turn, each) for each in waiting if (turn := turn_of(each, rules, now)) is not None]
    taken = set(busy)
    asked: dict[Name, Asked] = {}
    for turn, subject in sorted(turns, key=lambda each: (each[0].rank, each[0].since, each[1].key)):
        if rules.most_at_once is not None and active + len(asked) >= rules.most_at_once:
            break
        free = next((each for each in turn.candidates if each.node not in taken), None)
        if free is not None:
            taken.add(free.node)
            asked[subject.key] = _request(subject, free, turn, rules, now)
    return asked


def turn_of(subject: Subject, rules: ProfilingPolicy, now: str) -> Turn | None:
    """Return what a profile waits for; None if it is not due, or no pod can be measured."""
    record, pods = subject.record, subject.candidates
    if not pods:
        return None
    failure, due = record.failure, _due(record.failure, now)
    looked = _last(record.look_failure, record.check, *record.measurements)
    since = last_end(record)
    if not record.measurements or departed(record):
        rank = 1 if record.measurements else 0
        return Turn(rank, since, "Speedup", _rotated(pods, _times(failure))) if due else None
    known = {each.pod_uid for each in record.measurements}
    others = [each for each in pods if each.pod.cgroup_uid not in known]
    if due and others and len(known) < MOST_MEASUREMENTS:
        return Turn(2, since, "Speedup", _rotated(others, _times(failure)))
    doubted = record.check is not None and record.check.departures > 0
    pause = min(SECOND_LOOK, rules.reprofile_seconds) if doubted else rules.reprofile_seconds
    if not (_due(record.look_failure, now) and _in_next_wave(looked, now, pause)):
        return None
    return Turn(3, since, "Progress", _in_turn(pods, record, known, doubted=doubted))


def last_end(record: Record) -> str:
    """Return when a profile was last looked after (RFC 3339); empty if never."""
    return _last(record.failure, record.look_failure, record.check, *record.measurements)


def next_attempt(failure: OnlineFailure | None) -> str:
    """Return when a pod may have its turn after failures (RFC 3339); empty for at once."""
    if failure is None:
        return ""
    doublings = min(failure.times - 1, 30)
    return later(failure.finished, min(FIRST_PAUSE << doublings, LONGEST_PAUSE))


def _due(failure: OnlineFailure | None, now: str) -> bool:
    """Whether the pause after a failure is over; one that is still to come makes none."""
    if failure is None or is_to_come(failure.finished, now):
        return True
    return now >= next_attempt(failure)


def _last(*ended: OnlineFailure | OnlineCheck | OnlineMeasurement | None) -> str:
    """Return when the last of these ended (RFC 3339); empty if there is none."""
    return max((each.finished for each in ended if each is not None), default="")


def _times(failure: OnlineFailure | None) -> int:
    return 0 if failure is None else failure.times


def _in_next_wave(since: str, now: str, pause: int) -> bool:
    """Whether it is time for a look again, a pause after the last one on average.

    All look at multiples of the pause: every report of an agent has a decision made, of the whole
    cluster, and so these are some now and then, and not one every second.
    """
    if is_to_come(since, now):
        return True
    before, at = (datetime.fromisoformat(time).timestamp() for time in (since, now))
    return at // pause > before // pause and at - before >= pause / 2


def _rotated(candidates: Sequence[Candidate], by: int) -> Sequence[Candidate]:
    first = by % len(candidates)
    return [*candidates[first:], *candidates[:first]]


def _in_turn(
    pods: Sequence[Candidate], record: Record, known: Collection[str], *, doubted: bool
) -> Sequence[Candidate]:
    """Order pods for a look: the one after the one seen last, or again that one if in doubt.

    A departure shows on some pods and not on others, such as those of few cores. Pods that were
    measured come before others: only of them is it known how fast they are on one core. Each look
    that failed since passes over one more.
    """
    names = [each.pod.metadata.name for each in pods]
    seen = None if record.check is None else record.check.pod
    first = 0 if seen not in names else names.index(seen) + (not doubted)
    order = sorted(_rotated(pods, first), key=lambda each: each.pod.cgroup_uid not in known)
    return _rotated(order, _times(record.look_failure))


def _request(
    subject: Subject, chosen: Candidate, turn: Turn, rules: ProfilingPolicy, now: str
) -> Asked:
    name = name_of(subject.key, now)
    order = request_of(name, turn.purpose, chosen, subject.sampling, rules)
    request = OnlineRequest(
        id=name,
        pod=chosen.pod.metadata.name,
        pod_uid=chosen.pod.cgroup_uid,
        node=chosen.node,
        purpose=turn.purpose,
        since=now,
        until=until_of(order, now),
    )
    return Asked(request, order)
