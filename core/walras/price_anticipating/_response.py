"""The kernel of the best response to the others' bids, on machines without limit (6.1.1).

Against total bids y_j of the others a user with budget X gains most by x_j = mu sqrt(w_j y_j) - y_j
where that is positive, and by nothing elsewhere. With q_j = sqrt(w_j / y_j) over the largest of
them, and mu = (1 + t) / max sqrt(w_j / y_j), this is x_j = y_j (t q_j - (1 - q_j)), which loses no
digits when the budget is tiny beside y, and t solves

    h(t) = sum_j y_j max(0, t q_j - (1 - q_j)) = X.

h is convex, increasing and linear between marks. Newton's method from the right passes over every
mark once at most, and from the user's last mu it takes a step or two: the paper's sort of the
machines by w_j / y_j is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@kernel
def respond(
    roots: Floats, others: Floats, budget: float, guess: float, bids: Floats
) -> tuple[float, float]:
    """Write the best bids against ``others`` into ``bids`` (6.1.1); return their mu and utility.

    Args:
        roots: shape (m,), square roots of the weights, some positive.
        others: shape (m,), bids of all others and reserves, positive.
        budget: positive.
        guess: of mu; any positive number, infinity included.
        bids: shape (m,), written.
    """
    machines = len(roots)
    appeal = np.empty(machines)
    top = compare(roots, others, appeal)
    t = guess * top - 1.0
    if not t > 0.0:
        t = np.inf
    for step in range(machines + 2):
        money = budget
        slope = 0.0
        for j in range(machines):
            gap = 1.0 - appeal[j]
            if t * appeal[j] > gap:
                money += others[j] * gap
                slope += others[j] * appeal[j]
        crossing = money / slope
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
def compare(roots: Floats, others: Floats, appeal: Floats) -> float:
    """Write sqrt(w / y), as a part of the largest, into ``appeal``; return the largest."""
    for j in range(len(appeal)):
        appeal[j] = roots[j] / np.sqrt(others[j])
    top = 0.0
    for j in range(len(appeal)):
        top = max(top, appeal[j])
    for j in range(len(appeal)):
        appeal[j] /= top
    return top
