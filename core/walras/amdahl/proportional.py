"""Proportional Sharing (VI-A): each server's cores in proportion to its users' entitlements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.bounds import check_bounds
from walras.water_filling import water_fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Floats
    from walras.amdahl.market import AmdahlMarket


def share_proportionally(market: AmdahlMarket, *, maximum: ArrayLike | None = None) -> Floats:
    """Divide every server's cores among the users present, in proportion to their budgets.

    Shares of absent users go to those present, and cores beyond a job's ``maximum`` to the other
    jobs, in proportion too (II-B). A user's jobs on one server share its part equally. Parallel
    fractions play no role.

    Args:
        market: Users, servers and jobs.
        maximum: Most cores that each job can use, shape (k,); all cores of its server if not given.

    Returns:
        Cores of each job, shape (k,). They add up to the capacity of every server whose jobs can
        use all of it.

    Raises:
        MarketError: A maximum is not positive, or the array has the wrong shape.
    """
    key = market.user * len(market.capacities) + market.server
    _, pair, together = np.unique(key, return_inverse=True, return_counts=True)
    weight = market.budgets[market.user] / together[pair]
    none, most = check_bounds(market, None, maximum)
    return water_fill(weight, none, most, market.capacities, market.by_server)
