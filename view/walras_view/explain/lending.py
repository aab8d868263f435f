"""Pure: who has more of a node's cores than its share there, and who has less.

A user is entitled to the same part of every node. What it buys elsewhere, another one buys here:
that is lending and borrowing, of which nobody keeps accounts but the market's prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras_view.facts import Facts

VISIBLE = 0.005
"""Cores: half of the last digit that is printed."""


@dataclass(frozen=True, slots=True)
class Partner:
    """A user who lends to another, or borrows from one.

    Attributes:
        name: Name of the user's entitlement.
        cores: Cores lent to this user (positive), or borrowed from it (negative).
    """

    name: str
    cores: float


@dataclass(frozen=True, slots=True)
class NodeBalance:
    """The cores of a user on a node, compared with its entitlement there.

    Attributes:
        node: Name of the node.
        price: Price of a core on the node, relative to the cluster's average.
        entitled: Cores that its share is worth.
        bought: Cores that it bought.
        spend: Part of its budget that it spends on the node.
        lent: Cores of its share that others have; negative if it has cores of their shares.
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
        facts: Facts with the statuses of all Entitlements and of the Market.
        users: Names of the Entitlements that are taken together.
    """
    shares, purchases = _shares(facts), _purchases(facts)
    mine = sum(shares.get(user, 0.0) for user in users)
    found = []
    if facts.market is None or not mine or not facts.all_entitlements:
        return ()
    for sold in facts.market.status.prices:
        sale = float(sold.cores)
        here = {user: each.get(sold.node, _NOTHING) for user, each in purchases.items()}
        if any(
            each is _NOTHING and facts.entitlements[user].status.other_nodes
            for user, each in here.items()
        ):
            continue
        lent = {user: share * sale - here[user].cores for user, share in shares.items()}
        own = sum(lent[user] for user in users if user in lent)
        found.append(
            NodeBalance(
                node=sold.node,
                price=float(sold.price),
                entitled=mine * sale,
                bought=sum(here[user].cores for user in users),
                spend=sum(here[user].spend for user in users),
                lent=own,
                partners=_partners(own, {user: lent[user] for user in lent if user not in users}),
            )
        )
    return tuple(found)


def partners_of_each(
    facts: Facts, groups: Mapping[str, Collection[str]]
) -> dict[str, tuple[Partner, ...]]:
    """Return what `balances` and `together` say of each of many groups of users.

    It computes in arrays, since each group takes all users on all nodes.

    Args:
        facts: Facts with the statuses of all Entitlements and of the Market.
        groups: Names of the Entitlements that are taken together, by the name of the group.
    """
    import numpy as np

    shares, purchases = _shares(facts), _purchases(facts)
    users = list(shares)
    if facts.market is None or not users or not facts.all_entitlements:
        return dict.fromkeys(groups, ())
    sold = facts.market.status.prices
    row = {each.node: number for number, each in enumerate(sold)}
    cores = np.zeros((len(sold), len(users)))
    listed = np.ones(len(sold), dtype=bool)
    for column, user in enumerate(users):
        here = {node: each for node, each in purchases[user].items() if node in row}
        for node, each in here.items():
            cores[row[node], column] = each.cores
    for user, entitlement in facts.entitlements.items():
        if entitlement.status.other_nodes:
            listed &= np.isin(list(row), list(purchases[user]))
    share = np.array([shares[user] for user in users])
    lent = np.outer([float(each.cores) for each in sold], share) - cores
    lent = lent[listed]
    return {
        name: _partners_of(lent, users, np.array([user in members for user in users]))
        for name, members in groups.items()
    }


def _partners_of(lent: Any, users: Sequence[str], mine: Any) -> tuple[Partner, ...]:
    """Return likewise the partners of one group, from cores lent by node and user."""
    import numpy as np

    own = lent[:, mine].sum(axis=1)
    opposite = np.where(mine[None, :] | (lent * own[:, None] >= 0), 0.0, lent)
    whole = opposite.sum(axis=1)
    counts = (np.abs(own) >= VISIBLE) & (whole != 0)
    parts = own[counts, None] * opposite[counts] / whole[counts, None]
    sums = np.where(np.abs(parts) >= VISIBLE, parts, 0.0).sum(axis=0)
    return tuple(
        Partner(user, float(sums[column]))
        for column, user in sorted(enumerate(users), key=lambda each: each[1])
        if abs(sums[column]) >= VISIBLE
    )


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
