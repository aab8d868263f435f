"""Greedy colocation (GR): each task in turn to the processor where contention grows least.

See Cooper, section IV-C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers


def pair_greedily(disutility: Floats) -> Integers:
    """Return each agent's partner, or ``ALONE``, from a checked matrix.

    Agents come in their order, to half as many processors, rounded up. Each takes the processor
    where contention grows least: by nothing on an empty one, by both penalties beside an agent.
    Among equal ones it takes an empty processor, else the one that was taken first. Of an odd
    number of agents, the last one without a partner runs alone.
    """
    return _pair(read_only(disutility))


@kernel
def _pair(disutility: Floats) -> Integers:
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
