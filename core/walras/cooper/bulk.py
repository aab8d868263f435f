"""Stable marriage in bulk, for agents that are copies of a few types of job.

What each agent would do by itself, all agents of a type do at once: time and memory grow with the
types and not with the agents. The result is the one of agent by agent, pair for pair, where agents
are numbered type after type and ties go to the lower index.
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
    from numpy.typing import ArrayLike, NDArray

    Costs = NDArray[np.float64]
    Counts = NDArray[np.int64]

MOST_AGENTS = 10**9 - 1
"""NumPy draws partitions of fewer than 10**9 agents only; their pairs can be counted in 63 bits."""


@dataclass(frozen=True)
class TypeMarriage:
    """A stable marriage between agents of T types, counted.

    Attributes:
        disutility: shape (T, T); what an agent of type s loses beside one of type t.
        proposers: shape (T,); how many of each type propose.
        receivers: shape (T,); how many of each type receive proposals.
        pairs: shape (T, T); how many proposers of type s are paired with receivers of type t.
        moves: how many times agents moved, any number at once.
    """

    disutility: Costs
    proposers: Counts
    receivers: Counts
    pairs: Counts
    moves: int

    @property
    def alone(self) -> Counts:
        """How many agents of each type run alone, shape (T,)."""
        paired: Counts = self.pairs.sum(axis=1) + self.pairs.sum(axis=0)
        return self.proposers + self.receivers - paired

    def agents(self) -> Marriage:
        """Return who is paired with whom, by agent.

        Proposers are numbered type after type, and so are receivers. Of a type, agents with the
        lower numbers get the partners that the type prefers, as all prefer them between equals.
        """
        one, other = np.nonzero(self.pairs)
        many = self.pairs[one, other]
        proposer = _numbers(self.disutility, self.proposers, one, other, many)
        receiver = _numbers(self.disutility, self.receivers, other, one, many)
        receiver_of = np.full(self.proposers.sum(), ALONE, np.int64)
        proposer_of = np.full(self.receivers.sum(), ALONE, np.int64)
        receiver_of[proposer], proposer_of[receiver] = receiver, proposer
        return Marriage(receiver_of, proposer_of, self.moves)


def marry_types(disutility: ArrayLike, proposers: ArrayLike, receivers: ArrayLike) -> TypeMarriage:
    """Find the stable marriage that is best for the proposers, by type.

    Args:
        disutility: shape (T, T); what an agent of type s loses beside one of type t, which may be
            the same type. Between equal ones, the lower type is preferred.
        proposers: shape (T,), how many agents of each type propose; whole numbers, 0 allowed.
        receivers: shape (T,), how many receive proposals.

    Raises:
        ColocationError: see ``check_square``; or a count is below 0 or no integer, or there
            are 10**9 agents or more.
    """
    cost = read_only(check_square("disutility", disutility).copy())
    one_side = read_only(_check_counts("proposers", proposers, len(cost)))
    other_side = read_only(_check_counts("receivers", receivers, len(cost)))
    with np.errstate(over="ignore", invalid="ignore"):  # turns decide on nothing but time
        turns = np.argsort(cost.sum(axis=0), kind="stable")
    pairs, moves = accept_in_bulk(cost, preference_lists(cost), one_side, other_side, turns)
    return TypeMarriage(cost, one_side, other_side, pairs, int(moves))


def part_by_intensity(counts: ArrayLike, intensity: ArrayLike) -> tuple[Counts, Counts]:
    """Return how many agents of each type propose and receive under SMP (IV-C).

    The most intensive half proposes, rounded down; of equal types the earlier counts as the more
    intensive.

    Args:
        counts: shape (T,), agents of each type.
        intensity: shape (T,), demand of each type for the shared resource.

    Raises:
        ColocationError: see ``marry_types`` and ``check_intensity``.
    """
    present = _check_counts("counts", counts, np.size(intensity))
    ordered = by_intensity(check_intensity(intensity, len(present)))
    ahead = np.cumsum(present[ordered]) - present[ordered]
    proposers = np.zeros_like(present)
    proposers[ordered] = np.clip(present.sum() // 2 - ahead, 0, present[ordered])
    return proposers, present - proposers


def part_randomly(counts: ArrayLike, seed: int) -> tuple[Counts, Counts]:
    """Return how many agents of each type propose and receive under SMR (IV-C).

    Distributed as if every agent were put on a side by shuffling, half of them proposing, rounded
    down.

    Args:
        counts: shape (T,), agents of each type.
        seed: of the partition.

    Raises:
        ColocationError: see ``marry_types``.
    """
    present = _check_counts("counts", counts, np.size(counts))
    random = np.random.default_rng(seed)
    half = int(present.sum()) // 2
    proposers = random.multivariate_hypergeometric(present, half, method="marginals")
    return proposers, present - proposers


def count_blocking_pairs(marriage: TypeMarriage, alpha: float = 0.0) -> int:
    """Return how many pairs of agents would both gain more than ``alpha`` beside each other.

    They are counted wherever they are, as ``blocking_pairs`` does, in time that grows with types.
    """
    check_alpha(alpha)
    cost = marriage.disutility
    beside = marriage.pairs + marriage.pairs.T
    willing = np.empty_like(beside)
    for kind, (alone, held) in enumerate(zip(marriage.alone, beside, strict=True)):
        losses = np.append(cost[kind], 0.0)
        order = np.argsort(losses)
        bearable = losses[order] - alpha
        at_least = np.append(np.cumsum(np.append(held, alone)[order][::-1])[::-1], 0)
        willing[kind] = at_least[np.searchsorted(bearable, cost[kind], side="right")]
    same = np.diagonal(willing)
    return int(np.triu(willing * willing.T, 1).sum() + (same * (same - 1) // 2).sum())


def _check_counts(name: str, values: ArrayLike, types: int) -> Counts:
    counts = np.asarray(values)
    if counts.size == 0:
        counts = counts.astype(np.int64)
    if counts.shape != (types,) or counts.dtype.kind not in "iu":
        raise ColocationError(
            f"{name} has shape {counts.shape} of {counts.dtype}: "
            f"one whole number for each of {types} types is needed"
        )
    bad = (counts < 0) | (counts > MOST_AGENTS)
    if bad.any() or counts.sum() > MOST_AGENTS:
        where = int(np.argmax(bad if bad.any() else counts))
        raise ColocationError(
            f"{name}[{where}] = {counts[where]}: counts from 0 that add up to at most "
            f"{MOST_AGENTS} are needed"
        )
    return counts.astype(np.int64)


def _numbers(
    cost: Costs, counts: Counts, own: Counts, other: Counts, many: Counts
) -> NDArray[np.int64]:
    """Number the agents of one side of all pairs, given by kind of pair and how ``many`` of each.

    A type's own agents are dealt to its kinds of pair in the order of its preference.
    """
    order = np.lexsort((other, cost[own, other], own))
    before = np.empty_like(many)
    before[order] = np.cumsum(many[order]) - many[order]
    paired = np.bincount(own, many, len(counts)).astype(np.int64)
    unpaired_before = np.cumsum(counts - paired) - (counts - paired)
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    numbers: NDArray[np.int64] = np.repeat(before + unpaired_before[own], many) + within
    return numbers
