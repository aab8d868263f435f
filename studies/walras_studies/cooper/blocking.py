"""Blocking pairs, and advice to agents: participate or break away, and with whom (III-B, IV-B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.by_type import check_alpha
from walras.mechanisms.cooper.colocation import (
    ALONE,
    check_disutility,
    check_partner,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class Advice:
    """Advice of the action recommender to each agent.

    Attributes:
        pairs: Blocking pairs, the earlier agent first, in order, shape (k, 2).
        companion: Agent to break away with, shape (n,): of those who would gain too, the one that
            the agent prefers most; ``ALONE`` for the advice to participate.
        gain: Disutility that breaking away would save, shape (n,); 0 for the advice to participate.
    """

    pairs: Integers
    companion: Integers
    gain: Floats


def penalties(disutility: ArrayLike, partner: ArrayLike) -> Floats:
    """Return each agent's disutility beside its partner, shape (n,); 0 for agents alone.

    Raises:
        ColocationError: See ``check_disutility`` and ``check_partner``.
    """
    cost = check_disutility(disutility)
    return penalties_beside(cost, check_partner(partner, len(cost)))


def penalties_beside(disutility: Floats, partner: Integers) -> Floats:
    """Return what ``penalties`` does, for checked arrays."""
    return np.where(partner == ALONE, 0.0, disutility[np.arange(len(partner)), partner])


def blocking_pairs(disutility: ArrayLike, partner: ArrayLike, alpha: float = 0.0) -> Integers:
    """Return the pairs who would both gain more than ``alpha`` by sharing with each other.

    Pairs within one half of a partition count, too (VI-A).

    Args:
        disutility: Disutility of agent i beside agent k, shape (n, n).
        partner: Partner of each agent, as from a policy, shape (n,). An agent alone loses nothing
            now.
        alpha: Least gain for which agents break away, exclusive, in units of disutility; 0.02 is 2
            % of the throughput alone.

    Returns:
        Shape (k, 2), the earlier agent first, in order.

    Raises:
        ColocationError: See ``check_disutility`` and ``check_partner``; or alpha is below 0 or not
            finite.
    """
    cost = check_disutility(disutility)
    return _blocking(cost, check_partner(partner, len(cost)), alpha)


def advise(disutility: ArrayLike, partner: ArrayLike, alpha: float = 0.0) -> Advice:
    """Recommend to each agent to participate, or to break away and with whom (IV-B).

    Every agent asks those that it prefers to its partner by more than ``alpha``. Two agents that
    ask each other are a blocking pair. Arguments and errors are those of ``blocking_pairs``.
    """
    cost = check_disutility(disutility)
    partners = check_partner(partner, len(cost))
    pairs = _blocking(cost, partners, alpha)
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    agent, other = both_ways.T
    order = np.lexsort((other, cost[agent, other], agent))
    advised, first = np.unique(agent[order], return_index=True)
    companion = np.full(len(partners), ALONE, np.int64)
    companion[advised] = other[order][first]
    saved = penalties_beside(cost, partners) - penalties_beside(cost, companion)
    return Advice(pairs, companion, np.where(companion == ALONE, 0.0, saved))


def _blocking(cost: Floats, partner: Integers, alpha: float) -> Integers:
    """Return the blocking pairs of checked arrays."""
    check_alpha(alpha)
    bearable = penalties_beside(cost, partner) - alpha
    prefers = cost < bearable[:, np.newaxis]
    return np.argwhere(np.triu(prefers & prefers.T, 1))
