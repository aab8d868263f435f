"""The sale of cores: the jobs that bid, the budgets of their users, and the units that are sold.

The division of cores starts from it: `walras.clearing` opens one for every decision, and
`walras.analysis.node_pools` one to try other numbers of nodes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.division.auctions import hold_auctions
from walras.division.sale_units import sell_single_sockets, sell_whole_nodes
from walras.market.admission import divide_by_shares
from walras.market.bounds import bounds_of
from walras.market.budgets import budgets
from walras.market.snapshot import WITHOUT_FLOORS
from walras.mechanisms.amdahl.market import AmdahlMarket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.division.auctions import AuctionResults
    from walras.division.sale_units import UnitMarket
    from walras.market.bounds import Bounds
    from walras.market.snapshot import Job, Policy, Snapshot
    from walras.numerics.arrays import Bools, Floats, Integers


class Sale(NamedTuple):
    """The market of k jobs of n users on the m nodes that sell cores, before cores are divided.

    Attributes:
        by_shares: Part of the cluster of each user by shares alone, by name.
        parts: Part of the cluster that each user's budget is worth, which also depends on debts.
        market: Market whose servers are nodes.
        auctioned: Outcome of auctions; None if nothing is auctioned.
        units: Market of the units that are sold: whole nodes, or their sockets.
        bounds: Bounds on the cores of jobs.
        bounds_of_units: Bounds on the cores of the parts of jobs, which ``units`` sells.
        whole: Whether each job is to hold whole cores, shape (k,).
        limits: Most nodes that each user bids on, shape (n,); None if no user has a bound.
        cut: Whether a job keeps less than it requested for others' sake, shape (k,).
    """

    jobs: Sequence[Job]
    by_shares: Mapping[str, float]
    parts: Mapping[str, float]
    market: AmdahlMarket
    auctioned: AuctionResults | None
    units: UnitMarket
    bounds: Bounds
    bounds_of_units: Bounds
    whole: Bools
    limits: Integers | None
    cut: Bools

    @property
    def memory_won(self) -> Floats | None:
        """Bytes that each job won in auctions, shape (k,); None if there were none."""
        return None if self.auctioned is None else self.auctioned.memory


class Bidders(NamedTuple):
    """What k jobs bring to a sale wherever they run; arrays have shape (k,).

    Attributes:
        by_shares: As in `Sale`; it and ``parts`` have a part for each user.
        user: Index of each job's user.
        requested: Cores that each job's pod requested and keeps.
        asked: Fewest cores worth having, 0 for no such bound.
        most: Most cores that each job can use, infinity for no bound.
        whole: Whether each job is to hold whole cores.
    """

    jobs: Sequence[Job]
    by_shares: Mapping[str, float]
    parts: Mapping[str, float]
    user: Integers
    fraction: Floats
    work: Floats
    requested: Floats
    asked: Floats
    most: Floats
    whole: Bools

    def ordered(self, order: Integers) -> Bidders:
        """Return the same bidders in an order of their numbers, shape (k,)."""
        jobs = [self.jobs[number] for number in order.tolist()]
        columns = {
            name: column[order] for name, column in self._asdict().items() if name in _COLUMNS
        }
        return self._replace(jobs=jobs, **columns)


_COLUMNS = frozenset({"user", "fraction", "work", "requested", "asked", "most", "whole"})


def open_sale(snapshot: Snapshot, policy: Policy, jobs: Sequence[Job]) -> Sale:
    """Give users their budgets, hold auctions if the policy has any, and offer cores in units.

    Args:
        snapshot: Snapshot with the entitlements and the nodes.
        policy: Mechanisms, and how far debts change budgets.
        jobs: Jobs that are admitted and have a node, with the fractions that they bid with.
    """
    return sell(snapshot, policy, bidders_of(snapshot, policy, jobs), _servers(snapshot, jobs))


def bidders_of(snapshot: Snapshot, policy: Policy, jobs: Sequence[Job]) -> Bidders:
    """Return what jobs bring to a sale; nodes of the snapshot count for nothing but old debts."""
    active = {job.entitlement for job in jobs}
    parts = budgets(snapshot, policy, active)
    keeps = policy.cores not in WITHOUT_FLOORS
    return Bidders(
        jobs,
        divide_by_shares(snapshot.entitlements, active),
        parts,
        _users(parts, jobs),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
        np.array([job.floor if keeps else 0.0 for job in jobs], np.float64),
        np.array([job.least_cores for job in jobs], np.float64),
        np.array([job.max_cores or np.inf for job in jobs], np.float64),
        np.array([job.whole_cores for job in jobs], np.bool_),
    )


def sell(snapshot: Snapshot, policy: Policy, bidders: Bidders, server: Integers) -> Sale:
    """Open the sale of the nodes of a snapshot to bidders.

    Args:
        snapshot: Snapshot with the nodes.
        policy: Mechanisms.
        bidders: Jobs, with the fractions that they bid with.
        server: Index of each job's node among those that sell cores, shape (k,).
    """
    jobs, requested, asked, most = bidders.jobs, bidders.requested, bidders.asked, bidders.most
    market = _market(snapshot, bidders.parts, bidders.user, server, bidders.fraction, bidders.work)
    auctioned = None
    if "Auction" in {policy.cores, policy.memory} and jobs:
        auctioned = hold_auctions(market, jobs, snapshot.selling, policy)
    least_part = policy.least_part if policy.cores not in WITHOUT_FLOORS else 0.0
    units = _units(snapshot, policy, market, np.maximum(requested, np.minimum(asked, most)))
    bounds = bounds_of(market, requested, asked, most, least_part)
    of_units = bounds
    if units.market is not market:
        parts_of = units.to_parts
        of_units = bounds_of(
            units.market, parts_of(requested), parts_of(asked), parts_of(most), least_part
        )
    return Sale(
        jobs,
        bidders.by_shares,
        bidders.parts,
        market,
        auctioned,
        units,
        bounds,
        of_units,
        bidders.whole,
        _most_nodes(snapshot, bidders.parts),
        np.zeros(len(jobs), np.bool_),
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
    return _market(
        snapshot,
        parts,
        _users(parts, jobs),
        _servers(snapshot, jobs),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
    )


def _market(
    snapshot: Snapshot,
    parts: Mapping[str, float],
    user: Integers,
    server: Integers,
    fraction: Floats,
    work: Floats,
) -> AmdahlMarket:
    capacities = np.array([node.cores for node in snapshot.selling], np.float64)
    budgets = np.array(list(parts.values())) * (capacities.sum() or 1.0)
    return AmdahlMarket(budgets, capacities, user, server, fraction, work)


def _users(parts: Mapping[str, float], jobs: Sequence[Job]) -> Integers:
    """Return the index of each job's user, shape (k,)."""
    user = {name: index for index, name in enumerate(parts)}
    return np.array([user[job.entitlement] for job in jobs], np.int64)


