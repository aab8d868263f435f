"""Metrics of how slices serve users over time, as the paper defines them (section 5, Metrics).

Arrays have shape (quanta, n). Slices beyond demand are never counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def useful(slices: ArrayLike, demands: ArrayLike) -> NDArray[np.int64]:
    """Return the number of slices of all quanta that each user could use, shape (n,)."""
    total: NDArray[np.int64] = np.minimum(slices, demands).sum(axis=0)
    return total


def utilisation(slices: ArrayLike, demands: ArrayLike, capacity: int) -> float:
    """Return the part of all slices of all quanta that was used, in 0..1; 0 if there are none."""
    offered = capacity * len(np.asarray(demands))
    return float(useful(slices, demands).sum() / offered) if offered else 0.0


def welfare(slices: ArrayLike, demands: ArrayLike) -> Floats:
    """Return the part of each user's demands that was met, shape (n,); 1 without demands."""
    wanted = np.asarray(demands).sum(axis=0)
    met = useful(slices, demands)
    part: Floats = np.divide(met, wanted, out=np.ones(len(wanted)), where=wanted > 0)
    return part


def fairness(slices: ArrayLike, demands: ArrayLike) -> float:
    """Return the least welfare over the largest: 1 is best, also if no user got a slice."""
    each = welfare(slices, demands)
    largest = float(each.max(initial=0.0))
    return float(each.min()) / largest if largest else 1.0


def disparity(slices: ArrayLike, demands: ArrayLike) -> float:
    """Return the ratio of the largest useful total of a user to the least, from 1 to infinity."""
    totals = useful(slices, demands)
    least, largest = (int(totals.min()), int(totals.max())) if totals.size else (0, 0)
    if least:
        return largest / least
    return float("inf") if largest else 1.0
