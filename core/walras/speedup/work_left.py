"""The work that a running job has left, with its error, and the time of its deadline.

Work is counted in seconds on one core. A job's own counter tells it best: over each part of its run
it counts c while the speedup that its profile predicts adds up to w seconds of work, so that it
counts v = sum c / sum w in a second on one core. This is a ratio estimate, whose standard error is
that of the deviations c - v w between parts:

    se(v) = sqrt(n / (n - 1) sum (c - v w)^2) / sum w.

It contains what the prediction errs by on other numbers of cores, as far as parts were on several.
Without a counter, the work is the time on one core that a profile predicts, less the speedup summed
over the run.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN_ERROR = 0.25
"""Relative error of a rate that a single part shows; it fades as parts become more."""

LEAST_LEFT = 0.5
"""Part of the work left at the last reading of a counter that is left at least until the next."""

MOST_WORK = 1e12
"""Most seconds of work that count, some 30 000 years."""


class RunPart(NamedTuple):
    """A part of a job's run.

    Attributes:
        work: Expected work, in seconds on one core, above 0.
        amount: Increase of the job's counter, at least 0.
    """

    work: float
    amount: float


class Rate(NamedTuple):
    """Progress per second on one core.

    Attributes:
        value: Increase of the counter in a second on one core.
        error: Relative standard error.
    """

    value: float
    error: float


class WorkLeft(NamedTuple):
    """Work that a job has left.

    Attributes:
        seconds: Expected work in seconds on one core.
        error: Standard error of that.
    """

    seconds: float
    error: float


def rate_of(parts: Sequence[RunPart]) -> Rate | None:
    """Return the rate of a job's counter; None if it has not moved yet."""
    work, count = math.fsum(each.work for each in parts), math.fsum(each.amount for each in parts)
    if work <= 0 or count <= 0:
        return None
    value, number = count / work, len(parts)
    spread = 0.0
    if number > 1:
        squares = math.fsum((each.amount - value * each.work) ** 2 for each in parts)
        spread = math.sqrt(number / (number - 1) * squares) / count
    error = math.sqrt((UNKNOWN_ERROR**2 + (number - 1) * spread**2) / number)
    return Rate(value, error)


def merged(parts: Sequence[RunPart]) -> tuple[RunPart, ...]:
    """Return half as many parts, each two of them in one; the last stays alone if need be."""
    pairs = zip(parts[::2], parts[1::2], strict=False)
    joined = [RunPart(a.work + b.work, a.amount + b.amount) for a, b in pairs]
    return (*joined, *parts[len(joined) * 2 :])


def left_by_counter(total: float, counter: float, rate: Rate, since: float) -> WorkLeft:
    """Return the work left by a job's own counter.

    Args:
        total: Value of the counter when all is done.
        counter: Its last value.
        rate: Its rate.
        since: Expected work since that value, in seconds on one core. It is believed for a part of
            what was left, so that a job whose counter is not heard of any more is never done.
    """
    then = min(max(total - counter, 0.0) / rate.value, MOST_WORK)
    return WorkLeft(max(then - since, LEAST_LEFT * then), rate.error * then)


def left_by_profile(whole: WorkLeft, done: float) -> WorkLeft:
    """Return the work left by the predicted work of a whole run, and the work done so far.

    A job that still runs when all should be done has about as much left as the prediction errs by.
    """
    return WorkLeft(min(max(whole.seconds - done, whole.error, 0.0), MOST_WORK), whole.error)


_MINUTES = {"m": 1, "h": 60, "d": 24 * 60}
_LAST = datetime(2999, 12, 31, 23, 59, 59, tzinfo=UTC)


def deadline_time(text: str, created: datetime) -> datetime:
    """Return the time of a deadline, in UTC and whole seconds.

    Args:
        text: A time or a duration, as the schema of ``spec.deadline`` accepts it.
        created: Time from which a duration counts.
    """
    if text[-1] in _MINUTES:
        span = timedelta(minutes=int(text[:-1]) * _MINUTES[text[-1]])
        return min(created + span, _LAST) if created < _LAST - span else _LAST
    if text[5:10] == "02-29" and not _is_leap(int(text[:4])):
        text = f"{text[:4]}-03-01{text[10:]}"
    return min(datetime.fromisoformat(text).astimezone(UTC), _LAST)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
