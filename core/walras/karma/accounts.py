"""Accounts for users: credits after a quantum, and who lent to whom.

A slice costs the same whoever donated it, and Algorithm 1 does not record whose slice a borrower
gets. The accounts divide it evenly: of every pool's borrowed slices each borrower has the same part
from every donor, and the rest from the shared slices that belong to no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.karma.ledger import in_credits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras.karma.quantum import Allocation
    from walras.karma.record import SettledQuantum


@dataclass(frozen=True, slots=True)
class Account:
    """Credits and loans of one user in a quantum; credits are exact decimal numbers.

    Attributes:
        balance: Credits after the quantum.
        earned: Credits earned in the quantum: its part of the free credits, and for slices lent.
        spent: Credits spent in the quantum, for slices borrowed.
        lent: Bytes lent by borrower, most first.
        borrowed: Bytes borrowed by donor, most first; shared slices have an empty name.
    """

    balance: str
    earned: str
    spent: str
    lent: tuple[tuple[str, int], ...] = ()
    borrowed: tuple[tuple[str, int], ...] = ()


def accounts_of(settled: SettledQuantum, slice_bytes: int) -> Iterator[Account]:
    """Yield the account of each user, in the order of the ledger."""
    allocation = settled.allocation
    users, loans = allocation.before.users, lending(allocation)
    lent: list[dict[str, float]] = [{} for _ in users]
    borrowed: list[dict[str, float]] = [{} for _ in users]
    for (donor, taker), slices in loans.items():
        lent[donor][users[taker]] = slices
        borrowed[taker][users[donor]] = slices
    taken = allocation.borrowed.sum(axis=0)
    gained = allocation.ledger.balances - allocation.before.balances
    for number, balance in enumerate(allocation.ledger.balances.tolist()):
        spent = int(taken[number] * allocation.shares.prices[number])
        of_nobody = float(taken[number]) - sum(borrowed[number].values())
        if of_nobody * slice_bytes >= 1:
            borrowed[number][""] = of_nobody
        yield Account(
            in_credits(balance),
            in_credits(int(gained[number]) + spent),
            in_credits(spent),
            _in_bytes(lent[number], slice_bytes),
            _in_bytes(borrowed[number], slice_bytes),
        )


def lending(allocation: Allocation) -> Mapping[tuple[int, int], float]:
    """Return the slices that each donor lends to each borrower in all pools, by their indices."""
    donors = np.flatnonzero(allocation.lent.any(axis=0))
    takers = np.flatnonzero(allocation.borrowed.any(axis=0))
    # Every donor of a pool lends to every borrower of it, in proportion.
    whole = np.maximum(allocation.borrowed.sum(axis=1, keepdims=True), 1)
    part = allocation.borrowed[:, takers] / whole
    loans = np.einsum("pd,pt->dt", allocation.lent[:, donors], part)
    donor, taker = np.nonzero(loans)
    pairs = zip(donors[donor].tolist(), takers[taker].tolist(), strict=True)
    return dict(zip(pairs, loans[donor, taker].tolist(), strict=True))


def _in_bytes(slices: Mapping[str, float], size: int) -> tuple[tuple[str, int], ...]:
    amounts = ((name, round(each * size)) for name, each in slices.items())
    return tuple(sorted(amounts, key=lambda item: (-item[1], item[0])))
