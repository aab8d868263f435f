"""Estimation of a job's utility from runs with different shares (section 5).

SciPy has non-negative least squares and Student's t, too, but the operator's image does not have
SciPy: see ``docs/decisions/dependencies.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus.auction import AuctionError
from walras.numerics.checks import check_finite, is_number, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats

MAX_FREEDOM = 1000
"""Degrees of freedom beyond which Student's t is that of 1000, which is slightly wider."""

RESOLUTION = 1e-6
"""Part of a share below which a difference between runs says nothing: recorded shares are means
of billionths."""


@dataclass(frozen=True)
class UtilityEstimate:
    """Estimated weights of a utility, with confidence intervals.

    Attributes:
        weights: Least-squares weights, not negative, shape (m,).
        lower: Lower ends of confidence intervals, each for itself, shape (m,).
        upper: Upper ends, shape (m,); infinite where runs are too few or too similar to tell.
        deviation: Standard deviation of the noise in a run's utility, or in its logarithm; NaN if
            it is unknown.
        converged: Whether the least squares are the least.
        distinct: Whether the runs differ enough to tell the weights apart. If they do not, other
            weights fit the runs as well, and these are an arbitrary choice.
    """

    weights: Floats
    lower: Floats
    upper: Floats
    deviation: float
    converged: bool
    distinct: bool


def estimate_utility(
    shares: ArrayLike, utilities: ArrayLike, *, logarithmic: bool = False, confidence: float = 0.95
) -> UtilityEstimate:
    """Fit u = sum_j w_j s_j, or sum_j w_j log s_j, with w_j >= 0, to measured runs (eq. 2).

    The paper does not keep weights from becoming negative; a utility must (section 3). Intervals
    are those of Student's t for least squares without that bound, which are exact for
    independent Gaussian noise of one size. Cut at 0, and widened to hold the estimate, they hold
    with at least the given confidence.

    Args:
        shares: Average shares of the job in each run (Definition 1), from 0 to 1, shape (k, m).
        utilities: Utility of each run, as the inverse of its time or a throughput, shape (k,).
        logarithmic: Whether utility is in the logarithms of shares.
        confidence: Confidence of each interval, between 0 and 1, exclusive.

    Raises:
        AuctionError: There are no runs, an array has the wrong shape, or an entry is outside its
            range.
    """
    measured, rows = _checked(shares, utilities, confidence)
    if logarithmic:
        refuse("shares", rows, rows == 0, "has no logarithm: use runs with a share", AuctionError)
        rows = np.log(rows)
    return _estimate(rows, measured, confidence)


def estimate_product_utility(
    shares: ArrayLike, utilities: ArrayLike, *, confidence: float = 0.95
) -> UtilityEstimate:
    """Fit u = c prod_j s_j ** w_j, with c > 0 and w_j >= 0, to measured runs, in logarithms.

    This is the logscale utility sum_j w_j log s_j of section 5 in a unit that is not known: its
    exponential is the utility of a run, up to a factor. Eq. 2 as printed compares the sum, which is
    never above 0, with the inverse of a time, which is. The factor is a free intercept of the
    regression. The noise of a run is a part of its utility, so that of its logarithm has one size.

    Args:
        shares: Average shares of the job in each run, above 0 and at most 1, shape (k, m).
        utilities: Utility of each run, above 0, shape (k,).
        confidence: Confidence of each interval, between 0 and 1, exclusive.

    Raises:
        AuctionError: There are no runs, an array has the wrong shape, or an entry is outside its
            range.
    """
    measured, rows = _checked(shares, utilities, confidence)
    refuse("utilities", measured, measured <= 0, "has no logarithm", AuctionError)
    refuse("shares", rows, rows == 0, "has no logarithm: use runs with a share", AuctionError)
    rows, measured = np.log(rows), np.log(measured)
    return _estimate(rows - rows.mean(axis=0), measured - measured.mean(), confidence, fitted=1)


