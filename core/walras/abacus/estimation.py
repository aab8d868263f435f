"""What a job's utility is, from runs with different shares (section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.abacus._least_squares import fit_non_negative
from walras.abacus.auction import AuctionError
from walras.price_anticipating._checks import numbers, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

MOST_FREEDOM = 1000
"""Degrees of freedom beyond which Student's t is taken for that of 1000, which is a bit wider."""


@dataclass(frozen=True)
class UtilityEstimate:
    """Weights of a utility, and how sure they are.

    Attributes:
        weights: shape (m,), not negative; the least squares among such.
        lower: shape (m,), ends of confidence intervals, each for itself.
        upper: shape (m,); infinite where the runs are too few or too alike to tell.
        deviation: standard deviation of the noise in a run's utility, NaN if it cannot be told.
        converged: whether the least squares were found.
    """

    weights: Floats
    lower: Floats
    upper: Floats
    deviation: float
    converged: bool


def average_share(shares: ArrayLike, durations: ArrayLike) -> Floats:
    """Return a job's average share of each resource over its run, shape (m,) (Definition 1).

    Args:
        shares: shape (t, m), its shares in each period between auctions.
        durations: shape (t,), lengths of the periods in any unit, not negative, some positive.

    Raises:
        AuctionError: an array has the wrong shape, or an entry outside its range.
    """
    lengths = numbers("durations", durations, (None,), AuctionError)
    rows = numbers("shares", shares, (len(lengths), None), AuctionError)
    refuse("durations", lengths, lengths < 0, "is negative", AuctionError)
    if not lengths.any():
        raise AuctionError("durations are all 0: a run takes time")
    return np.asarray(lengths @ rows / lengths.sum())


def estimate_utility(
    shares: ArrayLike,
    utilities: ArrayLike,
    *,
    logarithmic: bool = False,
    confidence: float = 0.95,
) -> UtilityEstimate:
    """Fit u = sum_j w_j s_j, or sum_j w_j log s_j, with w_j >= 0, to measured runs (eq. 2).

    The paper does not keep weights from becoming negative; a utility must (section 3). Intervals
    are those of Student's t for the least squares without that bound, which are exact for
    independent Gaussian noise of one size; cut at 0, and widened to hold the estimate, they are
    right at least as often.

    Args:
        shares: shape (k, m), the job's average shares in each run, in [0, 1].
        utilities: shape (k,), what came of each run, as the inverse of its time or a throughput.
        logarithmic: whether utility is in the logarithms of shares.
        confidence: of each interval, in (0, 1).

    Raises:
        AuctionError: there are no runs, or an array has the wrong shape or an entry outside its
            range.
    """
    measured = numbers("utilities", utilities, (None,), AuctionError)
    rows = numbers("shares", shares, (len(measured), None), AuctionError)
    refuse("shares", rows, (rows < 0) | (rows > 1), "is outside 0..1", AuctionError)
    if not len(measured):
        raise AuctionError("utilities has no entries: a run at least is needed")
    if not 0 < confidence < 1:
        raise AuctionError(f"confidence = {confidence} is outside 0..1")
    if logarithmic:
        refuse("shares", rows, rows == 0, "has no logarithm: use runs with a share", AuctionError)
        rows = np.log(rows)
    fit = fit_non_negative(rows, measured)
    centre, error, deviation, freedom = _unbounded(rows, measured)
    reach = student_quantile((1 + confidence) / 2, freedom) * error if freedom else np.inf
    lower = np.minimum(np.maximum(centre - reach, 0), fit.solution)
    upper = np.maximum(np.maximum(centre + reach, 0), fit.solution)
    return UtilityEstimate(fit.solution, lower, upper, deviation, fit.converged)


def _unbounded(rows: Floats, measured: Floats) -> tuple[Floats, Floats, float, int]:
    """Return plain least squares, their standard errors, that of a run, and degrees of freedom.

    No degrees of freedom where there are no more runs than weights, or weights cannot be told
    apart.
    """
    runs, resources = rows.shape
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1
    centre, _, rank, _ = np.linalg.lstsq(rows / scale, measured)
    freedom = runs - resources
    if rank < resources or freedom < 1:
        return centre / scale, np.zeros(resources), math.nan, 0
    residual = measured - rows @ (centre / scale)
    deviation = float(np.linalg.norm(residual)) / math.sqrt(freedom)
    inverse = np.linalg.pinv(rows / scale)
    return centre / scale, deviation * np.linalg.norm(inverse, axis=1) / scale, deviation, freedom


def student_quantile(probability: float, freedom: int) -> float:
    """Return the t that Student's distribution stays below with ``probability``, at least 1/2.

    By bisection on the angle atan(t / sqrt(freedom)), in which the distribution function is a
    finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    freedom = min(freedom, MOST_FREEDOM)
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
