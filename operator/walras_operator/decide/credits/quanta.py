"""Pure: choose the Karma quantum to which a decision belongs, and read its credits.

Credits are kept in the Market's status, which names ConfigMaps with the balances that do not fit
into it: the balances after the current quantum, and the change that it made, and so the balances
before it. A decision settles the current quantum again from the balances before it, or the next
quantum if this one is over. The outcome counts once the API server has accepted it, on condition
that the Market is still the version that the decision was based on. Every later decision, of this
leader or another, starts from what is stored. A settlement that failed never happened: no credit is
lost, and none is counted twice.

Time without an operator counts as no quantum, however long it is: the next decision settles one
quantum, and the following quantum starts then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras.mechanisms.karma.ledger import UNIT, Ledger, in_credits
from walras_api.contract import MARKET_NAME
from walras_api.market_status import CreditBalance, LedgerReport
from walras_operator.decide.conditions import Problem
from walras_operator.decide.credits.parts import fit_inline, in_parts, joined
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.mechanisms.karma.record import SettledQuantum
    from walras_api.kinds import MarketSpec
    from walras_api.market_status import LedgerPart
    from walras_operator.decide.world import Carried, Document

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class CreditAccount(NamedTuple):
    """Credits in the Market's status.

    Attributes:
        opening: Balances before the current quantum; None if there are no credits yet.
        closing: Balances after the current quantum; None if there are no credits yet.
        since: Start of the current quantum (RFC 3339); empty if unknown.
    """

    opening: Ledger | None = None
    closing: Ledger | None = None
    since: str = ""


class CurrentQuantum(NamedTuple):
    """The quantum that a decision settles.

    Attributes:
        ledger: Balances before the quantum; None if there are no credits yet.
        since: Start of the quantum (RFC 3339).
        asked: Bytes that entitlements demanded so far in the quantum, by node and entitlement.
    """

    ledger: Ledger | None
    since: str
    asked: Mapping[str, Mapping[str, int]]


def read_credits(
    status: Mapping[str, Any] | None, parts: Mapping[str, str]
) -> CreditAccount | Problem:
    """Return the credits in a Market's status, or the problem that keeps them from being read.

    Args:
        status: Status of the Market.
        parts: Data of the ConfigMaps that it names, by name.
    """
    stored = (status or {}).get("ledger")
    if stored is None:
        return CreditAccount()
    try:
        report = _joined(LedgerReport.read(stored), parts)
        closing = Ledger.from_document(_plain(report))
        return CreditAccount(_before(report, closing), closing, report.since or "")
    except ValueError as error:
        return Problem(
            "LedgerUnreadable",
            f"status.ledger: credits for memory cannot be read ({str(error).splitlines()[0]}); "
            f"restore the ConfigMaps that status.ledger.parts names, or let all users begin again "
            f"with the same credits: kubectl patch market {MARKET_NAME} --subresource=status "
            """--type=json -p '[{"op":"remove","path":"/status/ledger"}]'""",
        )


def current_quantum(
    account: CreditAccount, carried: Carried, rules: MarketSpec, now: str
) -> CurrentQuantum:
    """Return the quantum that a decision settles at a given time."""
    closing = account.closing
    if closing is None or is_over(account.since, rules.memory.quantum_seconds, now):
        return CurrentQuantum(closing, now, {})
    same = carried.quantum == closing.quantum
    return CurrentQuantum(account.opening, account.since, carried.asked if same else {})


def is_over(since: str, seconds: int, now: str) -> bool:
    """Return whether a quantum is over.

    A start far in the future counts as over, too: somebody has set a clock.
    """
    try:
        passed = time_at(now) - time_at(since)
    except ValueError:
        return True
    length = timedelta(seconds=seconds)
    return passed >= length or passed < -length


def end_of(since: str, seconds: int) -> str:
    """Return the end of a quantum (RFC 3339)."""
    return rfc3339(time_at(since) + timedelta(seconds=seconds))


class StoredLedger(NamedTuple):
    """Credits in the form in which they are stored.

    Attributes:
        report: Credits for the Market's status.
        parts: Data of the ConfigMaps that it names, by name; usually none.
    """

    report: LedgerReport
    parts: Mapping[str, str]


def stored_ledger(
    settled: SettledQuantum, since: str, version: str, former: Mapping[str, Any]
) -> StoredLedger:
    """Return the credits of a settled quantum in the form in which they are stored.

    Args:
        settled: The quantum.
        since: Start of the quantum (RFC 3339).
        version: The resourceVersion of the Market that the decision is based on.
        former: Status of the Market. Parts that it already names with the same data are kept.
    """
    before, after = settled.before, settled.ledger
    stored, gained = after.to_document(), (after.balances - before.balances).tolist()
    report = LedgerReport(
        version=stored["version"],
        quantum=stored["quantum"],
        since=since,
        carry=stored["carry"],
        carry_before=in_credits(before.carry),
        balances=[],
    )
    rows = [
        [each["user"], each["credits"], in_credits(change)]
        for each, change in zip(stored["balances"], gained, strict=True)
    ]
    if fit_inline(rows):
        balances = [
            CreditBalance(user=user, credits=credit, gained=None if change == "0" else change)
            for user, credit, change in rows
        ]
        return StoredLedger(report.model_copy(update={"balances": balances}), {})
    parts, named = in_parts(rows, version, _former_parts(former))
    return StoredLedger(report.model_copy(update={"parts": parts}), named)


def _former_parts(former: Mapping[str, Any]) -> list[LedgerPart]:
    try:
        return LedgerReport.read(former.get("ledger")).parts or []
    except ValueError:
        return []


def _joined(report: LedgerReport, parts: Mapping[str, str]) -> LedgerReport:
    """Return credits with all balances.

    Raises:
        ValueError: A part is missing, or is not the one that was stored.
    """
    if not report.parts:
        return report
    balances = [
        CreditBalance(user=user, credits=credit, gained=change)
        for user, credit, change in joined(report.parts, parts)
    ]
    # Too many for the model's own bound, which is that of the API.
    return report.model_copy(update={"balances": balances, "parts": None})


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
    """Return credits as an integer number of micro-credits."""
    return int(Decimal(credits_) * UNIT)


def time_at(text: str) -> datetime:
    """Return the time in a text of RFC 3339 as this operator writes it.

    Raises:
        ValueError: It is none.
    """
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _plain(report: LedgerReport) -> Document:
    """Return a ledger in the form that `Ledger.from_document` reads."""
    return {
        "version": report.version,
        "quantum": report.quantum,
        "carry": report.carry,
        "balances": [{"user": each.user, "credits": each.credits} for each in report.balances],
    }
