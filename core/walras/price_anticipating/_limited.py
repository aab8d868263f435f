"""Kernels of the best response on a limited number of machines (6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.price_anticipating._response import respond

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers

ROUNDS_BEFORE_SEARCH = 8
"""Sets of machines to try at the prices of the last one before single swaps."""

WORTH_A_SWAP = 1e-12
"""Relative gain below which a swap of machines is rounding, and the search would cycle."""


@kernel
def respond_within(
    roots: Floats, others: Floats, budget: float, limit: int, guess: float, bids: Floats
) -> tuple[float, float]:
    """Write good bids on at most ``limit`` machines to ``bids``; return their mu and utility.

    The paper's local search (6.2) starts from the machines of highest w / y and swaps one machine
    for another while that pays. Here the machines that would be best at the last mu, those of
    largest surplus (sqrt(w) - sqrt(y) / mu)**2, are tried first: mostly they are the same ones
    again, which proves that no other set is better (see `NashEquilibrium.proven_gains`).
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
    roots: Floats,
    others: Floats,
    budget: float,
    inside: Integers,
    guess: float,
    bids: Floats,
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
    outside = np.empty(machines, np.bool_)
    outside[:] = True
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
    result[:] = 0.0
    for slot in range(len(places)):
        result[places[slot]] = values[slot]


@kernel
def largest(values: Floats, count: int) -> Integers:
    """Return the indices of the ``count`` largest of ``values``, the first ones among equals."""
    left = values.copy()
    chosen = np.empty(count, np.int64)
    for slot in range(count):
        best = 0
        for j in range(len(left)):
            if left[j] > left[best]:
                best = j
        chosen[slot] = best
        left[best] = -np.inf
    return chosen
