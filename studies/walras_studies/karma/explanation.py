"""Explanation of a user's slices, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.mechanisms.karma.ledger import in_credits

if TYPE_CHECKING:
    from walras.mechanisms.karma.quantum import Allocation


def explain(allocation: Allocation, user: str) -> str:
    """Return a sentence on what ``user`` holds of its demand, why, and how its credits changed.

    Raises:
        KarmaError: The ledger has no such user.
    """
    number = allocation.ledger.index(user)
    demand, held, borrowed, donated, lent, guaranteed = (
        int(table[:, number].sum())
        for table in (
            allocation.demands,
            allocation.slices,
            allocation.borrowed,
            allocation.donated,
            allocation.lent,
            allocation.shares.guaranteed,
        )
    )
    price = int(allocation.shares.prices[number])
    parts = [f"holds {held} of {demand} slices wanted, {guaranteed} guaranteed"]
    if borrowed:
        parts.append(f"borrows {borrowed} for {_credits(borrowed * price)}")
    if donated:
        parts.append(f"lends {lent} of {donated} spare for {_credits(lent * price)}")
    if held < demand:
        poor = allocation.refused[number]
        parts.append(
            "has no credits for the rest" if poor else "users with more credits came first"
        )
    before, after = allocation.before.balances[number], allocation.ledger.balances[number]
    parts.append(f"{_credits(int(before))} before, {in_credits(int(after))} after")
    return f"{user} {'; '.join(parts)}"


def _credits(micro: int) -> str:
    amount = in_credits(micro)
    return f"{amount} credit" if amount == "1" else f"{amount} credits"
