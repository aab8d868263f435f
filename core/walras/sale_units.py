"""Units of sale, whole nodes or their sockets, and the cores that jobs hold of them.

Where cores are sold by socket, the market's servers are sockets and its jobs are parts of jobs
(`walras.sockets`). Pricing and rounding are the same for both units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.sockets import sell_by_socket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.apportion import Apportionment
    from walras.pricing import PricingResult
    from walras.snapshot import Node

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

UNBOUNDED = 2**31
"""Maximum of cores that stands for none: more than any machine has."""


@dataclass(frozen=True)
class UnitMarket:
    """A market whose servers are the units of sale, and whose jobs are parts of jobs.

    Attributes:
        market: Market of the units. A whole node has whole jobs as its parts.
        least: Fewest cores of each part, at least 1, shape (parts,).
        most: Most cores of each part, ``UNBOUNDED`` for no bound, shape (parts,).
        job: Index of each part's job, ascending, shape (parts,).
        node: Index of each server's node, shape (servers,).
        socket: Number of each server on its node, -1 for a whole node, shape (servers,).
        promised: Whole cores that rounding must leave each part, 0 for no promise, shape (parts,).
    """

    market: AmdahlMarket
    least: Counts
    most: Counts
    job: Counts
    node: Counts
    socket: Counts
    promised: Counts


class HeldCores(NamedTuple):
    """Cores that k jobs hold, as arrays of shape (k,) but for the sockets.

    Attributes:
        cores: Cores that the market allocates.
        price: Price of a core, the mean over the job's parts.
        spend: Payment for the cores.
        quota: Cores within the bounds of jobs, before rounding.
        whole: Whole cores of its own; 0 for jobs that share cores.
        shared: Whole cores of the shared pool; 0 for jobs with cores of their own.
        weight: Weight in the shared pool.
        sharers: Number of jobs that share the pool.
        sockets: Sockets of each job, if cores are sold by socket; else empty.
    """

    cores: Floats
    price: Floats
    spend: Floats
    quota: Floats
    whole: Counts
    shared: Counts
    weight: Counts
    sharers: Counts
    sockets: tuple[tuple[int, ...], ...]


def sell_whole_nodes(
    market: AmdahlMarket, least: Counts, most: Counts, promised: Counts | None = None
) -> UnitMarket:
    """Return the market of whole nodes; ``promised`` are whole cores that jobs must keep."""
    servers = np.arange(len(market.capacities))
    whole = np.full(len(servers), -1)
    none = np.zeros(market.jobs, np.int64)
    kept = none if promised is None else np.minimum(promised, most)
    return UnitMarket(market, least, most, np.arange(market.jobs), servers, whole, kept)


def sell_single_sockets(
    market: AmdahlMarket, nodes: Sequence[Node], least: Counts, most: Counts
) -> UnitMarket:
    """Return the market of the sockets of ``nodes``, which are the servers of ``market``."""
    sizes = [_sizes(node) for node in nodes]
    lower = np.where(least > 1, least, 0).astype(np.float64)
    upper = np.where(most < UNBOUNDED, most, np.inf)
    sold = sell_by_socket(market, sizes, minimum=lower, maximum=upper)
    counts = np.diff(sold.first_socket)
    node = np.repeat(np.arange(len(nodes)), counts)
    most_of_part = np.clip(np.floor(sold.maximum), 1, UNBOUNDED).astype(np.int64)
    least_of_part = np.clip(np.ceil(sold.minimum).astype(np.int64), 1, most_of_part)
    return UnitMarket(
        sold.market,
        least_of_part,
        most_of_part,
        sold.job,
        node,
        np.arange(len(node)) - sold.first_socket[node],
        np.zeros(len(least_of_part), np.int64),
    )


def _sizes(node: Node) -> list[float]:
    """Return the cores of each socket: the node's cores for sale, divided as evenly as possible."""
    sockets = min(node.sockets, node.cores)
    few, more = divmod(node.cores, sockets)
    return [float(few + (number < more)) for number in range(sockets)]


def cores_held(
    units: UnitMarket, jobs: int, priced: PricingResult, apportioned: Apportionment
) -> HeldCores:
    """Return what each job holds in all its parts.

    A job of several parts keeps those with cores of their own. If there are none, it keeps its
    largest part only, since it cannot be in two shared pools.
    """
    server = units.market.server
    prices = priced.prices[server]
    spend = prices * priced.cores if priced.spends is None else priced.spends
    sharers = np.bincount(server[apportioned.whole == 0], minlength=len(units.node))[server]
    kept = kept_parts(units, jobs, apportioned)
    pooled = kept & (apportioned.whole == 0)
    return HeldCores(
        cores=_sum(units, priced.cores, jobs),
        price=_sum(units, prices, jobs) / np.bincount(units.job, minlength=jobs),
        spend=_sum(units, spend, jobs),
        quota=_sum(units, apportioned.quota, jobs),
        whole=_sum(units, apportioned.whole, jobs).astype(np.int64),
        shared=_sum(units, apportioned.shared * pooled, jobs).astype(np.int64),
        weight=_largest(units, apportioned.weight * kept, jobs),
        sharers=_largest(units, sharers * kept, jobs),
        sockets=_sockets(units, jobs, kept),
    )


def kept_parts(units: UnitMarket, jobs: int, apportioned: Apportionment) -> NDArray[np.bool_]:
    """Return which parts jobs keep, shape (parts,): of most jobs, the only one."""
    if len(units.job) == jobs:
        return np.ones(jobs, np.bool_)
    own = apportioned.whole > 0
    without = _largest(units, apportioned.whole, jobs)[units.job] == 0
    order = np.lexsort((-apportioned.quota, units.job))
    first = np.zeros(len(own), np.bool_)
    first[order[np.flatnonzero(np.diff(units.job[order], prepend=-1))]] = True
    return np.asarray(own | (without & first), np.bool_)


def cores_in_hardware(units: UnitMarket, jobs: int, apportioned: Apportionment) -> Floats:
    """Return the cores of each job, shape (k,): its own, or its part by weight of the pool."""
    server = units.market.server
    weight = apportioned.weight * (kept_parts(units, jobs, apportioned) & (apportioned.whole == 0))
    together = np.bincount(server, weight, len(units.node))[server]
    pooled = np.divide(
        apportioned.shared * weight, together, out=np.zeros(len(server)), where=weight > 0
    )
    return _sum(units, apportioned.whole + pooled, jobs)


def _sum(units: UnitMarket, values: NDArray[np.float64] | Counts, jobs: int) -> Floats:
    return np.asarray(np.bincount(units.job, values, jobs), np.float64)


def _largest(units: UnitMarket, values: Counts, jobs: int) -> Counts:
    result = np.zeros(jobs, np.int64)
    np.maximum.at(result, units.job, values)
    return result


def _sockets(units: UnitMarket, jobs: int, kept: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = [()] * jobs
    socket = units.socket[units.market.server]
    for part in np.flatnonzero(kept & (socket >= 0)).tolist():
        found[int(units.job[part])] += (int(socket[part]),)
    return tuple(found)
