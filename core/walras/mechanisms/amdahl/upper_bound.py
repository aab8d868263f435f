"""Divisions of cores without prices (VI-A): Upper Bound, Greedy and Proportional Sharing.

Upper Bound is the most system progress that any division of cores achieves (eq. 10). Greedy gives
each core to the job whose user's progress it raises most. Proportional Sharing divides each
server's cores in proportion to its users' entitlements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl._marginal import divide
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError, check_bounds, check_room
from walras.numerics.checks import check_kind
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats

MAX_CORES = 2**24
"""Largest capacity in whole cores: among jobs that are alike, cores are divided one by one."""


@dataclass(frozen=True)
class Optimum:
    """A division of cores that maximises a weighted mean of user progress.

    Attributes:
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
    check_kind("market", market, AmdahlMarket)
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


def allocate_greedily(
    market: AmdahlMarket, *, minimum: ArrayLike | None = None, maximum: ArrayLike | None = None
) -> Optimum:
    """Give whole cores, one by one, to the jobs where they raise user progress most.

    Entitlements play no role. As speedups are concave, the result maximises the plain mean of user
    progress. Ties go to the earlier job.

    Args:
        market: Users, servers and jobs; capacities must be whole numbers.
        minimum: Fewest cores of each job, given first, shape (k,); 0 if not given.
        maximum: Most cores of each job, shape (k,); all cores of its server if not given.

    Returns:
        Whole cores; ``progress`` is the plain mean of user progress.

    Raises:
        MarketError: A bound is outside its range, a server's minimums exceed its cores, or its
            capacity is no whole number.
    """
    check_kind("market", market, AmdahlMarket)
    users = len(market.budgets)
    share = np.full(users, 1 / max(users, 1))
    return maximise(market, share, whole=True, minimum=minimum, maximum=maximum)


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
    check_kind("market", market, AmdahlMarket)
    _, pair, together = np.unique(market.pair, return_inverse=True, return_counts=True)
    weight = market.budgets[market.user] / together[pair]
    none, most = check_bounds(market, None, maximum)
    return water_fill(weight, none, most, market.capacities, market.by_server)
