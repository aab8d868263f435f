"""Budgets of users in a decision: by shares, and by core credits if the policy keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.admission import divide_by_shares, leaves_of
from walras.core_credits import NO_CORE_CREDIT, budgets_with_credits, lending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras._arrays import Floats
    from walras.amdahl.market import AmdahlMarket
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
    bounded = _bounded(snapshot, policy)
    levels = {name: each.level(policy.core_half_life) for name, each in bounded.items()}
    return budgets_with_credits(bare, levels, policy.most_credit)


def credits_from_now(
    snapshot: Snapshot,
    policy: Policy,
    bare: Mapping[str, float],
    market: AmdahlMarket,
    paid: Floats,
    bought: Floats,
) -> dict[str, CoreCredit]:
    """Return the credits of all entitlements without children, with what they lend from now on.

    Args:
        snapshot: Snapshot with the credits at this moment.
        policy: Policy with the parameters of credits.
        bare: Part by shares of each user with jobs, in the order of the market's users.
        market: Market with the budgets of users with jobs.
        paid: Amount that each of these users pays, in any unit, shape (n,).
        bought: Cores that each of them buys, shape (n,).
    """
    if not keeps_core_credits(policy):
        return {}
    bounded = _bounded(snapshot, policy)
    rows = {name: row for row, name in enumerate(bounded)}
    here = np.array([rows[name] for name in bare], np.int64)
    pays, buys, factors = np.zeros(len(rows)), np.zeros(len(rows)), np.ones(len(rows))
    total = float(paid.sum())
    pays[here], buys[here] = paid * (bought.sum() / total if total > 0 else 0.0), bought
    factors[here] = market.budgets / (np.array(list(bare.values())) * market.budgets.sum())
    entitled = np.array([each.entitled for each in bounded.values()])
    rates = lending(entitled, pays, buys).tolist()
    known = zip(bounded.items(), rates, factors.tolist(), strict=True)
    return {name: each._replace(rate=rate, factor=factor) for (name, each), rate, factor in known}


def _bounded(snapshot: Snapshot, policy: Policy) -> dict[str, CoreCredit]:
    """Return the credits of all entitlements without children, within their limits now."""
    leaves = leaves_of(snapshot.entitlements)
    cores = sum(node.cores for node in snapshot.nodes)
    known = {name: snapshot.core_credits.get(name, NO_CORE_CREDIT) for name in leaves}
    return {
        name: known[name]._replace(entitled=part * cores).bounded(policy.core_half_life)
        for name, part in divide_by_shares(snapshot.entitlements, leaves).items()
    }
