"""Pure: the sums of a report, by user, by month or both, and what was not observed.

Months are those of UTC. Nothing is made up for time that was not observed: it is in no sum, and
every period says how much of it was observed, and where its gaps are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from walras.outcome.hourly_accounts import COLUMNS, HOUR, OTHERS, HourSums
from walras_api.fields import LONGEST_NAME, NAME
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras.outcome.blocks import Values
    from walras.outcome.hourly_accounts import Day

MONTH = "%Y-%m"
OTHER_USERS = "(others)"
"""Name of the row of users for whom the operator had no room."""

_AS_STORED = ("entitled", "bought", "held", "used", "lent", "borrowed")

NOTICEABLE = 60
"""Seconds of an hour that may be missing without a note for people; documents have them all."""


@dataclass(frozen=True, slots=True)
class CoreHours:
    """Core-hours of a user; None where nothing is known.

    Attributes:
        entitled: Amount to which it was entitled.
        bought: Amount that it bought in the market.
        held: Amount that its jobs held.
        used: Amount that its pods used, if the cluster measures it.
        lent: Amount to which it was entitled and that it did not buy.
        borrowed: Amount that it bought beyond its entitlement.
        paid: Price times cores bought, at the cluster's mean price of 1.
        price: Mean price of a core that it bought.
    """

    entitled: float | None = None
    bought: float | None = None
    held: float | None = None
    used: float | None = None
    lent: float | None = None
    borrowed: float | None = None
    paid: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True)
class GibHours:
    """GiB-hours of a user's memory likewise; what it held was granted to its jobs."""

    entitled: float | None = None
    held: float | None = None
    used: float | None = None
    lent: float | None = None
    borrowed: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a report.

    Attributes:
        user: Entitlement; empty for all together.
        month: Month, as 2026-11; empty for the whole time.
        cores: Core-hours of the user.
        memory: GiB-hours of the user.
        cost: Charge to the user; None without prices.
    """

    user: str
    month: str
    cores: CoreHours
    memory: GibHours
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time that was not observed in full, in whole hours.

    Attributes:
        start: Start of the gap (RFC 3339).
        end: End of the gap (RFC 3339).
        missing_seconds: Seconds of the gap that were not observed.
    """

    start: str
    end: str
    missing_seconds: int


@dataclass(frozen=True, slots=True)
class Period:
    """A month, or the part of it that the report is about.

    Attributes:
        month: Month, as 2026-11.
        start: Start of the period (RFC 3339).
        end: End of the period (RFC 3339).
        seconds: Length of the period, in seconds.
        observed_seconds: Seconds of the period that were observed.
        gaps: Times within the period that were not observed in full.
    """

    month: str
    start: str
    end: str
    seconds: int
    observed_seconds: int
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of a core-hour at the mean price and of a GiB-hour, in any currency; or none."""

    core_hour: float | None = None
    gib_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Sums of users over a time, with their prices.

    Attributes:
        start: Start of the report, in seconds since 1970.
        end: End of the report, in seconds since 1970.
        rows: Rows of the report, by month and user.
        periods: Months that the report is about.
        without: Most users of a day who are summed as others, as far as is known.
    """

    start: int
    end: int
    rows: tuple[Row, ...] = field(default=())
    periods: tuple[Period, ...] = field(default=())
    without: int = 0


def report_of(
    days: Iterable[Day],
    start: int,
    end: int,
    *,
    by_user: bool = True,
    by_month: bool = True,
    prices: Prices | None = None,
    newest: bool = False,
) -> Report:
    """Return the report of days between two times.

    A sum over several hours that the start or the end divides is left out, and so shows as a gap.

    Args:
        days: Accounts of the days.
        start: Start, in seconds since 1970, a full hour.
        end: End, in seconds since 1970; a full hour unless it is the newest time that is known.
        by_user: Whether each user has a row.
        by_month: Whether each month has a row.
        prices: Costs of core-hours and GiB-hours.
        newest: Whether the end is the newest time that is known, so that no sum goes beyond it.
    """
    in_order = sorted(days, key=lambda day: day.number)
    chosen = [
        (time, day.step, day.hours[time])
        for day in in_order
        for time in sorted(day.hours)
        if start <= time < end and (newest or time + day.step <= end)
    ]
    sums: dict[tuple[str, str], HourSums] = {}
    for time, _, hour in chosen:
        for name, values in hour.users.items():
            key = ((name or OTHER_USERS) if by_user else "", _month(time) if by_month else "")
            sums[key] = sums.get(key, HourSums()) + HourSums(0, {"": values})
    rows = (
        _row(user, month, sums[user, month].users[""], prices or Prices())
        for user, month in sorted(sums, key=lambda key: (key[1], key[0]))
    )
    return Report(
        start,
        end,
        tuple(rows),
        tuple(_periods(chosen, start, end)),
        max((day.without for day in in_order), default=0),
    )


