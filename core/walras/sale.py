"""The sale of cores: the jobs that bid, the budgets of their users, and the units that are sold.

The division of cores starts from it: `walras.clearing` opens one for every decision, and
`walras.node_pools` one to try other numbers of nodes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.admission import divide_by_shares
from walras.amdahl.market import AmdahlMarket
from walras.auctions import hold_auctions, promised_cores
from walras.budgets import parts_with_credits
from walras.rounding_credit import NO_CREDIT
from walras.sale_units import UNBOUNDED, sell_single_sockets, sell_whole_nodes
from walras.snapshot import WITHOUT_FLOORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras._arrays import Floats, Integers
    from walras.auctions import AuctionResults
    from walras.sale_units import UnitMarket
    from walras.snapshot import Job, Policy, Snapshot


class Sale(NamedTuple):
    """The market of k jobs of n users on the m nodes that sell cores, before cores are divided.

    Attributes:
        by_shares: Part of the cluster of each user by shares alone, by name.
        parts: Part of the cluster of each user with its core credits, which is its budget.
        market: Market whose servers are nodes.
        auctioned: Outcome of auctions; None if nothing is auctioned.
        units: Market of the units that are sold: whole nodes, or their sockets.
        floors: Cores that each job keeps whatever the market decides, shape (k,).
        most: Most cores that each job can use, infinity for no bound, shape (k,).
        limits: Most nodes that each user bids on, shape (n,); None if no user has a bound.
        credit: Rounding credit of each user in units of its limit, shape (n,); None if none are
            kept.
    """

    jobs: Sequence[Job]
    by_shares: Mapping[str, float]
    parts: Mapping[str, float]
    market: AmdahlMarket
    auctioned: AuctionResults | None
    units: UnitMarket
    floors: Floats
    most: Floats
    limits: Integers | None
    credit: Floats | None

    @property
    def memory_won(self) -> Floats | None:
        """Bytes that each job won in auctions, shape (k,); None if there were none."""
        return None if self.auctioned is None else self.auctioned.memory


def open_sale(snapshot: Snapshot, policy: Policy, jobs: Sequence[Job]) -> Sale:
    """Give users their budgets, hold auctions if the policy has any, and offer cores in units.

    Args:
        snapshot: Snapshot with the entitlements and the nodes.
        policy: Mechanisms, and what credits change.
        jobs: Jobs that are admitted and have a node, with the fractions that they bid with.
    """
    by_shares = divide_by_shares(snapshot.entitlements, {job.entitlement for job in jobs})
    parts = parts_with_credits(snapshot, policy, by_shares)
    market = build_market(snapshot, jobs, parts)
    auctioned = None
    if "Auction" in {policy.cores, policy.memory} and jobs:
        auctioned = hold_auctions(market, jobs, snapshot.selling, policy)
    units = _units(snapshot, policy, jobs, market, auctioned)
    return Sale(
        jobs,
        by_shares,
        parts,
        market,
        auctioned,
        units,
        units.of_jobs(units.floors),
        np.array([job.max_cores or np.inf for job in jobs], np.float64),
        _most_nodes(snapshot, parts),
        _relative_credits(snapshot, policy, parts),
    )


def build_market(
    snapshot: Snapshot, jobs: Sequence[Job], parts: Mapping[str, float]
) -> AmdahlMarket:
    """Return the market of jobs as arrays; a budget is the cores that a user's part is worth.

    Args:
        snapshot: Snapshot whose nodes with cores for sale are the servers.
        jobs: Jobs that are admitted and have a node.
        parts: Part of the cluster of each entitlement with jobs.
    """
    user = {name: index for index, name in enumerate(parts)}
    server = {node.name: index for index, node in enumerate(snapshot.selling)}
    capacities = np.array([node.cores for node in snapshot.selling], np.float64)
    return AmdahlMarket(
        np.array(list(parts.values())) * (capacities.sum() or 1.0),
        capacities,
        np.array([user[job.entitlement] for job in jobs], np.int64),
        np.array([server[job.node] for job in jobs], np.int64),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
    )


def _units(
    snapshot: Snapshot,
    policy: Policy,
    jobs: Sequence[Job],
    market: AmdahlMarket,
    auctioned: AuctionResults | None,
) -> UnitMarket:
    """Return the units for sale: whole nodes, or their sockets.

    Nodes are sold whole in auctions, where all have one socket, and where users may bid on a
    limited number of nodes only.
    """
    least = np.array([job.least_cores for job in jobs], np.int64)
    most = np.array([job.max_cores or UNBOUNDED for job in jobs], np.int64)
    keeps = policy.cores not in WITHOUT_FLOORS
    floors = np.array([job.floor if keeps else 0.0 for job in jobs], np.float64)
    if auctioned is not None and policy.cores == "Auction":
        return sell_whole_nodes(market, least, most, floors, promised_cores(auctioned, market))
    limited = policy.cores == "PriceAnticipating" and any(
        each.max_nodes is not None for each in snapshot.entitlements
    )
    whole = policy.sold_by == "node" or limited
    if whole or all(node.sockets == 1 for node in snapshot.selling):
        return sell_whole_nodes(market, least, most, floors)
    return sell_single_sockets(market, snapshot.selling, least, most, floors)


def _most_nodes(snapshot: Snapshot, users: Mapping[str, float]) -> Integers | None:
    most = {each.name: each.max_nodes for each in snapshot.entitlements}
    if all(most[name] is None for name in users):
        return None
    every = max(len(snapshot.nodes), 1)
    return np.array([most[name] or every for name in users], np.int64)


def _relative_credits(
    snapshot: Snapshot, policy: Policy, users: Mapping[str, float]
) -> Floats | None:
    if not policy.returns_rounding:
        return None
    known = (snapshot.rounding.get(name, NO_CREDIT) for name in users)
    return np.array([each.relative(policy.averaging) for each in known], np.float64)
