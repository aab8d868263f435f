"""Who would rather break away, and with whom: blocking pairs and advice (III-B, IV-B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.colocation import (
    ALONE,
    ColocationError,
    check_disutility,
    check_partner,
    suffered_beside,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Advice:
    """What the action recommender tells each agent's user.

    Attributes:
        pairs: shape (k, 2); the blocking pairs, the earlier agent first, in order.
        companion: shape (n,); with whom to break away: of those who would come along, the one
            that the agent prefers most; ``ALONE`` where the advice is to participate.
        gain: shape (n,); the disutility that breaking away with the companion would save the
            agent; 0 where the advice is to participate.
    """

    pairs: NDArray[np.int64]
    companion: NDArray[np.int64]
    gain: NDArray[np.float64]

    @property
    def participate(self) -> NDArray[np.bool_]:
        """For each agent whether to take part, rather than break away."""
        return np.equal(self.companion, ALONE)


def blocking_pairs(
    disutility: ArrayLike, partner: ArrayLike, alpha: float = 0.0
) -> NDArray[np.int64]:
    """Return the pairs who would both gain more than ``alpha`` by sharing with each other.

    They are found wherever they are, also within one half of a partition (VI-A).

    Args:
        disutility: shape (n, n); what agent i loses beside agent k.
        partner: shape (n,); as a policy gave it. An agent alone loses nothing now.
        alpha: agents break away for a gain above this only, in units of disutility; 0.02 is 2 %
            of the throughput alone.

    Returns:
        Shape (k, 2), the earlier agent first, in order.

    Raises:
        ColocationError: see ``check_disutility`` and ``check_partner``; or alpha is below 0.
    """
    suffered = check_disutility(disutility)
    return _blocking(suffered, check_partner(partner, len(suffered)), alpha)


def advise(disutility: ArrayLike, partner: ArrayLike, alpha: float = 0.0) -> Advice:
    """Recommend to each agent to participate, or to break away and with whom (IV-B).

    Every agent asks those that it prefers to its partner by more than ``alpha``; whoever is asked
    by an agent that it asks itself would come along. Arguments and errors are those of
    ``blocking_pairs``.
    """
    suffered = check_disutility(disutility)
    partners = check_partner(partner, len(suffered))
    pairs = _blocking(suffered, partners, alpha)
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    agent, other = both_ways.T
    order = np.lexsort((other, suffered[agent, other], agent))
    advised, first = np.unique(agent[order], return_index=True)
    companion = np.full(len(partners), ALONE, np.int64)
    companion[advised] = other[order][first]
    saved = suffered_beside(suffered, partners) - suffered_beside(suffered, companion)
    return Advice(pairs, companion, np.where(companion == ALONE, 0.0, saved))


def check_alpha(alpha: float) -> None:
    """Raise a ``ColocationError`` unless ``alpha`` is a finite number that is not below 0."""
    if not 0 <= alpha < np.inf:
        raise ColocationError(f"alpha = {alpha}: a finite number, not below 0, is needed")


def _blocking(
    suffered: NDArray[np.float64], partner: NDArray[np.int64], alpha: float
) -> NDArray[np.int64]:
    check_alpha(alpha)
    bearable = suffered_beside(suffered, partner) - alpha
    asks = suffered < bearable[:, np.newaxis]
    return np.argwhere(np.triu(asks & asks.T, 1))
