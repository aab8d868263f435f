"""Pure: the work of one pod of a job with a deadline, as kept in the status of its MarketJob.

The expected work in seconds on one core is the predicted speedup summed over time, while a grant is
known to be enforced, or replaces one that was. Time is divided into periods with one grant. Earlier
periods are kept as a sum, and the current one as its start, so that a pod with an unchanged grant
needs no write.

Readings of the pod's own counter divide its run into parts. A part lasts `PART_SECONDS` at least,
and half as long as the longest one before, so that a long run needs few writes. If there are too
many parts, each two become one. A counter that runs backwards begins anew: the pod has restarted,
or its counter cannot be trusted. Whatever it says, only the cores that its own user pays for
depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from walras.speedup.work_left import MOST_WORK, RunPart, left_by_counter, merged, rate_of
from walras_api.market_job_status import MOST_PARTS, CountedPart, PodWork
from walras_api.status import decimals
from walras_operator.decide.numbers import LARGEST, thousandths
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.speedup.work_left import WorkLeft
    from walras_operator.decide.world import Document

PART_SECONDS = 30
"""Least seconds between two readings of a counter that begin and end a part of a run."""

SAME_SPEEDUP = 0.01
"""Relative change of a speedup, on the same cores, that begins no new period."""

SMALLEST = 1e-20
"""Smallest number that a status shows; smaller ones are 0."""

DIGITS = 12
"""Significant digits of counters and sums in a status."""


class CounterSample(NamedTuple):
    """A value of a pod's progress counter.

    Attributes:
        value: Value of the counter, finite and not negative.
        time: Time of the reading, in seconds since 1970.
    """

    value: float
    time: int


class PodHolding(NamedTuple):
    """The cores that a pod holds while its grant is enforced, and their speedup.

    Attributes:
        millicores: Thousandths of a core.
        speedup: Expected speedup.
    """

    millicores: int
    speedup: float


NOTHING = PodHolding(0, 0.0)


@dataclass(frozen=True, slots=True)
class PodProgress:
    """The work that a pod has done.

    Attributes:
        uid: UID of the pod.
        name: Name of the pod.
        since: Start of the current period, in seconds since 1970; None if no grant is enforced.
        holding: Cores that it holds in the current period.
        work: Expected work in earlier periods.
        counted: Last reading that ended a part; None before the first reading.
        counted_work: Expected work until that reading.
        parts: Parts of its run.
        reserved: Cores that are reserved for it.
        finished: Time at which it succeeded, in seconds since 1970; None while it runs.
    """

    uid: str
    name: str
    since: int | None = None
    holding: PodHolding = NOTHING
    work: float = 0.0
    counted: CounterSample | None = None
    counted_work: float = 0.0
    parts: tuple[RunPart, ...] = ()
    reserved: float = 0.0
    finished: int | None = None

    def work_at(self, time: int) -> float:
        """Return the expected work until a time, in seconds on one core."""
        if self.since is None:
            return self.work
        return min(self.work + max(time - self.since, 0) * self.holding.speedup, MOST_WORK)

    def held(self, holding: PodHolding | None, now: int) -> PodProgress:
        """Return the progress from now on with this holding; None if no grant is enforced."""
        if holding is not None and self.since is not None and _same(holding, self.holding):
            return self
        if holding is None and self.since is None:
            return self
        closed = replace(self, since=None, holding=NOTHING, work=self.work_at(now))
        return closed if holding is None else replace(closed, since=now, holding=holding)

    def read(self, reading: CounterSample) -> PodProgress:
        """Return the progress after a reading, which ends a part if the part is long enough."""
        before, work = self.counted, self.work_at(reading.time)
        if before is None or reading.value < before.value:
            return replace(self, counted=reading, counted_work=work, parts=())
        part = RunPart(work - self.counted_work, reading.value - before.value)
        least = max((each.work for each in self.parts), default=0.0) / 2
        if reading.time - before.time < PART_SECONDS or part.work <= least:
            return self
        parts = (*self.parts, part)
        return replace(
            self,
            counted=reading,
            counted_work=work,
            parts=parts if len(parts) <= MOST_PARTS else merged(parts),
        )

    def left(self, total: float, latest: CounterSample | None, now: int) -> WorkLeft | None:
        """Return the work left by the pod's own counter; None if its rate is not known yet.

        Args:
            total: Value of the counter when all is done.
            latest: Latest reading, if it is later than the one that ended a part.
            now: Current time, in seconds since 1970.
        """
        if self.counted is None:
            return None
        last, done, parts = self.counted, self.counted_work, self.parts
        if latest is not None and latest.time > last.time and latest.value >= last.value:
            done = self.work_at(latest.time)
            if done > self.counted_work:
                parts = (*parts, RunPart(done - self.counted_work, latest.value - last.value))
            last = latest
        rate = rate_of(parts)
        if rate is None:
            return None
        return left_by_counter(total, last.value, rate, max(self.work_at(now) - done, 0.0))

    def document(self) -> Document:
        """Return the progress in the form of a status."""
        held, counted = self.since is not None, self.counted
        return PodWork(
            pod_uid=self.uid,
            pod=self.name,
            held_since=None if self.since is None else time_of(self.since),
            millicores=self.holding.millicores if held else None,
            speedup=_number(self.holding.speedup) if held else None,
            work=_number(self.work),
            counter=None if counted is None else _number(counted.value),
            counted_at=None if counted is None else time_of(counted.time),
            counted_work=None if counted is None else _number(self.counted_work),
            parts=[
                CountedPart(work=_number(each.work), count=_number(each.amount))
                for each in self.parts
            ],
            reserved_cores=thousandths(self.reserved) if self.reserved else None,
            finished=None if self.finished is None else time_of(self.finished),
        ).document()


def _same(one: PodHolding, other: PodHolding) -> bool:
    near = math.isclose(one.speedup, other.speedup, rel_tol=SAME_SPEEDUP)
    return one.millicores == other.millicores and near


def _number(value: float) -> str:
    return "0" if value < SMALLEST else decimals(min(value, LARGEST), DIGITS)


def read_progress(entry: Mapping[str, Any]) -> PodProgress | None:
    """Parse the progress of a pod from a status; None if it is malformed."""
    try:
        stored = PodWork.read(entry)
    except ValidationError:
        return None
    since, at = seconds_of(stored.held_since), seconds_of(stored.counted_at)
    counted = None
    if stored.counter is not None and at is not None:
        counted = CounterSample(float(stored.counter), at)
    numbers = [stored.speedup, stored.work, stored.counter, stored.counted_work]
    parts = tuple(RunPart(float(each.work), float(each.count)) for each in stored.parts)
    sound = all(part.work > 0 and part.amount >= 0 for part in parts)
    if not sound or any(float(each or 0) < 0 for each in numbers) or not stored.pod_uid:
        return None
    return PodProgress(
        uid=stored.pod_uid,
        name=stored.pod,
        since=since,
        holding=NOTHING
        if since is None
        else PodHolding(stored.millicores or 0, float(stored.speedup or 0)),
        work=min(float(stored.work), MOST_WORK),
        counted=counted,
        counted_work=min(float(stored.counted_work or 0), MOST_WORK),
        parts=parts if counted is not None else (),
        reserved=float(stored.reserved_cores or 0),
        finished=seconds_of(stored.finished),
    )
