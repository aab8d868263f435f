"""Units of sale, whole nodes or their sockets, and the cores that jobs hold of them.

The paper sells a server of two processors as one unit of 24 cores (III, VI). Where remote memory is
slow, the unit of sale can be the socket instead: the market's servers are then sockets, and each
job is on one, or, if its minimum is more than any socket has, in parts on the fewest that hold it,
whose bounds are as equal as whole cores allow. Pricing and rounding are the same for both units. A
part that stands for 1/n of a job on x / n cores does work at the rate

    (w / n) s(x) = w' s'(x / n)   with   f' = f / (f + n (1 - f)),   w' = w / (f + n (1 - f)),

which is again Amdahl's law (eq. 1), so that the market treats parts as jobs. (The unit of a user's
utility, work at one core each, changes with that; only the upper bound and greedy depend on it.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.amdahl.market import AmdahlMarket, MarketError, check_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from walras._arrays import Bools, Floats, Integers
    from walras.apportion import Apportionment
    from walras.pricing import PricingResult
    from walras.snapshot import Node

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
        floors: Cores that each part keeps whatever the market decides, shape (parts,); those of a
            server are at most its cores.
    """

    market: AmdahlMarket
    least: Integers
    most: Integers
    job: Integers
    node: Integers
    socket: Integers
    promised: Integers
    floors: Floats

    @cached_property
    def jobs(self) -> int:
        """Number of jobs, each of which has a part at least."""
        return int(self.job.max(initial=-1)) + 1

    def of_jobs(self, values: Floats | Integers) -> Floats:
        """Return the sum of values over each job's parts, shape (jobs,)."""
        return np.asarray(np.bincount(self.job, values, self.jobs), np.float64)


class HeldCores(NamedTuple):
    """Cores that k jobs hold, as arrays of shape (k,) but for the sockets.

    Attributes:
        price: Price of a core, the mean over the job's parts.
        quota: Cores within the bounds of jobs, before rounding.
        whole: Whole cores of its own; 0 for jobs that share cores.
        shared: Whole cores of the shared pool; 0 for jobs with cores of their own.
        sockets: Sockets of each job, if cores are sold by socket; else empty.
    """

    cores: Floats
    price: Floats
    spend: Floats
    quota: Floats
    whole: Integers
    shared: Integers
    weight: Integers
    sharers: Integers
    sockets: tuple[tuple[int, ...], ...]


def sell_whole_nodes(
    market: AmdahlMarket,
    least: Integers,
    most: Integers,
    floors: Floats,
    promised: Integers | None = None,
) -> UnitMarket:
    """Return the market of whole nodes; ``promised`` are whole cores that jobs must keep."""
    servers = np.arange(len(market.capacities))
    whole = np.full(len(servers), -1)
    none = np.zeros(market.jobs, np.int64)
    kept = none if promised is None else np.minimum(promised, most)
    floors = fitting_floors(market, np.minimum(floors, most))
    return UnitMarket(market, least, most, np.arange(market.jobs), servers, whole, kept, floors)


def sell_single_sockets(
    market: AmdahlMarket, nodes: Sequence[Node], least: Integers, most: Integers, floors: Floats
) -> UnitMarket:
    """Return the market of the sockets of ``nodes``, which are the servers of ``market``."""
    sizes = [_sizes(node) for node in nodes]
    floors = fitting_floors(market, np.minimum(floors, most))
    lower = np.maximum(np.where(least > 1, least, 0), floors)
    upper = np.where(most < UNBOUNDED, most, np.inf)
    sold = sell_by_socket(market, sizes, minimum=lower, maximum=upper)
    counts = np.diff(sold.first_socket)
    node = np.repeat(np.arange(len(nodes)), counts)
    most_of_part = np.where(most[sold.job] < UNBOUNDED, _of_parts(most, sold.job), UNBOUNDED)
    most_of_part = np.maximum(most_of_part, 1)
    least_of_part = _of_parts(np.where(least > 1, least, 0), sold.job)
    least_of_part = np.clip(least_of_part, 1, most_of_part)
    whole = np.floor(floors).astype(np.int64)
    down, up = _of_parts(whole, sold.job), _of_parts(whole + 1, sold.job)
    floors_of_part = np.asarray(down + (floors - whole)[sold.job] * (up - down), np.float64)
    return UnitMarket(
        sold.market,
        least_of_part,
        most_of_part,
        sold.job,
        node,
        np.arange(len(node)) - sold.first_socket[node],
        np.zeros(len(least_of_part), np.int64),
        fitting_floors(sold.market, np.minimum(floors_of_part, most_of_part)),
    )