def _checked(shares: ArrayLike, utilities: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return utilities and shares as arrays.

    Raises:
        AuctionError: There are no runs, an array has the wrong shape, or an entry is outside its
            range.
    """
    measured = check_finite("utilities", utilities, (None,), AuctionError)
    rows = check_finite("shares", shares, (len(measured), None), AuctionError)
    refuse("shares", rows, (rows < 0) | (rows > 1), "is outside 0..1", AuctionError)
    if not len(measured):
        raise AuctionError("utilities has no entries: at least one run is needed")
    if not (is_number(confidence) and 0 < confidence < 1):
        raise AuctionError(f"confidence = {confidence} is outside 0..1")
    return measured, rows


def _estimate(
    rows: Floats, measured: Floats, confidence: float, *, fitted: int = 0
) -> UtilityEstimate:
    """Fit measured = rows @ w with w >= 0.

    Args:
        rows: Shares or their logarithms, shape (k, m).
        measured: Utilities or their logarithms, shape (k,).
        confidence: Confidence of each interval.
        fitted: Number of parameters that were fitted before, and taken out of rows and utilities.
    """
    fit = fit_non_negative(rows, measured)
    centre, error, deviation, freedom = _unbounded(rows, measured, fitted)
    reach = student_quantile((1 + confidence) / 2, freedom) * error if freedom else np.inf
    lower = np.minimum(np.maximum(centre - reach, 0), fit.solution)
    upper = np.maximum(np.maximum(centre + reach, 0), fit.solution)
    distinct = _columns_differ(rows)
    return UtilityEstimate(fit.solution, lower, upper, deviation, fit.converged, distinct)


def _columns_differ(rows: Floats) -> bool:
    """Return whether every column changes utility in a way that the others cannot imitate."""
    scale = np.linalg.norm(rows, axis=0)
    if not (scale > RESOLUTION * math.sqrt(len(rows))).all():
        return False
    values = np.linalg.svd(rows / scale, compute_uv=False)
    return len(values) == rows.shape[1] and bool(values[-1] > RESOLUTION * values[0])


def _unbounded(rows: Floats, measured: Floats, fitted: int) -> tuple[Floats, Floats, float, int]:
    """Return plain least squares, their standard errors, that of a run, and degrees of freedom.

    Degrees of freedom are 0 where there are no more runs than weights, or weights cannot be told
    apart.
    """
    runs, resources = rows.shape
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1
    centre, _, rank, _ = np.linalg.lstsq(rows / scale, measured)
    freedom = runs - resources - fitted
    if rank < resources or freedom < 1:
        return centre / scale, np.zeros(resources), math.nan, 0
    residual = measured - rows @ (centre / scale)
    deviation = float(np.linalg.norm(residual)) / math.sqrt(freedom)
    inverse = np.linalg.pinv(rows / scale)
    return centre / scale, deviation * np.linalg.norm(inverse, axis=1) / scale, deviation, freedom


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t for a ``probability`` of at least 1/2.

    By bisection on the angle atan(t / sqrt(freedom)), in which the distribution function is a
    finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    freedom = min(freedom, MAX_FREEDOM)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if _inside(angle, freedom) < 2 * probability - 1:
            low = angle
        else:
            high = angle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _inside(angle: float, freedom: int) -> float:
    """Return the probability of |t| <= sqrt(freedom) tan(angle)."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


@dataclass(frozen=True)
class NonNegativeFit:
    """The x >= 0 that minimises |A x - b|.

    Attributes:
        converged: Whether no coefficient at 0 would lower the residual, up to rounding.
    """

    solution: Floats
    residual: float
    iterations: int
    converged: bool


def fit_non_negative(matrix: Floats, target: Floats) -> NonNegativeFit:
    """Minimise |A x - b| over x >= 0 by an active set (Lawson and Hanson, 1974, chapter 23).

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
