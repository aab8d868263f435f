"""The colocation policies, from disutilities to pairs (IV-C).

An odd agent runs alone. Under marriage it is of the side that receives, the one that nobody
proposed to in the end; under roommates and greedy the one left over when the last pair is made;
under complementary the one in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.colocation import (
    ALONE,
    Colocation,
    ColocationError,
    check_disutility,
    check_intensity,
)
from walras.cooper.greedy import pair_greedily
from walras.cooper.marriage import marry
from walras.cooper.roommates import find_roommates

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Agents = NDArray[np.int64]

POLICIES = (
    "StableMarriageRandom",
    "StableMarriagePartition",
    "StableRoommates",
    "Greedy",
    "Complementary",
)
"""Names of the policies, as a Market's ``colocation.policy`` gives them; the default first."""


def colocate(
    policy: str, disutility: ArrayLike, intensity: ArrayLike | None = None, seed: int = 0
) -> Colocation:
    """Pair agents by the policy of a name.

    Args:
        policy: one of ``POLICIES``.
        disutility: shape (n, n); what agent i loses beside agent k.
        intensity: shape (n,); needed by StableMarriagePartition and Complementary.
        seed: of StableMarriageRandom's partition.

    Raises:
        ColocationError: there is no such policy, or it needs intensities and has none; or see
            ``check_disutility`` and ``check_intensity``.
    """
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
    if policy == "Greedy":
        return greedy(disutility)
    raise ColocationError(f"policy {policy!r} is none of {', '.join(POLICIES)}")


def stable_marriage_partition(disutility: ArrayLike, intensity: ArrayLike) -> Colocation:
    """Part agents by intensity; the more intensive half proposes to the other (SMP).

    Args:
        disutility: shape (n, n); what agent i loses beside agent k.
        intensity: shape (n,); demand for the shared resource, as memory bandwidth in GB/s. Of
            equal agents the earlier counts as the more intensive.

    Raises:
        ColocationError: see ``check_disutility`` and ``check_intensity``.
    """
    suffered = check_disutility(disutility)
    ordered = by_intensity(check_intensity(intensity, len(suffered)))
    return _marry_halves(suffered, ordered, "StableMarriagePartition")


def stable_marriage_random(disutility: ArrayLike, seed: int) -> Colocation:
    """Part agents at random; a randomly selected half proposes to the other (SMR).

    Args:
        disutility: shape (n, n); what agent i loses beside agent k.
        seed: of the partition; the same seed parts the same number of agents alike.

    Raises:
        ColocationError: see ``check_disutility``.
    """
    suffered = check_disutility(disutility)
    shuffled = np.random.default_rng(seed).permutation(len(suffered))
    return _marry_halves(suffered, shuffled, "StableMarriageRandom")


def stable_roommates(disutility: ArrayLike) -> Colocation:
    """Pair any agent with any other, stably as far as there is a way; pair the rejected greedily.

    Raises:
        ColocationError: see ``check_disutility``.
    """
    suffered = check_disutility(disutility)
    found = find_roommates(suffered)
    partner = found.partner.copy()
    rejected = found.rejected
    again = pair_greedily(np.ascontiguousarray(suffered[np.ix_(rejected, rejected)]))
    paired = again != ALONE
    partner[rejected[paired]] = rejected[again[paired]]
    return Colocation(partner, "StableRoommates", rejected, found.proposals)


def greedy(disutility: ArrayLike) -> Colocation:
    """Send each agent in turn to the processor where contention grows least (GR).

    Raises:
        ColocationError: see ``check_disutility``.
    """
    return Colocation(pair_greedily(check_disutility(disutility)), "Greedy")


def complementary(intensity: ArrayLike) -> Colocation:
    """Pair the most intensive agent with the least, the second with the last but one (CO).

    Raises:
        ColocationError: see ``check_intensity``.
    """
    ordered = by_intensity(check_intensity(intensity, len(np.atleast_1d(intensity))))
    partner = np.full(len(ordered), ALONE, np.int64)
    half = len(ordered) // 2
    high, low = ordered[:half], ordered[::-1][:half]
    partner[high], partner[low] = low, high
    return Colocation(partner, "Complementary")


def by_intensity(intensity: NDArray[np.float64]) -> Agents:
    """Return the agents by decreasing intensity, equal ones in their order."""
    return np.argsort(-intensity, kind="stable")


def _marry_halves(suffered: NDArray[np.float64], agents: Agents, policy: str) -> Colocation:
    """Let the first half propose to the second, which is larger by one if the number is odd."""
    half = len(agents) // 2
    proposers, receivers = np.sort(agents[:half]), np.sort(agents[half:])
    marriage = marry(suffered[np.ix_(proposers, receivers)], suffered[np.ix_(receivers, proposers)])
    partner = np.full(len(agents), ALONE, np.int64)
    accepted = receivers[marriage.receiver_of]
    partner[proposers], partner[accepted] = accepted, proposers
    return Colocation(partner, policy, proposals=marriage.proposals)
