"""Kernels of best responses to the others' bids, on all or some machines, by all users in turn.

Against total bids y_j of the others a user with budget X gains most by x_j = mu sqrt(w_j y_j) - y_j
where that is positive, and by 0 elsewhere (6.1.1). With q_j = sqrt(w_j / y_j) over the largest of
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

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, FloatTable, Integers


ROUNDS_BEFORE_SEARCH = 8
"""Sets of machines to try at the prices of the last one before single swaps."""

WORTH_A_SWAP = 1e-12
"""Relative gain below which a swap of machines is rounding, and the search would cycle."""


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


@kernel
def respond_within(
    roots: Floats, others: Floats, budget: float, limit: int, guess: float, bids: Floats
) -> tuple[float, float]:
    """Write good bids on at most ``limit`` machines to ``bids``; return their mu and utility.

    The paper's local search (6.2) starts from the machines of highest w / y and swaps one machine
    for another while that pays. Here the machines that would be best at the last mu, those of
    largest surplus (sqrt(w) - sqrt(y) / mu)**2, are tried first: mostly they are the same ones
    again, which proves that no other set is better: at any price of money lambda, no set gives more
    than lambda budget + the sum of the largest max(0, sqrt(w) - sqrt(lambda y))**2.
    """
    machines = len(roots)
    if limit >= machines:
        return respond(roots, others, budget, guess, bids)
    levels = np.empty(machines)
    score = np.empty(machines)
    for j in range(machines):
        levels[j] = np.sqrt(others[j])
        score[j] = roots[j] / levels[j]
    answer = np.empty(limit)
    best_value, best_mu = -1.0, guess
    inside = largest(score, limit)
    for _ in range(ROUNDS_BEFORE_SEARCH):
        candidate_set = largest(score, limit)
        mu, value = respond(
            gather_at(roots, candidate_set),
            gather_at(others, candidate_set),
            budget,
            best_mu,
            answer,
        )
        if value > best_value * (1.0 + WORTH_A_SWAP):
            best_mu, best_value, inside = mu, value, candidate_set
            scatter_to(answer, inside, bids)
        for j in range(machines):
            surplus = max(0.0, roots[j] - levels[j] / mu)
            score[j] = surplus * surplus
        most = budget / (mu * mu)
        for j in largest(score, limit):
            most += score[j]
        if most <= best_value * (1.0 + WORTH_A_SWAP):
            return best_mu, best_value
    return swap_machines(roots, others, budget, inside, best_mu, bids)


@kernel
def swap_machines(
    roots: Floats, others: Floats, budget: float, inside: Integers, guess: float, bids: Floats
) -> tuple[float, float]:
    """Swap a machine of ``inside`` for one outside while that pays (6.2, steps 2 to 6).

    Every swap raises the utility, so no set of machines comes twice; the bound on the trials is for
    the case that the paper's conjecture, a polynomial number of them, is wrong.
    """
    machines, limit = len(roots), len(inside)
    chosen_roots, chosen_others = gather_at(roots, inside), gather_at(others, inside)
    answer = np.empty(limit)
    mu, value = respond(chosen_roots, chosen_others, budget, guess, answer)
    scatter_to(answer, inside, bids)
    outside = np.full(machines, True, np.bool_)
    for j in inside:
        outside[j] = False
    pairs = machines * limit
    pair, tried = 0, 0
    for _ in range(100 * pairs):
        if tried == pairs:
            break
        slot, candidate = pair // machines, pair % machines
        tried += 1
        pair = (pair + 1) % pairs
        if not outside[candidate] or roots[candidate] == 0.0:
            continue
        chosen_roots[slot], chosen_others[slot] = roots[candidate], others[candidate]
        trial_mu, trial_value = respond(chosen_roots, chosen_others, budget, mu, answer)
        if trial_value > value * (1.0 + WORTH_A_SWAP):
            mu, value, tried = trial_mu, trial_value, 0
            outside[inside[slot]], outside[candidate] = True, False
            inside[slot] = candidate
            scatter_to(answer, inside, bids)
        else:
            chosen_roots[slot], chosen_others[slot] = roots[inside[slot]], others[inside[slot]]
    return mu, value


@kernel
def gather_at(values: Floats, places: Integers) -> Floats:
    """Return ``values`` at ``places``."""
    result = np.empty(len(places))
    for slot in range(len(places)):
        result[slot] = values[places[slot]]
    return result


@kernel
def scatter_to(values: Floats, places: Integers, result: Floats) -> None:
    """Write ``values`` to their ``places`` in ``result``, and 0 elsewhere."""
    for j in range(len(result)):
        result[j] = 0.0
    for slot in range(len(places)):
        result[places[slot]] = values[slot]


@kernel
def largest(values: Floats, count: int) -> Integers:
    """Return the indices of the ``count`` largest of ``values``, the first ones among equals."""
    chosen = np.empty(count, np.int64)
    known = 0
    for j in range(len(values)):
        place = known
        if known < count:
            known += 1
        else:
            place -= 1
            if not values[j] > values[chosen[place]]:
                continue
        while place > 0 and values[j] > values[chosen[place - 1]]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = j
    return chosen


@kernel
def sweep(
    roots: FloatTable,
    budgets: Floats,
    limits: Integers,
    reserve: Floats,
    bids: FloatTable,
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
def leave_out(bids: FloatTable, totals: Floats, reserve: Floats, user: int, others: Floats) -> None:
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
