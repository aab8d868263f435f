"""The kernel of the best response to the others' bids, on any number of machines (6.1.1).

Against total bids y_j of the others a user with budget X gains most by x_j = mu sqrt(w_j y_j) - y_j
where that is positive, and by 0 elsewhere. With q_j = sqrt(w_j / y_j) over the largest of
them, and mu = (1 + t) / max sqrt(w_j / y_j), this is x_j = y_j (t q_j - (1 - q_j)), which loses no
digits when the budget is tiny beside y, and t solves

    h(t) = sum_j y_j max(0, t q_j - (1 - q_j)) = X.

h is convex, increasing and piecewise linear. Newton's method from the right passes over every
breakpoint once at most, and from the user's last mu it takes a step or two: the paper's sort of
the machines by w_j / y_j is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from walras._arrays import Floats


@kernel
def respond(
    roots: Floats, others: Floats, budget: float, guess: float, bids: Floats
) -> tuple[float, float]:
    """Write the best bids against ``others`` to ``bids`` (6.1.1); return their mu and utility.

    Args:
        roots: Square roots of the weights, some positive, shape (m,).
        others: Sums of all others' bids and reserves, positive, shape (m,).
        budget: Budget of the user, positive.
        guess: Guess of mu, positive; infinity will do.
        bids: Best bids, shape (m,), written.
    """
    machines = len(roots)
    appeal = np.empty(machines)
    top = set_appeals(roots, others, appeal)
    t = guess * top - 1.0
    if not t > 0.0:
        t = np.inf
    for step in range(machines + 2):
        offset = budget
        slope = 0.0
        for j in range(machines):
            gap = 1.0 - appeal[j]
            if t * appeal[j] > gap:
                offset += others[j] * gap
                slope += others[j] * appeal[j]
        crossing = offset / slope
        if crossing == t or (step > 1 and crossing > t):
            break
        t = crossing
    spent = 0.0
    value = 0.0
    for j in range(machines):
        bids[j] = others[j] * max(0.0, t * appeal[j] - (1.0 - appeal[j]))
        spent += bids[j]
        value += bids[j] * appeal[j]
    scale = budget / spent
    for j in range(machines):
        bids[j] *= scale
    return (1.0 + t) / top, top * top * value * scale / (1.0 + t)


@kernel
def set_appeals(roots: Floats, others: Floats, appeal: Floats) -> float:
    """Write sqrt(w / y), relative to the largest, to ``appeal``; return the largest."""
    for j in range(len(appeal)):
        appeal[j] = roots[j] / np.sqrt(others[j])
    top = 0.0
    for j in range(len(appeal)):
        top = max(top, appeal[j])
    for j in range(len(appeal)):
        appeal[j] /= top
    return top
