"""Deferred acceptance between types of agents, many at once.

Proposers of one type displace those of another, who displace others in turn, along a path that
ends where there is room, or nobody takes them. Where it comes back to a type that is on it, agents
would go round and round, a few at a time, maybe millions of times: there, as many as are held all
around swap places at once, which ends one kind of pair for good (as in Dean and Munshi, Faster
Algorithms for Stable Allocation Problems, 2010). So time depends on the types, not the agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Lists = NDArray[np.uint32]
    Counts = NDArray[np.int64]

NOBODY, REFUSED = -1, -2
"""Whom a proposer displaces where there is room for it, and where no type takes it any more."""


@kernel
def accept_in_bulk(
    cost: Costs, lists: Lists, proposers: Counts, receivers: Counts, turns: Counts
) -> tuple[Counts, int]:
    """Let the types propose in ``turns``, each until all its agents are held or refused.

    Returns:
        How many proposers of each type are paired with receivers of each, and how many times
        agents moved. Pairs do not depend on the turns, but time does: the fewest are displaced
        where those whom most prefer come first.
    """
    types = len(cost)
    pairs = np.zeros((types, types), np.int64)
    room, free = receivers.copy(), proposers.copy()
    asked = np.zeros(types, np.int64)
    worst = np.full(types, types - 1)
    path = np.empty(types, np.int64)
    place = np.full(types, -1, np.int64)
    moves = 0
    for newcomer in turns:
        path[0], place[newcomer], last = newcomer, 0, 0
        while last >= 0:
            suitor = path[last]
            if free[suitor] == 0:
                place[suitor] = -1
                last -= 1
                continue
            rival = _ask(cost, lists, pairs, room, asked, worst, suitor)
            if rival == REFUSED:
                free[suitor] = 0
                continue
            moves += 1
            if rival >= 0 and place[rival] >= 0:
                _swap(lists, pairs, asked, path[place[rival] : last + 1])
            _settle(pairs, room, free, suitor, lists[suitor, asked[suitor]], rival)
            if rival >= 0 and place[rival] < 0:
                last += 1
                path[last], place[rival] = rival, last
    return pairs, moves


@kernel
def _ask(
    cost: Costs,
    lists: Lists,
    pairs: Counts,
    room: Counts,
    asked: Counts,
    worst: Counts,
    suitor: int,
) -> int:
    """Go down the list of ``suitor`` to a type that takes it; return whom it displaces there."""
    while asked[suitor] < len(cost):
        taker = lists[suitor, asked[suitor]]
        if room[taker] > 0:
            return NOBODY
        while worst[taker] >= 0 and pairs[lists[taker, worst[taker]], taker] == 0:
            worst[taker] -= 1
        if worst[taker] >= 0:
            held = lists[taker, worst[taker]]
            offered, now = cost[taker, suitor], cost[taker, held]
            if offered < now or (offered == now and suitor < held):
                return int(held)
        asked[suitor] += 1
    return REFUSED


@kernel
def _settle(pairs: Counts, room: Counts, free: Counts, suitor: int, taker: int, rival: int) -> None:
    """Let as many free agents as fit settle where there is room, or in place of a rival."""
    if rival == NOBODY:
        many = min(free[suitor], room[taker])
        room[taker] -= many
    else:
        many = min(free[suitor], pairs[rival, taker])
        pairs[rival, taker] -= many
        free[rival] += many
    pairs[suitor, taker] += many
    free[suitor] -= many


@kernel
def _swap(lists: Lists, pairs: Counts, asked: Counts, around: Counts) -> None:
    """Let as many as are held all around a circle each take the place of the next type's."""
    many = -1
    for step in range(len(around)):
        displaced = around[(step + 1) % len(around)]
        held = pairs[displaced, lists[around[step], asked[around[step]]]]
        if many < 0 or held < many:
            many = held
    for step in range(len(around)):
        taker = lists[around[step], asked[around[step]]]
        pairs[around[step], taker] += many
        pairs[around[(step + 1) % len(around)], taker] -= many
