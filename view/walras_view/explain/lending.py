"""Pure: who has more of a node's cores than its share there, and who has less.

A user is entitled to the same part of every node. What it buys elsewhere, another one buys here:
that is lending and borrowing, of which nobody keeps accounts but the market's prices. What nobody
buys is lent to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras.numerics.arrays import Bools, Floats
    from walras_api.market_status import NodePrice
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
        lent: Cores of its share that it did not buy; negative if it has cores of others' shares.
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


class Purchases(NamedTuple):
    """Who bought how much of which node, as arrays of n nodes and k users.

    Attributes:
        sold: The nodes, with what they sell.
        users: Names of the Entitlements that are worth something.
        shares: Part of every node that each user is entitled to, shape (k,).
        cores: Cores bought, shape (n, k).
        spends: Part of its budget that each user spends on each node, shape (n, k).
        known: Whether all purchases on a node are known, shape (n,).
    """

    sold: Sequence[NodePrice]
    users: tuple[str, ...]
    shares: Floats
    cores: Floats
    spends: Floats
    known: Bools

    @property
    def lent(self) -> Floats:
        """Cores of its share that each user did not buy, negative for more, shape (n, k)."""
        return np.outer([float(each.cores) for each in self.sold], self.shares) - self.cores

    @property
    def unknown(self) -> int:
        """Number of nodes on which it is not known who lends."""
        return int(np.count_nonzero(~self.known))


def purchases_of(facts: Facts) -> Purchases | None:
    """Return who bought what; None if nothing can be told, as not all Entitlements are visible.

    Statuses of Entitlements list purchases, of large ones not all. The rest is what their pods
    bought; that these are all pods of a node is known where its NodeAllocation may be read.

    Args:
        facts: Facts with the statuses of all Entitlements and of the Market.
    """
    entitled = {
        name: float(each.status.cores.entitled)
        for name, each in facts.entitlements.items()
        if each.status.cores is not None
    }
    whole = sum(entitled.values())
    if facts.market is None or not whole or not facts.all_entitlements:
        return None
    sold, users = facts.market.status.prices, tuple(entitled)
    row = {each.node: number for number, each in enumerate(sold)}
    cores, spends = np.zeros((2, len(sold), len(users)))
    listed = np.ones((len(sold), len(users)), dtype=bool)
    for column, user in enumerate(users):
        status = facts.entitlements[user].status
        listed[:, column] = not status.other_nodes
        for spend in status.spend_by_node:
            if (at := row.get(spend.node)) is not None:
                cores[at, column], spends[at, column] = float(spend.cores), float(spend.spend)
                listed[at, column] = True
    if not listed.all():
        by_pods = _by_pods(facts)
        for at, each in enumerate(sold):
            if not listed[at].all() and (bought := by_pods.get(each.node)) is not None:
                for place, user in enumerate(users):
                    if not listed[at, place]:
                        cores[at, place], spends[at, place] = bought.get(user, _NOTHING)
                listed[at] = True
    shares = np.array([each / whole for each in entitled.values()])
    return Purchases(sold, users, shares, cores, spends, np.all(listed, axis=1))


_NOTHING = _Purchase(0.0, 0.0)


def _by_pods(facts: Facts) -> dict[str, dict[str, _Purchase]]:
    """Return what users' pods bought, by node and user, of nodes whose pods are all known."""
    pods = {
        pod.pod_uid: (str(job.spec.get("entitlement")), pod)
        for job in facts.jobs.values()
        for pod in job.status.pods
    }
    purchases: dict[str, dict[str, _Purchase]] = {}
    for node, allocation in facts.allocations.items():
        granted = [pods.get(each["podUID"]) for each in allocation.spec.get("grants") or ()]
        here: dict[str, _Purchase] = {}
        for each in granted:
            if each is None or each[1].node != node:
                break
            user, pod = each
            old = here.get(user, _NOTHING)
            bought, spend = float(pod.bought or 0), float(pod.spend or 0)
            here[user] = _Purchase(old.cores + bought, old.spend + spend)
        else:
            purchases[node] = here
    return purchases


def balances(bought: Purchases, users: Collection[str]) -> tuple[NodeBalance, ...]:
    """Return the balance of some users together on every node where it is known, by node.

    Args:
        bought: Who bought what.
        users: Names of the Entitlements that are taken together.
    """
    mine = np.array([user in users for user in bought.users])
    loans = _loans(bought.lent, mine)
    part = float(bought.shares[mine].sum())
    if not part:
        return ()
    return tuple(
        NodeBalance(
            node=sold.node,
            price=float(sold.price),
            entitled=part * float(sold.cores),
            bought=float(bought.cores[at, mine].sum()),
            spend=float(bought.spends[at, mine].sum()),
            lent=float(bought.lent[at, mine].sum()),
            partners=_partners(bought.users, loans[at]),
        )
        for at, sold in enumerate(bought.sold)
        if bought.known[at]
    )


def partners_of_each(
    bought: Purchases, groups: Mapping[str, Collection[str]]
) -> dict[str, tuple[Partner, ...]]:
    """Return what `balances` and `together` say of each of many groups of users.

    Args:
        bought: Who bought what; nodes where that is not known are left out.
        groups: Names of the Entitlements that are taken together, by the name of the group.
    """
    lent = bought.lent[bought.known]
    partners = {}
    for name, members in groups.items():
        loans = _loans(lent, np.array([user in members for user in bought.users]))
        loans = np.where(np.abs(loans) >= VISIBLE, loans, 0.0)
        ways = loans.clip(min=0).sum(axis=0), loans.clip(max=0).sum(axis=0)
        partners[name] = tuple(each for sums in ways for each in _partners(bought.users, sums))
    return partners


def together(balances_: Collection[NodeBalance]) -> tuple[Partner, ...]:
    """Return what is lent to each other user on all nodes, and then what is borrowed from each.

    Two users may lend to each other, on different nodes.
    """
    sums: dict[tuple[bool, str], float] = {}
    for balance in balances_:
        for name, cores in ((each.name, each.cores) for each in balance.partners):
            sums[cores < 0, name] = sums.get((cores < 0, name), 0.0) + cores
    return tuple(
        Partner(name, cores)
        for (borrowed, name), cores in sorted(
            sums.items(), key=lambda each: (each[0][0], -abs(each[1]), each[0][1])
        )
    )


def _loans(lent: Floats, mine: Bools) -> Floats:
    """Return what some users together lend to each other one on each node, shape (n, k).

    It is negative where they borrow. Those who lend on a node lend in proportion to those who
    borrow there; if nobody buys a part of the node, less is lent than is left.

    Args:
        lent: Cores of its share that each user did not buy, shape (n, k).
        mine: Whether a user is one of the some, shape (k,).
    """
    own = lent[:, mine].sum(axis=1)
    others = np.where(mine, 0.0, lent)
    left = others.clip(min=0).sum(axis=1) + own.clip(min=0)
    taken = -others.clip(max=0).sum(axis=1) - own.clip(max=0)
    most = np.maximum(left, taken)
    opposite = np.where(others * own[:, None] < 0, -others, 0.0)
    loans: Floats = np.abs(own)[:, None] * opposite / np.where(most > 0, most, 1.0)[:, None]
    return loans


def _partners(users: Sequence[str], loans: Floats) -> tuple[Partner, ...]:
    """Return the partners that are visible, the one with most cores first."""
    partners = [
        Partner(user, float(cores))
        for user, cores in zip(users, loans, strict=True)
        if abs(cores) >= VISIBLE
    ]
    return tuple(sorted(partners, key=lambda each: (-abs(each.cores), each.name)))
