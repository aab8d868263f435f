"""A user's best response to others' bids in closed form, and rounds in which all users respond.

A user's bids on one server count together: T against y of all others buys X = C T / (T + y) cores,
which its jobs there divide. With a = sqrt(w f) / (1 - f), g = f / (1 - f), and A and G their sums
over those of its jobs on the server that get cores, the conditions of its best response are

    x = a D - g,   D = nu (C - X) / sqrt(y C),   so that   T = (nu A sqrt(y C) - G y) / (C + G),

where nu = 1 / sqrt(marginal utility of money) is one number per user, and T is increasing and
piecewise linear in it: spending the budget fixes nu in closed form. (With one job on a server this
is the best response to linear utilities with w' = w C / h and y' = f y / h, h = f + (1 - f) C.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel
from walras._segments import group
from walras.amdahl.equilibrium import SMALLEST_FRACTION

if TYPE_CHECKING:
    from walras._arrays import Floats, Indices, Integers
    from walras.amdahl.market import AmdahlMarket

LARGEST_FRACTION = 1 - 1e-8
"""Stands for larger f: at f = 1 cores are a difference of infinities, and close to it rounding
dominates."""

MAX_STEPS = 100
ROUNDING = 2.0**-50


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
        slope: Slopes of the lines.
        offset: Offsets of the lines.
        best: Best bids.
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
        scale, g, capacity = jobs.a[k] ** 2 / jobs.g[k], jobs.g[k], jobs.capacity[j]
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
