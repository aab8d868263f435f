"""Pairs and advice for thousands of agents of few types, without a matrix of agents by agents.

Agents of one type lose alike and cause alike losses, so a matrix of types says it all. The stable
marriages count agents by type (`walras.mechanisms.cooper.bulk`), and complementary needs no
disutilities; roommates and greedy must look at every agent, and take agents in batches of `BATCH`.
Advice looks at groups of agents whose own type and whose partner's type are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.cooper.bulk import marry_types, part_by_intensity, part_randomly
from walras.mechanisms.cooper.colocation import ALONE, ColocationError
from walras.mechanisms.cooper.policies import complementary, greedy, stable_roommates

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats, Integers

BATCH = 2000
"""Agents that roommates and greedy pair at once: their disutilities take 32 MB."""

FORBIDDEN = 2.0
"""Disutility of a forbidden pair: above 1, a loss of all throughput, so any other is preferred."""


class TypeAdvice(NamedTuple):
    """Advice of the action recommender to each agent (IV-B).

    Attributes:
        companion: Agent to break away with, shape (n,): of those who would gain too, the one that
            costs the agent least, the lowest index among equals; ``ALONE`` for the advice to
            participate.
        gain: Disutility that breaking away would save, shape (n,); 0 for the advice to participate.
    """

    companion: Integers
    gain: Floats


def pair_by_type(
    policy: str, cost: Floats, allowed: Bools, agent_type: Integers, intensity: Floats, seed: int
) -> Integers:
    """Return each agent's partner, or ``ALONE``, shape (n,).

    No pair of the result is forbidden. Forbidden pairs that the policy could not avoid are split,
    and agents without a partner are then paired greedily where that is allowed.

    Args:
        policy: One of `walras_studies.cooper.policies.POLICIES`.
        cost: Disutility of an agent of type s beside one of type t, shape (T, T).
        allowed: Whether agents of two types may share a processor, shape (T, T), symmetric.
        agent_type: Type of each agent, shape (n,).
        intensity: Demand of each type for the shared resource, shape (T,).
        seed: Seed of random partitions.

    Raises:
        ColocationError: See `walras.mechanisms.cooper.colocation.check_square`.
    """
    guarded = np.where(allowed, cost, FORBIDDEN)
    partner = _by_policy(policy, guarded, agent_type, intensity, seed)
    paired = np.flatnonzero(partner != ALONE)
    split = paired[~allowed[agent_type[paired], agent_type[partner[paired]]]]
    partner[split] = ALONE
    if not allowed.all():
        _pair_the_rest(cost, allowed, agent_type, partner)
    return partner


def penalties_by_type(cost: Floats, agent_type: Integers, partner: Integers) -> Floats:
    """Return each agent's disutility beside its partner, shape (n,); 0 for agents alone."""
    return np.where(partner == ALONE, 0.0, cost[agent_type, agent_type[partner]])


