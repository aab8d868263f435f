"""Turns of jobs that can use only a limited share of a resource, such as jobs with ``maxCores``.

Against the others' bids, the share c_j of resource j takes a job the sub-budget
B_j = (O_j c_j / (1 - c_j))**(1 / alpha), where O_j is the sum of the others' bids to the power of
alpha. It never bids more: sub-budgets are best where the margins v_j / b_j are equal, but for those
at B_j, whose margins are larger. To first order around the present sub-budgets, the logarithm of a
margin falls with that of b at the rate k_j (`walras.mechanisms.abacus.auction`), so that with a
common margin exp(t) they move to

    b'_j = min(B_j, b_j (v_j / (b_j exp(t)))**(1 / k_j)).

The sum of these falls with t, and a search finds the t at which it is the budget. If even all B_j
together are within the budget, the job bids them and keeps the rest.

Several jobs at their limits would lower their bids against each other for many rounds, since each
needs less where the others bid less. `trim` does this for all at once before every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus._turns import LARGEST_POWER, LEAST_BID, column_sums, others_total
from walras.numerics.kernel import exp, kernel, log
from walras.numerics.segments import stable_order

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats, FloatTable

SMALLEST = 1e-290
"""Smallest sub-budget: with a tiny alpha, those that bring jobs to their limits may be smaller."""

SEARCH_STEPS = 100
"""Most steps of the search for a common margin; half of them would do without Newton's method."""

NO_CHANGE = 1e-15
"""Relative error of the sum of sub-budgets at which that search ends."""


