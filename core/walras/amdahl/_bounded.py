"""Prices by turns where jobs have a fewest and a most number of cores.

The steps are those of `_alternation` with both corners: x = clip(a mu / sqrt(p) - g, l, h), where
mu spends the user's budget given prices, and p sells the server's cores given every mu. Bounds
take away what makes that a contraction. A job held at its maximum costs its user more as its
price rises, so that less is left for the rest: such cores are complements, and equilibria may be
several. (The limit f = 1 is a market of piecewise linear utilities, of which it is PPAD-hard in
general to find an equilibrium: Chen and Teng, ISAAC 2009.) The largest violation of a condition
therefore says how good a result is; no error of prices is bounded.

- Money that its user cannot use, all jobs being at their maximum, is left over. Its mu is then
  the least at which it wants no more, which keeps mu a continuous function of prices.
- A server whose maximums fit into it has price 0, and its jobs have their maximum; every other
  server's price is positive, for at 0 all of its maximums would be asked for.
- A user who cannot pay for its minimums buys as if it had none; after `STRIKES` passes of that
  they are dropped for good, so that the search ends. Minimums within the entitlement, the share
  b / B of each server, can be paid for at any equilibrium, and are never dropped.

Where a plain step overshoots, Anderson acceleration starts anew with smaller steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel
from walras.amdahl._anderson import LEAP, Anderson
from walras.amdahl._clipped import clipped_root
from walras.amdahl.conditions import kkt_residual
from walras.amdahl.market import Market
from walras.fill import fill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras._segments import Grouping

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Indices = NDArray[np.uint32]
    Flags = NDArray[np.bool_]

STRIKES = 16
"""Passes at which minimums may cost more than the budget before they are dropped."""

WIDEST = 200.0
"""Range of log prices: beyond it no budget is."""

TINY = 1e-300

EXACT = 1e-12
"""Minimums that cost this much more than there is are taken to cost all of it."""


class Side(NamedTuple):
    """Jobs grouped by user or by server, with the index of the other side, a, g and bounds.

    ``amount`` is the budget of each user, or the capacity of each server.
    """

    start: Counts
    other: Indices
    a: Floats
    g: Floats
    lower: Floats
    upper: Floats
    amount: Floats


class Found(NamedTuple):
    """What the search arrived at; ``affordable`` tells whose minimums hold, shape (n,)."""

    prices: Floats
    cores: Floats
    affordable: Flags
    passes: int


def solve_bounded(
    market: Market,
    lower: Floats,
    upper: Floats,
    fraction: Floats,
    prices: Floats,
    tolerance: float,
    max_passes: int,
) -> Found:
    """Search for an equilibrium within bounds.

    Args:
        market: the market.
        lower: shape (k,), cores.
        upper: shape (k,), cores; may be infinite.
        fraction: shape (k,), strictly between 0 and 1.
        prices: shape (m,), positive; where to start.
        tolerance: on the largest violation of a condition.
        max_passes: after which to give up.
    """
    free = market.sum_by_server(upper) <= market.capacities
    scarce = ~free[market.server]
    part = Market(
        market.budgets,
        market.capacities,
        market.user[scarce],
        market.server[scarce],
        fraction[scarce],
        market.work[scarce],
    )
    search = _Search(part, lower[scarce], upper[scarce])
    # A price at most: all money for one server.
    dearest = np.log(market.budgets.sum() / market.capacities)
    log_price = np.clip(np.log(prices), dearest - WIDEST, dearest)
    steps = Anderson()
    goal = 0.25 * tolerance
    for passes in range(1, max_passes + 1):
        change = search.answer(log_price)
        largest = float(np.abs(change).max(initial=0.0))
        if largest <= goal or passes == max_passes:
            cores = search.cores()
            at = np.exp(log_price)
            if search.violation(at, cores) <= tolerance or (goal < EXACT and search.settled()):
                break
            goal = min(goal, largest) / 10 if search.settled() else goal
        log_price = np.clip(steps.take(log_price, change, largest), dearest - WIDEST, dearest)
    held = upper.copy()
    held[scarce] = cores
    return Found(np.where(free, 0.0, at), held, search.affordable(), passes)


class _Search:
    """The answers of both sides to prices, and which minimums still stand."""

    def __init__(self, market: Market, lower: Floats, upper: Floats) -> None:
        self.market = market
        self.lower, self.upper = lower, upper
        self.users = self._side(market.by_user, market.server, market.budgets)
        self.servers = self._side(market.by_server, market.user, market.capacities)
        self.protected = _within_entitlement(market, lower)
        self.strikes = np.zeros(len(market.budgets), np.int64)
        self.keeps = np.ones(len(market.budgets))
        self.mu = np.full(len(market.budgets), np.inf)
        self.root = np.ones(len(market.capacities))

    def _side(self, groups: Grouping, other: Counts, amount: Floats) -> Side:
        f, w = self.market.fraction, self.market.work
        order = groups.order
        return Side(
            groups.start,
            other[order].astype(np.uint32),
            (np.sqrt(w * f) / (1 - f))[order],
            (f / (1 - f))[order],
            self.lower[order],
            self.upper[order],
            amount,
        )

    def answer(self, log_price: Floats) -> Floats:
        """Return by how much the answer of servers to that of users moves log prices."""
        self.root = np.exp(0.5 * log_price)
        _answer_prices(self.users, self.root, self.protected, self.strikes, self.keeps, self.mu)
        answer = self.root.copy()
        _answer_users(self.servers, self.mu, self.keeps, answer)
        change: Floats = np.clip(2 * np.log(answer) - log_price, -LEAP, LEAP)
        return change

    def cores(self) -> Floats:
        """Return what users ask for at the last prices, scaled to what servers have."""
        market = self.market
        lower = self._standing()
        f = market.fraction
        wanted = np.sqrt(market.work * f) * self.mu[market.user] / self.root[market.server] - f
        wanted = np.clip(wanted / (1 - f), lower, self.upper)
        return fill(wanted, lower, self.upper, market.capacities, market.by_server)

    def _standing(self) -> Floats:
        """Return the minimums that hold; where they cannot all, those of the server's users go."""
        market = self.market
        lower = np.where(self.affordable()[market.user], self.lower, 0.0)
        needed = market.sum_by_server(lower)
        crowded = (needed > market.capacities * (1 + EXACT))[market.server]
        asking = crowded & (lower > 0) & ~self.protected[market.user]
        self.strikes[market.user[asking]] = STRIKES
        return np.where(self.affordable()[market.user], self.lower, 0.0)

    def affordable(self) -> Flags:
        standing: Flags = self.strikes < STRIKES
        return standing

    def settled(self) -> bool:
        """Return whether the last answers were made with the minimums that still stand."""
        return bool(np.all(((self.keeps > 0) == self.affordable()) | self.protected))

    def violation(self, prices: Floats, cores: Floats) -> float:
        """Return the largest violation of a condition."""
        lower = np.where(self.affordable()[self.market.user], self.lower, 0.0)
        return kkt_residual(self.market, prices, cores, minimum=lower, maximum=self.upper)


