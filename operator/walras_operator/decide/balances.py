"""Pure: credits and debts after a decision, as the Market's status has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walras.mechanisms.karma.record import record_of
from walras_api.contract import MARKET_NAME
from walras_api.market_status import LedgerReport
from walras_operator.decide.credits.account import stored_account
from walras_operator.decide.credits.parts import part_names
from walras_operator.decide.credits.quanta import stored_ledger
from walras_operator.decide.last_decision import status_of_market
from walras_operator.decide.world import Reference, Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_operator.decide.cleared_market import Cleared
    from walras_operator.decide.world import Document, World


class Balances(NamedTuple):
    """Credits and debts for the Market's status.

    Attributes:
        before: The status as it was written last.
        ledger: Karma credits; None if there are none.
        account: What entitlements owe each other; None if that is nothing.
        settlement: Quantum that is settled, and the parts that the balances need; None if the
            credits stay as they are, and the account needs no ConfigMaps.
    """

    before: Mapping[str, Any]
    ledger: LedgerReport | None
    account: Document | None
    settlement: Settlement | None


def balances_after(world: World, cleared: Cleared) -> Balances:
    """Return the credits and debts after the decision; credits stay if no memory is divided."""
    before, quantum = status_of_market(world), cleared.plan.quantum
    owed = stored_account(cleared.stored, cleared.plan.account, world.now, world.version)
    ledger = LedgerReport.read(before["ledger"]) if "ledger" in before else None
    parts, record = dict(owed.parts), None
    if quantum is not None:
        stored = stored_ledger(quantum, cleared.quantum.since, world.version, before)
        ledger = stored.report
        if ledger.document() != before.get("ledger"):
            parts, record = parts | dict(stored.parts), record_of(quantum)
    if record is None and not parts:
        return Balances(before, ledger, owed.document, None)
    former = part_names(before)
    named = part_names(
        {"ledger": None if ledger is None else ledger.document(), "account": owed.document}
    )
    settlement = Settlement(
        Reference("Market", MARKET_NAME),
        world.version,
        record,
        {name: text for name, text in parts.items() if name not in former},
        tuple(name for name in former if name not in named),
    )
    return Balances(before, ledger, owed.document, settlement)
