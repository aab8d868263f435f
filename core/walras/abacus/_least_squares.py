"""Least squares with coefficients that are not negative (Lawson and Hanson, 1974, chapter 23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NonNegativeFit:
    """The x >= 0 of least |A x - b|.

    Attributes:
        solution: shape (m,), x.
        residual: |A x - b|.
        iterations: how often a coefficient became free.
        converged: whether no coefficient at 0 would lower the residual, up to rounding.
    """

    solution: Floats
    residual: float
    iterations: int
    converged: bool


def fit_non_negative(matrix: Floats, target: Floats) -> NonNegativeFit:
    """Minimise |A x - b| over x >= 0 by the active-set method.

    One coefficient at a time becomes free, the one along which the residual falls most steeply;
    where plain least squares over the free ones then are negative, x goes towards them as far as
    it may and what has come to 0 is fixed there. Columns are scaled to length 1 first.

    Args:
        matrix: shape (k, m), A.
        target: shape (k,), b.
    """
    columns = matrix.shape[1]
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1
    scaled = matrix / scale
    negligible = 10 * np.finfo(float).eps * max(matrix.shape) * float(np.linalg.norm(target))
    free, barred = np.zeros((2, columns), np.bool_)
    solution = np.zeros(columns)
    converged, freed = False, 0
    while not converged and freed <= 3 * columns:
        slope = np.where(free | barred, 0, scaled.T @ (target - scaled @ solution))
        converged = bool((slope <= negligible).all())
        if not converged:
            best = int(slope.argmax())
            free[best] = True
            solution = _settle(scaled, target, solution, free)
            barred = np.where(free[best], False, barred)
            barred[best] = not free[best]  # rounding: it falls at once although the slope rises
            freed += 1
    residual = float(np.linalg.norm(scaled @ solution - target))
    return NonNegativeFit(solution / scale, residual, freed, converged)


def _settle(matrix: Floats, target: Floats, solution: Floats, free: NDArray[np.bool_]) -> Floats:
    """Return the least squares over ``free``, less those that come to 0 on the way there."""
    while free.any():
        wish = np.zeros(len(free))
        wish[free] = np.linalg.lstsq(matrix[:, free], target)[0]
        falling = np.flatnonzero(free & (wish <= 0))
        if not len(falling):
            return wish
        way = solution[falling] - wish[falling]
        parts = np.divide(solution[falling], way, out=np.zeros(len(way)), where=way > 0)
        first = int(parts.argmin())
        solution = solution + parts[first] * (wish - solution)
        solution[falling[first]] = 0
        free[falling[first]] = False
    return np.zeros(len(free))
