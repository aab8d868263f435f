"""Deferred acceptance between types of agents, many agents at once.

Proposers of one type displace those of another, who displace others in turn, along a path that
ends where a receiver has room, or all have rejected. A path that returns to one of its types is a
cycle, which agents would go round a few at a time, maybe millions of times. Instead, as many as
are held all around swap places at once, which ends one kind of pair for good (as in Dean and
Munshi, Faster Algorithms for Stable Allocation Problems, 2010). So time depends on the number of
types, not of agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from walras._arrays import Floats, Indices, Integers

NOBODY = -1
"""Stands for the displaced type where a receiver has room."""

REJECTED = -2
"""Stands for it where every type rejects the proposer."""


@kernel
def accept_in_bulk(
    cost: Floats, lists: Indices, proposers: Integers, receivers: Integers, turns: Integers
) -> tuple[Integers, int]:
    """Let the types propose in ``turns``, each until all its agents are held or rejected.

    Returns:
        Number of proposers of each type paired with receivers of each, shape (T, T), and number of
        moves of any number of agents. Pairs do not depend on ``turns``, but time does: fewest are
        displaced where the types that receivers prefer come first.
    """
    types = len(cost)
    pairs = np.zeros((types, types), np.int64)
    room, free = receivers.copy(), proposers.copy()
    asked = np.zeros(types, np.int64)
    worst = np.full(types, types - 1)
    path = np.empty(types, np.int64)
    position = np.full(types, -1, np.int64)
    moves = 0
    for newcomer in turns:
        path[0], position[newcomer], last = newcomer, 0, 0
        while last >= 0:
            proposer = path[last]
            if free[proposer] == 0:
                position[proposer] = -1
                last -= 1
                continue
            rival = _find_receiver(cost, lists, pairs, room, asked, worst, proposer)
            if rival == REJECTED:
                free[proposer] = 0
                continue
            moves += 1
            if rival >= 0 and position[rival] >= 0:
                _rotate(lists, pairs, asked, path[position[rival] : last + 1])
            _place_agents(pairs, room, free, proposer, lists[proposer, asked[proposer]], rival)
            if rival >= 0 and position[rival] < 0:
                last += 1
                path[last], position[rival] = rival, last
    return pairs, moves


@kernel
def _find_receiver(
    cost: Floats,
    lists: Indices,
    pairs: Integers,
    room: Integers,
    asked: Integers,
    worst: Integers,
    proposer: int,
) -> int:
    """Go down the proposer's list to a type that accepts it; return the type it displaces."""
    while asked[proposer] < len(cost):
        receiver = lists[proposer, asked[proposer]]
        if room[receiver] > 0:
            return NOBODY
        while worst[receiver] >= 0 and pairs[lists[receiver, worst[receiver]], receiver] == 0:
            worst[receiver] -= 1
        if worst[receiver] >= 0:
            held = lists[receiver, worst[receiver]]
            offered, now = cost[receiver, proposer], cost[receiver, held]
            if offered < now or (offered == now and proposer < held):
                return int(held)
        asked[proposer] += 1
    return REJECTED


@kernel
def _place_agents(
    pairs: Integers, room: Integers, free: Integers, proposer: int, receiver: int, rival: int
) -> None:
    """Place as many free agents as fit into the room of ``receiver``, or in place of a rival."""
    if rival == NOBODY:
        count = min(free[proposer], room[receiver])
        room[receiver] -= count
    else:
        count = min(free[proposer], pairs[rival, receiver])
        pairs[rival, receiver] -= count
        free[rival] += count
    pairs[proposer, receiver] += count
    free[proposer] -= count


@kernel
def _rotate(lists: Indices, pairs: Integers, asked: Integers, cycle: Integers) -> None:
    """Let as many agents as are held all around a cycle each take the place of the next type's."""
    count = -1
    for step in range(len(cycle)):
        displaced = cycle[(step + 1) % len(cycle)]
        held = pairs[displaced, lists[cycle[step], asked[cycle[step]]]]
        if count < 0 or held < count:
            count = held
    for step in range(len(cycle)):
        receiver = lists[cycle[step], asked[cycle[step]]]
        pairs[cycle[step], receiver] += count
        pairs[cycle[(step + 1) % len(cycle)], receiver] -= count
