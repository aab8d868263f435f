"""Accounts of users: what each was entitled to, held, lent, borrowed and paid, summed by the hour.

A sample counts for the time until the next one, if that comes within `LONGEST`. Otherwise the time
between them is a gap: nobody saw what was held then, so it is counted for nobody, and the hours say
how many of their seconds were observed.

The hours of a day (UTC) are one part. `DAYS` parts are kept, none larger than `LARGEST_DAY`, so all
of them are never larger than `ACCOUNTS`. A day that does not fit is summed over two hours, and then
more, up to the whole day. If that does not fit, the users who held least are summed as `OTHERS`,
and so is who comes later on that day. So sums are exact in any case: only their times, and some
users' names, are lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walras.outcome.blocks import Table, block_of, pack, unpack
from walras.outcome.history import FIELDS, Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.outcome.blocks import Values
    from walras.outcome.history import MarketSample

HOUR = 3600
DAY = 86_400

DAYS = 400
"""Most days that are kept."""

PLACES = DAYS + 1
"""Places for the parts of days: those that are kept, and the current one."""

LARGEST_DAY = 64 * 2**10
"""Most bytes of a day."""

ACCOUNTS = PLACES * LARGEST_DAY
"""Most bytes of all days: 25.1 MiB."""

LONGEST = 150
"""Longest time in seconds for which a sample counts."""

OTHERS = ""
"""Name of the row of users for whom a day has no room; no Entitlement can be called so."""

STEPS = tuple(HOUR * hours for hours in (1, 2, 4, 8, 24))
"""Seconds over which the hours of a day may be summed; each divides the next one."""

_SUMMED = (
    "entitled",
    "bought",
    "held",
    "used",
    "lent",
    "borrowed",
    "paid",
    "memoryEntitled",
    "memoryHeld",
    "memoryUsed",
    "memoryLent",
    "memoryBorrowed",
)

COLUMNS: tuple[Field, ...] = tuple(each for each in FIELDS["user"] if each.name in _SUMMED)
"""Figures that are summed, in core-seconds and GiB-seconds."""

_PLACES = tuple(FIELDS["user"].index(each) for each in COLUMNS)
_HELD = next(place for place, each in enumerate(COLUMNS) if each.name == "held")


@dataclass(frozen=True, slots=True)
class HourSums:
    """The sums of an hour, or of several.

    Attributes:
        seconds: Seconds that were observed.
        users: Sums of each user, in the order of `COLUMNS`; None where nothing was known.
    """

    seconds: int = 0
    users: Table = field(default_factory=dict)

    def __add__(self, other: HourSums) -> HourSums:
        users = dict(self.users)
        for name, values in other.users.items():
            before = users.get(name)
            users[name] = values if before is None else _sum(before, values)
        return HourSums(self.seconds + other.seconds, users)


@dataclass(frozen=True, slots=True)
class Day:
    """The sums of a day.

    Attributes:
        number: Number of the day since 1970.
        hours: Sums by the start of the hour, or of the first of several, in seconds since 1970.
        step: Seconds of each of the sums.
        without: Users that were summed as `OTHERS` because the day had no room for them: at least
            so many, since nobody knows whether who comes later has been among them before.
    """

    number: int
    hours: Mapping[int, HourSums] = field(default_factory=dict)
    step: int = HOUR
    without: int = 0

    def __add__(self, other: Day) -> Day:
        step = max(self.step, other.step)
        hours = dict(coarser(self, step).hours)
        for start, hour in coarser(other, step).hours.items():
            hours[start] = hours.get(start, HourSums()) + hour
        return Day(self.number, hours, step, max(self.without, other.without))


def observed(before: MarketSample, now: int) -> Iterator[Day]:
    """Yield what follows from a sample for the time until the next one.

    Args:
        before: The sample.
        now: Time of the next one, in seconds since 1970.
    """
    if not 0 < now - before.time <= LONGEST:
        return
    start = before.time
    while start < now:
        hour = start - start % HOUR
        end = min(now, hour + HOUR)
        users = {
            name: tuple(
                None if (value := values[place]) is None else value * (end - start)
                for place in _PLACES
            )
            for name, values in before.tables.get("user", {}).items()
        }
        yield Day(start // DAY, {hour: HourSums(end - start, users)})
        start = end


def coarser(day: Day, step: int) -> Day:
    """Return a day summed over a longer time; the day itself if it is that coarse already."""
    if step <= day.step:
        return day
    hours: dict[int, HourSums] = {}
    for start, hour in day.hours.items():
        first = start - start % step
        hours[first] = hours.get(first, HourSums()) + hour
    return Day(day.number, hours, step, day.without)


def continued(day: Day, added: Day) -> Day:
    """Return a stored day with later sums; who has no row in it gets none if it has `OTHERS`.

    Some sums of such a user may be in `OTHERS` already, and a row must have all of them.
    """
    known = frozenset(name for hour in day.hours.values() for name in hour.users)
    if OTHERS not in known:
        return day + added
    new = {name for hour in added.hours.values() for name in hour.users} - known
    hours = {start: _with_others(hour, known - {OTHERS}) for start, hour in added.hours.items()}
    return day + replace(added, hours=hours, without=len(new))


def stored_day(day: Day, largest: int = LARGEST_DAY) -> bytes:
    """Return a day as it is stored, in at most so many bytes; empty if nothing fits."""
    for step in STEPS:
        if step >= day.step:
            data = _packed(coarser(day, step))
            if len(data) <= largest:
                return data
    day = coarser(day, DAY)
    while True:
        users = {name for hour in day.hours.values() for name in hour.users} - {OTHERS}
        if not users:
            return b""
        day = _without_smallest(day, len(users) // 2)
        data = _packed(day)
        if len(data) <= largest:
            return data


def read_day(number: int, data: bytes) -> Day:
    """Return a day from storage.

    Raises:
        CorruptBlockError: The data are no day that this version of the software can read. Sums of
            another day, which an earlier turn of the ring has left there, are no sums of this one:
            the day is empty then.
    """
    block = unpack(data)
    if any(time // DAY != number for time in block.times):
        return Day(number)
    tables = block.tables([each.name for each in COLUMNS])
    seconds = block.seconds or (0,) * len(block.times)
    return Day(
        number,
        {
            time: HourSums(observed_, table)
            for time, observed_, table in zip(block.times, seconds, tables, strict=True)
        },
        block.step,
        block.without,
    )


def _packed(day: Day) -> bytes:
    times = sorted(day.hours)
    return pack(
        block_of(
            times,
            [day.hours[time].users for time in times],
            [each.name for each in COLUMNS],
            day.step,
            [day.hours[time].seconds for time in times],
            day.without,
        )
    )


def _without_smallest(day: Day, most: int) -> Day:
    """Return a day in which all but the users who held most are summed as `OTHERS`."""
    held: dict[str, int] = {}
    for hour in day.hours.values():
        for name, values in hour.users.items():
            held[name] = held.get(name, 0) + (values[_HELD] or 0)
    names = sorted(held.keys() - {OTHERS}, key=lambda name: (-held[name], name))
    kept, rest = frozenset(names[:most]), names[most:]
    hours = {start: _with_others(hour, kept) for start, hour in day.hours.items()}
    return Day(day.number, hours, day.step, day.without + len(rest))


def _with_others(hour: HourSums, kept: frozenset[str]) -> HourSums:
    users = {name: values for name, values in hour.users.items() if name in kept}
    others: Sequence[Values] = [values for name, values in hour.users.items() if name not in kept]
    if others:
        users[OTHERS] = _sums(others)
    return HourSums(hour.seconds, users)


def _sums(rows: Iterable[Values]) -> Values:
    first, *others = rows
    for row in others:
        first = _sum(first, row)
    return first


def _sum(one: Values, other: Values) -> Values:
    """Return sums of what is known."""
    return tuple(
        b if a is None else a if b is None else a + b for a, b in zip(one, other, strict=True)
    )
