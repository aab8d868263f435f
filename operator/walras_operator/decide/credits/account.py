"""Pure: read what entitlements owe each other from the Market's status, and write it there.

Every decision starts from what is stored: balances at a time, and rates by which they change. It
stores them anew when rates have changed visibly, when entitlements have come, gone or moved, and
every few minutes. The Market's status is written on condition that the Market is still the version
that the decision was based on. So an operator that has lost its lead changes nothing, and whatever
is stored adds up to zero.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.market.account import taken_over
from walras.market.balances import UNIT, Balance, brought_forward, settled_among_others
from walras_api.assembly import policy_of
from walras_api.contract import MARKET_NAME
from walras_api.market_status import AccountBalance, AccountReport
from walras_operator.decide.conditions import Problem
from walras_operator.decide.credits.parts import fit_inline, in_parts, joined
from walras_operator.decide.credits.quanta import time_at
from walras_operator.decide.world import Account

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras.market.snapshot import Entitlement
    from walras_api.kinds import MarketSpec
    from walras_operator.decide.world import Document

LONGEST_STEP = 600.0
"""Seconds for which balances change between two decisions at most, unless epochs are longer: a
clock may be set forward, and nobody knows what happened while no operator decided."""

STORED_EVERY = 300.0
"""Seconds after which balances that change are stored anew."""

VISIBLE = 0.01
"""Change of a rate that is stored at once, as a part of the entitlement's cores."""

_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,6})?")


def read_account(
    status: Mapping[str, Any],
    parts: Mapping[str, str],
    entitlements: Iterable[tuple[str, Mapping[str, Any] | None]],
    last_read: Account | None = None,
) -> Account | Problem:
    """Return the account that is stored, or the problem that keeps it from being read.

    Args:
        status: Status of the Market.
        parts: Data of the ConfigMaps that it names, by name.
        entitlements: Names and statuses of Entitlements without children. Where the Market has no
            account, it begins with their core credits, where versions before it kept them.
        last_read: Account that was read before; it is returned if it is the one that is stored.
    """
    stored = status.get("account")
    if last_read is not None and stored is not None and stored == last_read.document:
        return last_read
    if stored is None:
        before = {name: _core_credits(each) for name, each in sorted(entitlements)}
        owed = settled_among_others({name: each for name, each in before.items() if each})
        return Account({name: Balance(each) for name, each in owed.items()})
    try:
        report = AccountReport.read(stored)
        time_at(report.since)
        rows = map(_of_row, joined(report.parts, parts)) if report.parts else report.balances
        as_stored = {
            each.entitlement: Balance(
                _whole(each.core_hours), _whole(each.cores or "0"), each.parent
            )
            for each in rows
        }
    except (ValueError, TypeError, RecursionError) as error:
        return Problem(
            "AccountUnreadable",
            f"status.account: what entitlements owe each other cannot be read "
            f"({str(error).splitlines()[0]}); restore the ConfigMaps that status.account.parts "
            f"names, or let all begin again with nothing owed: kubectl patch market {MARKET_NAME} "
            """--subresource=status --type=json -p '[{"op":"add","path":"/status/account","""
            """"value":{"since":"2026-01-01T00:00:00Z","balances":[]}}]'""",
        )
    owed = settled_among_others({name: each.owed for name, each in as_stored.items()})
    rates = settled_among_others({name: each.rate for name, each in as_stored.items()})
    balances = {
        name: each._replace(owed=owed[name], rate=rates[name]) for name, each in as_stored.items()
    }
    return Account(balances, report.since, stored)


def _core_credits(status: Mapping[str, Any] | None) -> int:
    stored = (status or {}).get("coreCredits")
    text = stored.get("coreHours") if isinstance(stored, dict) else None
    return _whole(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else 0


def _of_row(row: Sequence[Any]) -> AccountBalance:
    name, hours, cores, parent = row
    return AccountBalance(entitlement=name, core_hours=hours, cores=cores, parent=parent)


def _whole(text: str) -> int:
    return int(Decimal(text) * UNIT)


def account_now(
    account: Account,
    now: str,
    rules: MarketSpec,
    entitlements: Sequence[Entitlement],
    unusable: Collection[str],
) -> dict[str, Balance]:
    """Return the balances of today's entitlements at this time.

    Args:
        account: The account that is stored.
        now: Current time (RFC 3339).
        rules: Rules of the Market.
        entitlements: Entitlements that take part.
        unusable: Names of entitlements that exist but take no part; they keep their balances.
    """
    seconds = min(_seconds(account.since, now), longest_step(rules))
    later = brought_forward(account.balances, seconds, policy_of(rules).core_half_life)
    return taken_over(later, entitlements, unusable)


def longest_step(rules: MarketSpec) -> float:
    """Return the seconds that one decision counts at most, whatever the clock says."""
    return max(LONGEST_STEP, 2.0 * rules.epoch_seconds)


def _seconds(since: str, now: str) -> float:
    """Return the seconds between two times; 0 if one is unknown, or if a clock was set back."""
    if not since or not now:
        return 0.0
    passed = time_at(now) - time_at(since)
    return max(passed.total_seconds(), 0.0)


class StoredAccount(NamedTuple):
    """The account in the form in which it is stored.

    Attributes:
        document: Account for the Market's status.
        parts: Data of the ConfigMaps that it names, by name; usually none.
    """

    document: Document | None
    parts: Mapping[str, str]


def stored_account(
    before: Account, after: Mapping[str, Balance], now: str, version: str
) -> StoredAccount:
    """Return what is to be stored after a decision: often what is stored already.

    Args:
        before: The account that is stored.
        after: Balances and rates from now on.
        now: Current time (RFC 3339).
        version: The resourceVersion of the Market that the decision is based on.
    """
    if before.document is not None and not _differs(before, after, now):
        return StoredAccount(before.document, {})
    if not after:
        return StoredAccount(None, {})
    report = AccountReport(since=now)
    rows = list(_rows(after))
    if fit_inline(rows):
        balances = [
            AccountBalance(
                entitlement=name,
                core_hours=hours,
                cores=None if cores == "0" else cores,
                parent=parent,
            )
            for name, hours, cores, parent in rows
        ]
        return StoredAccount(report.model_copy(update={"balances": balances}).document(), {})
    former = AccountReport.read(before.document).parts if before.document else None
    parts, named = in_parts(rows, version, former or ())
    return StoredAccount(report.model_copy(update={"parts": parts}).document(), named)


def _rows(balances: Mapping[str, Balance]) -> Iterator[Sequence[Any]]:
    for name, each in sorted(balances.items()):
        yield name, _decimal(each.owed), _decimal(each.rate), each.parent


def _decimal(amount: int) -> str:
    whole, part = divmod(abs(amount), UNIT)
    text = f"{whole}.{part:06d}".rstrip("0").rstrip(".")
    return f"-{text}" if amount < 0 else text


def _differs(before: Account, after: Mapping[str, Balance], now: str) -> bool:
    former = before.balances
    if former.keys() != after.keys():
        return True
    changes = any(each.owed or each.rate for each in after.values())
    if before.since > now:  # a clock was set back
        return True
    if changes and _seconds(before.since, now) >= STORED_EVERY:
        return True
    return any(
        each.parent != former[name].parent
        or abs(each.rate - former[name].rate) > max(VISIBLE * each.entitled, VISIBLE) * UNIT
        for name, each in after.items()
    )
