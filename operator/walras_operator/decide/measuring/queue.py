"""Pure: choose what is measured next, at most one pod per node and per profile at a time.

Jobs without any measurement come first, then jobs that have changed, then further pods (up to
`MOST_MEASUREMENTS`), and last checks of progress, which take no core from anybody. Among equals,
the one that has waited longest comes first; among checks, the one that teaches most about penalties
(`lessons`), unless another is overdue. After a failure, another pod is tried, with a longer pause
after each further failure.

Nothing is known of penalties before a pod of a program was measured alone on its socket. Where pods
are placed in pairs, such a pod is therefore measured if none was measured alone before; pods that
are alone come first in every measurement.

Before all of these come lost requests: a node has the request, but no profile has recorded it. A
namespace that is being deleted accepts no new profile, and a status may be refused. A new request
with each decision would narrow the pod to one core again and again, and its results would never be
read. The node's request therefore stays, and is recorded as soon as that is possible.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_api.speedup_profile_status import MOST_MEASUREMENTS, OnlineRequest
from walras_operator.decide.measuring.lessons import is_alone, lesson, was_measured_alone
from walras_operator.decide.measuring.measurement_record import has_changed
from walras_operator.decide.measuring.requests import build_request, expiry_of, request_name
from walras_operator.decide.measuring.times import is_in_future, later
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_api.job_inputs import Name
    from walras_api.market import ProfilingPolicy
    from walras_api.node_allocation import NodeAllocation, ProfilingRequest
    from walras_api.speedup_profile_status import OnlineCheck, OnlineFailure, OnlineMeasurement
    from walras_operator.decide.measuring.co_runners import Company
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.measuring.subjects import Candidate, Subject

FIRST_PAUSE = 30
"""Seconds to wait after a failure; doubled after each further failure in a row."""

LONGEST_PAUSE = 3600
"""Longest wait after failures, in seconds."""

RECHECK_PAUSE = 60
"""Seconds between a check that found a deviation and the next check."""


_STAMP = re.compile(r"[0-9]{14}")


class QueueEntry(NamedTuple):
    """A profile's place in the queue.

    Attributes:
        rank: Rank; smaller comes first.
        lesson: How much a check teaches about penalties; overdue checks count as infinite.
        since: When the profile was last measured or checked (RFC 3339); empty if never.
        purpose: Measure a speedup, or check progress.
        candidates: Pods to measure, the preferred first.
    """

    rank: int
    lesson: float
    since: str
    purpose: Literal["Speedup", "Progress"]
    candidates: Sequence[Candidate]


class QueueContext(NamedTuple):
    """The facts, besides the profiles, that the order of measurements depends on.

    Attributes:
        rules: Intervals, and the most measurements at a time.
        now: Current time (RFC 3339).
        company: Pods beside each pod.
        pairing: Whether pods are placed in pairs, so that penalties are needed.
    """

    rules: ProfilingPolicy
    now: str
    company: Company
    pairing: bool = False


class NewRequest(NamedTuple):
    """A request that is new.

    Attributes:
        request: The request in the form of a profile's status.
        order: The request in the form of a NodeAllocation.
    """

    request: OnlineRequest
    order: ProfilingRequest


def new_requests(
    waiting: Iterable[Subject],
    busy: Collection[str],
    active: int,
    context: QueueContext,
) -> dict[Name, NewRequest]:
    """Return new requests, by namespace and name of the profile.

    Args:
        waiting: Profiles without a running measurement.
        busy: Nodes with a running measurement.
        active: Number of running measurements.
        context: Rules, time, and the pods beside each pod.
    """
    rules = context.rules
    entries = [
        (entry, each) for each in waiting if (entry := queue_entry(each, context)) is not None
    ]
    taken = set(busy)
    requests: dict[Name, NewRequest] = {}
    for entry, subject in sorted(
        entries, key=lambda each: (each[0].rank, -each[0].lesson, each[0].since, each[1].key)
    ):
        if rules.most_at_once is not None and active + len(requests) >= rules.most_at_once:
            break
        free = next((each for each in entry.candidates if each.node not in taken), None)
        if free is not None:
            taken.add(free.node)
            requests[subject.key] = _new_request(subject, free, entry, rules, context.now)
    return requests


def lost_requests(
    waiting: Iterable[Subject], allocations: Mapping[str, NodeAllocation], busy: Collection[str]
) -> dict[Name, NewRequest]:
    """Return requests that nodes have but no profile has recorded, by profile.

    Args:
        waiting: Profiles without a recorded request.
        allocations: NodeAllocations by node.
        busy: Nodes with a running measurement.
    """
    requests: dict[Name, NewRequest] = {}
    taken = set(busy)
    for subject in waiting:
        lost = _lost_request(subject, allocations)
        if lost is not None and lost.request.node not in taken:
            taken.add(lost.request.node)
            requests[subject.key] = lost
    return requests


def queue_entry(subject: Subject, context: QueueContext) -> QueueEntry | None:
    """Return a profile's place in the queue; None if it is not due, or no pod can be measured."""
    rules, now = context.rules, context.now
    record, pods = subject.record, subject.candidates
    if not pods:
        return None
    failure, due = record.failure, _due(record.failure, now)
    looked = _last(record.look_failure, record.check, *record.measurements)
    since = last_end(record)
    if not record.measurements or has_changed(record):
        rank = 1 if record.measurements else 0
        return _speedup(rank, since, pods, failure, context) if due else None
    measured = {each.pod_uid for each in record.measurements}
    others = [each for each in pods if each.pod.metadata.uid not in measured]
    if due and others and len(measured) < MOST_MEASUREMENTS:
        return _speedup(2, since, others, failure, context)
    doubted = record.check is not None and record.check.departures > 0
    pause = min(RECHECK_PAUSE, rules.reprofile_seconds) if doubted else rules.reprofile_seconds
    if not (_due(record.look_failure, now) and _in_next_wave(looked, now, pause)):
        return None
    alone = _alone(pods, context) if due and _lacks_baseline(record, context) else ()
    if alone:
        return QueueEntry(2, 0.0, since, "Speedup", _rotated(alone, _times(failure)))
    turn = _in_turn(pods, record, measured, doubted=doubted)
    lessons = {each.pod.metadata.uid: lesson(record, each, context.company) for each in pods}
    most = max(lessons.values())
    if most > 0 and not doubted:
        turn = _by_lesson(pods, lessons, _wave(now, pause))
        turn = _rotated(turn, _times(record.look_failure))
    overdue = is_in_future(looked, now) or now >= later(looked, 2 * pause)
    return QueueEntry(3, math.inf if overdue else most, since, "Progress", turn)


