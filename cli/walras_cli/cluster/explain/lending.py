"""Pure: who has more of a node's cores than its share there, and who has less.

A user is entitled to the same part of every node. What it buys elsewhere, another one buys here:
that is lending and borrowing, of which nobody keeps accounts but the market's prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from walras_cli.cluster.facts import Facts

VISIBLE = 0.005
"""Cores: half of the last digit that is printed."""


@dataclass(frozen=True, slots=True)
class Partner:
    """A user who lends to another, or borrows from one.

    Attributes:
        name: Name of the user's entitlement.
        cores: lent to it (positive) or borrowed from it (negative).
    """

    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class NodeBalance:
    """What a user has of a node, compared with its entitlement there.

    Attributes:
        node: Name of the node.
        price: Price of a core on the node.
        entitled: cores.
        bought: cores.
        spend: Amount of the budget spent on the node.
        lent: cores that others have of this share; negative where they are borrowed.
        partners: Users to whom it lends, or from whom it borrows, in proportion.
    """

    node: str
    price: float
    entitled: float
    bought: float
    spend: float
    lent: float
    partners: tuple[Partner, ...]


class _Purchase(NamedTuple):
    cores: float
    spend: float


_NOTHING = _Purchase(0.0, 0.0)


def balances(facts: Facts, users: Collection[str]) -> tuple[NodeBalance, ...]:
    """Return the balance of some users together on every node, by node.

    Nodes on which an Entitlement's status is cut short are left out. Nothing can be told unless all
    Entitlements are visible.

    Args:
        facts: statuses of all entitlements and of the Market.
        users: entitlements.
    """
    shares, purchases = _shares(facts), _purchases(facts)
    mine = sum(shares.get(user, 0.0) for user in users)
    found = []
    if facts.market is None or not mine or not facts.all_entitlements:
        return ()
    for sold in facts.market.status.prices:
        here = {user: each.get(sold.node, _NOTHING) for user, each in purchases.items()}
        if any(
            each is _NOTHING and facts.entitlements[user].status.other_nodes
            for user, each in here.items()
        ):
            continue
        lent = {user: share * sold.cores - here[user].cores for user, share in shares.items()}
        own = sum(lent[user] for user in users if user in lent)
        found.append(
            NodeBalance(
                node=sold.node,
                price=float(sold.price),
                entitled=mine * sold.cores,
                bought=sum(here[user].cores for user in users),
                spend=sum(here[user].spend for user in users),
                lent=own,
                partners=_partners(own, {user: lent[user] for user in lent if user not in users}),
            )
        )
    return tuple(found)


def together(balances_: Collection[NodeBalance]) -> tuple[Partner, ...]:
    """Return what is lent to each other user on all nodes, less what is borrowed."""
    sums: dict[str, float] = {}
    for balance in balances_:
        for partner in balance.partners:
            sums[partner.name] = sums.get(partner.name, 0.0) + partner.cores
    return tuple(
        Partner(name, cores) for name, cores in sorted(sums.items()) if abs(cores) >= VISIBLE
    )


def _shares(facts: Facts) -> dict[str, float]:
    """Return the part of every node that each entitlement with jobs is entitled to."""
    entitled = {
        name: float(each.status.cores.entitled)
        for name, each in facts.entitlements.items()
        if each.status.cores is not None
    }
    whole = sum(entitled.values())
    return {name: cores / whole for name, cores in entitled.items()} if whole else {}


def _purchases(facts: Facts) -> dict[str, dict[str, _Purchase]]:
    """Return what entitlements bought, by user and node."""
    return {
        user: {
            spend.node: _Purchase(float(spend.cores), float(spend.spend))
            for spend in each.status.spend_by_node
        }
        for user, each in facts.entitlements.items()
    }


def _partners(own: float, others: Mapping[str, float]) -> tuple[Partner, ...]:
    """Split what is lent among those who borrow, or the other way round, in proportion."""
    opposite = {user: each for user, each in others.items() if each * own < 0}
    whole = sum(opposite.values())
    if abs(own) < VISIBLE or not whole:
        return ()
    return tuple(
        Partner(user, own * each / whole)
        for user, each in sorted(opposite.items(), key=lambda item: abs(item[1]), reverse=True)
        if abs(own * each / whole) >= VISIBLE
    )
