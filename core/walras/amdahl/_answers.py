"""The best response of a user to others' bids in closed form, and rounds in which all answer.

A user's bids on one server count together: T against y of all others buys X = C T / (T + y) cores,
which its jobs there divide. With a = sqrt(w f) / (1 - f), g = f / (1 - f), and A and G their sums
over those of its jobs on the server that get cores, the conditions of its best response are

    x = a D - g,   D = nu (C - X) / sqrt(y C),   so that   T = (nu A sqrt(y C) - G y) / (C + G),

where nu = 1 / sqrt(marginal utility of money) is one number a user, and T is increasing and
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
    from numpy.typing import NDArray

    from walras.amdahl.market import Market

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Indices = NDArray[np.uint32]

LARGEST_FRACTION = 1 - 1e-8
"""At f = 1 cores are a difference of infinities; closer to it rounding would take over."""

MAX_STEPS = 100
ROUNDING = 2.0**-50


class Stakes(NamedTuple):
    """Jobs in the order of their users, and each user's in the order of servers.

    Attributes:
        start: shape (n + 1,).
        job: shape (k,), the numbers of the jobs.
        server: shape (k,).
        a: shape (k,), sqrt(w f) / (1 - f).
        g: shape (k,), f / (1 - f).
        rise: shape (k,), a sqrt(C) / (C + g): T is rise sqrt(y) nu - fall y where one job stands
            alone.
        fall: shape (k,), g / (C + g).
        budget: shape (n,).
        capacity: shape (m,).
        floor: shape (m,), what others' bids count as at least.
    """

    start: Counts
    job: Counts
    server: Indices
    a: Floats
    g: Floats
    rise: Floats
    fall: Floats
    budget: Floats
    capacity: Floats
    floor: Floats


class Lines(NamedTuple):
    """What one user would bid per job, slope nu - offset, and others' bids there; scratch.

    Where a user has several jobs on a server, the first of them stands for all.
    """

    rivals: Floats
    slope: Floats
    offset: Floats
    best: Floats
    alone: Floats


def stake(market: Market, floor: Floats) -> Stakes:
    """Lay the jobs out; ``floor``, shape (m,), is what others' bids count as at least."""
    by_server = market.by_server.order
    by_user = group(market.user[by_server], len(market.budgets))
    job = by_server[by_user.order].astype(np.int64)
    server = market.server[job]
    capacity = market.capacities[server]
    f = np.clip(market.fraction, SMALLEST_FRACTION, LARGEST_FRACTION)[job]
    a = np.sqrt(market.work[job] * f) / (1 - f)
    g = f / (1 - f)
    return Stakes(
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


def blank(market: Market) -> Lines:
    """Return room for the lines of any user."""
    longest = int(np.diff(market.by_user.start).max())
    return Lines(*np.empty((5, longest)))


@kernel
def _draw(stakes: Stakes, user: int, bids: Floats, totals: Floats, lines: Lines) -> bool:
    """Set the user's ``lines`` but for pooled jobs; return whether there are any."""
    first, last = stakes.start[user], stakes.start[user + 1]
    pooled = False
    k = first
    while k < last:
        j = stakes.server[k]
        mine = bids[k]
        end = k + 1
        while end < last and stakes.server[end] == j:
            mine += bids[end]
            lines.slope[end - first] = 0.0
            lines.offset[end - first] = 0.0
            lines.alone[end - first] = 0.0
            pooled = True
            end += 1
        y = max(totals[j] - mine, stakes.floor[j])
        lines.rivals[k - first] = y
        lines.slope[k - first] = stakes.rise[k] * np.sqrt(y)
        lines.offset[k - first] = stakes.fall[k] * y
        lines.alone[k - first] = 1.0 * (end == k + 1)
        k = end
    return pooled


@kernel
def _pool(stakes: Stakes, user: int, nu: float, lines: Lines) -> None:
    """Redraw the lines of pooled jobs at ``nu``, and divide what is bid among them.

    D = (C + G) / (A + sqrt(y C) / nu) over the jobs with a D > g: from above, by Newton's method on
    a convex function.
    """
    first, last = stakes.start[user], stakes.start[user + 1]
    k = first
    while k < last:
        end = k + 1
        while end < last and stakes.server[end] == stakes.server[k]:
            end += 1
        if end > k + 1:
            capacity, y = stakes.capacity[stakes.server[k]], lines.rivals[k - first]
            root = np.sqrt(y * capacity)
            depth = capacity * nu / root
            big_a, big_g = 0.0, 0.0
            for _ in range(end - k + 1):
                before = depth
                big_a, big_g = 0.0, 0.0
                for one in range(k, end):
                    if stakes.a[one] * depth > stakes.g[one]:
                        big_a += stakes.a[one]
                        big_g += stakes.g[one]
                depth = (capacity + big_g) / (big_a + root / nu)
                if depth == before:
                    break
            lines.slope[k - first] = big_a * root / (capacity + big_g)
            lines.offset[k - first] = big_g * y / (capacity + big_g)
            for one in range(k, end):
                x = max(0.0, stakes.a[one] * depth - stakes.g[one])
                lines.best[one - first] = x * nu * y / (depth * root)  # T / X = (T + y) / C
        k = end


@kernel
def _answer(
    stakes: Stakes, user: int, bids: Floats, totals: Floats, nu: float, lines: Lines
) -> float:
    """Set ``lines.best`` to the user's best answer to others' bids, from a guess; return nu.

    Newton's method on what the user would spend as a function of nu; with several of its jobs on a
    server that need not be convex, so a bracket keeps it from circling.
    """
    size = stakes.start[user + 1] - stakes.start[user]
    budget = stakes.budget[user]
    pooled = _draw(stakes, user, bids, totals, lines)
    low, high = 0.0, np.inf
    for _ in range(MAX_STEPS):
        if pooled:
            _pool(stakes, user, nu, lines)
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
    _bid(lines, size, nu, budget, bids[stakes.start[user] : stakes.start[user + 1]])
    return nu


@kernel
def _bid(lines: Lines, size: int, nu: float, budget: float, bids: Floats) -> None:
    """Set ``lines.best`` where jobs are alone, and scale all of it to the budget.

    A budget that is lost in the rounding of what others bid stays where it is, on ``bids``.
    """
    spent = 0.0
    for k in range(size):
        if lines.alone[k] > 0.0:
            lines.best[k] = max(0.0, lines.slope[k] * nu - lines.offset[k])
        spent += lines.best[k]
    for k in range(size):
        lines.best[k] = lines.best[k] * (budget / spent) if spent > 0.0 else bids[k]


@kernel
def _gain(stakes: Stakes, user: int, bids: Floats, lines: Lines) -> float:
    """Return the user's relative gain of utility by ``lines.best`` in place of its bids."""
    first, last = stakes.start[user], stakes.start[user + 1]
    now, then = 0.0, 0.0
    total, best_total = 1.0, 1.0
    for k in range(first, last):
        j = stakes.server[k]
        if k == first or stakes.server[k - 1] != j:
            total = best_total = lines.rivals[k - first]
            end = k
            while end < last and stakes.server[end] == j:
                total += bids[end]
                best_total += lines.best[end - first]
                end += 1
        # w x / (f + (1 - f) x) in terms of a and g
        scale, g, capacity = stakes.a[k] ** 2 / stakes.g[k], stakes.g[k], stakes.capacity[j]
        x = bids[k] * capacity / total
        now += scale * x / (g + x)
        x = lines.best[k - first] * capacity / best_total
        then += scale * x / (g + x)
    return then / now - 1.0


@kernel
def take_turns(
    stakes: Stakes, bids: Floats, totals: Floats, nu: Floats, lines: Lines, step: float
) -> float:
    """Move every user's bids by ``step`` of the way to its best answer to the others' latest.

    With a step of 0 nothing moves; returned is the largest relative gain that any user could make
    by its best answer.
    """
    for j in range(len(totals)):
        totals[j] = 0.0
    for k in range(len(bids)):  # anew: sums that follow changes drift
        totals[stakes.server[k]] += bids[k]
    largest = 0.0
    for i in range(len(nu)):
        first, last = stakes.start[i], stakes.start[i + 1]
        if first == last:
            continue
        nu[i] = _answer(stakes, i, bids, totals, nu[i], lines)
        if step == 0.0:
            largest = max(largest, _gain(stakes, i, bids, lines))
            continue
        for k in range(first, last):
            change = step * (lines.best[k - first] - bids[k])
            totals[stakes.server[k]] += change
            bids[k] += change
    return largest