def _within_entitlement(market: Market, lower: Floats) -> Flags:
    """Return whose minimums add up to at most b / B of every server, shape (n,)."""
    asking = np.flatnonzero(lower)
    user, server = market.user[asking], market.server[asking]
    pairs, pair = np.unique(user * len(market.capacities) + server, return_inverse=True)
    wanted = np.bincount(pair, lower[asking], len(pairs))
    of_user, of_server = np.divmod(pairs, len(market.capacities))
    share = market.budgets / market.budgets.sum()
    within = np.ones(len(market.budgets), np.bool_)
    entitled = share[of_user] * market.capacities[of_server]
    within[of_user[wanted > entitled * (1 + EXACT)]] = False
    return within


@kernel
def _longest(start: Counts) -> int:
    longest = 0
    for group in range(len(start) - 1):
        longest = max(longest, start[group + 1] - start[group])
    return longest


@kernel
def _edges(slope: Floats, offset: Floats, bound: Floats, size: int) -> tuple[float, float]:
    """Return the first and the last t at which a line, slope t - offset, meets its bound."""
    first, last = np.inf, 0.0
    for k in range(size):
        edge = (bound[k] + offset[k]) / slope[k]
        first = min(first, edge)
        last = max(last, edge)
    return first, last


@kernel
def _answer_prices(
    side: Side, root: Floats, protected: Flags, strikes: Counts, keeps: Floats, mu: Floats
) -> None:
    """Set each user's ``mu`` to spend its budget at prices ``root**2``.

    ``keeps`` becomes 1 for users whose minimums hold in this pass, else 0 and, unless the user is
    ``protected``, another of its ``strikes``.
    """
    longest = _longest(side.start)
    slope, offset = np.empty(longest), np.empty(longest)
    lower, upper = np.empty(longest), np.empty(longest)
    for i in range(len(mu)):
        first, size = side.start[i], side.start[i + 1] - side.start[i]
        budget = side.amount[i]
        least, most = 0.0, 0.0
        for k in range(size):
            q = root[side.other[first + k]]
            slope[k] = side.a[first + k] * q
            offset[k] = side.g[first + k] * q * q
            lower[k] = side.lower[first + k] * q * q
            upper[k] = side.upper[first + k] * q * q
            least += lower[k]
            most += upper[k]
        keeps[i] = 1.0
        if protected[i]:
            keeps[i] = min(1.0, budget / max(least, TINY))
        elif least > budget * (1.0 + EXACT) or strikes[i] >= STRIKES:
            keeps[i] = 0.0
            strikes[i] = min(strikes[i] + 1, STRIKES)
        for k in range(size):
            lower[k] *= keeps[i]
        least *= keeps[i]
        if most <= budget:
            mu[i] = _edges(slope, offset, upper, size)[1]
        elif least >= budget:
            mu[i] = _edges(slope, offset, lower, size)[0]
        else:
            mu[i] = clipped_root(slope, offset, lower, upper, size, budget, mu[i], 0.0)


@kernel
def _answer_users(side: Side, mu: Floats, keeps: Floats, root: Floats) -> None:
    """Set each server's ``root`` price to sell its cores; where minimums exceed them, raise it."""
    longest = _longest(side.start)
    slope, offset = np.empty(longest), np.empty(longest)
    lower, upper = np.empty(longest), np.empty(longest)
    for j in range(len(root)):
        first, size = side.start[j], side.start[j + 1] - side.start[j]
        if size == 0:
            continue
        least = 0.0
        for k in range(size):
            i = side.other[first + k]
            slope[k] = side.a[first + k] * mu[i]
            offset[k] = side.g[first + k]
            lower[k] = side.lower[first + k] * keeps[i]
            upper[k] = side.upper[first + k]
            least += lower[k]
        capacity = side.amount[j]
        if least > capacity * (1.0 + EXACT):
            root[j] *= np.e
        else:
            guess = 1.0 / root[j]
            root[j] = 1.0 / clipped_root(slope, offset, lower, upper, size, capacity, guess, 0.0)