def _of_parts(cores: Integers, job: Integers) -> Integers:
    """Return the whole cores of jobs divided among their parts, shape (parts,).

    The parts are as equal as possible and add up to the cores of the job. The first ones, whose
    sockets are not smaller, have one core more than the others.
    """
    parts = np.bincount(job)[job]
    rank = np.arange(len(job)) - np.searchsorted(job, job)
    return np.asarray(cores[job] // parts + (rank < cores[job] % parts), np.int64)


def fitting_floors(market: AmdahlMarket, floors: Floats) -> Floats:
    """Return floors scaled down on servers whose cores they exceed, shape (k,).

    Jobs with a floor below one core may share a pool, which has at least one core. Where that core
    is not left, the floors of other jobs are scaled, in proportion.

    Args:
        market: Market of the jobs.
        floors: Cores that each job requested, at most its maximum, shape (k,).
    """
    large = floors >= 1
    own = market.sum_by_server(np.where(large, floors, 0.0))
    small = market.sum_by_server(np.where(large, 0.0, floors))
    pool = np.where(
        np.bincount(market.server[~large], minlength=len(own)) > 0, np.maximum(small, 1.0), 0.0
    )
    pool = np.minimum(pool, market.capacities)
    room = np.maximum(market.capacities - pool, 0.0)
    scale = np.minimum(np.divide(room, own, out=np.ones(len(own)), where=own > 0), 1.0)
    shrink = np.minimum(np.divide(pool, small, out=np.ones(len(own)), where=small > 0), 1.0)
    return np.asarray(
        np.where(large, floors * scale[market.server], floors * shrink[market.server])
    )


def _sizes(node: Node) -> list[float]:
    """Return the cores of each socket: the node's cores for sale, divided as evenly as possible."""
    sockets = min(node.sockets, node.cores)
    few, more = divmod(node.cores, sockets)
    return [float(few + (number < more)) for number in range(sockets)]


def cores_held(units: UnitMarket, priced: PricingResult, apportioned: Apportionment) -> HeldCores:
    """Return what each job holds in all its parts.

    A job of several parts keeps those with cores of their own. If there are none, it keeps its
    largest part only, since it cannot be in two shared pools.
    """
    server = units.market.server
    prices = priced.prices[server]
    spend = prices * priced.cores if priced.spends is None else priced.spends
    sharers = np.bincount(server[apportioned.whole == 0], minlength=len(units.node))[server]
    kept = kept_parts(units, apportioned)
    pooled = pooled_parts(units, apportioned)
    return HeldCores(
        cores=units.of_jobs(priced.cores),
        price=units.of_jobs(prices) / np.bincount(units.job, minlength=units.jobs),
        spend=units.of_jobs(spend),
        quota=units.of_jobs(apportioned.quota),
        whole=units.of_jobs(apportioned.whole).astype(np.int64),
        shared=units.of_jobs(apportioned.shared * pooled).astype(np.int64),
        weight=_largest(units, apportioned.weight * kept),
        sharers=_largest(units, sharers * kept),
        sockets=_sockets(units, kept),
    )


def kept_parts(units: UnitMarket, apportioned: Apportionment) -> Bools:
    """Return which parts jobs keep, shape (parts,): of most jobs, the only one."""
    if len(units.job) == units.jobs:
        return np.ones(units.jobs, np.bool_)
    own = apportioned.whole > 0
    without = _largest(units, apportioned.whole)[units.job] == 0
    order = np.lexsort((-apportioned.quota, units.job))
    first = np.zeros(len(own), np.bool_)
    first[order[np.flatnonzero(np.diff(units.job[order], prepend=-1))]] = True
    return np.asarray(own | (without & first), np.bool_)


def pooled_parts(units: UnitMarket, apportioned: Apportionment) -> Bools:
    """Return which parts jobs keep in shared pools, shape (parts,)."""
    return np.asarray(kept_parts(units, apportioned) & (apportioned.whole == 0), np.bool_)


def cores_in_hardware(units: UnitMarket, apportioned: Apportionment) -> Floats:
    """Return the cores of each job, shape (k,): its own, or its part by weight of the pool."""
    server = units.market.server
    weight = apportioned.weight * pooled_parts(units, apportioned)
    together = np.bincount(server, weight, len(units.node))[server]
    pooled = np.divide(
        apportioned.shared * weight, together, out=np.zeros(len(server)), where=weight > 0
    )
    return units.of_jobs(apportioned.whole + pooled)


def _largest(units: UnitMarket, values: Integers) -> Integers:
    result = np.zeros(units.jobs, np.int64)
    np.maximum.at(result, units.job, values)
    return result


def _sockets(units: UnitMarket, kept: Bools) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = [()] * units.jobs
    socket = units.socket[units.market.server]
    for part in np.flatnonzero(kept & (socket >= 0)).tolist():
        found[int(units.job[part])] += (int(socket[part]),)
    return tuple(found)


@dataclass(frozen=True)
class SocketMarket:
    """A market whose servers are the sockets of another market's servers.

    Attributes:
        market: Market whose servers are sockets, and whose jobs are parts of jobs.
        minimum: Fewest cores of each part, shape (parts,).
        maximum: Most cores of each part, possibly infinite, shape (parts,).
        job: Index of each part's job in the other market, ascending, shape (parts,).
        first_socket: First socket of each of m servers, and the number of sockets, shape (m + 1,).
    """

    market: AmdahlMarket
    minimum: Floats
    maximum: Floats
    job: Integers
    first_socket: Integers

    def cores_of_jobs(self, cores: Floats) -> Floats:
        """Return the cores of each job of the other market, summed over its parts."""
        return np.asarray(np.bincount(self.job, cores, int(self.job.max(initial=-1)) + 1))


def sell_by_socket(
    market: AmdahlMarket,
    sockets: Sequence[Sequence[float]],
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> SocketMarket:
    """Assign every job to a socket, and return the market of sockets.

    On each server the jobs with the largest minimums come first, then those with the most money
    (their user's budget over its number of jobs), then the earlier ones. Each goes to the socket
    with the least money per core so far among those that still have room for its minimum, or among
    all if none has. The lower socket number breaks ties.

    Args:
        market: Market whose servers have sockets.
        sockets: Cores of each socket of each server, positive; they add up to its capacity.
        minimum: Fewest cores of each job, shape (k,); 0 if not given.
        maximum: Most cores of each job, shape (k,); no bound if not given.

    Raises:
        MarketError: A bound is outside its range, or sockets do not add up to their server.
    """
    lower, upper = check_bounds(market, minimum, maximum)
    _check(market, sockets)
    first_socket = np.cumsum([0, *(len(sizes) for sizes in sockets)])
    money = (market.budgets / np.maximum(np.diff(market.by_user.start), 1))[market.user]
    parts: list[tuple[int, int, int]] = []
    start, order = market.by_server
    for server, sizes in enumerate(sockets):
        jobs = order[start[server] : start[server + 1]].astype(np.int64)
        ranked = jobs[np.lexsort((jobs, -money[jobs], -lower[jobs]))]
        for job, chosen in _assign(np.asarray(sizes, np.float64), ranked, lower, money):
            parts += [(job, int(first_socket[server]) + socket, len(chosen)) for socket in chosen]
    part = np.array(sorted(parts), np.int64).reshape(-1, 3)
    of, socket, together = part[:, 0], part[:, 1], part[:, 2]
    f, w = market.fraction[of], market.work[of]
    serial = f + together * (1 - f)
    cores = [float(size) for sizes in sockets for size in sizes]
    of_sockets = AmdahlMarket(
        market.budgets, cores, market.user[of], socket, f / serial, w / serial
    )
    return SocketMarket(of_sockets, lower[of] / together, upper[of] / together, of, first_socket)


def _check(market: AmdahlMarket, sockets: Sequence[Sequence[float]]) -> None:
    if len(sockets) != len(market.capacities):
        raise MarketError(
            f"sockets of {len(sockets)} servers: the market has {len(market.capacities)}"
        )
    for server, sizes in enumerate(sockets):
        total = float(sum(sizes))
        if not all(size > 0 for size in sizes) or not np.isclose(total, market.capacities[server]):
            raise MarketError(
                f"sockets[{server}] = {list(sizes)}: positive numbers are needed that add up to "
                f"the server's {market.capacities[server]:g} cores"
            )


def _assign(
    sizes: Floats, ranked: Integers, lower: Floats, money: Floats
) -> list[tuple[int, list[int]]]:
    """Return the jobs of one server in their order of choice, each with its sockets."""
    held_by_largest = np.cumsum(-np.sort(-sizes))
    bids = np.zeros(len(sizes))
    room = sizes.copy()
    placed = []
    for job in ranked.tolist():
        count = min(1 + int(np.searchsorted(held_by_largest, lower[job])), len(sizes))
        full = room < lower[job] / count
        chosen = np.lexsort((np.arange(len(sizes)), bids / sizes, full))[:count].tolist()
        bids[chosen] += money[job] / count
        room[chosen] -= lower[job] / count
        placed.append((job, chosen))
    return placed
