"""Whether those lose most who contend most: rank correlations (Cooper, section VI-A, fig. 8).

A colocation is fair if the order of agents by penalty is that by their demand for the contended
resource. 1 says that the orders are the same, -1 that they are reversed, 0 that they have nothing
to do with each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from walras.cooper._concordance import compare

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class FairnessError(ValueError):
    """Lists that have no rank correlation; the message names the list and says why."""


def spearman(penalty: ArrayLike, demand: ArrayLike) -> float:
    """Return Spearman's rank correlation, equal entries taking the mean of their ranks.

    Args:
        penalty: shape (agents,); what each loses, in any unit.
        demand: shape (agents,); as memory bandwidth in GB/s.

    Raises:
        FairnessError: lengths differ, an entry is not finite, or a list has only one value.
    """
    x, y = (_ranks(values) for values in _checked(penalty, demand))
    x, y = x - x.mean(), y - y.mean()
    correlation = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    return float(np.clip(correlation, -1.0, 1.0))


def kendall(penalty: ArrayLike, demand: ArrayLike) -> float:
    """Return Kendall's rank correlation, tau-b: ties count for neither order.

    Args:
        penalty: shape (agents,); what each loses, in any unit.
        demand: shape (agents,); as memory bandwidth in GB/s.

    Raises:
        FairnessError: lengths differ, an entry is not finite, or a list has only one value.
    """
    x, y = _checked(penalty, demand)
    pairs = compare(x[None], y[None])
    every, tied_x, tied_y = (int(count[0]) for count in (pairs.all, *pairs[2:4]))
    alike = every - tied_x - tied_y + int(pairs.tied_both[0]) - 2 * int(pairs.opposed[0])
    return alike / math.sqrt((every - tied_x) * (every - tied_y))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[which])


def _checked(penalty: ArrayLike, demand: ArrayLike) -> list[NDArray[np.float64]]:
    lists = {"penalty": np.asarray(penalty, np.float64), "demand": np.asarray(demand, np.float64)}
    for name, values in lists.items():
        if values.ndim != 1:
            raise FairnessError(f"{name} has {values.ndim} dimensions: a flat list is needed")
        if not np.isfinite(values).all():
            where = int(np.isfinite(values).argmin())
            raise FairnessError(f"{name}[{where}] = {values[where]} is not a finite number")
        if not values.size or values.min() == values.max():
            raise FairnessError(
                f"{name} has no two different entries: there is no order to compare"
            )
    if len(lists["penalty"]) != len(lists["demand"]):
        raise FairnessError(
            f"penalty has {len(lists['penalty'])} entries, demand has {len(lists['demand'])}: "
            "one an agent is needed"
        )
    return list(lists.values())
