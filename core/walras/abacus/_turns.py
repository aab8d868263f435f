"""Kernels of the auction: jobs divide their budgets among the resources in turn.

A job's sub-budgets b_j are best (Lemma 2) where its margins v_j / b_j are equal, with
v_j = (du/ds_j) s_j (1 - s_j). Algorithm 2 moves them to b'_j ~ v_j. Near the best ones, the
logarithm of a margin falls with that of b at the rate k = 1 - alpha + 2 alpha s for linear
utilities and 1 + alpha s for logarithmic ones, so that Algorithm 2 leaves the part |1 - k| of an
error, while with r_j = v_j / (b_j m), m = sum_j v_j / sum_j b_j the mean margin,

    b'_j ~ b_j r_j**(1 / k_j)

leaves its square where the k_j are alike, as for jobs with small shares: Newton's method on
logarithms. For k of at least 1/2, r**(1 / k) is replaced by r (r + c) / (c r + 1), c = 2 k - 1,
which agrees with it to the third order around 1, has no poles, and costs neither a logarithm nor
another division. Linear utilities at alpha = 1, where k vanishes with s and sub-budgets
of 0 can be best, are those of the proportional-share market.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.price_anticipating._response import respond

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats

LEAST_BID = 1e-18
"""Smallest bid on a resource that a job wants, as a part of its budget: no bid sticks at 0."""

LARGEST_POWER = 16.0
"""Largest power of a ratio of margins: with more, a linear job at alpha near 1 would overshoot."""

LARGEST_FACTOR = 1e18
"""Largest growth of a sub-budget in a turn: from the smallest bid to the whole budget."""


@kernel
def sweep(  # noqa: C901 - one loop, since a call a job, for all its arrays, costs a third more
    weights: Floats,
    logarithmic: Bools,
    budgets: Floats,
    alpha: float,
    sub_budgets: Floats,
    powers: Floats,
    step: float,
) -> float:
    """Let each job in turn move its sub-budgets towards better ones.

    Args:
        weights: Weights of resources in each job's utility, shape (n, m); 0 where a job must not
            bid.
        logarithmic: Whether each job's utility is in the logarithms of shares, shape (n,).
        budgets: Budget of each job, shape (n,).
        alpha: Exponent of bids, from 0 to 1.
        sub_budgets: Sub-budgets, shape (n, m), 0 where a job does not bid; changed.
        powers: Sub-budgets to the power of alpha, shape (n, m), 0 where a job does not bid;
            changed.
        step: Part of the way to the better sub-budgets that jobs move.

    Returns:
        The largest change of a sub-budget that a job aimed at, relative to the job's budget.
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    others = np.ones(resources)
    aim = np.zeros(resources)
    slope = np.empty(resources)
    largest = 0.0
    for i in range(jobs):
        log = logarithmic[i]
        value = 0.0
        for j in range(resources):
            aim[j] = 0.0
            if weights[i, j] > 0.0:
                own = powers[i, j]
                other = totals[j] - own
                if other < own:
                    other = others_total(powers, i, j)
                part = 1.0 / (own + other)
                share = own * part
                k = 1.0 + alpha * share if log else 1.0 - alpha + 2.0 * alpha * share
                v = weights[i, j] * (other * part) * (1.0 if log else share)
                value += v
                others[j], slope[j], aim[j] = other, k, v
        if value == 0.0:
            continue
        mean = value / budgets[i]
        if alpha == 1.0 and not log:
            respond(np.sqrt(weights[i]), others, budgets[i], np.inf, aim)
        else:
            for j in range(resources):
                if weights[i, j] > 0.0:
                    aim[j] = newton_step(aim[j], sub_budgets[i, j] * mean, slope[j])
        spent = 0.0
        for j in range(resources):
            spent += aim[j]
        scale = budgets[i] / spent
        for j in range(resources):
            if weights[i, j] > 0.0:
                best = max(aim[j] * scale, LEAST_BID * budgets[i])
                largest = max(largest, abs(best - sub_budgets[i, j]) / budgets[i])
                b = (1.0 - step) * sub_budgets[i, j] + step * best
                sub_budgets[i, j] = b
                powers[i, j] = np.sqrt(b) if alpha == 0.5 else b**alpha
                totals[j] = others[j] + powers[i, j]
    return largest


@kernel
def newton_step(v: float, now: float, k: float) -> float:
    """Return now (v / now)**(1 / k), or an approximation that is as good near v = now."""
    c = 2.0 * k - 1.0
    if c >= 0.0:
        return v * (v + c * now) / (c * v + now)
    growth: float = (v / now) ** min(1.0 / k, LARGEST_POWER)
    return now * min(growth, LARGEST_FACTOR)


@kernel
def possible_gains(
    weights: Floats,
    logarithmic: Bools,
    alpha: float,
    sub_budgets: Floats,
    powers: Floats,
) -> Floats:
    """Return bounds on each job's gain by other sub-budgets, relative to sum_j (du/ds_j) s_j.

    Utility is concave in the sub-budgets (Lemma 1), so that no others add more to it than
    alpha (budget x largest margin - sum_j v_j).
    """
    jobs, resources = weights.shape
    totals = column_sums(powers)
    gains = np.zeros(jobs)
    for i in range(jobs):
        gradient_sum, value, spent, best = 0.0, 0.0, 0.0, 0.0
        for j in range(resources):
            if weights[i, j] > 0.0:
                others = totals[j] - powers[i, j]
                if others < powers[i, j]:
                    others = others_total(powers, i, j)
                part = 1.0 / (powers[i, j] + others)
                gradient = weights[i, j] * (1.0 if logarithmic[i] else powers[i, j] * part)
                gradient_sum += gradient
                value += gradient * (others * part)
                spent += sub_budgets[i, j]
                best = max(best, gradient * (others * part) / sub_budgets[i, j])
        if gradient_sum > 0.0:
            gains[i] = alpha * max(0.0, spent * best - value) / gradient_sum
    return gains


@kernel
def column_sums(values: Floats) -> Floats:
    """Return the sum of each column."""
    totals = np.zeros(values.shape[1])
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            totals[j] += values[i, j]
    return totals


@kernel
def others_total(powers: Floats, job: int, resource: int) -> float:
    """Return the sum of other jobs' ``powers`` on a resource, added up anew.

    For jobs with more than half of a resource, where the difference of the total and their own
    would lose digits; there is rarely more than one per resource.
    """
    total = 0.0
    for i in range(len(powers)):
        if i != job:
            total += powers[i, resource]
    return total
