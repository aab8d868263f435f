"""Fewest and most cores of jobs, as every mechanism of the Amdahl market takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl.market import MarketError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.amdahl.market import Market

    Floats = NDArray[np.float64]


def check_bounds(
    market: Market, minimum: ArrayLike | None, maximum: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Return the bounds as arrays of shape (k,): 0 and infinity where none is given.

    Args:
        market: whose jobs they are.
        minimum: cores, finite, not negative.
        maximum: cores, positive, at least the minimum; infinity for no bound.

    Raises:
        MarketError: an array has the wrong shape, or an entry outside its range.
    """
    lower = _bound("minimum", minimum, 0.0, market.jobs)
    upper = _bound("maximum", maximum, np.inf, market.jobs)
    if minimum is not None:
        wrong = ~(np.isfinite(lower) & (lower >= 0))
        _refuse("minimum", lower, wrong, "is not finite and at least 0")
        _refuse("minimum", lower, lower > upper, "is above the maximum of the job")
    if maximum is not None:
        _refuse("maximum", upper, ~(upper > 0), "is not positive")
    return lower, upper


def check_room(market: Market, lower: Floats) -> None:
    """Refuse minimums that add up to more than a server has.

    Raises:
        MarketError: naming the first such server.
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


def _refuse(name: str, array: Floats, bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        job = int(bad.argmax())
        raise MarketError(f"{name}[{job}] = {array[job]} {complaint}")
