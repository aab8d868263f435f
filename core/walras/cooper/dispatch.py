"""Batches, where there are fewer processors than pairs (IV-D, V)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.cooper.colocation import ALONE, ColocationError, check_partner

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Dispatch:
    """When and where each agent's task runs.

    Attributes:
        batch: shape (n,); tasks of batch 0 start at once, those of batch 1 when it is done.
        processor: shape (n,); partners have the same one.
    """

    batch: NDArray[np.int64]
    processor: NDArray[np.int64]


def dispatch(partner: ArrayLike, processors: int) -> Dispatch:
    """Send pairs, and agents alone, to processors in the order of each pair's earlier agent.

    Args:
        partner: shape (n,); as a policy gave it.
        processors: how many there are, at least 1.

    Raises:
        ColocationError: there is no processor; or see ``check_partner``.
    """
    if processors < 1:
        raise ColocationError(f"processors = {processors}: at least 1 is needed")
    partners = check_partner(partner, np.size(partner))
    agents = np.arange(len(partners))
    earlier = np.where(partners == ALONE, agents, np.minimum(agents, partners))
    _, turn = np.unique(earlier, return_inverse=True)
    return Dispatch(*np.divmod(turn.astype(np.int64), processors))
