"""The colocation policies, from disutilities to pairs (IV-C).

An odd agent runs alone: under stable marriage a receiver that no proposer chose; under stable
roommates and greedy the one left over when the last pair is made; under complementary the one in
the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import (
    ALONE,
    Colocation,
    ColocationError,
    check_disutility,
    check_intensity,
)
from walras.mechanisms.cooper.marriage import marry
from walras.mechanisms.cooper.roommates import find_roommates
from walras.numerics.checks import check_whole
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, FloatTable, Integers

POLICIES = (
    "StableMarriageRandom",
    "StableMarriagePartition",
    "StableRoommates",
    "Greedy",
    "Complementary",
)
"""Names of the policies, as in a Market's ``colocation.policy``; the default first."""


def colocate(
    policy: str, disutility: ArrayLike, intensity: ArrayLike | None = None, seed: int = 0
) -> Colocation:
    """Pair agents by the named policy.

    Args:
        policy: One of ``POLICIES``.
        disutility: Disutility of agent i beside agent k, shape (n, n).
        intensity: Demand of each agent for the shared resource, shape (n,); needed by
            StableMarriagePartition and Complementary.
        seed: Seed of StableMarriageRandom's partition.

    Raises:
        ColocationError: There is no such policy, or it needs intensities and has none; or see
            ``check_disutility`` and ``check_intensity``.
    """
    check_whole("seed", seed, 0, ColocationError)
    if policy not in POLICIES:
        raise ColocationError(f"policy = {policy!r} is none of {', '.join(POLICIES)}")
    agents = len(check_disutility(disutility))
    if policy in {"StableMarriagePartition", "Complementary"}:
        if intensity is None:
            raise ColocationError(f"policy {policy} needs the intensity of every agent")
        known = check_intensity(intensity, agents)
        if policy == "Complementary":
            return complementary(known)
        return stable_marriage_partition(disutility, known)
    if policy == "StableMarriageRandom":
        return stable_marriage_random(disutility, seed)
    if policy == "StableRoommates":
        return stable_roommates(disutility)
    return greedy(disutility)


def stable_marriage_partition(disutility: ArrayLike, intensity: ArrayLike) -> Colocation:
    """Divide agents by intensity; the more intensive half proposes to the other (SMP).

    Args:
        disutility: Disutility of agent i beside agent k, shape (n, n).
        intensity: Demand of each agent for the shared resource, as memory bandwidth in GB/s, shape
            (n,). Of equal agents the earlier counts as the more intensive.

    Raises:
        ColocationError: See ``check_disutility`` and ``check_intensity``.
    """
    cost = check_disutility(disutility)
    ordered = by_intensity(check_intensity(intensity, len(cost)))
    return _marry_halves(cost, ordered, "StableMarriagePartition")


def stable_marriage_random(disutility: ArrayLike, seed: int) -> Colocation:
    """Divide agents at random; a randomly selected half proposes to the other (SMR).

    Args:
        disutility: Disutility of agent i beside agent k, shape (n, n).
        seed: Seed of the partition; the same seed divides the same number of agents alike.

    Raises:
        ColocationError: See ``check_disutility``.
    """
    cost = check_disutility(disutility)
    shuffled = np.random.default_rng(seed).permutation(len(cost))
    return _marry_halves(cost, shuffled, "StableMarriageRandom")


def stable_roommates(disutility: ArrayLike) -> Colocation:
    """Pair any agents stably as far as that is possible, and the rejected greedily (SR).

    Raises:
        ColocationError: See ``check_disutility``.
    """
    cost = check_disutility(disutility)
    found = find_roommates(cost)
    partner = found.partner.copy()
    rejected = found.rejected
    leftover_pairs = pair_greedily(np.ascontiguousarray(cost[np.ix_(rejected, rejected)]))
    paired = leftover_pairs != ALONE
    partner[rejected[paired]] = rejected[leftover_pairs[paired]]
    return Colocation(partner, "StableRoommates", rejected, found.proposals)


def greedy(disutility: ArrayLike) -> Colocation:
    """Send each agent in turn to the processor where contention grows least (GR).

    Raises:
        ColocationError: See ``check_disutility``.
    """
    return Colocation(pair_greedily(check_disutility(disutility)), "Greedy")


def complementary(intensity: ArrayLike) -> Colocation:
    """Pair the most intensive agent with the least, the second with the last but one (CO).

    Raises:
        ColocationError: See ``check_intensity``.
    """
    ordered = by_intensity(check_intensity(intensity, len(np.atleast_1d(intensity))))
    partner = np.full(len(ordered), ALONE, np.int64)
    half = len(ordered) // 2
    high, low = ordered[:half], ordered[::-1][:half]
    partner[high], partner[low] = low, high
    return Colocation(partner, "Complementary")


def by_intensity(intensity: Floats) -> Integers:
    """Return the agents by decreasing intensity, equal ones in their order, shape (n,)."""
    return np.argsort(-intensity, kind="stable")


def _marry_halves(cost: Floats, agents: Integers, policy: str) -> Colocation:
    """Let the first half propose to the second, which has one more of an odd number."""
    half = len(agents) // 2
    proposers, receivers = np.sort(agents[:half]), np.sort(agents[half:])
    marriage = marry(cost[np.ix_(proposers, receivers)], cost[np.ix_(receivers, proposers)])
    partner = np.full(len(agents), ALONE, np.int64)
    accepted = receivers[marriage.receiver_of]
    partner[proposers], partner[accepted] = accepted, proposers
    return Colocation(partner, policy, proposals=marriage.proposals)


def pair_greedily(disutility: Floats) -> Integers:
    """Return each agent's partner, or ``ALONE``, from a checked matrix.

    Agents come in their order, to half as many processors, rounded up. Each takes the processor
    where contention grows least: by nothing on an empty one, by both penalties beside an agent.
    Among equal ones it takes an empty processor, else the one that was taken first. Of an odd
    number of agents, the last one without a partner runs alone.
    """
    return _pair(read_only(disutility))


@kernel
def _pair(disutility: FloatTable) -> Integers:
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
