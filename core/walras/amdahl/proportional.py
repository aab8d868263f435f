"""Proportional Sharing (VI-A): each server by itself, in proportion to its users' entitlements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.bounds import check_bounds
from walras.fill import fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.amdahl.market import Market


def share_proportionally(
    market: Market, *, maximum: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Divide every server's cores among the users present, in proportion to their budgets.

    The shares of absent users go to those present in proportion, and so does what a job leaves
    over above its ``maximum`` (II-B). A user's jobs on one server share its part equally. Which
    job could use the cores plays no role.

    Args:
        market: the market.
        maximum: shape (k,), cores that each job can use; without it, all of its server.

    Returns:
        Cores, shape (k,). They add up to the capacity of every server whose jobs can use it all.

    Raises:
        MarketError: a maximum is not positive, or there is not one for each job.
    """
    key = market.user * len(market.capacities) + market.server
    _, pair, together = np.unique(key, return_inverse=True, return_counts=True)
    weight = market.budgets[market.user] / together[pair]
    none, most = check_bounds(market, None, maximum)
    return fill(weight, none, most, market.capacities, market.by_server)
