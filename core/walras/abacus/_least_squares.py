"""Least squares with non-negative coefficients (Lawson and Hanson, 1974, chapter 23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats


@dataclass(frozen=True)
class NonNegativeFit:
    """The x >= 0 that minimises |A x - b|.

    Attributes:
        solution: Coefficients x, shape (m,).
        residual: |A x - b|.
        iterations: Number of times that a coefficient became free.
        converged: Whether no coefficient at 0 would lower the residual, up to rounding.
    """

    solution: Floats
    residual: float
    iterations: int
    converged: bool


def fit_non_negative(matrix: Floats, target: Floats) -> NonNegativeFit:
    """Minimise |A x - b| over x >= 0 by the active-set method.

    One coefficient at a time becomes free, the one along which the residual falls most steeply.
    Where plain least squares over the free ones has negative coefficients, x moves towards it until
    one reaches 0, which is fixed there. Columns are scaled to length 1 first.

    Args:
        matrix: A, shape (k, m).
        target: b, shape (k,).
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
            solution = _solve_free(scaled, target, solution, free)
            barred = np.where(free[best], False, barred)
            barred[best] = not free[best]  # rounding: it falls at once despite its slope
            freed += 1
    residual = float(np.linalg.norm(scaled @ solution - target))
    return NonNegativeFit(solution / scale, residual, freed, converged)


def _solve_free(matrix: Floats, target: Floats, solution: Floats, free: Bools) -> Floats:
    """Return least squares over ``free`` coefficients, after fixing those that reach 0."""
    while free.any():
        unbounded = np.zeros(len(free))
        unbounded[free] = np.linalg.lstsq(matrix[:, free], target)[0]
        falling = np.flatnonzero(free & (unbounded <= 0))
        if not len(falling):
            return unbounded
        distance = solution[falling] - unbounded[falling]
        parts = np.divide(
            solution[falling], distance, out=np.zeros(len(distance)), where=distance > 0
        )
        first = int(parts.argmin())
        solution = solution + parts[first] * (unbounded - solution)
        solution[falling[first]] = 0
        free[falling[first]] = False
    return np.zeros(len(free))
