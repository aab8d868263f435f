"""Upper Bound (VI-A): the most system progress that any division of cores achieves (eq. 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl._marginal import divide
from walras.amdahl.bounds import check_bounds, check_room
from walras.amdahl.market import MarketError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Floats
    from walras.amdahl.market import AmdahlMarket

MAX_CORES = 2**24
"""Largest capacity in whole cores: among jobs that are alike, cores are divided one by one."""


@dataclass(frozen=True)
class Optimum:
    """A division of cores that maximises a weighted mean of user progress.

    Attributes:
        market: Market that was solved.
        cores: Cores of each job, shape (k,); whole numbers if asked for.
        progress: Weighted mean of user progress.
        bound: Upper bound on the progress of any division, proven by Lagrange's dual.
    """

    market: AmdahlMarket
    cores: Floats
    progress: float
    bound: float

    @property
    def gap(self) -> float:
        """Relative distance of ``progress`` from ``bound``: rounding only, at the optimum."""
        return self.bound / self.progress - 1 if self.progress > 0 else 0.0


def maximise_progress(
    market: AmdahlMarket,
    *,
    whole: bool = False,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> Optimum:
    """Maximise system progress, the budget-weighted mean of user progress (eq. 10).

    Entitlements count as weights only: a user may get less than its entitlement.

    Args:
        market: Users, servers and jobs; for whole cores, capacities must be whole numbers.
        whole: Whether to divide whole cores, ties going to the earlier job, or real numbers.
        minimum: Fewest cores of each job, shape (k,); 0 if not given.
        maximum: Most cores of each job, shape (k,); all cores of its server if not given.

    Raises:
        MarketError: A bound is outside its range; a server's minimums exceed its cores; or, for
            whole cores, a capacity is no whole number, or none lies between a job's bounds.
    """
    share = market.budgets / market.budgets.sum()
    return maximise(market, share, whole=whole, minimum=minimum, maximum=maximum)


def maximise(
    market: AmdahlMarket,
    share: Floats,
    *,
    whole: bool,
    minimum: ArrayLike | None,
    maximum: ArrayLike | None,
) -> Optimum:
    """Maximise the sum of user progress weighted by ``share``, shape (n,)."""
    lower, upper = check_bounds(market, minimum, maximum)
    if whole:
        _check_whole(market.capacities)
        if minimum is not None or maximum is not None:
            lower, upper = _whole_bounds(lower, upper)
    if minimum is not None:
        check_room(market, lower)
    division = divide(market, share, lower, upper, whole=whole)
    return Optimum(market, division.cores, division.value, division.bound)


def _whole_bounds(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    least, most = np.ceil(lower), np.floor(upper)
    if (least > most).any():
        job = int((least > most).argmax())
        raise MarketError(
            f"job {job}: no whole number of cores is between its minimum {lower[job]:g} "
            f"and its maximum {upper[job]:g}"
        )
    return least, most


def _check_whole(capacities: Floats) -> None:
    bad = (capacities != np.floor(capacities)) | (capacities > MAX_CORES)
    if bad.any():
        server = int(bad.argmax())
        raise MarketError(
            f"capacities[{server}] = {capacities[server]:g} is not a whole number of at most "
            f"{MAX_CORES} cores; divide real numbers instead"
        )
