"""Kernels in which all users respond in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.price_anticipating._limited import largest, respond_within
from walras.price_anticipating._response import respond

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers


@kernel
def sweep(
    roots: Floats,
    budgets: Floats,
    limits: Integers,
    reserve: Floats,
    bids: Floats,
    guesses: Floats,
    gains: Floats,
    step: float,
) -> None:
    """Let each user in turn find its best bids, and move towards them.

    Args:
        roots: Square roots of the weights, shape (n, m).
        budgets: Budget of each user, shape (n,).
        limits: Most machines that each user can use, shape (n,).
        reserve: Standing bid on each machine, shape (m,).
        bids: Bids, shape (n, m); changed unless ``step`` is 0.
        guesses: Guess of each user's mu, shape (n,); changed.
        gains: Relative gain in utility by the best bids, shape (n,), written.
        step: Part of the way to the best bids that users move; 0 to stay.
    """
    users, machines = bids.shape
    totals = np.empty(machines)
    for j in range(machines):
        totals[j] = reserve[j]
    for i in range(users):
        for j in range(machines):
            totals[j] += bids[i, j]
    others = np.empty(machines)
    answer = np.empty(machines)
    values = np.empty(machines)
    for i in range(users):
        leave_out(bids, totals, reserve, i, others)
        if limits[i] < machines:
            guesses[i], best = respond_within(
                roots[i], others, budgets[i], limits[i], guesses[i], answer
            )
        else:  # as `respond_within` does, without the time of one more call
            guesses[i], best = respond(roots[i], others, budgets[i], guesses[i], answer)
        for j in range(machines):
            values[j] = roots[i, j] * roots[i, j] * (bids[i, j] / (bids[i, j] + others[j]))
        now = best_part(values, limits[i])
        gains[i] = max(0.0, best / now - 1.0) if now > 0.0 else np.inf
        if step > 0.0:
            for j in range(machines):
                bids[i, j] = (1.0 - step) * bids[i, j] + step * answer[j]
                totals[j] = others[j] + bids[i, j]


@kernel
def best_part(values: Floats, limit: int) -> float:
    """Return the sum of the ``limit`` largest ``values``, none of which is negative.

    They are searched for only if more values are positive, as in bids of a caller: best responses
    are on no more machines than the limit.
    """
    positive = 0
    total = 0.0
    for value in values:
        positive += value > 0.0
        total += value
    if positive <= limit:
        return total
    total = 0.0
    for j in largest(values, limit):
        total += values[j]
    return total


@kernel
def leave_out(bids: Floats, totals: Floats, reserve: Floats, user: int, others: Floats) -> None:
    """Write the column sums of ``bids`` without one user's row, reserve included, to ``others``.

    A difference of the running totals, but added up anew where the user has more than half of a
    column, since the difference would lose digits there; at most one user per column does.
    """
    for j in range(len(totals)):
        if bids[user, j] <= 0.5 * totals[j]:
            others[j] = totals[j] - bids[user, j]
        else:
            others[j] = reserve[j]
            for i in range(len(bids)):
                if i != user:
                    others[j] += bids[i, j]
