"""The conditions of equilibrium, and the largest violation of any of them (V-C)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.amdahl.bounds import check_bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.amdahl.market import Market

    Floats = NDArray[np.float64]

MAX_BISECTIONS = 100

NEAR = 1e-4
"""A violation that is small enough to look no further for a better lambda."""


def kkt_residual(
    market: Market,
    prices: Floats,
    cores: Floats,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> float:
    """Return the largest relative violation of a condition of equilibrium.

    The conditions: no server is sold twice, and what is not sold has price 0; every budget is
    spent, unless all jobs of its user have their maximum; every job keeps its bounds; and with one
    lambda a user, a job's marginal utility per unit of money is lambda, at most that at its
    minimum, at least that at its maximum (eq. 5 with bounds). The last is measured at the lambda
    that suits the user best, as the smaller of the relative difference of marginal utility and
    what could still move that way, a part of the budget down and of the maximum up: a bid of
    nothing violates nothing.
    Without bounds these are the conditions of section V-C, and lambda is the mean by money: no
    less strict, and nothing to compile for.

    Args:
        market: the market.
        prices: shape (m,), per core.
        cores: shape (k,).
        minimum: shape (k,), cores; see `check_bounds`.
        maximum: shape (k,), cores.
    """
    if market.jobs == 0:
        return 0.0
    lower, upper = check_bounds(market, minimum, maximum)
    sold = market.sum_by_server(cores) / market.capacities - 1
    busy = np.diff(market.by_server.start) > 0
    misfit = np.where(prices > 0, np.abs(sold), np.maximum(sold, 0))[busy].max()
    if minimum is None and maximum is None:
        return float(max(misfit, _discontent_without_bounds(market, prices, cores)))
    outside = np.maximum(lower - cores, cores - upper) / market.capacities[market.server]
    discontent = _discontent(
        market.by_user.start,
        market.by_user.order,
        market.budgets,
        market.fraction,
        market.work,
        read_only(prices[market.server]),
        read_only(cores),
        read_only(lower),
        read_only(upper),
    )
    return float(max(misfit, outside.max(), discontent))


def _discontent_without_bounds(market: Market, prices: Floats, cores: Floats) -> float:
    """Return the largest violation of any user's conditions where jobs have no bounds."""
    f = market.fraction
    price = prices[market.server]
    spend = price * cores
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        marginal = market.work * f / (f + (1 - f) * cores) ** 2 / price
        marginal[f == 0] = 0.0  # worth nothing more beyond the first instant of a core
        spent = market.sum_by_user(spend)
        worth = market.sum_by_user(spend * marginal) / spent
        ratio = marginal / worth[market.user]
    ratio[np.isnan(ratio)] = 1.0  # a user for whom no core is worth anything is always content
    share = spend / market.budgets[market.user]
    busy = np.diff(market.by_user.start) > 0
    unspent = np.abs(spent / market.budgets - 1)[busy].max()
    return float(max(unspent, np.maximum(ratio - 1, np.minimum(1 - ratio, share)).max()))


@kernel
def _discontent(
    start: NDArray[np.int64],
    order: NDArray[np.uint32],
    budget: Floats,
    fraction: Floats,
    work: Floats,
    price: Floats,
    cores: Floats,
    lower: Floats,
    upper: Floats,
) -> float:
    """Return the largest violation of any user's conditions."""
    longest = 0
    for i in range(len(budget)):
        longest = max(longest, start[i + 1] - start[i])
    marginal = np.empty(longest)
    slack = np.empty(longest)
    room = np.empty(longest)
    worst = 0.0
    for i in range(len(budget)):
        size = start[i + 1] - start[i]
        spent = 0.0
        roomiest = 0.0
        for slot in range(size):
            k = order[start[i] + slot]
            x, p, f = cores[k], price[k], fraction[k]
            spent += p * x
            slack[slot] = p * (x - lower[k]) / budget[i]
            room[slot] = 1.0 - x / upper[k] if upper[k] < np.inf else np.inf
            # At f = 0 nothing is worth more beyond the first instant of a core.
            gain = work[k] * f / (f + (1.0 - f) * x) ** 2 if f > 0.0 else 0.0
            marginal[slot] = gain / p if gain > 0.0 else 0.0
            if gain > 0.0:
                roomiest = max(roomiest, room[slot])
        over = spent / budget[i] - 1.0
        if size > 0:
            worst = max(worst, over, min(-over, roomiest))
            worst = max(worst, _least_violation(marginal, slack, room, size))
    return worst


@kernel
def _least_violation(marginal: Floats, slack: Floats, room: Floats, size: int) -> float:
    """Return the violation at the best lambda: wanting more falls in it, wanting less rises."""
    low, high, least, best = np.inf, 0.0, 0.0, 0.0
    weight, total = 0.0, 0.0
    for slot in range(size):
        if marginal[slot] == np.inf:  # free, and wanted
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
        # The first guess is all but right if jobs between their bounds agree; look near it then.
        reach = 1.0 + violation if violation < NEAR else np.inf
        if more > less:
            low, high = middle, min(high, middle * reach)
        else:
            low, high = max(low, middle / reach), middle
        if high <= low * (1.0 + max(0.01 * best, 1e-15)):
            break
        middle = np.sqrt(low) * np.sqrt(high)
    return max(least, best)
