"""Stable marriage in bulk, for agents of a few types.

All agents of a type move at once: time and memory grow with the number of types, not of agents. The
result is that of agent by agent, pair for pair, where agents are numbered type after type and ties
go to the lower index.

Proposers of one type displace those of another, who displace others in turn, along a path that
ends where a receiver has room, or all have rejected. A path that returns to one of its types is a
cycle, which agents would go round a few at a time, maybe millions of times. Instead, as many as
are held all around swap places at once, which ends one kind of pair for good (as in Dean and
Munshi, Faster Algorithms for Stable Allocation Problems, 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import (
    ALONE,
    ColocationError,
    check_intensity,
    check_square,
)
from walras.mechanisms.cooper.marriage import Marriage, preference_lists
from walras.mechanisms.cooper.policies import by_intensity
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, FloatTable, IndexTable, Integers, IntegerTable

MAX_AGENTS = 10**9 - 1
"""Most agents: NumPy draws partitions of fewer than 10**9; their pairs can be counted in 63
bits."""


NOBODY = -1
"""Stands for the displaced type where a receiver has room."""

REJECTED = -2
"""Stands for it where every type rejects the proposer."""


@dataclass(frozen=True)
class TypeMarriage:
    """Numbers of pairs of a stable marriage between agents of T types.

    Attributes:
        disutility: Disutility of an agent of type s beside one of type t, shape (T, T).
        proposers: Number of proposers of each type, shape (T,).
        receivers: Number of receivers of each type, shape (T,).
        pairs: Number of proposers of type s paired with receivers of type t, shape (T, T).
    """

    disutility: Floats
    proposers: Integers
    receivers: Integers
    pairs: Integers
    moves: int

    @property
    def alone(self) -> Integers:
        """Number of agents of each type that run alone, shape (T,)."""
        paired: Integers = self.pairs.sum(axis=1) + self.pairs.sum(axis=0)
        return self.proposers + self.receivers - paired

    def agents(self) -> Marriage:
        """Return the marriage by agent.

        Proposers are numbered type after type, and so are receivers. Of a type, agents with lower
        numbers get the partners that the type prefers.
        """
        one, other = np.nonzero(self.pairs)
        count = self.pairs[one, other]
        proposer = _number_agents(self.disutility, self.proposers, one, other, count)
        receiver = _number_agents(self.disutility, self.receivers, other, one, count)
        receiver_of = np.full(self.proposers.sum(), ALONE, np.int64)
        proposer_of = np.full(self.receivers.sum(), ALONE, np.int64)
        receiver_of[proposer], proposer_of[receiver] = receiver, proposer
        return Marriage(receiver_of, proposer_of, self.moves)


def marry_types(disutility: ArrayLike, proposers: ArrayLike, receivers: ArrayLike) -> TypeMarriage:
    """Find the stable marriage that is best for the proposers, by type.

    Args:
        disutility: Disutility of an agent of type s beside one of type t, which may be the same
            type, shape (T, T). Among equal ones, the lower type is preferred.
        proposers: Number of proposers of each type, whole numbers from 0, shape (T,).
        receivers: Number of receivers of each type, whole numbers from 0, shape (T,).

    Raises:
        ColocationError: See ``check_square``; or a count is below 0 or no integer, or there are
            10**9 agents or more.
    """
    cost = read_only(check_square(disutility).copy())
    one_side = read_only(_check_counts("proposers", proposers, len(cost)))
    other_side = read_only(_check_counts("receivers", receivers, len(cost)))
    with np.errstate(over="ignore", invalid="ignore"):  # turns affect time only
        turns = np.argsort(cost.sum(axis=0), kind="stable")
    pairs, moves = accept_in_bulk(cost, preference_lists(cost), one_side, other_side, turns)
    return TypeMarriage(cost, one_side, other_side, pairs, int(moves))


def part_by_intensity(counts: ArrayLike, intensity: ArrayLike) -> tuple[Integers, Integers]:
    """Return the number of proposers and of receivers of each type under SMP (IV-C).

    The most intensive half proposes, rounded down; of equal types the earlier counts as the more
    intensive.

    Args:
        counts: Number of agents of each type, shape (T,).
        intensity: Demand of each type for the shared resource, shape (T,).

    Raises:
        ColocationError: See ``marry_types`` and ``check_intensity``.
    """
    present = _check_counts("counts", counts, np.size(intensity))
    ordered = by_intensity(check_intensity(intensity, len(present)))
    ahead = np.cumsum(present[ordered]) - present[ordered]
    proposers = np.zeros_like(present)
    proposers[ordered] = np.clip(present.sum() // 2 - ahead, 0, present[ordered])
    return proposers, present - proposers


def part_randomly(counts: ArrayLike, seed: int) -> tuple[Integers, Integers]:
    """Return the number of proposers and of receivers of each type under SMR (IV-C).

    Distributed as if all agents were shuffled and the first half proposed, rounded down.

    Args:
        counts: Number of agents of each type, shape (T,).
        seed: Seed of the partition.

    Raises:
        ColocationError: See ``marry_types``.
    """
    present = _check_counts("counts", counts, np.size(counts))
    random = np.random.default_rng(seed)
    half = int(present.sum()) // 2
    proposers = random.multivariate_hypergeometric(present, half, method="marginals")
    return proposers, present - proposers


def _check_counts(name: str, values: ArrayLike, types: int) -> Integers:
    """Return counts of agents as an array of shape (T,), if they are valid."""
    counts = np.asarray(values)
    if counts.size == 0:
        counts = counts.astype(np.int64)
    if counts.shape != (types,) or counts.dtype.kind not in "iu":
        raise ColocationError(
            f"{name} has shape {counts.shape} of {counts.dtype}: "
            f"one whole number for each of {types} types is needed"
        )
    bad = (counts < 0) | (counts > MAX_AGENTS)
    if bad.any() or counts.sum() > MAX_AGENTS:
        where = int(np.argmax(bad if bad.any() else counts))
        raise ColocationError(
            f"{name}[{where}] = {counts[where]}: counts from 0 that add up to at most "
            f"{MAX_AGENTS} are needed"
        )
    return counts.astype(np.int64)


def _number_agents(
    cost: Floats, counts: Integers, own: Integers, other: Integers, count: Integers
) -> Integers:
    """Return the agents of one side of all pairs, given by types and the ``count`` of such pairs.

    A type's agents are dealt to its kinds of pair in the order of its preference.
    """
    order = np.lexsort((other, cost[own, other], own))
    before = np.empty_like(count)
    before[order] = np.cumsum(count[order]) - count[order]
    paired = np.bincount(own, count, len(counts)).astype(np.int64)
    unpaired_before = np.cumsum(counts - paired) - (counts - paired)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    numbers: Integers = np.repeat(before + unpaired_before[own], count) + within
    return numbers


@kernel
def accept_in_bulk(
    cost: FloatTable, lists: IndexTable, proposers: Integers, receivers: Integers, turns: Integers
) -> tuple[IntegerTable, int]:
    """Let the types propose in ``turns``, each until all its agents are held or rejected.

    Returns:
        Number of proposers of each type paired with receivers of each, shape (T, T), and number of
        moves of any number of agents. Pairs do not depend on ``turns``, but time does: fewest are
        displaced where the types that receivers prefer come first.
    """
    types = len(cost)
    pairs = np.zeros((types, types), np.int64)
    room, free = np.empty(types, np.int64), np.empty(types, np.int64)
    for each in range(types):
        room[each], free[each] = receivers[each], proposers[each]
    asked = np.zeros(types, np.int64)
    worst = np.full(types, types - 1, np.int64)
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
    cost: FloatTable,
    lists: IndexTable,
    pairs: IntegerTable,
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
    pairs: IntegerTable, room: Integers, free: Integers, proposer: int, receiver: int, rival: int
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
def _rotate(lists: IndexTable, pairs: IntegerTable, asked: Integers, cycle: Integers) -> None:
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
