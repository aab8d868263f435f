"""Validation of the fewest and the most cores of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._checks import refuse
from walras.amdahl.market import MarketError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Floats
    from walras.amdahl.market import AmdahlMarket


def check_bounds(
    market: AmdahlMarket, minimum: ArrayLike | None, maximum: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Return minimums and maximums as arrays of shape (k,): 0 and infinity where none is given.

    Args:
        market: Market of the jobs.
        minimum: Fewest cores of each job, finite, not negative, shape (k,).
        maximum: Most cores of each job, positive, at least the minimum, shape (k,); infinity for no
            bound.

    Raises:
        MarketError: An array has the wrong shape, or an entry is outside its range.
    """
    lower = _bound("minimum", minimum, 0.0, market.jobs)
    upper = _bound("maximum", maximum, np.inf, market.jobs)
    if minimum is not None:
        wrong = ~(np.isfinite(lower) & (lower >= 0))
        refuse("minimum", lower, wrong, "is not finite and at least 0", MarketError)
        refuse("minimum", lower, lower > upper, "is above the maximum of the job", MarketError)
    if maximum is not None:
        refuse("maximum", upper, ~(upper > 0), "is not positive", MarketError)
    return lower, upper


def check_room(market: AmdahlMarket, lower: Floats) -> None:
    """Raise an error for minimums that add up to more than their server's cores.

    Raises:
        MarketError: The message names the first such server.
    """
    needed = market.sum_by_server(lower)
    crowded = needed > market.capacities
    if crowded.any():
        server = int(crowded.argmax())
        raise MarketError(
            f"server {server}: the minimums of its jobs add up to {needed[server]:g} cores, "
            f"it has {market.capacities[server]:g}; lower one of them"
        )


def _bound(name: str, values: ArrayLike | None, default: float, jobs: int) -> Floats:
    if values is None:
        return np.full(jobs, default)
    array = np.asarray(values, np.float64)
    if array.shape != (jobs,):
        raise MarketError(f"{name} has shape {array.shape}: one entry for each of {jobs} jobs")
    return array
