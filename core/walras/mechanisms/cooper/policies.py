"""The colocation policies, from disutilities to pairs (IV-C).

An odd agent runs alone: under stable roommates and greedy the one left over when the last pair is
made; under complementary the one in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import (
    ALONE,
    Colocation,
    check_disutility,
    check_intensity,
)
from walras.mechanisms.cooper.roommates import find_roommates
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, FloatTable, Integers


def stable_roommates(disutility: ArrayLike) -> Colocation:
    """Pair any agents stably as far as that is possible, and the rejected greedily (SR).

    Raises:
        ColocationError: See ``check_disutility``.
    """
    cost = check_disutility(disutility)
    roommates = find_roommates(cost)
    partner = roommates.partner.copy()
    rejected = roommates.rejected
    leftover_pairs = pair_greedily(np.ascontiguousarray(cost[np.ix_(rejected, rejected)]))
    paired = leftover_pairs != ALONE
    partner[rejected[paired]] = rejected[leftover_pairs[paired]]
    return Colocation(partner, "StableRoommates", rejected, roommates.proposals)


def greedy(disutility: ArrayLike) -> Colocation:
    """Send each agent in turn to the processor where contention grows least (GR).

    Raises:
        ColocationError: See ``check_disutility``.
    """
    return Colocation(pair_greedily(check_disutility(disutility)), "Greedy")


def complementary(intensity: ArrayLike) -> Colocation:
    """Pair the most intensive agent with the least, the second with the last but one (CO).

    Raises:
        ColocationError: See ``check_intensity``.
    """
    ordered = by_intensity(check_intensity(intensity, len(np.atleast_1d(intensity))))
    partner = np.full(len(ordered), ALONE, np.int64)
    half = len(ordered) // 2
    high, low = ordered[:half], ordered[::-1][:half]
    partner[high], partner[low] = low, high
    return Colocation(partner, "Complementary")


def by_intensity(intensity: Floats) -> Integers:
    """Return the agents by decreasing intensity, equal ones in their order, shape (n,)."""
    return np.argsort(-intensity, kind="stable")


def pair_greedily(disutility: Floats) -> Integers:
    """Return each agent's partner, or ``ALONE``, from a checked matrix.

    Agents come in their order, to half as many processors, rounded up. Each takes the processor
    where contention grows least: by nothing on an empty one, by both penalties beside an agent.
    Among equal ones it takes an empty processor, else the one that was taken first. Of an odd
    number of agents, the last one without a partner runs alone.
    """
    return _pair(read_only(disutility))


@kernel
def _pair(disutility: FloatTable) -> Integers:
    """Run `pair_greedily` on a read-only matrix."""
    agents = len(disutility)
    partner = np.full(agents, -1, np.int64)
    waiting = np.empty(agents, np.int64)  # agents with room beside them, in order of arrival
    count = 0
    empty = (agents + 1) // 2
    for agent in range(agents):
        best = -1
        least = 0.0 if empty > 0 else np.inf
        for slot in range(count):
            other = waiting[slot]
            contention = disutility[agent, other] + disutility[other, agent]
            if contention < least or (best < 0 and empty == 0):
                best, least = slot, contention
        if best < 0:
            waiting[count] = agent
            count += 1
            empty -= 1
            continue
        partner[agent] = waiting[best]
        partner[waiting[best]] = agent
        count -= 1
        for slot in range(best, count):
            waiting[slot] = waiting[slot + 1]
    return partner
