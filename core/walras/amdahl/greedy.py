"""Greedy (VI-A): each core to the job with the largest gain in user progress, whoever owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.upper_bound import Optimum, maximise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.amdahl.market import Market


def allocate_greedily(
    market: Market,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> Optimum:
    """Give whole cores, one by one, to where they raise a user's progress most.

    Entitlements play no role. Speedups being concave, what comes out is the most that the plain
    mean of user progress can be. Ties go to the earlier job.

    Args:
        market: the market; capacities are whole numbers.
        minimum: shape (k,), cores that each job gets before all others; 0 if not given.
        maximum: shape (k,), most cores of each job; all of its server if not given.

    Returns:
        Whole cores; ``progress`` is the plain mean of user progress.

    Raises:
        MarketError: a bound outside its range, a server whose minimums exceed its cores, or
            one that does not have a whole number of them.
    """
    users = len(market.budgets)
    share = np.full(users, 1 / max(users, 1))
    return maximise(market, share, whole=True, minimum=minimum, maximum=maximum)
