"""Best Response (VI-A): the Nash equilibrium of users who anticipate how their bids move prices.

Users respond in turn, each to the latest bids of the others; simultaneous responses cycle where
many users share a server. The paper finds a best response by an interior-point method, but it has a
closed form. A user's bids on one server count together: T against y of all others buys
X = C T / (T + y) cores, which its jobs there divide. With a = sqrt(w f) / (1 - f), g = f / (1 - f),
and A and G their sums over those of its jobs on the server that get cores, its conditions are

    x = a D - g,   D = nu (C - X) / sqrt(y C),   so that   T = (nu A sqrt(y C) - G y) / (C + G),

where nu = 1 / sqrt(marginal utility of money) is one number per user, and T is increasing and
piecewise linear in it: spending the budget fixes nu in closed form. (With one job on a server this
is the best response to linear utilities with w' = w C / h and y' = f y / h, h = f + (1 - f) C.)

A user that is alone on a server has no best response: ever smaller bids still win all cores.
Hence a reserve: others' bids on a server count as at least ``reserve`` times its cores at the
mean price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError
from walras.mechanisms.amdahl.satiation import SMALLEST_FRACTION
from walras.numerics.checks import check_kind, check_positive, check_whole, numbers
from walras.numerics.kernel import kernel
from walras.numerics.segments import group

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Indices, Integers

PATIENCE = 40
"""Rounds after which users move half as far, since full best responses may cycle, rarely."""

LEAST_STEP = 1 / 64
"""Shortest move, as a part of the way to the best response."""


LARGEST_FRACTION = 1 - 1e-8
"""Stands for larger f: at f = 1 cores are a difference of infinities, and close to it rounding
dominates."""

MAX_STEPS = 100

ROUNDING = 2.0**-50


@dataclass(frozen=True)
class AmdahlNashEquilibrium:
    """Bids from which no user gains much by bidding otherwise.

    Attributes:
        bids: Bid for each job, shape (k,); each user's add up to its budget.
        prices: Bids per core of each server, shape (m,); 0 on a server without jobs.
        cores: Cores of each job, shape (k,), in proportion to bids. They add up to each server's
            capacity, as cores that the reserve kept from bidders are given to them in the end.
        gain: Largest relative gain in utility that any user could make by other bids, computed from
            its exact best response.
        iterations: Rounds in which all users responded.
    """

    market: AmdahlMarket
    bids: Floats
    prices: Floats
    cores: Floats
    gain: float
    iterations: int
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether no user can gain more than the tolerance by bidding otherwise."""
        return self.gain <= self.tolerance


