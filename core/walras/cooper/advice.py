"""Advice to thousands of agents that run few programs (IV-B), in memory that grows with kinds.

Agents of one kind with partners of one kind are alike: they ask the same others, and are asked by
the same. So it is enough to look at every two such groups, one row at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.cooper.blocking import check_alpha
from walras.cooper.colocation import ALONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Agents = NDArray[np.int64]
    Floats = NDArray[np.float64]


class Recommended(NamedTuple):
    """What is recommended to each agent.

    Attributes:
        companion: shape (n,); with whom to break away, ``ALONE`` where the advice is to take part:
            of those who would come along the one that is preferred most, between equals the first.
        gain: shape (n,); the disutility that this would save the agent.
    """

    companion: Agents
    gain: Floats


def recommend(cost: Floats, kind: Agents, partner: Agents, alpha: float = 0.0) -> Recommended:
    """Do as ``walras.cooper.blocking.advise`` for agents of few kinds.

    Args:
        cost: shape (K, K); what an agent of one kind loses beside one of another; more than 1
            where the two must not share, which nobody asks for.
        kind: shape (n,); of each agent.
        partner: shape (n,); an agent alone loses nothing, and asks nobody.
        alpha: agents break away for a gain above this only.

    Raises:
        ColocationError: alpha is below 0.
    """
    check_alpha(alpha)
    companion = np.full(len(kind), ALONE, np.int64)
    gain = np.zeros(len(kind))
    beside = np.stack([kind, np.where(partner == ALONE, ALONE, kind[partner])])
    (own, other), first, group, size = np.unique(
        beside, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    group = group.ravel()
    lost = np.where(other == ALONE, 0.0, cost[own, other])
    bearable = lost - alpha
    for number in range(len(own)):
        offered = cost[own[number], own]
        asks = (offered < bearable[number]) & (cost[own, own[number]] < bearable)
        asks[number] &= size[number] > 1
        if asks.any():
            nearest = np.flatnonzero(asks & (offered == offered[asks].min()))
            best = nearest[first[nearest].argmin()]
            mine = np.flatnonzero(group == number)
            companion[mine] = first[best]
            gain[mine] = lost[number] - offered[best]
            _not_oneself(companion, mine, nearest, group)
    return Recommended(companion, gain)


def _not_oneself(companion: Agents, mine: Agents, nearest: Agents, group: Agents) -> None:
    """Have whom the advice would pair with itself break away with the next that is as near."""
    itself = mine[companion[mine] == mine]
    if len(itself):
        others = np.flatnonzero(np.isin(group, nearest))
        companion[itself] = others[others != itself][:1]