def _by_lesson(
    pods: Sequence[Candidate], lessons: Mapping[str, float], wave: int
) -> Sequence[Candidate]:
    """Order pods for a check by what it teaches, and in every second wave in turn.

    However much one pod teaches, each is checked now and then, since a change of the program may
    show on some pods only.
    """
    if wave % 2:
        return _rotated(pods, wave // 2)
    return sorted(pods, key=lambda each: -lessons[each.pod.metadata.uid])


def _speedup(
    rank: int,
    since: str,
    pods: Sequence[Candidate],
    failure: OnlineFailure | None,
    context: QueueContext,
) -> QueueEntry:
    """Return the place of a speedup's measurement, on a pod that is alone if there is one.

    After a failure, all pods have their turn.
    """
    turn = _rotated(pods, _times(failure))
    if context.pairing and failure is None:
        alone = {each.pod.metadata.uid for each in _alone(pods, context)}
        turn = sorted(turn, key=lambda each: each.pod.metadata.uid not in alone)
    return QueueEntry(rank, 0.0, since, "Speedup", turn)


def _lacks_baseline(record: ProfileRecord, context: QueueContext) -> bool:
    """Return whether the penalties of a program wait for a measurement of a pod that is alone."""
    by_cpu_time = record.measurements[-1].source == "cpuTime"
    return context.pairing and not by_cpu_time and not was_measured_alone(record)


def _alone(pods: Sequence[Candidate], context: QueueContext) -> Sequence[Candidate]:
    return [each for each in pods if is_alone(each, context.company)]


def last_end(record: ProfileRecord) -> str:
    """Return when a profile was last measured or checked (RFC 3339); empty if never."""
    return _last(record.failure, record.look_failure, record.check, *record.measurements)


def next_attempt(failure: OnlineFailure | None) -> str:
    """Return when to try again after failures (RFC 3339); empty for at once."""
    if failure is None:
        return ""
    doublings = min(failure.times - 1, 30)
    return later(failure.finished, min(FIRST_PAUSE << doublings, LONGEST_PAUSE))


def _due(failure: OnlineFailure | None, now: str) -> bool:
    """Return whether the wait after a failure is over; a failure in the future counts as over."""
    if failure is None or is_in_future(failure.finished, now):
        return True
    return now >= next_attempt(failure)


def _last(*ended: OnlineFailure | OnlineCheck | OnlineMeasurement | None) -> str:
    """Return when the last of these ended (RFC 3339); empty if there is none."""
    return max((each.finished for each in ended if each is not None), default="")


def _times(failure: OnlineFailure | None) -> int:
    return 0 if failure is None else failure.times


def _in_next_wave(since: str, now: str, pause: int) -> bool:
    """Return whether the next check is due, one pause after the last one on average.

    All checks happen at multiples of the pause. Each report of an agent leads to a decision on the
    whole cluster; this way there are some now and then, and not one each second.
    """
    if is_in_future(since, now):
        return True
    before, at = (datetime.fromisoformat(time).timestamp() for time in (since, now))
    return _wave(now, pause) > _wave(since, pause) and at - before >= pause / 2


def _wave(time: str, pause: int) -> int:
    """Return the number of the wave of checks that a moment belongs to."""
    return int(datetime.fromisoformat(time).timestamp() // pause)


def _rotated(candidates: Sequence[Candidate], by: int) -> Sequence[Candidate]:
    first = by % len(candidates)
    return [*candidates[first:], *candidates[:first]]


def _in_turn(
    pods: Sequence[Candidate], record: ProfileRecord, measured: Collection[str], *, doubted: bool
) -> Sequence[Candidate]:
    """Order pods for a check: the one after the last one, or the same again if in doubt.

    A deviation may show on some pods only, for instance on those with many cores. Measured pods
    come first, because their speed on one core is known. Each failed check since skips one more
    pod.
    """
    names = [each.pod.metadata.name for each in pods]
    seen = None if record.check is None else record.check.pod
    first = 0 if seen not in names else names.index(seen) + (not doubted)
    order = sorted(_rotated(pods, first), key=lambda each: each.pod.metadata.uid not in measured)
    return _rotated(order, _times(record.look_failure))


def _new_request(
    subject: Subject, chosen: Candidate, entry: QueueEntry, rules: ProfilingPolicy, now: str
) -> NewRequest:
    order = build_request(
        request_name(subject.key, now), entry.purpose, chosen, subject.sampling, rules
    )
    return NewRequest(_as_recorded(order, chosen, now), order)


def _lost_request(subject: Subject, allocations: Mapping[str, NodeAllocation]) -> NewRequest | None:
    """Return the request of a node for a profile that has recorded neither it nor its result."""
    for candidate in subject.candidates:
        allocation = allocations.get(candidate.node)
        order = None if allocation is None else allocation.spec.profiling
        if order is None or order.pod_uid != candidate.pod.metadata.uid:
            continue
        since = _since(order, subject)
        if since is not None and since > last_end(subject.record):
            return NewRequest(_as_recorded(order, candidate, since), order)
    return None


def _as_recorded(order: ProfilingRequest, chosen: Candidate, since: str) -> OnlineRequest:
    """Return a node's request in the form of a profile's status."""
    return OnlineRequest(
        id=order.id,
        pod=chosen.pod.metadata.name,
        pod_uid=order.pod_uid,
        node=chosen.node,
        purpose=order.purpose,
        since=since,
        until=expiry_of(order, since),
    )


def _since(order: ProfilingRequest, subject: Subject) -> str | None:
    """Return when a request was made, according to its name; None for another profile's."""
    stamp = order.id.rpartition("-")[2]
    if _STAMP.fullmatch(stamp) is None:
        return None
    try:
        since = rfc3339(datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC))
    except ValueError:
        return None
    return since if order.id == request_name(subject.key, since) else None
