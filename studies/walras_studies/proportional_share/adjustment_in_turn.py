"""Local greedy adjustment by users in turn whose marginal utilities are known exactly (6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating.market import ShareMarketError
from walras.mechanisms.price_anticipating.nash import checked_bids, weight_proportional
from walras_studies.adjustment.greedy_bids import move_money

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from walras.mechanisms.price_anticipating.market import ShareMarket
    from walras.numerics.arrays import Floats


@dataclass(frozen=True)
class Adjustment:
    """Bids at the end of local greedy adjustment.

    Attributes:
        bids: Bids, shape (n, m); each row adds up to the user's budget.
        iterations: Rounds in which every user had a turn.
        gaps: Upper bound on each user's relative gain in utility by any other bids, shape (n,), if
            utilities are concave, and 0 without any share.
        tolerance: Tolerance that was asked for.
    """

    bids: Floats
    iterations: int
    gaps: Floats
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether no gap exceeds the tolerance."""
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

    This is slower than best responses. With a fixed amount, bids never settle completely, but
    welfare does after some tens of rounds (section 7.1), long before every user's margins are
    equal.

    Args:
        market: Users, machines and weights.
        margins: Function that takes a user's index and all bids, shape (n, m), and returns the
            measured marginal utility of money on each machine for that user, shape (m,); the
            margins of linear utilities if not given.
        amount: Money moved at a turn, as a part of the user's budget, above 0 and at most 1.
        tolerance: Largest gap.
        max_iterations: Rounds after which to stop; ``converged`` of the result may be False then.
        start: Bids to start from, shape (n, m); in proportion to weights if not given.

    Raises:
        ShareMarketError: The amount is out of range; the bids to start from do not spend the
            budgets; or parallelism is limited and no margins are given: the utility of the best few
            machines is not concave, so that the worst of them is no place to take money from.
    """
    if not 0 < amount <= 1:
        raise ShareMarketError(
            f"amount = {amount}: a part of the budget from above 0 to 1 is needed"
        )
    if margins is None and market.limited:
        raise ShareMarketError("parallelism is limited: margins must be given")
    measure = margins or linear_margins(market)
    bids = weight_proportional(market) if start is None else checked_bids(market, start)
    users = range(len(bids))
    done = 0
    gaps = _gaps(bids, measure)
    while done < max_iterations and gaps.max(initial=0.0) > tolerance:
        for user in users:
            row = slice(user, user + 1)
            move = amount * market.budgets[row]
            bids[row] = move_money(bids[row], measure(user, bids)[None, :], move)
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
    """Return upper bounds on users' relative gains in utility, shape (n,).

    A concave utility is at least sum margin x, and grows by at most X max margin - sum margin x,
    where x are the user's bids and X is their sum.
    """
    gaps = np.zeros(len(bids))
    for user, own in enumerate(bids):
        margins = measure(user, bids)
        most, has = own.sum() * margins.max(), margins @ own
        if most > has:
            gaps[user] = most / has - 1 if has > 0 else np.inf
    return gaps