@kernel
def limited_sweep(
    weights: FloatTable,
    logarithmic: Bools,
    budgets: Floats,
    alpha: float,
    limits: FloatTable,
    sub_budgets: FloatTable,
    powers: FloatTable,
    step: float,
) -> float:
    """Let each job in turn move its sub-budgets towards the best ones within its limits.

    Args:
        weights: Weights of resources in each job's utility, shape (n, m); 0 where a job must not
            bid.
        logarithmic: Whether each job's utility is in the logarithms of shares, shape (n,).
        budgets: Budget of each job, shape (n,).
        alpha: Exponent of bids, from 0 to 1.
        limits: Largest share that each job can use of each resource, shape (n, m).
        sub_budgets: Sub-budgets, shape (n, m), 0 where a job does not bid; changed.
        powers: Sub-budgets to the power of alpha, shape (n, m), 0 where a job does not bid;
            changed.
        step: Part of the way to the better sub-budgets that jobs move.

    Returns:
        The largest change of a sub-budget that a job aimed at, relative to the job's budget.
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    state = np.zeros((6, resources))
    aim = np.zeros(resources)
    largest = 0.0
    for i in range(jobs):
        if not set_state(
            weights, logarithmic, alpha, limits, sub_budgets, powers, totals, i, state
        ):
            continue
        spend_within(budgets[i], alpha == 1.0 and not logarithmic[i], state, aim)
        for j in range(resources):
            if weights[i, j] > 0.0:
                best = max(aim[j], min(LEAST_BID * budgets[i], state[CEILING, j]))
                largest = max(largest, abs(best - sub_budgets[i, j]) / budgets[i])
                b = (1.0 - step) * sub_budgets[i, j] + step * best
                sub_budgets[i, j] = b
                power = np.sqrt(b) if alpha == 0.5 else b**alpha
                powers[i, j] = min(power, state[CEILING_POWER, j]) if step == 1.0 else power
                totals[j] = state[OTHERS, j] + powers[i, j]
    return largest


BID, CEILING, MARGIN, POWER, OTHERS, CEILING_POWER = 0, 1, 2, 3, 4, 5
"""Rows of a job's state in its turn: the present sub-budget, at most B_j; B_j; the logarithm of the
margin there, or w_j for linear utilities at alpha = 1; 1 / k_j; O_j; and B_j to the power of alpha.
All 0 where it does not bid."""


@kernel
def set_state(
    weights: FloatTable,
    logarithmic: Bools,
    alpha: float,
    limits: FloatTable,
    sub_budgets: FloatTable,
    powers: FloatTable,
    totals: Floats,
    job: int,
    state: FloatTable,
) -> bool:
    """Write the state of a job in its turn, shape (6, m); return whether it bids at all."""
    bids = False
    for j in range(weights.shape[1]):
        for row in range(len(state)):
            state[row, j] = 0.0
        if weights[job, j] <= 0.0:
            continue
        bids = True
        own = powers[job, j]
        other = totals[j] - own
        if other < own:
            other = others_total(powers, job, j)
        limit = limits[job, j]
        most = other * limit / (1.0 - limit) if limit < 1.0 else np.inf
        state[OTHERS, j] = other
        state[CEILING_POWER, j] = most
        ceiling = most ** (1.0 / alpha) if alpha > 0.0 else np.inf
        state[CEILING, j] = max(ceiling, SMALLEST)
        own = min(own, most)
        state[BID, j] = min(sub_budgets[job, j], state[CEILING, j])
        part = 1.0 / (own + other)
        share = own * part
        v = weights[job, j] * (other * part) * (1.0 if logarithmic[job] else share)
        k = 1.0 + alpha * share if logarithmic[job] else 1.0 - alpha + 2.0 * alpha * share
        linear_game = alpha == 1.0 and not logarithmic[job]
        state[MARGIN, j] = weights[job, j] if linear_game else log(v / state[BID, j])
        state[POWER, j] = min(1.0 / k, LARGEST_POWER) if k > 0.0 else LARGEST_POWER
    return bids


@kernel
def spend_within(budget: float, linear_game: bool, state: FloatTable, aim: Floats) -> None:
    """Write sub-budgets at one common margin, none above its ceiling, that add up to the budget.

    Args:
        budget: Budget of the job.
        linear_game: Whether its utility is linear and alpha is 1: then sub-budgets are exactly
            sqrt(w O / exp(t)) - O, or 0 where that is negative (proportional-share market, 6.1.1).
        state: See `set_state`.
        aim: The sub-budgets, shape (m,); written.
    """
    resources = len(aim)
    together, low, high = 0.0, np.inf, -np.inf
    for j in range(resources):
        if state[OTHERS, j] > 0.0:
            most = min(state[CEILING, j], budget)
            together += state[CEILING, j]
            low = min(low, margin_at(j, most, linear_game, state))
            high = max(high, margin_at(j, most / resources, linear_game, state))
    if together <= budget:
        for j in range(resources):
            aim[j] = state[CEILING, j]
        return
    search_margin(budget, linear_game, low, high, state, aim)
    at_ceiling, below = 0.0, 0.0
    for j in range(resources):
        full = aim[j] == state[CEILING, j]
        at_ceiling += aim[j] if full else 0.0
        below += 0.0 if full else aim[j]
    if below > 0.0 and at_ceiling < budget:
        for j in range(resources):
            if aim[j] < state[CEILING, j]:
                aim[j] = min(aim[j] * (budget - at_ceiling) / below, state[CEILING, j])


@kernel
def search_margin(
    budget: float, linear_game: bool, low: float, high: float, state: FloatTable, aim: Floats
) -> None:
    """Write the sub-budgets that add up to the budget, by Newton's method between two bounds.

    Args:
        budget: Budget of the job.
        linear_game: See `spend_within`.
        low: Logarithm of a margin at which they add up to the budget or more.
        high: Logarithm of a margin at which they add up to the budget or less.
        state: See `set_state`.
        aim: The sub-budgets, shape (m,); written.
    """
    t = 0.5 * (low + high)
    for _ in range(SEARCH_STEPS):
        spent, slope = spend_at(t, linear_game, state, aim)
        if abs(spent - budget) <= NO_CHANGE * budget or not low < t < high:
            return
        low = t if spent > budget else low
        high = high if spent > budget else t
        t += log(spent / budget) * spent / slope if spent > 0.0 and slope > 0.0 else np.inf
        if not low < t < high:
            t = 0.5 * (low + high)


@kernel
def margin_at(j: int, bid: float, linear_game: bool, state: FloatTable) -> float:
    """Return the logarithm of the margin at which a job bids this much on resource j."""
    if linear_game:
        other = state[OTHERS, j]
        exact: float = log(state[MARGIN, j] * other) - 2.0 * log(bid + other)
        return exact
    near: float = state[MARGIN, j] + log(state[BID, j] / bid) / state[POWER, j]
    return near


@kernel
def spend_at(t: float, linear_game: bool, state: FloatTable, aim: Floats) -> tuple[float, float]:
    """Write the sub-budgets at the margin exp(t); return their sum and how fast it falls."""
    spent, slope = 0.0, 0.0
    for j in range(len(aim)):
        aim[j] = 0.0
        other = state[OTHERS, j]
        if other > 0.0 and linear_game:
            reach = np.sqrt(state[MARGIN, j] * other) * exp(-0.5 * t)
            aim[j] = min(max(reach - other, 0.0), state[CEILING, j])
            if 0.0 < aim[j] < state[CEILING, j]:
                slope += 0.5 * reach
        elif other > 0.0:
            wanted = state[BID, j] * exp((state[MARGIN, j] - t) * state[POWER, j])
            aim[j] = min(wanted, state[CEILING, j])
            if wanted < state[CEILING, j]:
                slope += state[POWER, j] * wanted
        spent += aim[j]
    return spent, slope


@kernel
def limited_gains(
    weights: FloatTable,
    logarithmic: Bools,
    budgets: Floats,
    alpha: float,
    limits: FloatTable,
    sub_budgets: FloatTable,
    powers: FloatTable,
) -> Floats:
    """Return bounds on each job's gain by other sub-budgets, relative to sum_j (du/ds_j) s_j.

    Utility is concave in the sub-budgets (Lemma 1), so that no others add more to it than along its
    tangent, on which the best ones fill the largest margins first, each up to its ceiling.
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    state = np.zeros((6, resources))
    gains = np.zeros(jobs)
    margins = np.zeros(resources)
    falling = np.empty(resources)
    for i in range(jobs):
        if not set_state(
            weights, logarithmic, alpha, limits, sub_budgets, powers, totals, i, state
        ):
            continue
        worth, value = 0.0, 0.0
        for j in range(resources):
            margins[j] = 0.0
            if weights[i, j] > 0.0:
                own = min(powers[i, j], state[CEILING_POWER, j])
                part = 1.0 / (own + state[OTHERS, j])
                gradient = weights[i, j] * (1.0 if logarithmic[i] else own * part)
                worth += gradient
                margins[j] = gradient * state[OTHERS, j] * part / state[BID, j]
                value += margins[j] * state[BID, j]
            falling[j] = -margins[j]
        left, best = budgets[i], 0.0
        for j in stable_order(falling):
            taken = min(left, state[CEILING, j])
            if margins[j] > 0.0:
                best += margins[j] * taken
                left -= taken
        gains[i] = alpha * max(0.0, best - value) / worth if worth > 0.0 else 0.0
    return gains


