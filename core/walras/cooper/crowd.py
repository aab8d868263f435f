"""Pairs thousands of agents that run few programs, without a matrix of agents by agents.

Agents of one kind suffer and harm alike, so that every policy decides on a matrix of kinds. The
stable marriages count kinds (``walras.cooper.bulk``); complementary needs no disutilities; for
roommates and greedy, which must look at every agent, the agents are taken some at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.bulk import marry_types, part_by_intensity, part_randomly
from walras.cooper.colocation import ALONE
from walras.cooper.policies import complementary, greedy, stable_roommates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Agents = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Allowed = NDArray[np.bool_]

AT_ONCE = 2000
"""Agents whose disutilities are laid out one by one: 32 MB of them."""

FORBIDDEN = 2.0
"""Disutility of a pair that must not be: more than to lose everything, so that all else is
preferred."""


def pair(
    policy: str, cost: Floats, allowed: Allowed, kind: Agents, intensity: Floats, seed: int
) -> Agents:
    """Return each agent's partner, or ``ALONE``.

    A policy never pairs forbidden kinds while it can pair others; where it must, the two are
    parted again, and those who are left over are paired with each other as far as they may be.

    Args:
        policy: by its name in ``walras.cooper.policies``.
        cost: shape (K, K); what an agent of one kind loses beside one of another.
        allowed: shape (K, K), symmetrical; who may share at all.
        kind: shape (n,); of each agent.
        intensity: shape (K,); demand of each kind for the shared resource.
        seed: of random partitions.

    Raises:
        ColocationError: see ``walras.cooper.colocation.check_square``.
    """
    guarded = np.where(allowed, cost, FORBIDDEN)
    partner = _by_policy(policy, guarded, kind, intensity, seed)
    paired = np.flatnonzero(partner != ALONE)
    parted = paired[~allowed[kind[paired], kind[partner[paired]]]]
    partner[parted] = ALONE
    if not allowed.all():
        _pair_the_rest(cost, allowed, kind, partner)
    return partner


def losses(cost: Floats, kind: Agents, partner: Agents) -> Floats:
    """Return what each agent loses beside its partner, shape (n,); 0 for agents alone."""
    return np.where(partner == ALONE, 0.0, cost[kind, kind[partner]])


def _by_policy(policy: str, cost: Floats, kind: Agents, intensity: Floats, seed: int) -> Agents:
    counts = np.bincount(kind, minlength=len(cost)).astype(np.int64)
    if policy == "StableMarriageRandom":
        return _married(cost, kind, *part_randomly(counts, seed))
    if policy == "StableMarriagePartition":
        return _married(cost, kind, *part_by_intensity(counts, intensity))
    if policy == "Complementary":
        return complementary(intensity[kind]).partner
    decide = {"StableRoommates": stable_roommates, "Greedy": greedy}[policy]
    partner = np.full(len(kind), ALONE, np.int64)
    for first in range(0, len(kind), AT_ONCE):
        some = kind[first : first + AT_ONCE]
        found = decide(np.ascontiguousarray(cost[np.ix_(some, some)])).partner
        partner[first : first + AT_ONCE] = np.where(found == ALONE, ALONE, found + first)
    return partner


def _married(cost: Floats, kind: Agents, proposers: Agents, receivers: Agents) -> Agents:
    """Marry by kind; of each kind, the first agents are those who propose."""
    marriage = marry_types(cost, proposers, receivers).agents()
    order = np.argsort(kind, kind="stable")
    counts = proposers + receivers
    within = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
    proposes = within < proposers[kind[order]]
    suitors, others = order[proposes], order[~proposes]
    partner = np.full(len(kind), ALONE, np.int64)
    held = marriage.receiver_of != ALONE
    accepted = others[marriage.receiver_of[held]]
    partner[suitors[held]], partner[accepted] = accepted, suitors[held]
    return partner


def _pair_the_rest(cost: Floats, allowed: Allowed, kind: Agents, partner: Agents) -> None:
    """Let agents without a partner, in their order, take whom both together suffer least from.

    In the end no two are left who may share: the later of them would have taken the earlier.
    """
    both = np.where(allowed, cost + cost.T, np.inf)
    waiting: list[list[int]] = [[] for _ in cost]
    there = np.full(len(cost), np.inf)
    for agent in np.flatnonzero(partner == ALONE).tolist():
        contention = both[kind[agent]] + there
        best = int(contention.argmin())
        if contention[best] < np.inf:
            other = waiting[best].pop(0)
            partner[agent], partner[other] = other, agent
            there[best] = 0.0 if waiting[best] else np.inf
        else:
            waiting[kind[agent]].append(agent)
            there[kind[agent]] = 0.0
