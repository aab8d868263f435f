"""Stable roommates: any agent may share with any other (III-C; Irving 1985).

Phase 1: agents propose down their lists and hold the best proposal that they have; whoever holds
one strikes everybody worse. Phase 2: rotations, chains of agents who would all pass on to their
second choices at once, are struck out until every list has one name or none.

Where no stable solution exists, lists run out: in phase 1 one agent's, in phase 2 those of all
agents on a rotation of odd length, who prefer each other in a circle. There Irving's algorithm
stops. This one goes on (Tan 1991): it rejects the last agent of the circle, pairs the others with
their neighbours, and leaves as few agents rejected as can be with all others paired stably.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.cooper.colocation import ALONE, check_disutility
from walras.cooper.ranking import preference_lists

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Costs = NDArray[np.float64]
    Lists = NDArray[np.uint32]
    Agents = NDArray[np.int64]


@dataclass(frozen=True)
class Roommates:
    """The pairs that stability decides, and who is left.

    Attributes:
        partner: shape (n,); for each agent the one it shares with, or ``ALONE`` if rejected.
        proposals: how many proposals were made in phase 1, at most n (n - 1).
        rotations: how many rotations were struck out in phase 2.
    """

    partner: Agents
    proposals: int
    rotations: int

    @property
    def rejected(self) -> Agents:
        """Those left over: one that all others reject, or one of each circle of odd size."""
        return np.flatnonzero(self.partner == ALONE)

    @property
    def stable(self) -> bool:
        """Whether all are paired stably, but for the one left over of an odd number."""
        return len(self.rejected) == len(self.partner) % 2


def find_roommates(disutility: ArrayLike) -> Roommates:
    """Pair agents so that no two would both rather share with each other, as far as there is a way.

    Args:
        disutility: shape (n, n); agents prefer a lower one, and between equal ones the lower
            index. The choice between several stable solutions is deterministic.

    Raises:
        ColocationError: see ``check_disutility``.
    """
    cost = read_only(check_disutility(disutility))
    lists = preference_lists(cost)
    agents = len(cost)
    first = np.zeros(agents, np.int64)
    holder = np.full(agents, ALONE, np.int64)
    proposals = _propose(cost, lists, first, holder)
    rotations = _strike_rotations(cost, lists, first, holder)
    partner = np.full(agents, ALONE, np.int64)
    paired = np.flatnonzero(holder != ALONE)
    partner[paired] = lists[paired, first[paired]]
    return Roommates(partner, int(proposals), int(rotations))


@kernel
def _takes(cost: Costs, agent: int, suitor: int, holder: int) -> bool:
    """Whether ``suitor`` comes before the last name on the list of ``agent``, its ``holder``."""
    if suitor == agent or holder < 0:
        return False
    offered, held = cost[agent, suitor], cost[agent, holder]
    return offered < held or (offered == held and suitor < holder)


@kernel
def _propose(cost: Costs, lists: Lists, first: Agents, holder: Agents) -> int:
    """Run phase 1: leave where on its list each agent's proposal is held, and whose it holds."""
    agents = len(first)
    proposals = 0
    for newcomer in range(agents):
        suitor = newcomer
        while suitor >= 0 and first[suitor] < agents:
            asked = lists[suitor, first[suitor]]
            rival = holder[asked]
            if asked != suitor:
                proposals += 1
                if rival < 0 or _takes(cost, asked, suitor, rival):
                    holder[asked] = suitor
                    suitor = rival
                    if suitor < 0:
                        break
            first[suitor] += 1
    return proposals


@kernel
def _strike_rotations(cost: Costs, lists: Lists, first: Agents, holder: Agents) -> int:
    """Run phase 2 on the state that phase 1 left; a ``holder`` of ``ALONE`` means an empty list.

    The walk from an agent to the last name on its second choice's list runs into a rotation. What
    led there stays a walk when the rotation is struck, but for its last step, which is made anew.
    """
    agents = len(first)
    second = first.copy()
    place = np.full(agents, -1, np.int64)
    walk = np.empty(agents, np.int64)
    rotations = 0
    for start in range(agents):
        walk[0], place[start], steps = start, 0, 0
        while steps >= 0:
            agent = walk[steps]
            choice = _second_choice(cost, lists, first, second, holder, agent)
            if choice < 0:
                place[agent] = -1
                steps -= 1
                continue
            following = holder[choice]
            if place[following] < 0:
                steps += 1
                walk[steps], place[following] = following, steps
                continue
            begin = place[following]
            rotation = walk[begin : steps + 1]
            if _is_circle(lists, second, holder, rotation):
                _pair_up(lists, first, second, holder, rotation)
            else:
                _strike(lists, first, second, holder, rotation)
            rotations += 1
            for member in rotation:
                place[member] = -1
            place[start] = 0
            steps = max(begin - 1, 0)
    return rotations


@kernel
def _second_choice(
    cost: Costs, lists: Lists, first: Agents, second: Agents, holder: Agents, agent: int
) -> int:
    """Return the second name on the list of ``agent``, or -1 if there is none."""
    if holder[agent] < 0 or lists[agent, first[agent]] == holder[agent]:
        return -1
    second[agent] = max(second[agent], first[agent] + 1)
    while second[agent] < len(lists):
        choice = int(lists[agent, second[agent]])
        if _takes(cost, choice, agent, holder[choice]):
            return choice
        second[agent] += 1
    return -1


@kernel
def _strike(lists: Lists, first: Agents, second: Agents, holder: Agents, rotation: Agents) -> None:
    """Let all agents of a rotation pass on to their second choices at once."""
    for agent in rotation:
        first[agent] = second[agent]
        holder[lists[agent, first[agent]]] = agent


@kernel
def _is_circle(lists: Lists, second: Agents, holder: Agents, rotation: Agents) -> bool:
    """Whether all who are on a rotation list nobody but the next and the one before them.

    Their number is odd, and all their lists would run out if it were struck. On a rotation whose
    lists are as short, but name others, nobody's would.
    """
    closed = False
    for agent in rotation:
        choice = lists[agent, second[agent]]
        if choice != holder[agent]:
            return False
        closed = closed or choice == rotation[0]
    return closed


@kernel
def _pair_up(lists: Lists, first: Agents, second: Agents, holder: Agents, circle: Agents) -> None:
    """Reject the last agent of an odd circle, and pair the others with their neighbours."""
    rejected = circle[0]
    for member in circle[1:]:
        rejected = max(rejected, member)
    agent = lists[rejected, second[rejected]]
    for _ in range(len(circle) // 2):
        before = lists[agent, second[agent]]
        first[agent] = second[agent]
        holder[before] = agent
        agent = lists[before, second[before]]
    holder[rejected] = -1