def _servers(snapshot: Snapshot, jobs: Sequence[Job]) -> Integers:
    """Return the index of each job's node among those that sell cores, shape (k,)."""
    server = {node.name: index for index, node in enumerate(snapshot.selling)}
    return np.array([server[job.node] for job in jobs], np.int64)


def _units(snapshot: Snapshot, policy: Policy, market: AmdahlMarket, least: Floats) -> UnitMarket:
    """Return the units for sale: whole nodes, or their sockets.

    Nodes are sold whole in auctions, where all have one socket, and where users may bid on a
    limited number of nodes only.
    """
    limited = policy.cores == "PriceAnticipating" and any(
        each.max_nodes is not None for each in snapshot.entitlements
    )
    whole = policy.sold_by == "node" or policy.cores == "Auction" or limited
    if whole or all(node.sockets == 1 for node in snapshot.selling):
        return sell_whole_nodes(market)
    return sell_single_sockets(market, snapshot.selling, least)


def _most_nodes(snapshot: Snapshot, users: Mapping[str, float]) -> Integers | None:
    most = {each.name: each.max_nodes for each in snapshot.entitlements}
    if all(most[name] is None for name in users):
        return None
    every = max(len(snapshot.nodes), 1)
    return np.array([most[name] or every for name in users], np.int64)
