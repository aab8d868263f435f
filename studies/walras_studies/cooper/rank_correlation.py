"""Rank correlations of penalties with demands, which tell how fair a colocation is (VI-A, fig. 8).

A colocation is fair if agents that demand more of the contended resource have higher penalties.
1 says that both orders are the same, -1 that one is reversed, 0 that they are unrelated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.checks import refuse
from walras_studies.cooper.preferences import count_pairs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats


class FairnessError(ValueError):
    """Lists without a rank correlation; the message names the list and the reason."""


def spearman(penalty: ArrayLike, demand: ArrayLike) -> float:
    """Return Spearman's rank correlation; equal entries have the mean of their ranks.

    Args:
        penalty: Penalty of each agent, in any unit, shape (agents,).
        demand: Demand of each agent, as memory bandwidth in GB/s, shape (agents,).

    Raises:
        FairnessError: Lengths differ, an entry is not finite, or a list has only one value.
    """
    x, y = (_ranks(values) for values in _checked(penalty, demand))
    x, y = x - x.mean(), y - y.mean()
    correlation = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    return float(np.clip(correlation, -1.0, 1.0))


def kendall(penalty: ArrayLike, demand: ArrayLike) -> float:
    """Return Kendall's rank correlation, tau-b: ties count for neither order.

    Args:
        penalty: Penalty of each agent, in any unit, shape (agents,).
        demand: Demand of each agent, as memory bandwidth in GB/s, shape (agents,).

    Raises:
        FairnessError: Lengths differ, an entry is not finite, or a list has only one value.
    """
    x, y = _checked(penalty, demand)
    pairs = count_pairs(x[None], y[None])
    every, tied_x, tied_y = (int(count[0]) for count in (pairs.total, *pairs[2:4]))
    alike = every - tied_x - tied_y + int(pairs.tied_both[0]) - 2 * int(pairs.discordant[0])
    return alike / math.sqrt((every - tied_x) * (every - tied_y))


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1, the mean of their ranks for equal entries."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[which])


def _checked(penalty: ArrayLike, demand: ArrayLike) -> list[Floats]:
    """Return both lists as arrays, if they have a rank correlation."""
    lists = {"penalty": np.asarray(penalty, np.float64), "demand": np.asarray(demand, np.float64)}
    for name, values in lists.items():
        if values.ndim != 1:
            raise FairnessError(f"{name} has {values.ndim} dimensions: a flat list is needed")
        refuse(name, values, ~np.isfinite(values), "is not a finite number", FairnessError)
        if not values.size or values.min() == values.max():
            raise FairnessError(
                f"{name} has no two different entries: there is no order to compare"
            )
    if len(lists["penalty"]) != len(lists["demand"]):
        raise FairnessError(
            f"penalty has {len(lists['penalty'])} entries, demand has {len(lists['demand'])}: "
            "one per agent is needed"
        )
    return list(lists.values())