@kernel
def trim(alpha: float, limits: FloatTable, sub_budgets: FloatTable, powers: FloatTable) -> None:
    """Lower all bids above what takes jobs to their limits, if the others lower theirs, too."""
    if alpha == 0.0:
        return
    for j in range(powers.shape[1]):
        total = total_within_limits(powers, limits, j)
        for i in range(len(powers)):
            if powers[i, j] > limits[i, j] * total:
                powers[i, j] = limits[i, j] * total
                sub_budgets[i, j] = max(powers[i, j] ** (1.0 / alpha), SMALLEST)


@kernel
def shares_within_limits(powers: FloatTable, limits: FloatTable, shares: FloatTable) -> None:
    """Write shares in proportion to ``powers``, none above its limit, where there are any."""
    for j in range(powers.shape[1]):
        total = total_within_limits(powers, limits, j)
        for i in range(len(powers)):
            if powers[i, j] > 0.0:
                shares[i, j] = min(powers[i, j] / total, limits[i, j])


@kernel
def total_within_limits(powers: FloatTable, limits: FloatTable, resource: int) -> float:
    """Return the sum T = sum_i min(p_i, c_i T) of a resource's powers; 0 if it has none.

    Whoever is above its limit at some T is so at every smaller one, so that T falls to its value.
    """
    jobs = len(powers)
    full = np.zeros(jobs, np.bool_)
    total, settled = 0.0, True
    while settled:
        settled = False
        below, free = 0.0, 1.0
        for i in range(jobs):
            if full[i]:
                free -= limits[i, resource]
            else:
                below += powers[i, resource]
        total = below / max(free, 1e-300)
        for i in range(jobs):
            if not full[i] and powers[i, resource] > limits[i, resource] * total:
                full[i] = True
                settled = True
    return total
