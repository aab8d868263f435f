"""Greedy (VI-A): each core to the job whose user's progress it raises most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.upper_bound import Optimum, maximise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.amdahl.market import AmdahlMarket


def allocate_greedily(
    market: AmdahlMarket,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> Optimum:
    """Give whole cores, one by one, to the jobs where they raise user progress most.

    Entitlements play no role. As speedups are concave, the result maximises the plain mean of user
    progress. Ties go to the earlier job.

    Args:
        market: Users, servers and jobs; capacities must be whole numbers.
        minimum: Fewest cores of each job, given first, shape (k,); 0 if not given.
        maximum: Most cores of each job, shape (k,); all cores of its server if not given.

    Returns:
        Whole cores; ``progress`` is the plain mean of user progress.

    Raises:
        MarketError: A bound is outside its range, a server's minimums exceed its cores, or its
            capacity is no whole number.
    """
    users = len(market.budgets)
    share = np.full(users, 1 / max(users, 1))
    return maximise(market, share, whole=True, minimum=minimum, maximum=maximum)
