"""Stable marriage: one side proposes, the other accepts and rejects (III-C, algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import ColocationError, check_matrix
from walras.mechanisms.cooper.marriage import Marriage, preference_lists
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, FloatTable, IndexTable, Indices, Integers


def marry(proposer_cost: ArrayLike, receiver_cost: ArrayLike) -> Marriage:
    """Find the stable marriage that is best for the proposers.

    Each agent prefers a lower cost; among equal ones, the lower index. Ties broken so, no proposer
    and receiver would both be strictly better off together. Where one side is larger, the same of
    its agents are left over in every stable marriage.

    Args:
        proposer_cost: Cost of receiver j to proposer i, shape (p, r).
        receiver_cost: Cost of proposer i to receiver j, shape (r, p).

    Raises:
        ColocationError: A matrix has an entry that is not finite, or their shapes do not match.
    """
    proposers = check_matrix("proposer_cost", proposer_cost)
    receivers = check_matrix("receiver_cost", receiver_cost)
    if proposers.shape != receivers.shape[::-1]:
        raise ColocationError(
            f"receiver_cost is {receivers.shape[0]} by {receivers.shape[1]}: "
            f"{proposers.shape[1]} by {proposers.shape[0]} is needed, the transpose of "
            "proposer_cost"
        )
    return propose(preference_lists(proposers), receivers)


def propose(lists: Indices, receiver_cost: Floats) -> Marriage:
    """Return what ``marry`` does, for known preference lists and a checked matrix.

    Args:
        lists: Receivers of each proposer, the preferred ones first, shape (p, r).
        receiver_cost: Cost of proposer i to receiver j, or its rank, contiguous by row, shape (r,
            p).
    """
    receiver_of, proposer_of, proposals = _deferred_acceptance(lists, read_only(receiver_cost))
    return Marriage(receiver_of, proposer_of, int(proposals))


@kernel
def _deferred_acceptance(
    lists: IndexTable, receiver_cost: FloatTable
) -> tuple[Integers, Integers, int]:
    """Let proposers in one at a time; a displaced one proposes on from where it was.

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
    proposals = 0
    for suitor in range(proposers):
        proposals += asked[suitor]
    return receiver_of, proposer_of, proposals