def advise_by_type(
    cost: Floats, agent_type: Integers, partner: Integers, alpha: float = 0.0
) -> TypeAdvice:
    """Return the advice of `walras_studies.cooper.blocking.advise`, for agents of few types.

    Args:
        cost: Disutility of an agent of type s beside one of type t, shape (T, T); above 1 where the
            two must not share, so that neither gains by it.
        agent_type: Type of each agent, shape (n,).
        partner: Partner of each agent, shape (n,). An agent alone loses nothing now.
        alpha: Least gain for which agents break away, exclusive.

    Raises:
        ColocationError: alpha is below 0 or not finite.
    """
    check_alpha(alpha)
    companion = np.full(len(agent_type), ALONE, np.int64)
    gain = np.zeros(len(agent_type))
    beside = np.stack([agent_type, np.where(partner == ALONE, ALONE, agent_type[partner])])
    (own, other), first, group, size = np.unique(
        beside, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    group = group.ravel()
    lost = np.where(other == ALONE, 0.0, cost[own, other])
    bearable = lost - alpha
    for number in range(len(own)):
        offered = cost[own[number], own]
        both_gain = (offered < bearable[number]) & (cost[own, own[number]] < bearable)
        both_gain[number] &= size[number] > 1
        if both_gain.any():
            nearest = np.flatnonzero(both_gain & (offered == offered[both_gain].min()))
            best = nearest[first[nearest].argmin()]
            members = np.flatnonzero(group == number)
            companion[members] = first[best]
            gain[members] = lost[number] - offered[best]
            _replace_self(companion, members, nearest, group)
    return TypeAdvice(companion, gain)


def _replace_self(
    companion: Integers, members: Integers, nearest: Integers, group: Integers
) -> None:
    """Give the member that is its own companion the next agent of the ``nearest`` groups."""
    itself = members[companion[members] == members]
    if len(itself):
        others = np.flatnonzero(np.isin(group, nearest))
        companion[itself] = others[others != itself][:1]


def _by_policy(
    policy: str, cost: Floats, agent_type: Integers, intensity: Floats, seed: int
) -> Integers:
    """Return each agent's partner, or ``ALONE``, by a policy's name."""
    counts = np.bincount(agent_type, minlength=len(cost)).astype(np.int64)
    if policy == "StableMarriageRandom":
        return _marry(cost, agent_type, *part_randomly(counts, seed))
    if policy == "StableMarriagePartition":
        return _marry(cost, agent_type, *part_by_intensity(counts, intensity))
    if policy == "Complementary":
        return complementary(intensity[agent_type]).partner
    decide = {"StableRoommates": stable_roommates, "Greedy": greedy}[policy]
    partner = np.full(len(agent_type), ALONE, np.int64)
    for first in range(0, len(agent_type), BATCH):
        batch = agent_type[first : first + BATCH]
        paired = decide(np.ascontiguousarray(cost[np.ix_(batch, batch)])).partner
        partner[first : first + BATCH] = np.where(paired == ALONE, ALONE, paired + first)
    return partner


def _marry(
    cost: Floats, agent_type: Integers, proposers: Integers, receivers: Integers
) -> Integers:
    """Return the partners of a stable marriage in which the first agents of each type propose."""
    marriage = marry_types(cost, proposers, receivers).agents()
    order = np.argsort(agent_type, kind="stable")
    counts = proposers + receivers
    within = np.arange(len(agent_type)) - np.repeat(np.cumsum(counts) - counts, counts)
    proposes = within < proposers[agent_type[order]]
    suitors, others = order[proposes], order[~proposes]
    partner = np.full(len(agent_type), ALONE, np.int64)
    held = marriage.receiver_of != ALONE
    accepted = others[marriage.receiver_of[held]]
    partner[suitors[held]], partner[accepted] = accepted, suitors[held]
    return partner


def _pair_the_rest(cost: Floats, allowed: Bools, agent_type: Integers, partner: Integers) -> None:
    """Pair agents without a partner, in their order, where the two lose least in sum.

    Each joins an agent that came before and is still alone, if it may share with one. So no two
    agents that may share are left.
    """
    both = np.where(allowed, cost + cost.T, np.inf)
    waiting: list[list[int]] = [[] for _ in cost]
    unavailable = np.full(len(cost), np.inf)  # infinite for types with nobody waiting, else 0
    for agent in np.flatnonzero(partner == ALONE).tolist():
        contention = both[agent_type[agent]] + unavailable
        best = int(contention.argmin())
        if contention[best] < np.inf:
            other = waiting[best].pop(0)
            partner[agent], partner[other] = other, agent
            unavailable[best] = 0.0 if waiting[best] else np.inf
        else:
            waiting[agent_type[agent]].append(agent)
            unavailable[agent_type[agent]] = 0.0


def check_alpha(alpha: float) -> None:
    """Raise a ``ColocationError`` unless ``alpha`` is finite and not below 0."""
    if not 0 <= alpha < np.inf:
        raise ColocationError(f"alpha = {alpha}: a finite number, not below 0, is needed")
