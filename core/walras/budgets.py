"""Budgets of users in a decision: by shares, and by core credits if the policy keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.admission import divide_by_shares, leaves_of
from walras.core_credits import NO_CORE_CREDIT, budgets_with_credits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.core_credits import CoreCredit
    from walras.snapshot import CoreMechanism, Policy, Snapshot

MARKETS: frozenset[CoreMechanism] = frozenset(
    {"AmdahlBidding", "BestResponse", "PriceAnticipating"}
)
"""Mechanisms in which users pay for cores out of budgets, so that credits can change them."""


def keeps_core_credits(policy: Policy) -> bool:
    """Return whether a policy keeps core credits."""
    return policy.core_half_life > 0 and policy.cores in MARKETS


def parts_with_credits(
    snapshot: Snapshot, policy: Policy, bare: Mapping[str, float]
) -> dict[str, float]:
    """Return the parts of the cluster of users with jobs, with their credits if these are kept.

    Args:
        snapshot: Snapshot with the credits at this moment.
        policy: Policy with the parameters of credits.
        bare: Part by shares of each user with jobs; they sum to 1.
    """
    if not keeps_core_credits(policy):
        return dict(bare)
    bounded = bounded_credits(snapshot, policy)
    levels = {name: each.level(policy.core_half_life) for name, each in bounded.items()}
    return budgets_with_credits(bare, levels, policy.most_credit)


def bounded_credits(snapshot: Snapshot, policy: Policy) -> dict[str, CoreCredit]:
    """Return the credits of all entitlements without children, within their limits now."""
    leaves = leaves_of(snapshot.entitlements)
    cores = sum(node.cores for node in snapshot.nodes)
    known = {name: snapshot.core_credits.get(name, NO_CORE_CREDIT) for name in leaves}
    return {
        name: known[name]._replace(entitled=part * cores).bounded(policy.core_half_life)
        for name, part in divide_by_shares(snapshot.entitlements, leaves).items()
    }
