"""Units of sale, whole nodes or their sockets, and the cores that jobs hold of them.

The paper sells a server of two processors as one unit of 24 cores (III, VI). Where remote memory is
slow, the unit of sale can be the socket instead: the market's servers are then sockets, and each
job is on one, or, if its minimum is more than any socket has, in parts on the fewest that hold it,
whose bounds are equal. Pricing is the same for both units. A part that stands for 1/n of a job on
x / n cores does work at the rate

    (w / n) s(x) = w' s'(x / n)   with   f' = f / (f + n (1 - f)),   w' = w / (f + n (1 - f)),

which is again Amdahl's law (eq. 1), so that the market treats parts as jobs. (The unit of a user's
utility, work at one core each, changes with that; only the upper bound and greedy depend on it.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError, check_bounds
from walras.numerics.checks import numbers
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from walras.market.snapshot import Node
    from walras.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class UnitMarket:
    """A market whose servers are the units of sale, and whose jobs are parts of jobs.

    Attributes:
        market: Market of the units. A whole node has whole jobs as its parts.
        job: Index of each part's job, ascending, shape (parts,).
        node: Index of each server's node, shape (servers,).
        socket: Number of each server on its node, -1 for a whole node, shape (servers,).
    """

    market: AmdahlMarket
    job: Integers
    node: Integers
    socket: Integers

    @cached_property
    def jobs(self) -> int:
        """Number of jobs, each of which has a part at least."""
        return int(self.job.max(initial=-1)) + 1

    def of_jobs(self, values: Floats | Integers) -> Floats:
        """Return the sum of values over each job's parts, shape (jobs,)."""
        return np.asarray(np.bincount(self.job, values, self.jobs), np.float64)

    def mean_of_jobs(self, values: Floats) -> Floats:
        """Return the mean of values over each job's parts, shape (jobs,)."""
        return self.of_jobs(values) / np.bincount(self.job, minlength=self.jobs)

    def to_parts(self, values: Floats) -> Floats:
        """Return the parts of each job's cores, shape (parts,): equal ones as far as units go."""
        room = self.market.capacities[self.market.server]
        cores = np.minimum(values, self.of_jobs(room))
        ones, groups = np.ones(len(room)), group(self.job, self.jobs)
        parts = water_fill(ones, np.zeros(len(room)), room, cores, groups)
        return np.where(np.isfinite(values)[self.job], parts, np.inf)

    def sockets_of_jobs(self) -> tuple[tuple[int, ...], ...]:
        """Return the sockets of each job, if cores are sold by socket; else empty."""
        sockets: list[tuple[int, ...]] = [()] * self.jobs
        socket = self.socket[self.market.server]
        for part in np.flatnonzero(socket >= 0).tolist():
            sockets[int(self.job[part])] += (int(socket[part]),)
        return tuple(sockets)


def sell_whole_nodes(market: AmdahlMarket) -> UnitMarket:
    """Return the market of whole nodes."""
    servers = np.arange(len(market.capacities))
    return UnitMarket(market, np.arange(market.jobs), servers, np.full(len(servers), -1))


def sell_single_sockets(market: AmdahlMarket, nodes: Sequence[Node], least: Floats) -> UnitMarket:
    """Return the market of the sockets of ``nodes``, which are the servers of ``market``.

    Args:
        market: Market whose servers are nodes.
        nodes: Nodes with their sockets.
        least: Fewest cores of each job, for which it may need several sockets, shape (k,).
    """
    sold = sell_by_socket(market, [_sizes(node) for node in nodes], minimum=least)
    counts = np.diff(sold.first_socket)
    node = np.repeat(np.arange(len(nodes)), counts)
    return UnitMarket(sold.market, sold.job, node, np.arange(len(node)) - sold.first_socket[node])


def _sizes(node: Node) -> list[float]:
    """Return the cores of each socket: whole ones as evenly as possible, and what is left."""
    whole = int(node.cores)
    sockets = max(min(node.sockets, whole), 1)
    few, more = divmod(whole, sockets)
    sizes = [float(few + (number < more)) for number in range(sockets)]
    sizes[-1] += node.cores - whole
    return sizes


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
    cores_of = _checked(market, sockets)
    first_socket = np.cumsum([0, *(len(sizes) for sizes in cores_of)])
    money = (market.budgets / np.maximum(np.diff(market.by_user.start), 1))[market.user]
    parts: list[tuple[int, int, int]] = []
    start, order = market.by_server
    for server, sizes in enumerate(cores_of):
        jobs = order[start[server] : start[server + 1]].astype(np.int64)
        ranked = jobs[np.lexsort((jobs, -money[jobs], -lower[jobs]))]
        for job, chosen in _assign(sizes, ranked, lower, money):
            parts += [(job, int(first_socket[server]) + socket, len(chosen)) for socket in chosen]
    part = np.array(sorted(parts), np.int64).reshape(-1, 3)
    of, socket, together = part[:, 0], part[:, 1], part[:, 2]
    f, w = market.fraction[of], market.work[of]
    serial = f + together * (1 - f)
    cores = [float(size) for sizes in cores_of for size in sizes]
    of_sockets = AmdahlMarket(
        market.budgets, cores, market.user[of], socket, f / serial, w / serial
    )
    return SocketMarket(of_sockets, lower[of] / together, upper[of] / together, of, first_socket)


def _checked(market: AmdahlMarket, sockets: object) -> list[Floats]:
    """Return the cores of sockets, an array for each server."""
    if isinstance(sockets, str) or not isinstance(sockets, Iterable):
        raise MarketError(f"sockets = {sockets!r}: a list for each server is needed")
    cores = [numbers(f"sockets[{at}]", sizes, MarketError) for at, sizes in enumerate(sockets)]
    if len(cores) != len(market.capacities):
        raise MarketError(
            f"sockets of {len(cores)} servers: the market has {len(market.capacities)}"
        )
    for server, sizes in enumerate(cores):
        fits = sizes.ndim == 1 and np.isclose(sizes.sum(), market.capacities[server])
        if not (fits and (sizes > 0).all()):
            listed = ", ".join(f"{each:g}" for each in sizes.flat)
            raise MarketError(
                f"sockets[{server}] = [{listed}]: positive numbers are needed that add up to "
                f"the server's {market.capacities[server]:g} cores"
            )
    return cores


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
