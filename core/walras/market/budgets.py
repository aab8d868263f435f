"""Budgets of users in a decision: by shares, and by what users owe each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.market.account import tilts
from walras.market.admission import divide_by_shares

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras.market.snapshot import CoreMechanism, Policy, Snapshot

MARKETS: frozenset[CoreMechanism] = frozenset(
    {"AmdahlBidding", "BestResponse", "PriceAnticipating"}
)
"""Mechanisms in which users pay for cores out of budgets, so that these can pay back debts."""


def repays_debts(policy: Policy) -> bool:
    """Return whether budgets under a policy pay back what users owe each other."""
    return policy.core_half_life > 0 and policy.cores in MARKETS


def budgets(snapshot: Snapshot, policy: Policy, active: Iterable[str]) -> dict[str, float]:
    """Return the part of the cluster that the budget of each user is worth; they sum to 1.

    Args:
        snapshot: Snapshot with the account at this moment.
        policy: Policy that says how far debts change budgets.
        active: Names of the users with jobs.
    """
    debts = any(each.owed for each in snapshot.account.values())
    if not debts or not repays_debts(policy):
        return divide_by_shares(snapshot.entitlements, active)
    cores = sum(node.cores for node in snapshot.nodes)
    changed = tilts(snapshot.account, snapshot.entitlements, cores, policy)
    return divide_by_shares(snapshot.entitlements, active, tilts=changed, most=policy.most_credit)
