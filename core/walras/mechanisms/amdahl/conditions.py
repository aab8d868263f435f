"""Residual of the equilibrium conditions: the largest violation of any of them (V-C)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.market import check_bounds
from walras.mechanisms.amdahl.satiation import reserve_price, sated_spending
from walras.numerics.kernel import kernel
from walras.numerics.segments import longest_group, read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.mechanisms.amdahl.satiation import Satiation
    from walras.numerics.arrays import Floats, Indices, Integers

MAX_BISECTIONS = 100
"""Bisections of lambda, for each user."""

ROUNDING = 1e-9
"""Relative excess over the reserve price that counts as a rounding error."""

CLOSE = 1e-4
"""Violation below which lambda is searched near the last one only."""


def kkt_residual(
    market: AmdahlMarket,
    prices: Floats,
    cores: Floats,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
    satiation: Satiation | None = None,
) -> float:
    """Return the largest relative violation of an equilibrium condition.

    The conditions are:

    - No server sells more than its cores, and unsold cores have price 0.
    - Every user spends its budget, unless all its jobs have their maximum, or its minimums cost
      more.
    - Every job has cores within its bounds.
    - With one lambda per user, a job's marginal utility per unit of money is lambda; at its minimum
      it may be less, at its maximum more (eq. 5 with bounds).

    The last one is measured at each user's best lambda, as the smaller of two numbers: the relative
    difference of marginal utility, and how far the job could still move that way, as a part of the
    budget down and of the maximum up. So a bid of 0 violates nothing. Without bounds these are the
    conditions of section V-C, and lambda is the mean weighted by money: no less strict, and without
    a kernel to compile.

    Args:
        market: Users, servers and jobs.
        prices: Price per core of each server, shape (m,).
        cores: Cores of each job, shape (k,).
        minimum: Fewest cores of each job, shape (k,); see `check_bounds`.
        maximum: Most cores of each job, shape (k,).
        satiation: When users are sated; they spend their budgets if not given.
    """
    if market.jobs == 0:
        return 0.0
    lower, upper = check_bounds(market, minimum, maximum)
    sold = market.sum_by_server(cores) / market.capacities - 1
    busy = np.diff(market.by_server.start) > 0
    least = 0.0 if satiation is None else reserve_price(market) * (1 + ROUNDING)
    imbalance = np.where(prices > least, np.abs(sold), np.maximum(sold, 0))[busy].max()
    if minimum is None and maximum is None and satiation is None:
        return float(max(imbalance, _largest_violation_without_bounds(market, prices, cores)))
    spends = market.budgets
    if satiation is not None:
        spends = sated_spending(market, prices, lower, upper, satiation)
    violation = _largest_violation(
        *market.by_user,
        market.server,
        market.budgets,
        spends,
        market.capacities,
        market.fraction,
        market.work,
        read_only(prices),
        read_only(cores),
        read_only(lower),
        read_only(upper),
    )
    return float(max(imbalance, violation))


def _largest_violation_without_bounds(market: AmdahlMarket, prices: Floats, cores: Floats) -> float:
    """Return the largest violation of any user's conditions where jobs have no bounds."""
    f = market.fraction
    price = prices[market.server]
    spend = price * cores
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        marginal = market.work * f / (f + (1 - f) * cores) ** 2 / price
        marginal[f == 0] = 0.0  # cores add nothing beyond the first instant
        spent = market.sum_by_user(spend)
        worth = market.sum_by_user(spend * marginal) / spent
        ratio = marginal / worth[market.user]
    ratio[np.isnan(ratio)] = 1.0  # no violation where no core adds utility
    share = spend / market.budgets[market.user]
    busy = np.diff(market.by_user.start) > 0
    unspent = np.abs(spent / market.budgets - 1)[busy].max()
    return float(max(unspent, np.maximum(ratio - 1, np.minimum(1 - ratio, share)).max()))


@kernel
def _largest_violation(
    start: Integers,
    order: Indices,
    server: Integers,
    budget: Floats,
    spends: Floats,
    capacity: Floats,
    fraction: Floats,
    work: Floats,
    price: Floats,
    cores: Floats,
    lower: Floats,
    upper: Floats,
) -> float:
    """Return the largest violation of any user's conditions, or of any job's bounds."""
    longest = longest_group(start)
    marginal = np.empty(longest)
    slack = np.empty(longest)
    room = np.empty(longest)
    worst = 0.0
    for i in range(len(budget)):
        size = start[i + 1] - start[i]
        spent = 0.0
        beyond = 0.0
        roomiest = 0.0
        for slot in range(size):
            k = order[start[i] + slot]
            x, p, f = cores[k], price[server[k]], fraction[k]
            worst = max(worst, max(lower[k] - x, x - upper[k]) / capacity[server[k]])
            spent += p * x
            slack[slot] = p * (x - lower[k]) / budget[i]
            beyond += max(slack[slot], 0.0)
            room[slot] = 1.0 - x / upper[k] if upper[k] < np.inf else np.inf
            # At f = 0 cores add nothing beyond the first instant.
            scale = f + (1.0 - f) * x
            gain = work[k] * f / (scale * scale) if f > 0.0 else 0.0
            marginal[slot] = gain / p if gain > 0.0 else 0.0
            if gain > 0.0:
                roomiest = max(roomiest, room[slot])
        over = (spent - spends[i]) / budget[i]
        if size > 0:
            worst = max(worst, min(over, beyond), min(-over, roomiest))
            worst = max(worst, _least_violation(marginal, slack, room, size, worst))
    return worst


@kernel
def _least_violation(
    marginal: Floats, slack: Floats, room: Floats, size: int, enough: float
) -> float:
    """Return the violation at a user's best lambda, or one that is at most ``enough``.

    The violation by jobs that should have more falls in lambda; that by jobs that should have less
    rises. The largest of all users is sought: most need no search, since some lambda has less than
    another user's best.
    """
    low, high, least, best = np.inf, 0.0, 0.0, 0.0
    weight, total = 0.0, 0.0
    for slot in range(size):
        if marginal[slot] == np.inf:  # free, and useful
            least = max(least, room[slot])
        elif marginal[slot] > 0.0:
            low = min(low, marginal[slot])
            high = max(high, marginal[slot])
            best = max(best, room[slot])  # at lambda = 0
            movable = min(slack[slot], room[slot])
            weight += movable
            total += movable * marginal[slot]
    if high == 0.0:
        return least
    middle = min(max(total / weight, low), high) if weight > 0.0 else high
    for _ in range(MAX_BISECTIONS):
        more, less = 0.0, 0.0
        for slot in range(size):
            ratio = marginal[slot] / middle
            wanted = ratio - 1.0 if ratio < np.inf else 0.0
            more = max(more, min(wanted, room[slot]))
            less = max(less, min(1.0 - ratio, slack[slot]))
        violation = max(more, less)
        best = min(best, violation)
        # The first guess is nearly right if jobs between their bounds agree: search near it then.
        reach = 1.0 + violation if violation < CLOSE else np.inf
        if more > less:
            low, high = middle, min(high, middle * reach)
        else:
            low, high = max(low, middle / reach), middle
        if best <= enough or high <= low * (1.0 + max(0.01 * best, 1e-15)):
            break
        middle = np.sqrt(low) * np.sqrt(high)
    return max(least, best)