def find_nash_equilibrium(
    market: AmdahlMarket,
    *,
    reserve: float = 1e-3,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: Floats | None = None,
) -> AmdahlNashEquilibrium:
    """Let users respond to each other's bids in turn until prices settle and nobody gains.

    Args:
        market: Users, servers and jobs.
        reserve: Least total of others' bids on a server that a user reckons with, as a part of what
            its cores cost at the mean price (all budgets over all cores); positive.
        tolerance: Largest relative change of prices in a round, and largest ``gain``.
        max_iterations: Rounds after which to give up; ``converged`` of the result is False then.
        start: Bids to start from, shape (k,); even ones if not given.

    Raises:
        TypeError: The market is none.
        MarketError: The reserve or the tolerance is not positive and finite, there is no round, or
            the bids to start from have the wrong shape.
    """
    check_kind("market", market, AmdahlMarket)
    check_positive("reserve", reserve, MarketError)
    check_positive("tolerance", tolerance, MarketError)
    check_whole("max_iterations", max_iterations, 1, MarketError)
    start = None if start is None else numbers("start", start, MarketError)
    if start is not None and np.shape(start) != (market.jobs,):
        raise MarketError(
            f"start has shape {np.shape(start)}: {market.jobs} bids are needed, one for each job"
        )
    if market.jobs == 0:
        nothing = np.zeros(0)
        unpriced = np.zeros(len(market.capacities))
        return AmdahlNashEquilibrium(market, nothing, unpriced, nothing, 0.0, 0, tolerance)
    floor = reserve * market.capacities * (market.budgets.sum() / market.capacities.sum())
    jobs = group_by_user(market, floor)
    bids = _first_bids(market, start)[jobs.job]
    totals = market.sum_by_server(_scatter(jobs.job, bids))
    nu = np.full(len(market.budgets), np.inf)
    lines = empty_lines(market)
    rounds, gain = 0, np.inf
    while gain > tolerance and rounds < max_iterations:
        rounds += 1
        before = totals.copy()
        step = max(0.5 ** (rounds // PATIENCE), LEAST_STEP)
        respond_in_turn(jobs, bids, totals, nu, lines, step)
        busy = totals > 0
        moved = float(np.abs(before[busy] / totals[busy] - 1).max()) / step
        if moved <= tolerance or rounds == max_iterations:
            gain = respond_in_turn(jobs, bids, totals, nu, lines, 0.0)
    ordered = _scatter(jobs.job, bids)
    prices = totals / market.capacities
    # On servers without any bids, cores are divided evenly for free.
    claims = np.where(totals[market.server] > 0, ordered, 1.0)
    cores = claims / market.sum_by_server(claims)[market.server]
    cores *= market.capacities[market.server]
    return AmdahlNashEquilibrium(market, ordered, prices, cores, gain, rounds, tolerance)


def _first_bids(market: AmdahlMarket, start: Floats | None) -> Floats:
    """Return bids in proportion to ``start`` that spend every budget, even where it has none."""
    bids = np.ones(market.jobs)
    if start is not None:
        bids = np.where(np.isfinite(start) & (np.asarray(start) > 0), start, 0.0)
    bids = np.where(market.sum_by_user(bids)[market.user] > 0, bids, 1.0)
    return bids * (market.budgets[market.user] / market.sum_by_user(bids)[market.user])


def _scatter(job: Integers, values: Floats) -> Floats:
    result = np.empty(len(values))
    result[job] = values
    return result


class JobsByUser(NamedTuple):
    """Jobs in the order of their users, and each user's in the order of servers.

    Attributes:
        start: First job of each user, and the number of jobs, shape (n + 1,).
        job: Number of each job in the market, shape (k,).
        server: Server of each job, shape (k,).
        a: sqrt(w f) / (1 - f), shape (k,).
        g: f / (1 - f), shape (k,).
        rise: a sqrt(C) / (C + g), shape (k,): T is rise sqrt(y) nu - fall y for the user's only job
            on a server.
        fall: g / (C + g), shape (k,).
        budget: Budget of each user, shape (n,).
        capacity: Cores of each server, shape (m,).
        floor: Least total of others' bids that a user reckons with on each server, shape (m,).
    """

    start: Integers
    job: Integers
    server: Indices
    a: Floats
    g: Floats
    rise: Floats
    fall: Floats
    budget: Floats
    capacity: Floats
    floor: Floats


class BidLines(NamedTuple):
    """Work space: one user's best bid for each job as a line, slope nu - offset.

    Where a user has several jobs on a server, the first of them has the line of their total.

    Attributes:
        rivals: Others' bids on the job's server.
        alone: 1 for the user's only job on a server, else 0.
    """

    rivals: Floats
    slope: Floats
    offset: Floats
    best: Floats
    alone: Floats


def group_by_user(market: AmdahlMarket, floor: Floats) -> JobsByUser:
    """Return the jobs in the order of users.

    Args:
        market: Users, servers and jobs.
        floor: Least total of others' bids that a user reckons with on each server, shape (m,).
    """
    by_server = market.by_server.order
    by_user = group(market.user[by_server], len(market.budgets))
    job = by_server[by_user.order].astype(np.int64)
    server = market.server[job]
    capacity = market.capacities[server]
    f = np.clip(market.fraction, SMALLEST_FRACTION, LARGEST_FRACTION)[job]
    a = np.sqrt(market.work[job] * f) / (1 - f)
    g = f / (1 - f)
    return JobsByUser(
        by_user.start,
        job,
        server.astype(np.uint32),
        a,
        g,
        a * np.sqrt(capacity) / (capacity + g),
        g / (capacity + g),
        market.budgets,
        market.capacities,
        floor,
    )


def empty_lines(market: AmdahlMarket) -> BidLines:
    """Return work space for the lines of any user."""
    longest = int(np.diff(market.by_user.start).max())
    return BidLines(*np.empty((5, longest)))


@kernel
def _set_lines(jobs: JobsByUser, user: int, bids: Floats, totals: Floats, lines: BidLines) -> bool:
    """Set the user's ``lines`` but for jobs that share a server; return whether any do."""
    first, last = jobs.start[user], jobs.start[user + 1]
    pooled = False
    k = first
    while k < last:
        j = jobs.server[k]
        own_total = bids[k]
        end = k + 1
        while end < last and jobs.server[end] == j:
            own_total += bids[end]
            lines.slope[end - first] = 0.0
            lines.offset[end - first] = 0.0
            lines.alone[end - first] = 0.0
            pooled = True
            end += 1
        y = max(totals[j] - own_total, jobs.floor[j])
        lines.rivals[k - first] = y
        lines.slope[k - first] = jobs.rise[k] * np.sqrt(y)
        lines.offset[k - first] = jobs.fall[k] * y
        lines.alone[k - first] = 1.0 * (end == k + 1)
        k = end
    return pooled


@kernel
def _set_pooled_lines(jobs: JobsByUser, user: int, nu: float, lines: BidLines) -> None:
    """Set the lines of jobs that share a server, at ``nu``, and divide their total bid among them.

    D = (C + G) / (A + sqrt(y C) / nu) over the jobs with a D > g: from above, by Newton's method on
    a convex function.
    """
    first, last = jobs.start[user], jobs.start[user + 1]
    k = first
    while k < last:
        end = k + 1
        while end < last and jobs.server[end] == jobs.server[k]:
            end += 1
        if end > k + 1:
            capacity, y = jobs.capacity[jobs.server[k]], lines.rivals[k - first]
            root = np.sqrt(y * capacity)
            depth = capacity * nu / root
            big_a, big_g = 0.0, 0.0
            for _ in range(end - k + 1):
                before = depth
                big_a, big_g = 0.0, 0.0
                for one in range(k, end):
                    if jobs.a[one] * depth > jobs.g[one]:
                        big_a += jobs.a[one]
                        big_g += jobs.g[one]
                depth = (capacity + big_g) / (big_a + root / nu)
                if depth == before:
                    break
            lines.slope[k - first] = big_a * root / (capacity + big_g)
            lines.offset[k - first] = big_g * y / (capacity + big_g)
            for one in range(k, end):
                x = max(0.0, jobs.a[one] * depth - jobs.g[one])
                lines.best[one - first] = x * nu * y / (depth * root)  # T / X = (T + y) / C
        k = end


@kernel
def _best_response(
    jobs: JobsByUser, user: int, bids: Floats, totals: Floats, nu: float, lines: BidLines
) -> float:
    """Set ``lines.best`` to the user's best response to others' bids; return its nu.

    Newton's method, from a guess of nu, on what the user would spend as a function of nu; with
    several of its jobs on a server that need not be convex, so a bracket keeps it from cycling.
    """
    size = jobs.start[user + 1] - jobs.start[user]
    budget = jobs.budget[user]
    pooled = _set_lines(jobs, user, bids, totals, lines)
    low, high = 0.0, np.inf
    for _ in range(MAX_STEPS):
        if pooled:
            _set_pooled_lines(jobs, user, nu, lines)
        slope, offset = 0.0, budget
        for k in range(size):
            active = 1.0 * (nu * lines.slope[k] > lines.offset[k])
            slope += active * lines.slope[k]
            offset += active * lines.offset[k]
        if slope * nu > offset:
            high = nu
        else:
            low = nu
        newton = offset / slope if slope > 0.0 else np.inf
        if nu < np.inf and abs(newton - nu) <= ROUNDING * nu:
            break
        nu = newton
        if not low < nu < high:
            nu = 4.0 * low if high == np.inf else np.sqrt(low) * np.sqrt(high)
    _set_bids(lines, size, nu, budget, bids[jobs.start[user] : jobs.start[user + 1]])
    return nu


@kernel
def _set_bids(lines: BidLines, size: int, nu: float, budget: float, bids: Floats) -> None:
    """Set ``lines.best`` for jobs alone on their server, and scale all of it to the budget.

    A budget so small that rounding in others' bids absorbs it stays where it is, on ``bids``.
    """
    spent = 0.0
    for k in range(size):
        if lines.alone[k] > 0.0:
            lines.best[k] = max(0.0, lines.slope[k] * nu - lines.offset[k])
        spent += lines.best[k]
    for k in range(size):
        lines.best[k] = lines.best[k] * (budget / spent) if spent > 0.0 else bids[k]


@kernel
def _gain(jobs: JobsByUser, user: int, bids: Floats, lines: BidLines) -> float:
    """Return the user's relative gain in utility by ``lines.best`` in place of its bids."""
    first, last = jobs.start[user], jobs.start[user + 1]
    now, then = 0.0, 0.0
    total, best_total = 1.0, 1.0
    for k in range(first, last):
        j = jobs.server[k]
        if k == first or jobs.server[k - 1] != j:
            total = best_total = lines.rivals[k - first]
            end = k
            while end < last and jobs.server[end] == j:
                total += bids[end]
                best_total += lines.best[end - first]
                end += 1
        # w x / (f + (1 - f) x) in terms of a and g
        scale, g, capacity = jobs.a[k] * jobs.a[k] / jobs.g[k], jobs.g[k], jobs.capacity[j]
        x = bids[k] * capacity / total
        now += scale * x / (g + x)
        x = lines.best[k - first] * capacity / best_total
        then += scale * x / (g + x)
    return then / now - 1.0


@kernel
def respond_in_turn(
    jobs: JobsByUser, bids: Floats, totals: Floats, nu: Floats, lines: BidLines, step: float
) -> float:
    """Move each user's bids by ``step`` of the way to its best response to the others' latest bids.

    Returns:
        Largest relative gain that any user could make by its best response if ``step`` is 0, in
        which case no bids move; else 0.
    """
    for j in range(len(totals)):
        totals[j] = 0.0
    for k in range(len(bids)):  # summed anew, as running sums drift
        totals[jobs.server[k]] += bids[k]
    largest = 0.0
    for i in range(len(nu)):
        first, last = jobs.start[i], jobs.start[i + 1]
        if first == last:
            continue
        nu[i] = _best_response(jobs, i, bids, totals, nu[i], lines)
        if step == 0.0:
            largest = max(largest, _gain(jobs, i, bids, lines))
            continue
        for k in range(first, last):
            change = step * (lines.best[k - first] - bids[k])
            totals[jobs.server[k]] += change
            bids[k] += change
    return largest
