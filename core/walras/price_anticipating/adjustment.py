"""Local greedy adjustment: bidding by users who can only measure their utility (6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.price_anticipating.market import ShareMarketError
from walras.price_anticipating.nash import checked_bids, weight_proportional

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from walras.price_anticipating.market import ShareMarket

    Floats = NDArray[np.float64]


def move_money(bids: Floats, margins: Floats, amount: float) -> Floats:
    """Return one user's bids after it moved money from its worst machine to its best.

    Args:
        bids: shape (m,), what it bids now.
        margins: shape (m,), what a little more money on each machine would add to its utility,
            by whatever means it found out.
        amount: how much to move; less where the worst machine has less.

    Returns:
        Shape (m,): new bids of the same sum. The worst machine is one that the user bids on.
    """
    worst = int(np.where(bids > 0, margins, np.inf).argmin())
    best = int(margins.argmax())
    moved = np.array(bids)
    if margins[best] > margins[worst]:
        step = min(amount, moved[worst])
        moved[worst] -= step
        moved[best] += step
    return moved


@dataclass(frozen=True)
class Adjustment:
    """What came of local greedy adjustment.

    Attributes:
        bids: shape (n, m); each row adds up to the user's budget.
        iterations: rounds in which every user had a turn.
        gaps: shape (n,), the part of its utility that no user can gain more than by any other
            bids, if utilities are concave, and nothing is worth nothing.
        tolerance: what was asked for.
    """

    bids: Floats
    iterations: int
    gaps: Floats
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether no gap is above the tolerance."""
        return bool(self.gaps.max(initial=0.0) <= self.tolerance)


def adjust(
    market: ShareMarket,
    margins: Callable[[int, Floats], Floats] | None = None,
    *,
    amount: float = 0.01,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    start: ArrayLike | None = None,
) -> Adjustment:
    """Let users in turn move a fixed amount of money from their worst machine to their best.

    Slower than best responses, and with a fixed amount bids never quite come to rest: welfare
    settles after some tens of rounds (section 7.1), long before every user's margins are equal.

    Args:
        market: the market.
        margins: of a user's number and all bids, shape (n, m), what a little more money on each
            machine adds to that user's utility, shape (m,), as a user can measure it whose utility
            nobody knows. Those of the linear utility if not given.
        amount: moved at a turn, as a part of the user's budget; above 0, 1 at most.
        tolerance: on the gaps.
        max_iterations: rounds after which to stop; the result then says that it did not converge.
        start: shape (n, m), bids to start from; in proportion to weights if not given.

    Raises:
        ShareMarketError: the amount is out of range; bids to start from do not spend the budgets;
            or parallelism is limited and no margins are given: what the best few of all machines
            are worth is not concave, so that the worst of them is no place to take money from.
    """
    if not 0 < amount <= 1:
        raise ShareMarketError(f"amount = {amount}: a part of the budget, above 0, is needed")
    if margins is None and market.limited:
        raise ShareMarketError("parallelism is limited: margins must be given")
    measure = margins or linear_margins(market)
    bids = weight_proportional(market) if start is None else checked_bids(market, start)
    users = range(len(bids))
    done = 0
    gaps = _gaps(bids, measure)
    while done < max_iterations and gaps.max(initial=0.0) > tolerance:
        for user in users:
            move = amount * market.budgets[user]
            bids[user] = move_money(bids[user], measure(user, bids), move)
        done += 1
        gaps = _gaps(bids, measure)
    return Adjustment(bids, done, gaps, tolerance)


def linear_margins(market: ShareMarket) -> Callable[[int, Floats], Floats]:
    """Return the margins of linear utilities, dU_i / dx_ij = w_ij (Y_j - x_ij) / Y_j**2 (eq. 1)."""

    def margins(user: int, bids: Floats) -> Floats:
        others = market.against(bids, user)
        prices = others + bids[user]
        return np.asarray(market.weights[user] * (others / prices) / prices)

    return margins


def _gaps(bids: Floats, measure: Callable[[int, Floats], Floats]) -> Floats:
    """Return what margins promise at most, X max margin, over what they give now, less 1.

    A concave utility is sum margin x or more, and grows by X max margin - sum margin x or less.
    """
    gaps = np.zeros(len(bids))
    for user, own in enumerate(bids):
        margins = measure(user, bids)
        most, has = own.sum() * margins.max(), margins @ own
        if most > has:
            gaps[user] = most / has - 1 if has > 0 else np.inf
    return gaps
