"""What is sold: whole nodes, or their sockets one by one; and back to jobs what was bought.

Where nodes are sold by socket, the market's servers are sockets and its jobs are parts of jobs
(`walras.sockets`). Everything between, from prices to whole cores, need not know which it is.
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
    from walras.apportion import Portions
    from walras.pricing import Priced
    from walras.snapshot import Node

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

UNBOUNDED = 2**31
"""Stands for no maximum of cores: more than any machine has."""


@dataclass(frozen=True)
class Sale:
    """A market of what is sold.

    Attributes:
        market: its servers are nodes or sockets, its jobs are jobs or their parts.
        least: shape (parts,), fewest cores, at least 1.
        most: shape (parts,), most cores; ``UNBOUNDED`` for no bound.
        job: shape (parts,), the job of each part; rising.
        node: shape (servers,), the node of each server.
        socket: shape (servers,), its number on its node, -1 for a whole node.
        promised: shape (parts,), whole cores that rounding leaves at least; 0 where it is free.
    """

    market: AmdahlMarket
    least: Counts
    most: Counts
    job: Counts
    node: Counts
    socket: Counts
    promised: Counts


class Held(NamedTuple):
    """What jobs hold, arrays of shape (k,) but for the last.

    Attributes:
        cores: real numbers.
        price: of a core where it is; of a part of it, the average of its parts.
        spend: paid for its cores.
        quota: real numbers of cores after the bounds of jobs, before rounding.
        whole: cores of its own; 0 for jobs that share.
        shared: cores of the pool it shares; 0 for jobs with cores of their own.
        weight: its part of the pool.
        sharers: how many jobs share that pool.
        sockets: of each job, where nodes are sold by socket; else empty.
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


def sell_nodes(market: AmdahlMarket, least: Counts, most: Counts, promised: Counts | None = None) -> Sale:
    """Sell every node as a whole; ``promised`` are whole cores that jobs must keep."""
    servers = np.arange(len(market.capacities))
    whole = np.full(len(servers), -1)
    none = np.zeros(market.jobs, np.int64)
    kept = none if promised is None else np.minimum(promised, most)
    return Sale(market, least, most, np.arange(market.jobs), servers, whole, kept)


def sell_sockets(market: AmdahlMarket, nodes: Sequence[Node], least: Counts, most: Counts) -> Sale:
    """Sell every socket of ``nodes``, the servers of ``market``, which divide its cores evenly."""
    sizes = [_sizes(node) for node in nodes]
    lower = np.where(least > 1, least, 0).astype(np.float64)
    upper = np.where(most < UNBOUNDED, most, np.inf)
    sold = sell_by_socket(market, sizes, minimum=lower, maximum=upper)
    counts = np.diff(sold.first_socket)
    node = np.repeat(np.arange(len(nodes)), counts)
    most_of_part = np.clip(np.floor(sold.maximum), 1, UNBOUNDED).astype(np.int64)
    least_of_part = np.clip(np.ceil(sold.minimum).astype(np.int64), 1, most_of_part)
    return Sale(
        sold.market,
        least_of_part,
        most_of_part,
        sold.job,
        node,
        np.arange(len(node)) - sold.first_socket[node],
        np.zeros(len(least_of_part), np.int64),
    )


def _sizes(node: Node) -> list[float]:
    sockets = min(node.sockets, node.cores)
    few, more = divmod(node.cores, sockets)
    return [float(few + (number < more)) for number in range(sockets)]


def collect(sale: Sale, jobs: int, priced: Priced, portions: Portions) -> Held:
    """Put together what the parts of each job hold.

    A job of several parts keeps those with cores of their own, or if there are none, the one that
    was to be largest: it cannot be in two pools.
    """
    server = sale.market.server
    prices = priced.prices[server]
    spend = prices * priced.cores if priced.spends is None else priced.spends
    sharers = np.bincount(server[portions.whole == 0], minlength=len(sale.node))[server]
    kept = kept_parts(sale, jobs, portions)
    pooled = kept & (portions.whole == 0)
    return Held(
        cores=_sum(sale, priced.cores, jobs),
        price=_sum(sale, prices, jobs) / np.bincount(sale.job, minlength=jobs),
        spend=_sum(sale, spend, jobs),
        quota=_sum(sale, portions.quota, jobs),
        whole=_sum(sale, portions.whole, jobs).astype(np.int64),
        shared=_sum(sale, portions.shared * pooled, jobs).astype(np.int64),
        weight=_largest(sale, portions.weight * kept, jobs),
        sharers=_largest(sale, sharers * kept, jobs),
        sockets=_sockets(sale, jobs, kept),
    )


def kept_parts(sale: Sale, jobs: int, portions: Portions) -> NDArray[np.bool_]:
    """Return which parts of jobs remain, shape (parts,); of most jobs the only one."""
    if len(sale.job) == jobs:
        return np.ones(jobs, np.bool_)
    own = portions.whole > 0
    without = _largest(sale, portions.whole, jobs)[sale.job] == 0
    order = np.lexsort((-portions.quota, sale.job))
    first = np.zeros(len(own), np.bool_)
    first[order[np.flatnonzero(np.diff(sale.job[order], prepend=-1))]] = True
    return np.asarray(own | (without & first), np.bool_)


def cores_in_hardware(sale: Sale, jobs: int, portions: Portions) -> Floats:
    """Return the cores of every job, shape (k,): its own, or its part of a pool by weight."""
    server = sale.market.server
    weight = portions.weight * (kept_parts(sale, jobs, portions) & (portions.whole == 0))
    together = np.bincount(server, weight, len(sale.node))[server]
    pooled = np.divide(
        portions.shared * weight, together, out=np.zeros(len(server)), where=weight > 0
    )
    return _sum(sale, portions.whole + pooled, jobs)


def _sum(sale: Sale, values: NDArray[np.float64] | Counts, jobs: int) -> Floats:
    return np.asarray(np.bincount(sale.job, values, jobs), np.float64)


def _largest(sale: Sale, values: Counts, jobs: int) -> Counts:
    result = np.zeros(jobs, np.int64)
    np.maximum.at(result, sale.job, values)
    return result


def _sockets(sale: Sale, jobs: int, kept: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = [()] * jobs
    socket = sale.socket[sale.market.server]
    for part in np.flatnonzero(kept & (socket >= 0)).tolist():
        found[int(sale.job[part])] += (int(socket[part]),)
    return tuple(found)
