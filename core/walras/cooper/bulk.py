"""Stable marriage in bulk, for agents of a few types.

All agents of a type move at once: time and memory grow with the number of types, not of agents. The
result is that of agent by agent, pair for pair, where agents are numbered type after type and ties
go to the lower index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._segments import read_only
from walras.cooper._displacement import accept_in_bulk
from walras.cooper.blocking import check_alpha
from walras.cooper.colocation import (
    ALONE,
    ColocationError,
    check_intensity,
    check_square,
)
from walras.cooper.marriage import Marriage
from walras.cooper.policies import by_intensity
from walras.cooper.ranking import preference_lists

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Floats, Integers

MAX_AGENTS = 10**9 - 1
"""Most agents: NumPy draws partitions of fewer than 10**9; their pairs can be counted in 63
bits."""


@dataclass(frozen=True)
class TypeMarriage:
    """Numbers of pairs of a stable marriage between agents of T types.

    Attributes:
        disutility: Disutility of an agent of type s beside one of type t, shape (T, T).
        proposers: Number of proposers of each type, shape (T,).
        receivers: Number of receivers of each type, shape (T,).
        pairs: Number of proposers of type s paired with receivers of type t, shape (T, T).
        moves: Number of moves, each of any number of agents.
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
    cost = read_only(check_square("disutility", disutility).copy())
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


def count_blocking_pairs(marriage: TypeMarriage, alpha: float = 0.0) -> int:
    """Return the number of pairs of agents who would both gain more than ``alpha`` together.

    Pairs are those of ``blocking_pairs``; time grows with the number of types.
    """
    check_alpha(alpha)
    cost = marriage.disutility
    beside = marriage.pairs + marriage.pairs.T
    willing = np.empty_like(beside)
    for own_type, (alone, held) in enumerate(zip(marriage.alone, beside, strict=True)):
        losses = np.append(cost[own_type], 0.0)
        order = np.argsort(losses)
        bearable = losses[order] - alpha
        at_least = np.append(np.cumsum(np.append(held, alone)[order][::-1])[::-1], 0)
        willing[own_type] = at_least[np.searchsorted(bearable, cost[own_type], side="right")]
    same = np.diagonal(willing)
    return int(np.triu(willing * willing.T, 1).sum() + (same * (same - 1) // 2).sum())


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
