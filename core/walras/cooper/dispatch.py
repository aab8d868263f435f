"""Dispatch of pairs in batches, where there are fewer processors than pairs (IV-D, V)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.colocation import ALONE, ColocationError, check_partner

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Integers


@dataclass(frozen=True)
class Dispatch:
    """Batch and processor of each agent's task.

    Attributes:
        batch: Batch of each task, shape (n,); tasks of batch 0 start at once, those of batch 1 when
            it is done.
        processor: Processor of each task, shape (n,); partners have the same one.
    """

    batch: Integers
    processor: Integers


def dispatch(partner: ArrayLike, processors: int) -> Dispatch:
    """Send pairs, and agents alone, to processors in the order of each pair's earlier agent.

    Args:
        partner: Partner of each agent, as from a policy, shape (n,).
        processors: Number of processors, at least 1.

    Raises:
        ColocationError: There is no processor; or see ``check_partner``.
    """
    if processors < 1:
        raise ColocationError(f"processors = {processors}: at least 1 is needed")
    partners = check_partner(partner, np.size(partner))
    agents = np.arange(len(partners))
    earlier = np.where(partners == ALONE, agents, np.minimum(agents, partners))
    _, turn = np.unique(earlier, return_inverse=True)
    return Dispatch(*np.divmod(turn.astype(np.int64), processors))
