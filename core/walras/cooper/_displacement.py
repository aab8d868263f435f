"""Deferred acceptance between types of agents, many at once.

Proposers of one type displace those of another, who go on to displace others: a path that ends at
a type with agents to spare, or closes into a cycle. As many agents as fit move along it at once,
so at least one kind of pair ends for good each time (Dean and Munshi, Faster Algorithms for Stable
Allocation Problems, 2010). One at a time they could circle millions of times.
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
    cost: Costs, lists: Lists, proposers: Counts, receivers: Counts
) -> tuple[Counts, int]:
    """Let the types propose one after another, each until all its agents are held or refused."""
    types = len(cost)
    pairs = np.zeros((types, types), np.int64)
    room = receivers.copy()
    asked = np.zeros(types, np.int64)
    worst = np.full(types, types - 1)
    path = np.empty(types, np.int64)
    place = np.full(types, -1, np.int64)
    moves = 0
    for newcomer in range(types):
        free = proposers[newcomer]
        path[0], place[newcomer], last = newcomer, 0, 0
        while free > 0:
            displaced = _ask(cost, lists, pairs, room, asked, worst, path[last])
            if displaced >= 0 and place[displaced] < 0:
                last += 1
                path[last], place[displaced] = displaced, last
                continue
            begin = place[displaced] if displaced >= 0 else 0
            many = _move(lists, pairs, room, asked, path[begin : last + 1], displaced, free)
            moves += 1
            if displaced < 0:
                free -= many
            last = _still_held(lists, pairs, asked, path, place, max(begin - 1, 0), last)
        place[path[: last + 1]] = -1
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
def _move(
    lists: Lists,
    pairs: Counts,
    room: Counts,
    asked: Counts,
    path: Counts,
    displaced: int,
    free: int,
) -> int:
    """Let as many agents as fit move along a path, or around it if its end displaces its begin."""
    closed = displaced >= 0
    end = lists[path[-1], asked[path[-1]]] if displaced != REFUSED else 0
    many = free
    if closed:
        many = pairs[displaced, end]
    elif displaced == NOBODY:
        many = min(free, room[end])
    for step in range(len(path) - 1):
        many = min(many, pairs[path[step + 1], lists[path[step], asked[path[step]]]])
    for step in range(len(path) - 1):
        taker = lists[path[step], asked[path[step]]]
        pairs[path[step], taker] += many
        pairs[path[step + 1], taker] -= many
    if displaced != REFUSED:
        pairs[path[-1], end] += many
    if closed:
        pairs[displaced, end] -= many
    elif displaced == NOBODY:
        room[end] -= many
    return many


@kernel
def _still_held(
    lists: Lists, pairs: Counts, asked: Counts, path: Counts, place: Counts, begin: int, last: int
) -> int:
    """Return the last place up to which a path displaces agents who are still held."""
    for step in range(begin, last):
        if pairs[path[step + 1], lists[path[step], asked[path[step]]]] == 0:
            place[path[step + 1 : last + 1]] = -1
            return step
    return last
