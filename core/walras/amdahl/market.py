"""The market for cores as arrays: users with budgets, servers with cores, jobs as edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from walras._segments import Grouping, group

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class MarketError(ValueError):
    """A market whose numbers make no sense; the message names the array and the first bad entry."""


@dataclass(frozen=True)
class Market:
    """Who wants cores where: the input of every mechanism of the Amdahl market.

    A job is an edge (user, server); a user may have several jobs, on one server or on many.

    Attributes:
        budgets: shape (n,), positive; only their proportions matter.
        capacities: shape (m,), cores of each server, positive.
        user: shape (k,), for each job the index of its user.
        server: shape (k,), for each job the index of its server.
        fraction: shape (k,), parallel fraction f of each job, in [0, 1].
        work: shape (k,), work w that each job does per unit time on one core, positive; 1 if
            not given. Only the proportions between one user's jobs matter.

    Raises:
        MarketError: an array has the wrong shape, or an entry outside its range.
    """

    budgets: NDArray[np.float64]
    capacities: NDArray[np.float64]
    user: NDArray[np.int64]
    server: NDArray[np.int64]
    fraction: NDArray[np.float64]
    work: NDArray[np.float64] = field(default_factory=lambda: np.ones(0))

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
            "budgets": _floats("budgets", budgets),
            "capacities": _floats("capacities", capacities),
            "user": _indices("user", user),
            "server": _indices("server", server),
            "fraction": _floats("fraction", fraction),
        }
        jobs = len(values["user"])
        values["work"] = np.ones(jobs) if work is None else _floats("work", work)
        for name in ("server", "fraction", "work"):
            if len(values[name]) != jobs:
                raise MarketError(
                    f"{name} has {len(values[name])} entries, user has {jobs}: one a job is needed"
                )
        for name in ("budgets", "capacities", "work"):
            _check(name, values[name], ~(values[name] > 0), "is not positive")
        _check("fraction", values["fraction"], ~(values["fraction"] >= 0), "is below 0")
        _check("fraction", values["fraction"], values["fraction"] > 1, "is above 1")
        _check_range("user", values["user"], len(values["budgets"]))
        _check_range("server", values["server"], len(values["capacities"]))
        for name, value in values.items():
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def jobs(self) -> int:
        """How many jobs (k) there are."""
        return len(self.user)

    @cached_property
    def by_user(self) -> Grouping:
        """The jobs of each user, side by side."""
        return group(self.user, len(self.budgets))

    @cached_property
    def by_server(self) -> Grouping:
        """The jobs on each server, side by side."""
        return group(self.server, len(self.capacities))

    def sum_by_user(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up one value a job, shape (k,), into one value a user, shape (n,)."""
        sums = np.bincount(self.user, values, len(self.budgets))
        return np.asarray(sums, dtype=np.float64)

    def sum_by_server(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up one value a job, shape (k,), into one value a server, shape (m,)."""
        sums = np.bincount(self.server, values, len(self.capacities))
        return np.asarray(sums, dtype=np.float64)


def _floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1:
        raise MarketError(f"{name} has {array.ndim} dimensions: a flat array is needed")
    _check(name, array, ~np.isfinite(array), "is not a finite number")
    return array


def _indices(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.array(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise MarketError(f"{name} must be a flat array of integers")
    return array.astype(np.int64, copy=False)


def _check(name: str, array: NDArray[Any], bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        where = int(bad.argmax())
        raise MarketError(f"{name}[{where}] = {array[where]} {complaint}")


def _check_range(name: str, array: NDArray[np.int64], size: int) -> None:
    bad = (array < 0) | (array >= size)
    if bad.any():
        where = int(bad.argmax())
        raise MarketError(f"{name}[{where}] = {array[where]} is outside 0..{size - 1}")