def _month(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime(MONTH)


def _row(user: str, month: str, values: Values, prices: Prices) -> Row:
    figures = {
        each.name: None if value is None else value / each.scale / HOUR
        for each, value in zip(COLUMNS, values, strict=True)
    }
    paid, bought = figures["paid"], figures["bought"]
    cores = CoreHours(
        **{name: figures[name] for name in _AS_STORED},
        paid=paid,
        price=paid / bought if paid is not None and bought else None,
    )
    memory = GibHours(
        figures["memoryEntitled"],
        figures["memoryHeld"],
        figures["memoryUsed"],
        figures["memoryLent"],
        figures["memoryBorrowed"],
    )
    charges = ((prices.core_hour, paid), (prices.gib_hour, memory.held))
    amounts = [price * (amount or 0.0) for price, amount in charges if price is not None]
    return Row(user, month, cores, memory, sum(amounts) if amounts else None)


def _periods(chosen: Sequence[tuple[int, int, HourSums]], start: int, end: int) -> Iterator[Period]:
    """Yield each month with its gaps."""
    observed: dict[int, int] = {}
    for time, step, hour in chosen:
        for at, seconds in _spread(time, step, hour.seconds):
            observed[at] = observed.get(at, 0) + seconds
    months: dict[str, list[int]] = {}
    for time in range(start, end, HOUR):
        months.setdefault(_month(time), []).append(time)
    for month, hours in months.items():
        last = min(hours[-1] + HOUR, end)
        missing = {
            time: short
            for time in hours
            if (short := min(time + HOUR, end) - time - observed.get(time, 0)) > 0
        }
        yield Period(
            month,
            rfc3339(hours[0]),
            rfc3339(last),
            last - hours[0],
            last - hours[0] - sum(missing.values()),
            tuple(_gaps(missing, end)),
        )


def _spread(time: int, step: int, seconds: int) -> Iterator[tuple[int, int]]:
    """Yield the seconds of each hour of a sum over several: whole hours first, then the rest."""
    for at in range(time, time + step, HOUR):
        here = min(seconds, HOUR)
        seconds -= here
        yield at, here


def _gaps(missing: Mapping[int, int], end: int) -> Iterator[Gap]:
    """Yield adjacent hours that were not observed in full as one gap."""
    run: list[int] = []
    for time in sorted(missing):
        if run and time != run[-1] + HOUR:
            yield _gap(run, missing, end)
            run = []
        run.append(time)
    if run:
        yield _gap(run, missing, end)


def _gap(run: Sequence[int], missing: Mapping[int, int], end: int) -> Gap:
    last = min(run[-1] + HOUR, end)
    return Gap(rfc3339(run[0]), rfc3339(last), sum(missing[time] for time in run))


def named_users(days: Iterable[Day]) -> tuple[tuple[Day, ...], tuple[str, ...]]:
    """Return days without rows that no Entitlement can have, and a line about these.

    Names come from storage or from metrics, to which others may have added.
    """
    made: list[Day] = []
    strange: set[str] = set()
    for day in days:
        unknown = {
            name for hour in day.hours.values() for name in hour.users if not _may_be_user(name)
        }
        strange |= unknown
        made.append(_without(day, unknown) if unknown else day)
    if not strange:
        return tuple(made), ()
    shown = ascii(min(strange)[:40])
    note = (
        f"{len(strange)} rows are ignored, since no Entitlement can have their name, such as "
        f"{shown}: the operator did not write them"
    )
    return tuple(made), (note,)


def _may_be_user(name: str) -> bool:
    valid = len(name) <= LONGEST_NAME and re.fullmatch(NAME, name) is not None
    return valid or name == OTHERS


def _without(day: Day, names: Collection[str]) -> Day:
    hours = {
        time: replace(
            hour, users={name: row for name, row in hour.users.items() if name not in names}
        )
        for time, hour in day.hours.items()
    }
    return replace(day, hours=hours)


def is_others(name: str) -> bool:
    """Return whether a row is about users for whom the operator had no room."""
    return name in {OTHERS, OTHER_USERS}
