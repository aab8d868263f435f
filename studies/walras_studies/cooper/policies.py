"""The colocation policies by name, from disutilities of agents to pairs (IV-C).

The Market draws its marriages for agents of few types (`walras.mechanisms.cooper.bulk`); these
are the paper's, agent by agent. An odd agent, a receiver that no proposer chose, runs alone.
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
from walras.mechanisms.cooper.policies import (
    by_intensity,
    complementary,
    greedy,
    stable_roommates,
)
from walras.numerics.checks import check_whole
from walras_studies.cooper.marriage import marry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Integers

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


def _marry_halves(cost: Floats, agents: Integers, policy: str) -> Colocation:
    """Let the first half propose to the second, which has one more of an odd number."""
    half = len(agents) // 2
    proposers, receivers = np.sort(agents[:half]), np.sort(agents[half:])
    marriage = marry(cost[np.ix_(proposers, receivers)], cost[np.ix_(receivers, proposers)])
    partner = np.full(len(agents), ALONE, np.int64)
    accepted = receivers[marriage.receiver_of]
    partner[proposers], partner[accepted] = accepted, proposers
    return Colocation(partner, policy, proposals=marriage.proposals)
