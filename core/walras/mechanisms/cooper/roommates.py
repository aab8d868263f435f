"""Stable roommates: any agent may share with any other (III-C; Irving 1985).

Phase 1: agents propose down their lists and hold the best proposal that they have; the holder of
one deletes all that are worse from its list. Phase 2: rotations, cycles of agents who would all
move to their second choices at once, are eliminated until every list has one name or none.

Where no stable solution exists, lists become empty: in phase 1 one agent's, in phase 2 those of
all agents on a rotation of odd length, who prefer each other in a cycle. There Irving's algorithm
stops. This one continues (Tan 1991): it rejects the last agent of the cycle, pairs the others with
their neighbours, and so rejects as few agents as possible, with all others paired stably.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import ALONE, check_disutility
from walras.mechanisms.cooper.marriage import preference_lists
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import FloatTable, IndexTable, Integers


@dataclass(frozen=True)
class Roommates:
    """Pairs of stable roommates, and the agents left over.

    Attributes:
        partner: Partner of each agent, or ``ALONE`` if rejected, shape (n,).
        proposals: Number of proposals in phase 1, at most n (n - 1).
    """

    partner: Integers
    proposals: int
    rotations: int

    @property
    def rejected(self) -> Integers:
        """Agents left over: one that all others reject, or one per cycle of odd size."""
        return np.flatnonzero(self.partner == ALONE)


def find_roommates(disutility: ArrayLike) -> Roommates:
    """Pair agents so that no two would both rather share with each other, as far as possible.

    Args:
        disutility: Disutility of agent i beside agent k, shape (n, n); agents prefer a lower one,
            and among equal ones the lower index. The choice between several stable solutions is
            deterministic.

    Raises:
        ColocationError: See ``check_disutility``.
    """
    cost = read_only(check_disutility(disutility))
    lists = preference_lists(cost)
    agents = len(cost)
    first = np.zeros(agents, np.int64)
    holder = np.full(agents, ALONE, np.int64)
    proposals = _propose(cost, lists, first, holder)
    rotations = _eliminate_rotations(cost, lists, first, holder)
    partner = np.full(agents, ALONE, np.int64)
    paired = np.flatnonzero(holder != ALONE)
    partner[paired] = lists[paired, first[paired]]
    return Roommates(partner, int(proposals), int(rotations))


@kernel
def _prefers(cost: FloatTable, agent: int, proposer: int, holder: int) -> bool:
    """Return whether ``agent`` prefers ``proposer`` to ``holder``, the last name on its list."""
    if proposer == agent or holder < 0:
        return False
    offered, held = cost[agent, proposer], cost[agent, holder]
    return offered < held or (offered == held and proposer < holder)


@kernel
def _propose(cost: FloatTable, lists: IndexTable, first: Integers, holder: Integers) -> int:
    """Run phase 1: set where on its list each agent's proposal is held, and whose it holds."""
    agents = len(first)
    proposals = 0
    for newcomer in range(agents):
        proposer = newcomer
        while proposer >= 0 and first[proposer] < agents:
            receiver = lists[proposer, first[proposer]]
            rival = holder[receiver]
            if receiver != proposer:
                proposals += 1
                if rival < 0 or _prefers(cost, receiver, proposer, rival):
                    holder[receiver] = proposer
                    proposer = rival
                    if proposer < 0:
                        break
            first[proposer] += 1
    return proposals


@kernel
def _eliminate_rotations(
    cost: FloatTable, lists: IndexTable, first: Integers, holder: Integers
) -> int:
    """Run phase 2 on the state after phase 1; a ``holder`` of ``ALONE`` means an empty list.

    The walk from an agent to the last name on its second choice's list runs into a rotation. The
    part of the walk before the rotation stays valid after its elimination, except for its last
    step.
    """
    agents = len(first)
    second = np.empty(agents, np.int64)
    for agent in range(agents):
        second[agent] = first[agent]
    position = np.full(agents, -1, np.int64)
    walk = np.empty(agents, np.int64)
    rotations = 0
    for start in range(agents):
        walk[0], position[start], steps = start, 0, 0
        while steps >= 0:
            agent = walk[steps]
            choice = _second_choice(cost, lists, first, second, holder, agent)
            if choice < 0:
                position[agent] = -1
                steps -= 1
                continue
            following = holder[choice]
            if position[following] < 0:
                steps += 1
                walk[steps], position[following] = following, steps
                continue
            begin = position[following]
            rotation = walk[begin : steps + 1]
            if _is_odd_cycle(lists, second, holder, rotation):
                _pair_odd_cycle(lists, first, second, holder, rotation)
            else:
                _eliminate(lists, first, second, holder, rotation)
            rotations += 1
            for member in rotation:
                position[member] = -1
            position[start] = 0
            steps = max(begin - 1, 0)
    return rotations


@kernel
def _second_choice(
    cost: FloatTable,
    lists: IndexTable,
    first: Integers,
    second: Integers,
    holder: Integers,
    agent: int,
) -> int:
    """Return the second name on the list of ``agent``, or -1 if there is none."""
    if holder[agent] < 0 or lists[agent, first[agent]] == holder[agent]:
        return -1
    second[agent] = max(second[agent], first[agent] + 1)
    while second[agent] < len(lists):
        choice = int(lists[agent, second[agent]])
        if _prefers(cost, choice, agent, holder[choice]):
            return choice
        second[agent] += 1
    return -1


@kernel
def _eliminate(
    lists: IndexTable, first: Integers, second: Integers, holder: Integers, rotation: Integers
) -> None:
    """Move all agents of a rotation to their second choices at once."""
    for agent in rotation:
        first[agent] = second[agent]
        holder[lists[agent, first[agent]]] = agent


@kernel
def _is_odd_cycle(
    lists: IndexTable, second: Integers, holder: Integers, rotation: Integers
) -> bool:
    """Return whether all agents on a rotation list only the next and the one before them.

    Their number is odd, and elimination would empty all their lists. On a rotation whose lists are
    as short, but have other names, it would empty none.
    """
    closed = False
    for agent in rotation:
        choice = lists[agent, second[agent]]
        if choice != holder[agent]:
            return False
        closed = closed or choice == rotation[0]
    return closed


@kernel
def _pair_odd_cycle(
    lists: IndexTable, first: Integers, second: Integers, holder: Integers, cycle: Integers
) -> None:
    """Reject the last agent of an odd cycle, and pair the others with their neighbours."""
    rejected = cycle[0]
    for member in cycle[1:]:
        rejected = max(rejected, member)
    agent = lists[rejected, second[rejected]]
    for _ in range(len(cycle) // 2):
        before = lists[agent, second[agent]]
        first[agent] = second[agent]
        holder[before] = agent
        agent = lists[before, second[before]]
    holder[rejected] = -1
