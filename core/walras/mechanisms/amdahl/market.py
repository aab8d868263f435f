"""The Amdahl market as arrays: users with budgets, servers with cores, and jobs between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from walras.numerics.checks import check_finite, check_kind, numbers, refuse
from walras.numerics.segments import Grouping, group

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.numerics.arrays import Floats, Integers


ROUNDING = 1e-12
"""Relative excess of bounds over a capacity that counts as a rounding error."""


class MarketError(ValueError):
    """Invalid numbers of a market; the message names the array and its first bad entry."""


@dataclass(frozen=True)
class AmdahlMarket:
    """Users, servers and jobs: the input of every mechanism of the Amdahl market.

    A job is an edge (user, server); a user may have several jobs, on one server or on many.

    Attributes:
        budgets: Budget of each user, positive, shape (n,); only their proportions matter.
        capacities: Cores of each server, positive, shape (m,).
        user: Index of each job's user, shape (k,).
        server: Index of each job's server, shape (k,).
        fraction: Parallel fraction f of each job, from 0 to 1, shape (k,).
        work: Work w that each job does per unit of time on one core, positive, shape (k,); 1 if not
            given. Only the proportions between one user's jobs matter.

    Raises:
        MarketError: An array has the wrong shape, or an entry is outside its range.
    """

    budgets: Floats
    capacities: Floats
    user: Integers
    server: Integers
    fraction: Floats
    work: Floats = field(default_factory=lambda: np.ones(0))

    def __init__(
        self,
        budgets: ArrayLike,
        capacities: ArrayLike,
        user: ArrayLike,
        server: ArrayLike,
        fraction: ArrayLike,
        work: ArrayLike | None = None,
    ) -> None:
        values: dict[str, NDArray[Any]] = {
            "budgets": check_finite("budgets", budgets, (None,), MarketError),
            "capacities": check_finite("capacities", capacities, (None,), MarketError),
            "user": _indices("user", user),
            "server": _indices("server", server),
            "fraction": check_finite("fraction", fraction, (None,), MarketError),
        }
        jobs = len(values["user"])
        values["work"] = (
            np.ones(jobs) if work is None else check_finite("work", work, (None,), MarketError)
        )
        for name in ("server", "fraction", "work"):
            if len(values[name]) != jobs:
                raise MarketError(
                    f"{name} has {len(values[name])} entries, user has {jobs}: "
                    "one per job is needed"
                )
        for name in ("budgets", "capacities", "work"):
            refuse(name, values[name], ~(values[name] > 0), "is not positive", MarketError)
        f = values["fraction"]
        refuse("fraction", f, f < 0, "is below 0", MarketError)
        refuse("fraction", f, f > 1, "is above 1", MarketError)
        for name, owners in (("user", "budgets"), ("server", "capacities")):
            index, size = values[name], len(values[owners])
            outside = (index < 0) | (index >= size)
            complaint = f"is outside 0..{size - 1}, the numbers of {owners}"
            refuse(name, index, outside, complaint, MarketError)
        for name, value in values.items():
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def jobs(self) -> int:
        """Number of jobs (k)."""
        return len(self.user)

    @cached_property
    def by_user(self) -> Grouping:
        """Jobs grouped by user."""
        return group(self.user, len(self.budgets))

    @cached_property
    def by_server(self) -> Grouping:
        """Jobs grouped by server."""
        return group(self.server, len(self.capacities))

    @cached_property
    def pair(self) -> Integers:
        """Number of each job's user and server together, shape (k,)."""
        return self.user * len(self.capacities) + self.server

    def sum_by_user(self, values: Floats) -> Floats:
        """Sum values of jobs, shape (k,), for each user, shape (n,)."""
        sums = np.bincount(self.user, values, len(self.budgets))
        return np.asarray(sums, dtype=np.float64)

    def sum_by_server(self, values: Floats) -> Floats:
        """Sum values of jobs, shape (k,), for each server, shape (m,)."""
        sums = np.bincount(self.server, values, len(self.capacities))
        return np.asarray(sums, dtype=np.float64)


def _indices(name: str, values: ArrayLike) -> Integers:
    array = np.array(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise MarketError(f"{name} must be a flat array of integers")
    return array.astype(np.int64, copy=False)


def check_bounds(
    market: AmdahlMarket,
    minimum: ArrayLike | None,
    maximum: ArrayLike | None,
    name: str = "minimum",
) -> tuple[Floats, Floats]:
    """Return minimums and maximums as arrays of shape (k,): 0 and infinity where none is given.

    Args:
        market: Market of the jobs.
        minimum: Fewest cores of each job, finite, not negative, shape (k,).
        maximum: Most cores of each job, positive, at least the minimum, shape (k,); infinity for no
            bound.
        name: Name of the minimum in messages.

    Raises:
        TypeError: The market is none.
        MarketError: An array has the wrong shape, or an entry is outside its range.
    """
    check_kind("market", market, AmdahlMarket)
    lower = _bound(name, minimum, 0.0, market.jobs)
    upper = _bound("maximum", maximum, np.inf, market.jobs)
    if minimum is not None:
        wrong = ~(np.isfinite(lower) & (lower >= 0))
        refuse(name, lower, wrong, "is not finite and at least 0", MarketError)
        refuse(name, lower, lower > upper, "is above the maximum of the job", MarketError)
    if maximum is not None:
        refuse("maximum", upper, ~(upper > 0), "is not positive", MarketError)
    return lower, upper


def check_room(market: AmdahlMarket, lower: Floats) -> None:
    """Raise an error for minimums that add up to more than their server's cores.

    Raises:
        MarketError: The message names the first such server.
    """
    needed = market.sum_by_server(lower)
    crowded = needed > market.capacities * (1 + ROUNDING)
    if crowded.any():
        server = int(crowded.argmax())
        raise MarketError(
            f"server {server}: the minimums of its jobs add up to {needed[server]:g} cores, "
            f"it has {market.capacities[server]:g}; lower one of them"
        )


def _bound(name: str, values: ArrayLike | None, default: float, jobs: int) -> Floats:
    if values is None:
        return np.full(jobs, default)
    array = numbers(name, values, MarketError)
    if array.shape != (jobs,):
        raise MarketError(f"{name} has shape {array.shape}: one entry for each of {jobs} jobs")
    return array
