"""Chooses (pure): which quantum of Karma a decision belongs to, and what becomes of its credits.

Credits are in the status of the Market and nowhere else: the balances after the present quantum,
and what it changed them by, so those before it. A decision settles the present quantum anew from
the balances before it, or the next one if it is over, and its outcome counts when the API server
has it, under the condition that the Market is still the one that was decided from. Whoever decides
next, in this process or another, goes on from what is there then: a settlement that failed, or was
lost, never was. So no credit hangs on what any operator remembers, and none is counted twice.

Time without an operator is no quantum, however long: the next decision settles one, and the one
after that begins then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras.karma.ledger import UNIT, Ledger, in_credits
from walras.resources.statuses import MOST_BALANCES, Balance, LedgerReport
from walras_operator.conditions import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.karma.record import Settled
    from walras.resources.kinds import MarketSpec
    from walras_operator.world import Carried, Document

TIME = "%Y-%m-%dT%H:%M:%SZ"


class Account(NamedTuple):
    """Credits as the Market's status has them.

    Attributes:
        opening: before the present quantum; None where no credits are kept yet.
        closing: after it; likewise.
        since: when it began; empty if that is not known.
    """

    opening: Ledger | None = None
    closing: Ledger | None = None
    since: str = ""


class Turn(NamedTuple):
    """The quantum that a decision settles.

    Attributes:
        ledger: to begin with.
        since: when it began.
        asked: what entitlements have asked for in it, by node, in bytes.
    """

    ledger: Ledger | None
    since: str
    asked: Mapping[str, Mapping[str, int]]


def account_of(status: Mapping[str, Any] | None) -> Account | Problem:
    """Return the credits that a Market's status has, or why they cannot be read."""
    told = (status or {}).get("ledger")
    if told is None:
        return Account()
    try:
        report = LedgerReport.read(told)
        closing = Ledger.from_document(_plain(report))
        return Account(_before(report, closing), closing, report.since or "")
    except ValueError as error:
        return Problem(
            "LedgerUnreadable",
            f"status.ledger: credits for memory cannot be read ({str(error).splitlines()[0]}); put "
            f"it right, or remove it to have all begin anew with the same credits",
        )


def turn_of(account: Account, carried: Carried, rules: MarketSpec, now: str) -> Turn:
    """Return the quantum that a decision settles now."""
    closing = account.closing
    if closing is None or is_over(account.since, rules.memory.quantum_seconds, now):
        return Turn(closing, now, {})
    known = carried.quantum == closing.quantum
    return Turn(account.opening, account.since, carried.asked if known else {})


def is_over(since: str, seconds: int, now: str) -> bool:
    """Say whether a quantum is over; also where it begins in the future, since a clock was set."""
    try:
        passed = _time(now) - _time(since)
    except ValueError:
        return True
    length = timedelta(seconds=seconds)
    return passed >= length or passed < -length


def end_of(since: str, seconds: int) -> str:
    """Return when a quantum ends."""
    return (_time(since) + timedelta(seconds=seconds)).strftime(TIME)


def ledger_report(settled: Settled, since: str) -> LedgerReport | None:
    """Return credits as a status has them; None where they are too many to list."""
    before, after = settled.allocation.before, settled.allocation.ledger
    if len(after.users) > MOST_BALANCES:
        return None
    told, gained = after.to_document(), (after.balances - before.balances).tolist()
    return LedgerReport(
        version=told["version"],
        quantum=told["quantum"],
        since=since,
        carry=told["carry"],
        carry_before=in_credits(before.carry),
        balances=[
            Balance(**each, gained=in_credits(change) if change else None)
            for each, change in zip(told["balances"], gained, strict=True)
        ],
    )


def _before(report: LedgerReport, closing: Ledger) -> Ledger:
    gained = [_micro(each.gained or "0") for each in report.balances]
    carry = report.carry if report.carry_before is None else report.carry_before
    return Ledger(
        closing.users,
        closing.balances - np.array(gained, np.int64),
        _micro(carry),
        max(closing.quantum - 1, 0),
    )


def _micro(credits_: str) -> int:
    """Return micro-credits."""
    return int(Decimal(credits_) * UNIT)


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME).replace(tzinfo=UTC)


def _plain(report: LedgerReport) -> Document:
    """Return a ledger as `Ledger.from_document` reads it."""
    return {
        "version": report.version,
        "quantum": report.quantum,
        "carry": report.carry,
        "balances": [{"user": each.user, "credits": each.credits} for each in report.balances],
    }
