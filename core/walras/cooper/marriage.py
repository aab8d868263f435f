"""Stable marriage: one side proposes, the other accepts and rejects (III-C, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.cooper.colocation import ColocationError, check_matrix
from walras.cooper.ranking import preference_lists

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Marriage:
    """A stable marriage, the one that every proposer likes best of all stable ones.

    Attributes:
        receiver_of: shape (p,); for each proposer the receiver that accepted it, or ``ALONE``.
        proposer_of: shape (r,); for each receiver the proposer that it accepted, or ``ALONE``.
        proposals: how many proposals were made, at most p r.
    """

    receiver_of: NDArray[np.int64]
    proposer_of: NDArray[np.int64]
    proposals: int


def marry(proposer_cost: ArrayLike, receiver_cost: ArrayLike) -> Marriage:
    """Find the stable marriage that is best for the proposers.

    Everybody prefers a lower cost; between equal ones, the lower index. Ties broken so, no
    proposer and receiver exist that would both be strictly better off together. Where one side
    is larger, those of it who remain are the same in every stable marriage.

    Args:
        proposer_cost: shape (p, r); what receiver j costs proposer i.
        receiver_cost: shape (r, p); what proposer i costs receiver j.

    Raises:
        ColocationError: a matrix is not of finite numbers, or their shapes do not fit.
    """
    proposers = check_matrix("proposer_cost", proposer_cost)
    receivers = check_matrix("receiver_cost", receiver_cost)
    if proposers.shape != receivers.shape[::-1]:
        raise ColocationError(
            f"receiver_cost is {receivers.shape[0]} by {receivers.shape[1]}: "
            f"{proposers.shape[1]} by {proposers.shape[0]} is needed, as proposer_cost turned"
        )
    return propose(preference_lists(proposers), receivers)


def propose(lists: NDArray[np.uint32], receiver_cost: NDArray[np.float64]) -> Marriage:
    """Do as ``marry``, for proposers whose preference lists are known, and a checked matrix.

    Args:
        lists: shape (p, r); each proposer's receivers, the preferred ones first.
        receiver_cost: shape (r, p), contiguous by row; ranks will do.
    """
    receiver_of, proposer_of, proposals = _deferred_acceptance(lists, read_only(receiver_cost))
    return Marriage(receiver_of, proposer_of, int(proposals))


@kernel
def _deferred_acceptance(
    lists: NDArray[np.uint32], receiver_cost: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Let proposers in one at a time; whoever is displaced proposes on from where it was.

    The outcome does not depend on the order of proposals (Gale and Shapley 1962).
    """
    proposers, receivers = lists.shape
    receiver_of = np.full(proposers, -1, np.int64)
    proposer_of = np.full(receivers, -1, np.int64)
    asked = np.zeros(proposers, np.int64)
    for newcomer in range(proposers):
        suitor = newcomer
        while suitor >= 0 and asked[suitor] < receivers:
            receiver = lists[suitor, asked[suitor]]
            asked[suitor] += 1
            rival = proposer_of[receiver]
            if rival >= 0:
                cost, held = receiver_cost[receiver, suitor], receiver_cost[receiver, rival]
                if held < cost or (held == cost and rival < suitor):
                    continue
                receiver_of[rival] = -1
            proposer_of[receiver] = suitor
            receiver_of[suitor] = receiver
            suitor = rival
    return receiver_of, proposer_of, asked.sum()
